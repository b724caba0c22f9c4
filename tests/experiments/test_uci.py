"""The UCI experiment: seeds and units of a run, and a sweep that can be interrupted and resumed."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from fsgmcmc.cli import app
from fsgmcmc.experiments import runner
from fsgmcmc.experiments.uci import problem
from fsgmcmc.experiments.uci.config import PRESETS, Fitting
from fsgmcmc.experiments.uci.plan import plan
from fsgmcmc.experiments.uci.run import RUNNERS, SCORES, fingerprint, run
from fsgmcmc.methods import SAMPLERS

TINY = replace(
    PRESETS["quick"],
    hidden=(4,),
    kernel="rbf",
    pretraining=5,
    draws=4,
    thinning=2,
    burn_in=4,
    adam_steps=10,
    fitting=Fitting(steps=20, function_draws=8, functions=4, batch_size=10, kept=10),
)


@pytest.fixture
def data(tmp_path):
    """A data set of 40 rows in the public layout, with two splits and a target far from zero and one."""
    rng = np.random.default_rng(0)
    folder = tmp_path / "data" / "UCI_Datasets" / "small" / "data"
    folder.mkdir(parents=True)
    x = rng.standard_normal((40, 2))
    x[:, 1] = x[:, 0]  # collinear
    x[1] = x[0]  # and a repeated row
    y = 1000 + 50 * np.sin(x[:, 0]) + rng.standard_normal(40)
    y[1] = y[0]
    np.savetxt(folder / "data.txt", np.column_stack([x, y]))
    np.savetxt(folder / "index_features.txt", [0, 1])
    np.savetxt(folder / "index_target.txt", [2])
    for split in range(2):
        order = rng.permutation(40)
        np.savetxt(folder / f"index_train_{split}.txt", order[:36])
        np.savetxt(folder / f"index_test_{split}.txt", order[36:])
    return tmp_path / "data"


OFTEN = {"gp"}
ALL = [name if name in OFTEN else pytest.param(name, marks=pytest.mark.slow) for name in sorted(RUNNERS)]


@pytest.mark.parametrize("method", ALL)
def test_every_method_gives_a_finite_record(method, data):
    record = run("small", 0, method, TINY, data)
    assert not record["diverged"]
    numbers = [record[name] for name in SCORES if record[name] is not None]
    assert np.isfinite(numbers).all()
    assert (record["r_hat"] is not None) == (method in SAMPLERS)
    unit = record["rmse"] / record["rmse_std"]
    assert 20 < unit < 60, "the unit is the standard deviation of the training targets"
    assert record["nll"] - record["nll_std"] == pytest.approx(math.log(unit))


@pytest.mark.slow
def test_a_run_is_fixed_by_its_name(data):
    first, again = (run("small", 0, "fsgld", TINY, data) for _ in range(2))
    assert first["nll"] == again["nll"]
    seeds = {problem.seed(*name) for name in [("a", 0, "sgld"), ("a", 1, "sgld"), ("a", 0, "fsgld"), ("b", 0, "sgld")]}
    assert len(seeds) == 4


@pytest.mark.slow
def test_a_step_that_is_too_long_is_a_diverged_record_not_a_crash(data):
    record = run("small", 0, "sgld", replace(TINY, step_size=1e6), data)
    assert record["diverged"]
    assert record["rmse"] is None


def test_the_paper_preset_keeps_the_printed_settings():
    paper = PRESETS["paper"]
    assert (paper.hidden, paper.kernel, paper.pretraining) == ((10, 10), "rbf", 100)
    assert (paper.burn_in, paper.draws, paper.thinning, paper.step_size) == (500, 15, 100, 1e-3)
    assert paper.warm_up is None
    assert paper.fitting.steps == 2000


def command(data, out, *options):
    arguments = ["reproduce", "uci", "--data", str(data), "--out", str(out), "--datasets", "small", *options]
    return CliRunner().invoke(app, arguments)


def test_a_sweep_writes_its_documents_and_a_second_one_runs_nothing(data, tmp_path, monkeypatch):
    monkeypatch.setitem(PRESETS, "quick", TINY)
    options = ("--preset", "quick", "--splits", "1", "--methods", "gp,map-ensemble", "--jobs", "1")
    result = command(data, tmp_path / "out", *options)
    assert result.exit_code == 0, result.output
    document = json.loads((tmp_path / "out" / "uci.json").read_text())
    assert [record["method"] for record in document["records"]] == ["gp", "map-ensemble"]
    assert (tmp_path / "out" / "uci.png").read_bytes()[:4] == b"\x89PNG"
    assert "small" in (tmp_path / "out" / "uci.md").read_text()
    assert len((tmp_path / "out" / "uci.csv").read_text().splitlines()) == 3

    def refuse(*_):
        raise AssertionError("a finished run was executed again")

    monkeypatch.setattr(runner, "execute", refuse)
    assert command(data, tmp_path / "out", *options).exit_code == 0


def test_a_sweep_executes_only_runs_that_are_missing_damaged_or_of_other_settings(data, tmp_path, monkeypatch):
    planned = plan("quick", "small", "2", "gp,sgld", data)
    runs, marks = tmp_path / "runs", {method: fingerprint(PRESETS["quick"], method) for method in ("gp", "sgld")}
    names = [one.name for group in planned.groups for one in group]
    assert names == [f"small-{split}-{method}-{mark}" for split in (0, 1) for method, mark in marks.items()]
    runs.mkdir()
    done = {"dataset": "small", "split": 0, "method": "gp", "settings": marks["gp"], "diverged": False}
    (runs / f"{names[0]}.json").write_text(json.dumps(done))
    (runs / f"{names[1]}.json").write_text(json.dumps(done)[:20])
    (runs / f"{names[2]}.json").write_text(json.dumps(done | {"settings": "other"}))
    executed = []

    def execute(groups, function, folder, jobs, finished):
        for one in (one for group in groups for one in group):
            executed.append(one.name)
            (folder / f"{one.name}.json").write_text(json.dumps(done))

    monkeypatch.setattr(runner, "execute", execute)
    assert len(runner.complete(planned, runs, jobs=1)) == 4
    assert executed == names[1:]


def test_settings_that_a_method_does_not_read_leave_its_records_valid():
    other = replace(TINY, fitting=replace(TINY.fitting, steps=21))
    assert fingerprint(TINY, "sgld") == fingerprint(other, "sgld")
    assert fingerprint(TINY, "fbnn") != fingerprint(other, "fbnn")
    gaussian = replace(TINY, heavy_tails=False)
    assert fingerprint(TINY, "gp") == fingerprint(gaussian, "gp")
    assert fingerprint(TINY, "sgld") != fingerprint(gaussian, "sgld")


def test_an_ablation_without_effect_on_a_method_is_refused(data):
    with pytest.raises(ValueError, match="fbnn would not change"):
        plan("quick", "small", "1", "sgld,fbnn", data, {"points": 10})


def test_points_change_the_measurement_and_nothing_else(data):
    split = problem.prepare("small", 0, TINY, data)
    fewer = replace(TINY, points=10)
    (whole,), (some,) = (problem.posterior(split, settings, functional=True).functional for settings in (TINY, fewer))
    assert whole.points.shape == (36, 2)
    assert some.measurement.sets.shape == (16, 10, 2)
    assert problem.posterior(split, fewer, functional=False).data.batch_size is None


def fail_or_answer(name):
    if name == "bad":
        raise KeyError("no such thing")
    return {"name": name}


def test_a_run_that_fails_is_named_and_stops_no_other(tmp_path):
    groups = [[runner.Run(name, (name,)) for name in ("bad", "good")], [runner.Run("other", ("other",))]]
    names = []
    with pytest.raises(runner.SweepError, match=r"1 runs failed.*bad: KeyError"):
        runner.execute(groups, fail_or_answer, tmp_path, jobs=1, finished=lambda record: names.append(record["name"]))
    assert names == ["good", "other"]
    assert set(runner.load(tmp_path)) == {"good", "other"}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--preset", "fast"), "unknown preset fast"),
        (("--methods", "sgld,magic"), "unknown method magic"),
        (("--splits", "0,7"), "small has splits 0 to 1"),
        (("--splits", "some"), "joined by commas"),
        (("--kernel", "cubic"), "unknown kernel"),
        (("--datasets", "nothing"), "nothing"),
    ],
)
def test_wrong_options_give_an_error_of_one_sentence(options, sentence, data, tmp_path):
    result = command(data, tmp_path / "out", *options)
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert not (tmp_path / "out").exists()
