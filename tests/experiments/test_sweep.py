"""A sweep that is interrupted or killed leaves no worker behind, and what was finished stays."""

import os
import signal
import subprocess
import sys
import time

import jax
import pytest

from fsgmcmc.experiments import sweep

SCRIPT = """
import os, signal, sys, time
from pathlib import Path
from fsgmcmc.experiments import sweep

def slow(name):
    time.sleep(0.2)
    return {"name": name, "worker": os.getpid()}

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs start without it
    groups = [(sweep.Run(f"run-{number}", (f"run-{number}",)),) for number in range(1000)]
    try:
        sweep.execute(groups, slow, Path(sys.argv[1]), 2, lambda record: print(record["worker"], flush=True))
    except KeyboardInterrupt:
        sys.exit(130)
"""


def gone(process, patience=30.0):
    """Whether the process ends within so many seconds."""
    for _ in range(int(10 * patience)):
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)], ids=["Ctrl-C", "kill -9"])
def test_workers_end_with_their_parent(sent, code, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    runs = tmp_path / "runs"
    command = [sys.executable, str(script), str(runs)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as parent:
        workers = {int(parent.stdout.readline()) for _ in range(8)}
        os.kill(parent.pid, sent)
        assert parent.wait(timeout=60) == code
    assert all(gone(worker) for worker in workers)
    assert 8 <= len(sweep.load(runs)) < 1000


def end_when_there_is(marker):
    for _ in range(300):
        if marker is None or marker.exists():
            return {}
        time.sleep(0.1)
    raise TimeoutError("nobody heard of the run before")


def test_a_run_is_heard_of_before_its_group_is_done(tmp_path):
    marker = tmp_path / "heard"
    group = sweep.Run("first", (None,)), sweep.Run("second", (marker,))
    sweep.execute([group], end_when_there_is, tmp_path / "runs", jobs=1, finished=lambda _: marker.touch())
    assert set(sweep.load(tmp_path / "runs")) == {"first", "second"}


def test_no_worker_waits_for_the_last_group():
    a, b, c, d, e, f = (sweep.Run(name, ()) for name in "abcdef")
    assert sweep.evened([(a, b), (c, d), (e, f)], 2) == [(a, b), (c, d), (e,), (f,)]
    assert sweep.evened([(a, b), (c, d)], 2) == [(a, b), (c, d)]
    assert sweep.evened([(a, b, c)], 4) == [(a,), (b,), (c,)]


@pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="only Linux counts memory maps")
def test_programs_are_forgotten_where_they_are_too_many(tmp_path, monkeypatch):
    """Else a worker of a long sweep cannot compile any more: seven sets with ten kernels each were too many."""
    program = jax.jit(lambda x: x + 1)

    def run():
        program(1.0)
        return {}

    for most, programs in ((10**9, 1), (0, 0)):
        monkeypatch.setattr(sweep, "MOST_MAPS", most)
        assert sweep._do_group((sweep.Run("run", ()),), run, tmp_path) == []
        assert program._cache_size() == programs
