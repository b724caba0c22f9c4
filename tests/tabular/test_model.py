"""From a table to a model that is kept, used and understood."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from fsgmcmc import _storage
from fsgmcmc.cli import app
from fsgmcmc.cli.tables import CHECKPOINT
from fsgmcmc.cli.terminal import locked
from fsgmcmc.estimators import serialization
from fsgmcmc.predictions import CategoricalPrediction, GaussianPrediction
from fsgmcmc.tabular.columns import Columns
from fsgmcmc.tabular.model import HoldoutResult, Request, TableModel, fit_table

# Ten units are too few to follow the process here: their chains may settle for a large noise.
QUICK = {"kernel": "rbf", "hidden": (30,), "chains": 2, "samples": 5, "burn_in": 3000, "thinning": 2}


def table(count=60, seed=0):
    """Flats with a size, a district, a year that is sometimes missing, and a rent."""
    rng = np.random.default_rng(seed)
    size, district = rng.uniform(20, 120, count), rng.choice(["north", "south", "old town"], count)
    year = np.where(rng.uniform(size=count) < 0.2, np.nan, rng.integers(1900, 2020, count))
    rent = 8 * size + 200 * (district == "old town") + 20 * rng.standard_normal(count)
    names = [f"flat {i}" for i in range(count)]
    return pd.DataFrame({"flat": names, "size": size, "district": district, "year": year, "rent": rent})


@pytest.fixture(scope="module")
def fitted():
    return fit_table(table(), Request("rent", id_column="flat", settings=tuple(QUICK.items())))


def test_columns_become_numbers_by_the_stated_rules():
    frame = pd.DataFrame(
        {"a": [1.0, np.nan, 3.0, 100.0], "b": ["u", "v", None, "u"], "c": [5.0] * 4, "d": [np.nan] * 4}
    )
    columns = Columns.of(frame, training=np.array([0, 1, 2]))
    assert columns.features == ["a", "a is missing", "b = u", "b = v"]
    expected = [[1, 0, 1, 0], [2, 1, 0, 1], [3, 0, 0, 0], [100, 0, 1, 0]]  # the median of the training rows is 2
    np.testing.assert_array_equal(columns.numbers(frame), expected)
    assert Columns.from_json(columns.to_json()) == columns
    assert "lacks 1 of 4 values" in columns.notes[0]
    assert [note.split("'")[1] for note in columns.notes] == ["a", "b", "c", "d"]


def test_held_out_rows_are_scored_and_not_fitted(fitted):
    model, held = fitted
    assert model.held_out == len(held.y) == 12
    assert model.estimator.n_rows_ == 48
    assert held.scores == model.scores
    assert held.scores["rmse"] < 150 < np.std(table()["rent"])
    assert "flat = flat 1" not in model.columns.features


def test_a_network_behind_its_processes_on_held_out_rows_is_told(fitted):
    _, held = fitted
    assert held.behind_process() is None
    y, right, wrong = np.zeros(40), np.zeros((2, 40, 1)), np.full((2, 40, 1), 3.0)
    behind = HoldoutResult(y, GaussianPrediction(wrong, 1.0), y, process=GaussianPrediction(right, 1.0))
    # −log N(3; 0, 1) + log N(0; 0, 1)
    assert behind.behind_process().value == pytest.approx(4.5)
    assert "4.50 nats per row" in behind.behind_process().message
    assert replace(behind, prediction=behind.process).behind_process() is None
    assert replace(behind, process=None).behind_process() is None
    likely, unlikely = (CategoricalPrediction(np.log([[[p, 1 - p]]]).repeat(40, axis=1)) for p in (0.9, 0.3))
    classes = HoldoutResult(y.astype(int), unlikely, y, process=likely)
    assert classes.behind_process().value == pytest.approx(np.log(3))


def test_a_model_that_was_kept_predicts_the_same(fitted, tmp_path):
    model, _ = fitted
    model.save(tmp_path / "model")
    again = TableModel.load(tmp_path / "model")
    new = table(10, seed=1)
    pd.testing.assert_frame_equal(again.predict(new), model.predict(new))
    assert again.columns == model.columns
    assert again.evaluate(new).scores == model.evaluate(new).scores
    assert list(model.predict(new)) == ["flat", "mean", "std", "lower", "upper", "extrapolates"]


def test_an_interrupted_write_leaves_the_older_model_whole(fitted, tmp_path, monkeypatch):
    model, _ = fitted
    model.save(tmp_path)
    before, new = TableModel.load(tmp_path), table(5, seed=1)
    changed, _ = fit_table(table(seed=3), Request("rent", id_column="flat", settings=tuple(QUICK.items())))

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(_storage, "write_text", full)
    with pytest.raises(OSError, match="No space"):
        changed.save(tmp_path)
    monkeypatch.undo()
    pd.testing.assert_frame_equal(TableModel.load(tmp_path).predict(new), before.predict(new))
    changed.save(tmp_path)
    pd.testing.assert_frame_equal(TableModel.load(tmp_path).predict(new), changed.predict(new))
    assert len(list(tmp_path.glob("arrays-*"))) == 1


def test_a_model_that_is_replaced_while_it_is_read_is_read_again(fitted, tmp_path, monkeypatch):
    model, _ = fitted
    model.save(tmp_path)
    stale, fresh = json.loads((tmp_path / "model.json").read_text()), serialization._document
    stale["arrays"] = {"name": "arrays-0.npz", "sha256": ""}
    documents = iter([stale])
    monkeypatch.setattr(serialization, "_document", lambda folder: next(documents, None) or fresh(folder))
    assert TableModel.load(tmp_path).target == "rent"


def test_model_json_is_json(fitted, tmp_path):
    def refuse(word):
        raise AssertionError(f"{word} is no JSON")

    model, _ = fitted
    model.save(tmp_path)
    json.loads((tmp_path / "model.json").read_text(), parse_constant=refuse)


def test_two_fits_do_not_share_a_folder(tmp_path):
    table(40).to_csv(tmp_path / "flats.csv", index=False)
    (tmp_path / "model").mkdir()
    with locked(tmp_path / "model"):
        arguments = ("--target", "rent", "--id", "flat", "--out", str(tmp_path / "model"))
        result = CliRunner().invoke(app, ["fit", str(tmp_path / "flats.csv"), *arguments])
    assert result.exit_code == 2
    assert "another command is running" in result.output


def test_missing_values_that_the_fit_did_not_know_are_told(fitted):
    model, _ = fitted
    frame = table(10, seed=1)
    assert model.columns.filled(frame) == []
    frame["size"] = np.nan
    assert "lacks 10 of 10 values" in model.columns.filled(frame)[0]


def run(*arguments):
    result = CliRunner().invoke(app, list(map(str, arguments)))
    assert result.exit_code == 0, result.output
    return result.output


def test_fit_predict_evaluate_and_info_from_a_shell(tmp_path):
    data, new, out = tmp_path / "flats.csv", tmp_path / "new.parquet", tmp_path / "predictions.csv"
    table(40).to_csv(data, index=False)
    table(7, seed=1).drop(columns="rent").to_parquet(new)
    shown = run(
        *("fit", data, "--target", "rent", "--id", "flat", "--kernel", "rbf + linear", "--hidden", "10"),
        *("--chains", 2, "--samples", 4, "--burn-in", 300, "--thinning", 10, "--out", tmp_path / "model"),
    )
    assert "on 8 rows" in shown
    assert "median" in shown
    assert "note: The smallest effective sample size is" in shown
    assert not (tmp_path / "model" / CHECKPOINT).exists()
    page = (tmp_path / "model" / "report.html").read_text()
    assert "rent" in page
    run("predict", tmp_path / "model", new, "--out", out, "--coverage", 0.5)
    predictions = pd.read_csv(out)
    assert predictions["flat"].tolist() == [f"flat {i}" for i in range(7)]
    assert (predictions["lower"] < predictions["mean"]).all()
    assert (predictions["upper"] - predictions["lower"] < 2 * predictions["std"]).all()
    assert "RMSE" in run("evaluate", tmp_path / "model", data)
    described = run("info", tmp_path / "model")
    assert "rbf + linear" in described
    assert "note: The smallest effective sample size is" in described


@pytest.mark.slow
def test_texts_are_classes(tmp_path):
    frame = table(60)
    frame["dear"] = np.where(frame["rent"] > frame["rent"].median(), "yes", "no")
    model, held = fit_table(frame, Request("dear", id_column="flat", drop=("rent",), settings=tuple(QUICK.items())))
    assert held.scores["accuracy"] > 0.6
    model.save(tmp_path)
    predictions = TableModel.load(tmp_path).predict(frame)
    assert set(predictions["label"]) <= {"yes", "no"}
    np.testing.assert_allclose(predictions["p(yes)"] + predictions["p(no)"], 1, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_ctrl_c_keeps_what_was_sampled_and_resume_goes_on(tmp_path):
    data, model = tmp_path / "flats.csv", tmp_path / "model"
    table(40).to_csv(data, index=False)
    command = [sys.executable, "-m", "fsgmcmc.cli", "fit", str(data), "--target", "rent", "--id", "flat"]
    command += ["--kernel", "linear", "--hidden", "5", "--chains", "1", "--out", str(model)]
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    # Run by a child that has the default handling of SIGINT, whatever the test run has.
    started = subprocess.Popen(
        [*command, "--samples", "2000"], env=environment, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    checkpoint, deadline = model / CHECKPOINT, time.monotonic() + 120
    while not checkpoint.exists() and time.monotonic() < deadline:
        time.sleep(0.2)
    time.sleep(6)
    started.send_signal(signal.SIGINT)
    output, errors = started.communicate(timeout=120)
    assert started.returncode == 130, errors
    assert "interrupted: the draws so far were kept" in output
    draws = TableModel.load(model).estimator.energy_.shape[1]
    assert 0 < draws < 2000
    resumed = subprocess.run([*command, "--samples", str(draws + 1), "--resume"], capture_output=True, text=True)
    assert resumed.returncode == 0, resumed.stderr
    assert TableModel.load(model).estimator.energy_.shape[1] == draws + 1
    assert not checkpoint.exists()
