"""A sweep: many runs in worker processes. Each result is written to its own file as soon as its run has finished.

A worker takes a group of runs that share their preparation. It is pinned to one core, where XLA uses one thread, so
that workers do not slow each other down. Compiled programs are cached on disk for other workers and later sweeps. An
interrupted sweep resumes with the runs that have no file yet.
"""

import json
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from fsgmcmc import _storage

Record = dict[str, Any]

# Linux limits a process to 65,530 memory maps, and every compiled program takes some. Above this number a worker clears
# its compiled programs; those that took long to compile are in the cache on disk.
MOST_MAPS = 30_000


class Run(NamedTuple):
    """The name of a run, which is also that of its file, and the arguments of the function that runs it.

    `leftover` is a file to be deleted once the result is written.
    """

    name: str
    arguments: tuple
    leftover: Path | None = None


@dataclass(frozen=True)
class Plan:
    """All runs of a sweep.

    Attributes:
        function: What runs one run: `function(*run.arguments)` returns its record. Workers import it by its name.
        groups: The runs, in groups that share their preparation.
        is_current: Whether a stored record belongs to the settings of this sweep.
        title: A short label of a record, for the progress bar.
        note: A line for the report: preset and changed settings.
    """

    function: Callable[..., Record]
    groups: tuple[tuple[Run, ...], ...]
    is_current: Callable[[Record], bool]
    title: Callable[[Record], str]
    note: str


def load(folder: Path, is_current: Callable[[Record], bool] = lambda _: True) -> dict[str, Record]:
    """The finished runs in a folder by name; a file that cannot be read counts as a missing run."""
    found = {}
    for path in sorted(folder.glob("*.json")):
        try:
            record = json.loads(path.read_text())
        except (OSError, ValueError):
            continue
        if isinstance(record, dict) and is_current(record):
            found[path.stem] = record
    return found


class SweepError(RuntimeError):
    """Some runs failed; the results of the others are kept."""


def execute(
    groups: Iterable[Sequence[Run]],
    function: Callable[..., Record],
    folder: Path,
    jobs: int,
    finished: Callable[[Record], None] = lambda _: None,
) -> None:
    """Execute all runs, `jobs` groups at a time; `finished` is called with each record within a second.

    A run that fails does not stop the others: one error at the end lists all failures.
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

    def report_finished() -> None:
        for path in sorted(path for path in begun if path.exists()):
            begun.remove(path)
            finished(json.loads(path.read_text()))

    with ProcessPoolExecutor(jobs, context, _start_worker, (cores, folder / "compiled")) as pool:

        def submit(count: int) -> set[Future]:
            submitted = set()
            for group in islice(left, count):
                for run in group:
                    path = folder / f"{run.name}.json"
                    path.unlink(missing_ok=True)  # a file that could not be read
                    begun.add(path)
                submitted.add(pool.submit(_run_group, tuple(group), function, folder))
            return submitted

        try:
            waiting = submit(jobs)
            while waiting:
                done, waiting = wait(waiting, timeout=1.0, return_when=FIRST_COMPLETED)
                waiting |= submit(len(done))
                for future in done:
                    failures += future.result()
                report_finished()
        except BrokenProcessPool:
            raise SweepError(
                "a worker was killed, possibly because memory ran out: try fewer --jobs; finished runs are kept"
            ) from None
        except BaseException:
            for process in multiprocessing.active_children():
                process.terminate()
            raise
    if failures:
        raise SweepError(f"{len(failures)} runs failed; the others are kept. " + "; ".join(failures))


def complete(plan: Plan, folder: Path, jobs: int) -> list[Record]:
    """Execute the runs that have no current record in the folder yet, with progress.

    Returns:
        All current records in the folder, including those of earlier sweeps.
    """
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    planned = {run.name for group in plan.groups for run in group}
    done = load(folder, plan.is_current).keys() & planned
    left = [group for group in (tuple(r for r in group if r.name not in done) for group in plan.groups) if group]
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TimeRemainingColumn()) as bar:
        task = bar.add_task("runs", total=len(planned), completed=len(done))

        def finished(record: Record) -> None:
            bar.update(task, advance=1, description=plan.title(record))
            if not bar.console.is_terminal:
                print(json.dumps(record), flush=True)

        if left:
            balanced = balance(left, jobs)
            execute(balanced, plan.function, folder, min(jobs, len(balanced)), finished)
    return list(load(folder, plan.is_current).values())


def balance(groups: Sequence[tuple[Run, ...]], jobs: int) -> list[tuple[Run, ...]]:
    """Split the last groups, which do not keep all workers busy, into single runs."""
    whole = len(groups) - len(groups) % jobs
    return [*groups[:whole], *((run,) for group in groups[whole:] for run in group)]


def _start_worker(cores: Any, cache: Path) -> None:
    core = cores.get()
    if core is not None:
        os.sched_setaffinity(0, {core})
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C and ends the workers
    threading.Thread(target=_end_with_parent, daemon=True).start()
    import jax

    jax.config.update("jax_compilation_cache_dir", str(cache))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _limit_programs() -> None:
    """Clear compiled programs when the process comes close to the limit of memory maps."""
    import jax

    maps = Path("/proc/self/maps")
    if maps.exists() and len(maps.read_text().splitlines()) > MOST_MAPS:
        jax.clear_caches()


def _run_group(group: tuple[Run, ...], function: Callable[..., Record], folder: Path) -> list[str]:
    """Execute the runs of a group; returns a message for each failure."""
    failures = []
    for run in group:
        try:
            record = function(*run.arguments)
            _storage.write_text(folder / f"{run.name}.json", json.dumps(record, indent=1) + "\n")
            if run.leftover is not None:
                run.leftover.unlink(missing_ok=True)
        except Exception as error:  # reported with the name of the run at the end of the sweep
            failures.append(f"{run.name}: {type(error).__name__}: {error}")
    _limit_programs()
    return failures
