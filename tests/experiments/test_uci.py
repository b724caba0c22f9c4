"""The UCI experiment: seeds and units of a run, and a sweep that can be interrupted and continued."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from fsgmcmc.cli import app
from fsgmcmc.experiments import sweep, uci, uci_sweep
from fsgmcmc.experiments.uci_problem import PRESETS, Fitting

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
    """A set of 40 rows in the public layout, with two splits and a target far from zero and one."""
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


OFTEN = {"gp", "bbb"}
ALL = [name if name in OFTEN else pytest.param(name, marks=pytest.mark.slow) for name in sorted(uci.METHODS)]


@pytest.mark.parametrize("method", ALL)
def test_every_method_gives_a_finite_record(method, data):
    record = uci.run("small", 0, method, TINY, data)
    assert not record["diverged"]
    numbers = [record[name] for name in uci.SCORES if record[name] is not None]
    assert np.isfinite(numbers).all()
    assert (record["r_hat"] is not None) == (method in ("sgld", "fsgld", "sghmc", "fsghmc"))
    unit = record["rmse"] / record["rmse_std"]
    assert 20 < unit < 60, "the unit is the standard deviation of the training targets"
    assert record["nll"] - record["nll_std"] == pytest.approx(math.log(unit))


def test_a_run_is_fixed_by_its_name(data):
    first, again = (uci.run("small", 0, "fsgld", TINY, data) for _ in range(2))
    assert first["nll"] == again["nll"]
    seeds = {uci.seed(*name) for name in [("a", 0, "sgld"), ("a", 1, "sgld"), ("a", 0, "fsgld"), ("b", 0, "sgld")]}
    assert len(seeds) == 4


def test_a_step_that_is_too_long_is_a_diverged_record_not_a_crash(data):
    record = uci.run("small", 0, "sgld", replace(TINY, step_size=1e6), data)
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


def test_a_sweep_writes_its_documents_and_a_second_one_does_nothing_again(data, tmp_path, monkeypatch):
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
        raise AssertionError("a finished run was done again")

    monkeypatch.setattr(sweep, "execute", refuse)
    assert command(data, tmp_path / "out", *options).exit_code == 0


def test_a_sweep_does_only_what_is_missing_damaged_or_of_other_settings(data, tmp_path, monkeypatch):
    plan = uci_sweep.plan("quick", "small", "2", "gp,sgld", data)
    runs, marks = tmp_path / "runs", {method: uci.fingerprint(plan.settings, method) for method in ("gp", "sgld")}
    names = [run.name for group in plan.groups for run in group]
    assert names == [f"small-{split}-{method}-{mark}" for split in (0, 1) for method, mark in marks.items()]
    runs.mkdir()
    done = {"dataset": "small", "split": 0, "method": "gp", "settings": marks["gp"], "diverged": False}
    (runs / f"{names[0]}.json").write_text(json.dumps(done))
    (runs / f"{names[1]}.json").write_text(json.dumps(done)[:20])
    (runs / f"{names[2]}.json").write_text(json.dumps(done | {"settings": "other"}))
    asked = []

    def execute(groups, function, folder, jobs, finished):
        for run in (run for group in groups for run in group):
            asked.append(run.name)
            (folder / f"{run.name}.json").write_text(json.dumps(done))

    monkeypatch.setattr(sweep, "execute", execute)
    assert len(uci_sweep.execute(plan, tmp_path, jobs=1)) == 4
    assert asked == names[1:]


def test_what_a_method_does_not_read_leaves_its_records_valid():
    other = replace(TINY, fitting=replace(TINY.fitting, steps=21))
    assert uci.fingerprint(TINY, "sgld") == uci.fingerprint(other, "sgld")
    assert uci.fingerprint(TINY, "fbnn") != uci.fingerprint(other, "fbnn")
    gaussian = replace(TINY, heavy_tails=False)
    assert uci.fingerprint(TINY, "gp") == uci.fingerprint(gaussian, "gp")
    assert uci.fingerprint(TINY, "sgld") != uci.fingerprint(gaussian, "sgld")


def test_an_ablation_that_a_method_would_not_notice_is_refused(data):
    with pytest.raises(ValueError, match="fbnn would not change"):
        uci_sweep.plan("quick", "small", "1", "sgld,fbnn", data, {"points": 10})


def test_points_change_the_measurement_and_nothing_else(data):
    split = uci.prepare("small", 0, TINY, data)
    fewer = replace(TINY, points=10)
    (whole,), (some,) = (uci.posterior(split, settings, functional=True).functional for settings in (TINY, fewer))
    assert whole.points.shape == (36, 2)
    assert some.measurement.sets.shape == (16, 10, 2)
    assert uci.posterior(split, fewer, functional=False).batch_size is None


def fail_or_answer(name):
    if name == "bad":
        raise KeyError("no such thing")
    return {"name": name}


def test_a_run_that_fails_is_named_and_stops_no_other(tmp_path):
    groups = [[sweep.Run(name, (name,)) for name in ("bad", "good")], [sweep.Run("other", ("other",))]]
    heard = []
    with pytest.raises(sweep.SweepError, match=r"1 runs failed.*bad: KeyError"):
        sweep.execute(groups, fail_or_answer, tmp_path, jobs=1, finished=lambda record: heard.append(record["name"]))
    assert heard == ["good", "other"]
    assert set(sweep.load(tmp_path)) == {"good", "other"}


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
def test_wrong_options_are_told_in_one_sentence(options, sentence, data, tmp_path):
    result = command(data, tmp_path / "out", *options)
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert not (tmp_path / "out").exists()
