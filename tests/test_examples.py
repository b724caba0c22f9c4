"""The examples run from the command line without a warning, and write their figure; pages show them unchanged."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
# Each is shown on the page of its name, docs/own-….md, has no figure, and fits on a screen.
OWN = {"own_likelihood", "own_network", "own_sampler"}
LONGEST_OWN = 60
# The others compile one model.
LONG = {"converged", "known_noise", "own_jax_model", "trend_and_season", "which_kernel"}


@pytest.mark.parametrize(
    "example",
    [pytest.param(path, id=path.stem, marks=pytest.mark.slow if path.stem in LONG else ()) for path in EXAMPLES],
)
def test_examples_run(example, tmp_path):
    # Compilation is most of the time of a short run.
    environment = os.environ | {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    arguments = [str(tmp_path / "out")] if example.stem in OWN else [str(tmp_path / "out"), "--quick"]
    command = [sys.executable, "-W", "error", str(example), *arguments]
    finished = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.strip()
    if example.stem not in OWN:
        assert (tmp_path / "out" / f"{example.stem}.png").read_bytes().startswith(b"\x89PNG")
    if example.stem == "own_sampler":
        assert "resumed: True" in finished.stdout


@pytest.mark.parametrize("name", sorted(OWN))
def test_a_page_shows_the_whole_example(name):
    code = (ROOT / "examples" / f"{name}.py").read_text(encoding="utf-8")
    page = (ROOT / "docs" / f"{name.replace('_', '-')}.md").read_text(encoding="utf-8")
    assert f"```python\n{code}```\n" in page, f"copy examples/{name}.py into docs/{name.replace('_', '-')}.md"
    assert code.count("\n") <= LONGEST_OWN


def test_there_are_examples():
    assert {path.stem for path in EXAMPLES} >= LONG | OWN
