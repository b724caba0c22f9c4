"""The Mushroom experiment: its records, its table, what is refused."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from fsgmcmc.cli import app
from fsgmcmc.experiments import bandit, bandit_sweep

pytestmark = pytest.mark.usefixtures("quick_compilation")

TINY = replace(
    bandit.PRESETS["quick"],
    rounds=60,
    hidden=(8,),
    capacity=50,
    batch_size=8,
    steps=2,
    points=5,
    gp_rows=30,
    gp_iterations=3,
    function_draws=4,
    functions=2,
)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Forty mushrooms whose first letter tells."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "mushroom").mkdir()
    rng = np.random.default_rng(0)
    lines = []
    for _ in range(40):
        label = rng.choice(["e", "p"])
        lines.append(",".join([label, "a" if label == "e" else "b", *rng.choice(["x", "y", "?"], 21)]))
    (folder / "mushroom/agaricus-lepiota.data").write_text("\n".join(lines) + "\n")
    return folder


FEW = ("fsgld", "uniform")
ALL = [name if name in FEW else pytest.param(name, marks=pytest.mark.slow) for name in bandit.METHODS]


@pytest.mark.parametrize("method", ALL)
def test_every_method_plays_and_plays_the_same_again(method, root):
    bandit.prepare.cache_clear()
    first, second = (bandit.run(0.5, 0, method, TINY, root) for _ in range(2))
    assert {**first, "seconds": 0} == {**second, "seconds": 0}
    assert not first["diverged"]
    assert first["regret_curve"][-1] == first["final_regret"]
    assert first["curve_rounds"][-1] == 60
    assert 0 <= first["fraction_optimal_last_1000"] <= 1
    assert json.loads(json.dumps(first)) == first


def record(method, p, seed, regret, **changes):
    curve = {"regret_curve": [0.0, regret], "curve_rounds": [1, 100], "final_regret": regret}
    made = {"method": method, "p": p, "seed": seed, "preset": "paper", "fraction_optimal_last_1000": 0.9}
    return made | curve | {"seconds": 1.0, "diverged": False} | changes


def test_the_lowest_regret_is_bold_and_pairs_are_compared_seed_by_seed(tmp_path):
    records = [record("fsgld", 0.5, seed, 100.0 + 50 * seed) for seed in range(3)]
    records += [record("sgld", 0.5, seed, 200.0 + 51 * seed) for seed in range(3)]
    records.append(record("bbb", 0.5, 0, math.nan, diverged=True))
    document = bandit_sweep.markdown(records, "A note.")
    assert "| fSGLD | **150 ± 29** |" in document
    assert "| 0.5 | fSGLD − SGLD | −101 ± 1 | 0.000 |" in document
    assert "left out of the regrets: 1." in document
    bandit_sweep.figure(records, tmp_path / "bandit.png")
    assert (tmp_path / "bandit.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--preset", "fast"], "unknown preset fast"),
        (["--methods", "adam"], "unknown method adam"),
        (["--patterns", "0.1"], "probabilities above 0.125"),
        (["--patterns", "half"], "probabilities joined by commas"),
        (["--data", "nowhere"], "is missing"),
    ],
)
def test_what_cannot_be_done_is_told_before_anything_is(options, sentence, root, tmp_path):
    given = ["reproduce", "bandit", "--out", str(tmp_path / "out"), "--data", str(root), *options]
    result = CliRunner().invoke(app, given)
    assert result.exit_code == 2
    assert sentence in result.output


def test_the_presets_keep_the_papers_settings():
    paper = bandit.PRESETS["paper"]
    assert (paper.rounds, paper.steps, paper.batch_size, paper.capacity) == (10_000, 64, 64, 4096)
    assert (paper.hidden, paper.gp_rows, paper.step_size, paper.decay) == ((100, 100), 1000, 1e-2, 0.9)
