"""The image experiment: scores, records, refused options, and that a killed run resumes with the same result."""

import csv
import gzip
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from fsgmcmc import _storage, data
from fsgmcmc.cli import app
from fsgmcmc.experiments.images import problem, report
from fsgmcmc.experiments.images.config import DEFAULT_METHODS, PRESETS, settings_for
from fsgmcmc.experiments.images.run import RUNNERS, SCORES, Checkpoint, run, score
from fsgmcmc.experiments.images.variants import NAMES, VARIANTS, title
from fsgmcmc.measurement import minibatch
from fsgmcmc.networks import MLP, FunctionNetwork
from fsgmcmc.predictions import CategoricalPrediction

TINY = replace(
    PRESETS["quick"],
    width=2,
    images=40,
    test_images=15,
    batch_size=10,
    points=5,
    gp_images=20,
    gp_iterations=3,
    context_images=24,
    context_points=4,
    adam_steps=5,
    burn_in=2,
    draws=3,
    thinning=2,
)


def write_idx(path, array):
    header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
    path.write_bytes(gzip.compress(header + array.tobytes()))


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Two small sets in the layout of MNIST, whose classes are bright bars at different heights."""
    folder = tmp_path_factory.mktemp("images")
    rng = np.random.default_rng(0)
    for name, turned in (("mnist", False), ("fashion-mnist", True)):
        (folder / name).mkdir()
        for part, rows in (("train", 60), ("t10k", 20)):
            labels = rng.integers(0, 10, rows).astype(np.uint8)
            pictures = rng.integers(0, 60, (rows, 12, 12)).astype(np.uint8)
            for picture, label in zip(pictures, labels, strict=True):
                (picture.T if turned else picture)[1 + label] = 255
            write_idx(folder / name / f"{part}-images-idx3-ubyte.gz", pictures)
            write_idx(folder / name / f"{part}-labels-idx1-ubyte.gz", labels)
    return folder


@pytest.fixture(autouse=True)
def no_checksums(monkeypatch):
    monkeypatch.setattr(data.images, "MD5", {})
    monkeypatch.delenv("FSGMCMC_DATA", raising=False)
    problem.prepare.cache_clear()


def test_scores_of_a_prediction_that_is_certain_on_test_images_and_uniform_on_ood_images():
    labels = np.array([0, 1, 2, 3])
    known = 20 * np.eye(10)[labels]
    known[3] = 20 * np.eye(10)[9]  # one mistake
    prediction = CategoricalPrediction(np.concatenate([known, np.zeros((6, 10))])[None])
    scores = score(prediction, labels)
    assert scores["error"] == 25
    assert scores["auroc_entropy"] == scores["aupr_entropy"] == 1
    assert scores["auroc_mutual_information"] == 0.5  # one draw has none
    assert sum(scores["entropy_known"]) == 4
    assert scores["entropy_foreign"][-1] == 6
    rows, _, right = scores["reliability"]
    assert (rows, right) == ([4], [0.75])


@pytest.mark.parametrize("method", ["gp", *(pytest.param(name, marks=pytest.mark.slow) for name in ("fsghmc", "sgld"))])
def test_a_run_has_all_scores_and_is_the_same_again(method, root):
    first = run("mnist", 0, method, TINY, root)
    problem.prepare.cache_clear()
    second = run("mnist", 0, method, TINY, root)
    assert not first["diverged"]
    assert all(np.isfinite(first[name]) for name in SCORES)
    timed = dict.fromkeys(("seconds", "prior_seconds", "process_seconds", "images_per_second"), 0)
    assert first | timed == second | timed
    assert json.loads(json.dumps(first)) == first
    assert ("process" in first) == (method != "gp")


@pytest.fixture
def small_network(monkeypatch):
    """A network on the mean of each row of pixels, which compiles fast."""
    mlp = MLP((4,))
    network = FunctionNetwork(
        lambda key, inputs, outputs: mlp.init(key, 12, outputs),
        lambda params, x: mlp.apply(params, x.mean(axis=(2, 3))),
    )
    monkeypatch.setattr(problem, "ResNet", lambda depth, width: network)


@pytest.mark.parametrize("method", VARIANTS)
def test_a_variant_has_all_scores_with_and_without_the_process(method, root, small_network):
    record = run("mnist", 0, method, TINY, root)
    for scores in (record, record["process"]):
        assert all(np.isfinite(scores[name]) for name in SCORES)
        assert sum(scores["entropy_known"]) == 15
    assert record["process_seconds"] > 0
    assert record["weights"] == run("mnist", 0, VARIANTS[method].method.name, TINY, root)["weights"]
    rows = report.rows_of([record])
    assert [row["method"] for row in rows] == [method, f"{method}+process"]
    assert rows[1]["auroc_entropy"] == record["process"]["auroc_entropy"]
    assert rows[1]["seconds"] == record["seconds"] + record["process_seconds"]


def test_context_terms_are_those_of_the_settings(root, small_network):
    prepared = problem.prepare("mnist", 0, TINY, root)
    assert prepared.context.shape == (24, 12, 12, 1)
    context, exposure = (problem.ADDITIONS[name](prepared, TINY) for name in ("context", "exposure"))
    assert context.weight == exposure.weight == TINY.context_weight
    assert len(set(np.asarray(context.process.mean))) == 1
    assert len(context.process.mean) == 10
    assert context.process.mean[0] == pytest.approx(np.mean(prepared.fit.prior.mean))
    np.testing.assert_array_equal(context.measurement.pool, exposure.measurement.pool)
    exposed = problem.posterior(prepared, TINY, None, addition="exposure")
    functional = problem.posterior(prepared, TINY, minibatch(5), addition="context")
    assert (exposed.space, len(exposed.functional)) == ("parameter", 1)
    assert (functional.space, len(functional.functional)) == ("function", 2)


def test_the_process_adds_uncertainty_beyond_the_training_images_and_nowhere_else(root, small_network):
    """The prediction of the training images stays, and images far from all of them become uncertain."""
    prepared = problem.prepare("mnist", 0, TINY, root)
    far = replace(prepared, test=prepared.x[:20], ood=prepared.x[:20] + 50)
    certain = CategoricalPrediction(np.tile(8 * np.eye(10)[prepared.y[:20]], (6, 2, 1)))
    wider = far.with_process(certain)
    near, beyond = np.split(wider.mutual_information, 2)
    np.testing.assert_allclose(wider.probabilities[:20], certain.probabilities[:20], atol=0.02)
    assert near.max() < 0.05
    assert beyond.min() > 0.2


def test_methods_of_a_seed_share_their_training_images_and_seeds_do_not(root):
    prepare = problem.prepare.__wrapped__  # without the cache
    first, again, other = (prepare("mnist", seed, TINY, root) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.x, again.x)
    assert not np.array_equal(first.y, other.y)
    assert abs(first.x.mean()) < 1e-5


@pytest.mark.slow
def test_a_killed_run_resumes_from_its_checkpoint_with_the_same_result(root, tmp_path):
    settings = replace(TINY, draws=300, thinning=3)
    whole = run("mnist", 0, "fsghmc", settings, root)
    checkpoint = tmp_path / "run.checkpoint"
    program = f"""
