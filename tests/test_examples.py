"""The examples run as they are started by hand, without a warning, and leave their figure."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
# The others compile one model.
LONG = {"known_noise", "own_jax_model", "trend_and_season", "which_kernel"}


@pytest.mark.parametrize(
    "example",
    [pytest.param(path, id=path.stem, marks=pytest.mark.slow if path.stem in LONG else ()) for path in EXAMPLES],
)
def test_examples_run_and_leave_a_figure(example, tmp_path):
    # Compilation is most of the time of a short run.
    environment = os.environ | {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    command = [sys.executable, "-W", "error", str(example), str(tmp_path / "figures"), "--quick"]
    finished = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.strip()
    assert (tmp_path / "figures" / f"{example.stem}.png").read_bytes().startswith(b"\x89PNG")


def test_there_are_examples():
    assert {path.stem for path in EXAMPLES} > LONG
