"""An interrupted or killed sweep leaves no worker process behind, and finished runs are kept."""

import os
import signal
import subprocess
import sys
import time

import jax
import pytest

from fsgmcmc.experiments import runner

SCRIPT = """
import os, signal, sys, time
from pathlib import Path
from fsgmcmc.experiments import runner

def slow(name):
    time.sleep(0.2)
    return {"name": name, "worker": os.getpid()}

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs of a shell start without it
    groups = [(runner.Run(f"run-{number}", (f"run-{number}",)),) for number in range(1000)]
    try:
        runner.execute(groups, slow, Path(sys.argv[1]), 2, lambda record: print(record["worker"], flush=True))
    except KeyboardInterrupt:
        sys.exit(130)
"""


def gone(process, patience=30.0):
    """Whether the process ends within this number of seconds."""
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
    assert 8 <= len(runner.load(runs)) < 1000


def wait_for(marker):
    for _ in range(300):
        if marker is None or marker.exists():
            return {}
        time.sleep(0.1)
    raise TimeoutError("the first run was not reported")


def test_a_run_is_reported_before_its_group_is_finished(tmp_path):
    marker = tmp_path / "reported"
    group = runner.Run("first", (None,)), runner.Run("second", (marker,))
    runner.execute([group], wait_for, tmp_path / "runs", jobs=1, finished=lambda _: marker.touch())
    assert set(runner.load(tmp_path / "runs")) == {"first", "second"}


def test_no_worker_waits_for_the_last_group():
    a, b, c, d, e, f = (runner.Run(name, ()) for name in "abcdef")
    assert runner.balance([(a, b), (c, d), (e, f)], 2) == [(a, b), (c, d), (e,), (f,)]
    assert runner.balance([(a, b), (c, d)], 2) == [(a, b), (c, d)]
    assert runner.balance([(a, b, c)], 4) == [(a,), (b,), (c,)]


@pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="only Linux counts memory maps")
def test_compiled_programs_are_cleared_when_there_are_too_many(tmp_path, monkeypatch):
    """Otherwise compilation fails in a long sweep: seven data sets with ten kernels each were too many."""
    program = jax.jit(lambda x: x + 1)

    def run():
        program(1.0)
        return {}

    for most, programs in ((10**9, 1), (0, 0)):
        monkeypatch.setattr(runner, "MOST_MAPS", most)
        assert runner._run_group((runner.Run("run", ()),), run, tmp_path) == []
        assert program._cache_size() == programs
