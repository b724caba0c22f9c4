"""A sweep: many runs in worker processes, each result kept in a file of its own as soon as it is there.

A worker takes a group of runs that share their preparation. It is held to one core, where XLA uses one thread: two
workers on two cores do not disturb each other. What was compiled is kept on disk for the other workers and for later.
An interrupted sweep continues with the runs that have no file yet.
"""

import json
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from fsgmcmc import _storage

Record = dict[str, Any]

# Linux gives a process 65,530 memory maps, and every compiled program takes some: beyond these a worker forgets its
# programs. Those that took long to compile are on disk.
MOST_MAPS = 30_000


class Run(NamedTuple):
    """A run's name, which is its file's name, and the arguments of the function that does it.

    `leftover` is a file that the run needs no more once its result is kept.
    """

    name: str
    arguments: tuple
    leftover: Path | None = None


def load(folder: Path, wanted: Callable[[Record], bool] = lambda _: True) -> dict[str, Record]:
    """The finished runs in a folder by name; a file that cannot be read is a run to be done again."""
    found = {}
    for path in sorted(folder.glob("*.json")):
        try:
            record = json.loads(path.read_text())
        except (OSError, ValueError):
            continue
        if isinstance(record, dict) and wanted(record):
            found[path.stem] = record
    return found


class SweepError(RuntimeError):
    """Some runs failed; the others are done, and their results are kept."""


def execute(
    groups: Iterable[Sequence[Run]],
    function: Callable[..., Record],
    folder: Path,
    jobs: int,
    finished: Callable[[Record], None] = lambda _: None,
) -> None:
    """Do all runs, `jobs` groups at a time; `finished` hears of each record within a second.

    A run that fails does not stop the others: the failures are told together in the end.
    """
    folder.mkdir(parents=True, exist_ok=True)
    context = multiprocessing.get_context("spawn")
    cores = context.Queue()
    available = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    for worker in range(jobs):
        cores.put(available[worker % len(available)] if available else None)
    left = iter(groups)
    failures: list[str] = []
    begun: set[Path] = set()

    def tell() -> None:
        for path in sorted(path for path in begun if path.exists()):
            begun.remove(path)
            finished(json.loads(path.read_text()))

    with ProcessPoolExecutor(jobs, context, _start_worker, (cores, folder / "compiled")) as pool:

        def submit(count: int) -> set[Future]:
            submitted = set()
            for group in islice(left, count):
                for run in group:
                    path = folder / f"{run.name}.json"
                    path.unlink(missing_ok=True)  # one that could not be read
                    begun.add(path)
                submitted.add(pool.submit(_do_group, tuple(group), function, folder))
            return submitted

        try:
            waiting = submit(jobs)
            while waiting:
                done, waiting = wait(waiting, timeout=1.0, return_when=FIRST_COMPLETED)
                waiting |= submit(len(done))
                for future in done:
                    failures += future.result()
                tell()
        except BrokenProcessPool:
            raise SweepError(
                "a worker was killed, perhaps for want of memory: fewer --jobs may help; what was finished is kept"
            ) from None
        except BaseException:
            for process in multiprocessing.active_children():
                process.terminate()
            raise
    if failures:
        raise SweepError(f"{len(failures)} runs failed; the others are kept. " + "; ".join(failures))


def complete(
    groups: Sequence[Sequence[Run]],
    function: Callable[..., Record],
    folder: Path,
    jobs: int,
    wanted: Callable[[Record], bool],
    title: Callable[[Record], str],
) -> list[Record]:
    """Do the runs that have no wanted record in the folder yet, with progress; all wanted records, older ones too."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    planned = {run.name for group in groups for run in group}
    done = load(folder, wanted).keys() & planned
    left = [group for group in (tuple(r for r in group if r.name not in done) for group in groups) if group]
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TimeRemainingColumn()) as bar:
        task = bar.add_task("runs", total=len(planned), completed=len(done))

        def finished(record: Record) -> None:
            bar.update(task, advance=1, description=title(record))
            if not bar.console.is_terminal:
                print(json.dumps(record), flush=True)

        if left:
            shared_out = evened(left, jobs)
            execute(shared_out, function, folder, min(jobs, len(shared_out)), finished)
    return list(load(folder, wanted).values())


def evened(groups: Sequence[tuple[Run, ...]], jobs: int) -> list[tuple[Run, ...]]:
    """The last groups, which do not keep all workers busy, run by run."""
    whole = len(groups) - len(groups) % jobs
    return [*groups[:whole], *((run,) for group in groups[whole:] for run in group)]


def _start_worker(cores: Any, cache: Path) -> None:
    core = cores.get()
    if core is not None:
        os.sched_setaffinity(0, {core})
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears of Ctrl-C and ends the workers
    threading.Thread(target=_end_with_parent, daemon=True).start()
    import jax

    jax.config.update("jax_compilation_cache_dir", str(cache))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _forget_programs() -> None:
    """Let go of compiled programs where there are so many that the next one might not fit."""
    import jax

    maps = Path("/proc/self/maps")
    if maps.exists() and len(maps.read_text().splitlines()) > MOST_MAPS:
        jax.clear_caches()


def _do_group(group: tuple[Run, ...], function: Callable[..., Record], folder: Path) -> list[str]:
    """Do the runs of a group; what failed."""
    failures = []
    for run in group:
        try:
            record = function(*run.arguments)
            _storage.write_text(folder / f"{run.name}.json", json.dumps(record, indent=1) + "\n")
            if run.leftover is not None:
                run.leftover.unlink(missing_ok=True)
        except Exception as error:  # told with the run's name when all is done
            failures.append(f"{run.name}: {type(error).__name__}: {error}")
    _forget_programs()
    return failures