from pathlib import Path
from fsgmcmc import data
from fsgmcmc.experiments.images.config import Settings
from fsgmcmc.experiments.images.run import Checkpoint, run
data.images.MD5 = {{}}
checkpoint = Checkpoint(Path({str(checkpoint)!r}), 0.2)
run("mnist", 0, "fsghmc", {settings!r}, Path({str(root)!r}), checkpoint)
"""
    with subprocess.Popen([sys.executable, "-c", program]) as process:
        while process.poll() is None and not 0 < draws_in(checkpoint) < settings.draws:
            time.sleep(0.05)
        os.kill(process.pid, signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL, "the run was over before it could be killed"
    assert 0 < draws_in(checkpoint) < settings.draws
    resumed = run("mnist", 0, "fsghmc", settings, root, Checkpoint(checkpoint))
    assert {name: resumed[name] for name in SCORES} == {name: whole[name] for name in SCORES}
    assert whole["seconds"] > 0
    assert resumed["seconds"] is None


@pytest.mark.parametrize("methods", ["gp", pytest.param("gp,fsgld", marks=pytest.mark.slow)])
def test_the_command_writes_tables_and_runs_nothing_twice(methods, root, tmp_path, monkeypatch):
    monkeypatch.setitem(PRESETS, "quick", TINY)
    options = ["--methods", methods, "--datasets", "mnist", "--seeds", "2", "--data", str(root), "--out", str(tmp_path)]

    def times_of_runs():
        result = CliRunner().invoke(app, ["reproduce", "images", *options])
        assert result.exit_code == 0, result.output
        return {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").glob("*.json")}

    first = times_of_runs()
    assert len(first) == 2 * len(methods.split(","))
    assert times_of_runs() == first
    assert sorted(path.suffix for path in tmp_path.glob("images.*")) == [".csv", ".json", ".md", ".png"]
    assert not list((tmp_path / "runs").glob("*.checkpoint"))
    records = json.loads((tmp_path / "images.json").read_text())["records"]
    assert all(record["warnings"] == [] and record["gp_images"] == 20 for record in records if record["method"] == "gp")
    assert "20 training images of the GP" in (tmp_path / "images.md").read_text()


def draws_in(checkpoint):
    """Draws that a checkpoint holds, 0 where there is none."""
    return _storage.read(checkpoint, "checkpoint")[1]["draws"] if checkpoint.exists() else 0


def record(method, seed, error, auroc, **changes):
    made = dict.fromkeys(report.COLUMNS, 0.5) | {"dataset": "mnist", "method": method, "preset": "quick"}
    bins = {"reliability": [[30, 1], [0.5, 0.9], [0.4, 1.0]], "entropy_known": [4] + 29 * [0]}
    made |= bins | {"seed": seed, "images": 40, "error": error, "auroc_entropy": auroc, "diverged": False}
    return made | {"entropy_foreign": 29 * [0] + [4]} | changes


def test_the_report_pairs_functional_with_parameter_priors(tmp_path):
    records = [record("fsgld", seed, 2.0 + 0.1 * seed, 0.9) for seed in range(3)]
    records += [record("sgld", seed, 3.0 + 0.1 * seed + 0.01 * seed**2, 0.8 + 0.01 * seed) for seed in range(3)]
    document = report.markdown(records, "A note.")
    row = next(line for line in document.splitlines() if "fSGLD − SGLD" in line)
    assert "−1.02 ± 0.01" in row
    assert "| 3 |" in row
    assert "1.89" in document  # the paper's fSGLD
    report.figure(records, tmp_path / "images.png")
    assert (tmp_path / "images.png").stat().st_size > 10_000


def test_the_report_has_a_row_for_the_same_run_with_the_process(tmp_path):
    wider = {"error": 2.5, "auroc_entropy": 0.97, "entropy_foreign": 30 * [1]}
    records = [
        record("fsghmc-context", 0, 2.0, 0.9, process=wider, process_seconds=12.0),
        record("sghmc-exposure", 0, 3.0, 0.8, process=wider, process_seconds=12.0),
        record("gp", 0, 4.0, 0.7),
    ]
    lines = report.markdown(records).splitlines()
    titles = [line.split(" | ")[0].removeprefix("| ") for line in lines if line.startswith("| ")]
    assert titles[1:7] == [
        "---",
        "SGHMC + exposure",
        "SGHMC + exposure + process",
        "fSGHMC + context",
        "fSGHMC + context + process",
        "exact GP",
    ]
    assert any(line.startswith("| fSGHMC + context + process | 2.50 |") and "0.970" in line for line in lines)
    assert any("fSGHMC + context − SGHMC + exposure | 1 | −1.00" in line for line in lines)
    report.write(records, tmp_path, "")
    with (tmp_path / "images.csv").open() as file:
        methods = [row["method"] for row in csv.DictReader(file)]
    assert methods == ["fsghmc-context", "fsghmc-context+process", "sghmc-exposure", "sghmc-exposure+process", "gp"]
    assert len(json.loads((tmp_path / "images.json").read_text())["records"]) == 3


def test_every_row_has_a_title_of_its_own_and_every_run_a_runner():
    assert len({title(name) for name in NAMES}) == len(NAMES)
    assert set(NAMES) == set(RUNNERS)
    assert set(DEFAULT_METHODS) <= set(NAMES)
    assert [title(name) for name in ("gp", "fsghmc-context+process")] == ["exact GP", "fSGHMC + context + process"]


def test_a_diverged_run_is_counted_and_has_no_scores():
    lost = record("sghmc", 0, None, None, diverged=True, warnings=["half the step"]) | dict.fromkeys(SCORES)
    document = report.markdown([lost, record("sghmc", 1, 2.0, 0.9)])
    assert "left out of every mean: 1." in document
    assert "- mnist, seed 0, SGHMC: half the step" in document
    assert "2.00" in document


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--preset", "fast"], "unknown preset fast"),
        (["--datasets", "svhn"], "unknown data set svhn"),
        (["--methods", "adam"], "unknown method adam"),
        (["--data", "nowhere"], "is missing"),
        (["--data", "ROOT", "--preset", "paper"], "needs more than 125 training images"),
        (["--data", "ROOT", "--stream", "--methods", "bbb"], "--stream is for samplers"),
    ],
)
def test_wrong_options_are_refused_before_anything_runs(options, sentence, root, tmp_path):
    options = [str(root) if option == "ROOT" else option for option in options]
    result = CliRunner().invoke(app, ["reproduce", "images", "--out", str(tmp_path / "out"), *options])
    assert result.exit_code == 2
    assert sentence in result.output


def test_an_unknown_field_of_the_settings_is_no_setting():
    with pytest.raises(TypeError):
        settings_for("quick", "mnist", color=3)


def test_the_presets_keep_the_papers_epochs():
    settings = settings_for("paper", "fashion")
    assert (settings.depth, settings.width, settings.batch_size, settings.points) == (18, 64, 125, 40)
    assert settings.steps_of(settings.burn_in, 60_000) == 100 * 480
    assert settings.steps_of(settings.thinning, 60_000) == 10 * 480
    assert settings_for("paper", "fashion", burn_in=1).burn_in == 1
