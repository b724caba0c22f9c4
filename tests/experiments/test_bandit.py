"""The Mushroom experiment: records, tables, refused options."""

import json
import math
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
from typer.testing import CliRunner

from fsgmcmc.bandits import Game
from fsgmcmc.cli import app
from fsgmcmc.experiments.bandit import problem, report, run as bandit
from fsgmcmc.experiments.bandit.agents import AGENTS, BufferSchedule
from fsgmcmc.experiments.bandit.config import PRESETS

TINY = replace(
    PRESETS["quick"],
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
    """Forty mushrooms whose first feature determines the label."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "mushroom").mkdir()
    rng = np.random.default_rng(0)
    lines = []
    for _ in range(40):
        label = rng.choice(["e", "p"])
        lines.append(",".join([label, "a" if label == "e" else "b", *rng.choice(["x", "y", "?"], 21)]))
    (folder / "mushroom/agaricus-lepiota.data").write_text("\n".join(lines) + "\n")
    return folder


FEW = ("sgld", "uniform")
ALL = [name if name in FEW else pytest.param(name, marks=pytest.mark.slow) for name in AGENTS]


@pytest.mark.parametrize("method", ALL)
def test_every_method_plays_and_plays_the_same_again(method, root):
    problem.prepare.cache_clear()
    first, second = (bandit.run(0.5, 0, method, TINY, root) for _ in range(2))
    assert {**first, "seconds": 0} == {**second, "seconds": 0}
    assert not first["diverged"]
    assert first["regret_curve"][-1] == first["final_regret"]
    assert first["curve_rounds"][-1] == 60
    # A wrong action costs 5 (an edible mushroom left) or 15 (a poisonous one eaten, p = 0.5) in expectation.
    wrong = TINY.rounds * (1 - first["fraction_optimal_last_1000"])
    lost = first["final_expected_regret"]
    edible_left, poison_eaten = (15 * wrong - lost) / 10, (lost - 5 * wrong) / 10
    for count in (wrong, edible_left, poison_eaten):
        assert count == pytest.approx(round(count), abs=1e-3)
        assert count > -1e-3
    assert json.loads(json.dumps(first)) == first


def record(method, p, seed, regret, **changes):
    curve = {"regret_curve": [0.0, regret], "curve_rounds": [1, 100], "final_regret": regret}
    made = {"method": method, "p": p, "seed": seed, "preset": "paper", "fraction_optimal_last_1000": 0.9}
    made["final_expected_regret"] = 2 * regret
    return made | curve | {"seconds": 1.0, "diverged": False} | changes


def test_the_lowest_regret_is_bold_and_pairs_are_compared_seed_by_seed(tmp_path):
    records = [record("fsgld", 0.5, seed, 48_715.0 + 50 * seed) for seed in range(3)]
    records += [record("sgld", 0.5, seed, 48_815.0 + 51 * seed) for seed in range(3)]
    records.append(record("bbb", 0.5, 0, math.nan, diverged=True))
    document = report.markdown(records, "A note.")
    assert "| fSGLD | **48,765 ± 29** | 0.900 | 1 | 3 | 0 |" in document
    assert "| fSGLD | **97,530 ± 58** |" in document
    assert "| BBB |  |  |  | 1 | 1 |" in document
    assert "| 0.5 | fSGLD − SGLD | −101 ± 1 | 3.3e-05 | −202 ± 1 |" in document
    assert "Not finite at the end: 1," in document
    report.figure(records, tmp_path / "bandit.png")
    assert (tmp_path / "bandit.png").stat().st_size > 10_000


@pytest.mark.slow
def test_a_sweep_resumes_with_missing_and_damaged_games(root, tmp_path, monkeypatch):
    monkeypatch.setitem(PRESETS, "quick", TINY)
    out = tmp_path / "out"
    given = ["reproduce", "bandit", "--preset", "quick", "--methods", "uniform", "--patterns", "0.5,0.50,0.6"]
    given += ["--seeds", "2", "--data", str(root), "--out", str(out), "--jobs", "1"]

    def games():
        result = CliRunner().invoke(app, given)
        assert result.exit_code == 0, result.output
        return json.loads((out / "bandit.json").read_text())["records"]

    first = games()
    assert [(game["p"], game["seed"]) for game in first] == [(0.5, 0), (0.5, 1), (0.6, 0), (0.6, 1)]
    assert len({game["final_regret"] for game in first}) == 4, "another seed or pattern is another game"
    paths = sorted((out / "runs").glob("*.json"))
    times = {path: path.stat().st_mtime_ns for path in paths}
    paths[0].unlink()
    paths[1].write_text(json.dumps({"settings": first[0]["settings"]}))
    again = games()
    assert [{**game, "seconds": 0} for game in again] == [{**game, "seconds": 0} for game in first]
    assert [path.stat().st_mtime_ns == times[path] for path in paths] == [False, False, True, True]


def test_all_methods_of_a_seed_play_the_same_game(root, monkeypatch):
    keys = []

    def play(key, environment, agent, rounds, **options):
        keys.append(key)
        return Game(np.zeros((1, rounds)), np.zeros((1, rounds)), np.ones(1, bool))

    monkeypatch.setattr(bandit, "play", play)
    for method, seed in (("uniform", 0), ("greedy", 0), ("uniform", 1)):
        bandit.run(0.5, seed, method, TINY, root)
    assert keys[0] == keys[1] != keys[2]


def test_steps_of_the_paper_fall_every_thousand_rounds(root):
    settings = replace(PRESETS["paper"], capacity=50, batch_size=8, points=5, gp_rows=30, gp_iterations=3)
    agent = AGENTS["sgld"](problem.prepare(0.5, 0, settings, root), settings)
    steps = [float(agent.sampler.step_size(jnp.int32(step))) for step in (0, 63_999, 64_000)]
    np.testing.assert_allclose(steps, [2e-4, 2e-4, 1.8e-4], rtol=1e-5)


def test_measured_steps_follow_the_buffer():
    schedule = BufferSchedule(full=1.0, few=9.0, power=1, steps=10, capacity=4096)
    steps = [float(schedule(jnp.int32(10 * (rows - 1)))) for rows in (1, 64, 4096, 9000)]
    np.testing.assert_allclose(steps, [9.0, 9.0, 1.0, 1.0], rtol=1e-6)
    middle = float(schedule(jnp.int32(10 * ((4096 + 64) // 2 - 1))))
    assert middle == pytest.approx(1 / (0.5 / 9 + 0.5))


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
def test_wrong_options_are_refused_before_anything_runs(options, sentence, root, tmp_path):
    given = ["reproduce", "bandit", "--out", str(tmp_path / "out"), "--data", str(root), *options]
    result = CliRunner().invoke(app, given)
    assert result.exit_code == 2
    assert sentence in result.output


def test_the_presets_keep_the_papers_settings():
    paper = PRESETS["paper"]
    assert (paper.rounds, paper.steps, paper.batch_size, paper.capacity) == (10_000, 64, 64, 4096)
    assert (paper.hidden, paper.gp_rows, paper.step_size, paper.decay) == ((100, 100), 1000, 1e-2, 0.9)
    assert paper.points == 40
