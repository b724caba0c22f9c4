"""The command line: what it writes, and how it refuses."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from fsgmcmc import __version__
from fsgmcmc.cli import app
from fsgmcmc.experiments import extrapolation

FIELDS = {
    "method",
    "rmse_truth_observed",
    "rmse_gp_observed",
    "rmse_gp_gap",
    "std_observed",
    "std_gap",
    "std_outer",
    "nll",
    "r_hat",
    "ess",
    "iterations",
    "seconds",
    "microseconds_per_iteration",
}


@pytest.fixture
def short_demo(monkeypatch):
    """The demo with a small network and few steps."""
    config = extrapolation.Config
    monkeypatch.setattr(
        extrapolation,
        "Config",
        lambda **options: config(
            hidden=(10,),
            burn_in=40,
            iterations=80,
            samples=8,
            adam_steps=20,
            fit_steps=30,
            function_draws=8,
            functions=4,
            **options,
        ),
    )


@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.parametrize("methods", ["fsghmc,fbnn", pytest.param("all", marks=pytest.mark.slow)])
def test_demo_writes_records_and_a_figure(methods, short_demo, tmp_path):
    result = CliRunner().invoke(app, ["demo", "--methods", methods, "--out", str(tmp_path / "new" / "folder")])
    assert result.exit_code == 0, result.output
    document = json.loads((tmp_path / "new" / "folder" / "extrapolation.json").read_text())
    played = extrapolation.METHODS if methods == "all" else methods.split(",")
    assert [record["method"] for record in document["records"]] == [*played, "gp"]
    for record in document["records"]:
        assert record.keys() >= FIELDS
        numbers = [value for name, value in record.items() if name != "method" and value is not None]
        assert np.isfinite(numbers).all()
    for record in document["records"][:-1]:
        assert record["iterations"] == (120 if record["method"] in extrapolation.SAMPLERS else 30)
    gp = document["records"][-1]
    assert gp["rmse_gp_observed"] == gp["rmse_gp_gap"] == 0
    assert document["config"]["seed"] == 3
    assert (tmp_path / "new" / "folder" / "extrapolation.png").read_bytes()[:4] == b"\x89PNG"
    assert "fSGHMC" in result.output


def test_the_demo_runs_the_methods_that_are_named(short_demo, tmp_path):
    result = CliRunner().invoke(app, ["demo", "--methods", "bbb,sgld", "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    records = json.loads((tmp_path / "extrapolation.json").read_text())["records"]
    assert [record["method"] for record in records] == ["bbb", "sgld", "gp"]
    result = CliRunner().invoke(app, ["demo", "--methods", "vi", "--out", str(tmp_path)])
    assert result.exit_code == 2
    assert "unknown method vi" in result.output


def test_a_folder_that_cannot_be_written_is_told_at_once(tmp_path):
    (tmp_path / "file").write_text("")
    result = CliRunner().invoke(app, ["demo", "--out", str(tmp_path / "file")])
    assert result.exit_code == 2
    assert "cannot write to" in result.output


def test_version():
    assert CliRunner().invoke(app, ["--version"]).output.strip() == __version__


@pytest.mark.slow
def test_functional_samplers_follow_the_exact_posterior_in_the_full_demo():
    """The claims of the README: about a minute, and no statistical tolerance tighter than one chain allows."""
    records = {
        r["method"]: r
        for r in extrapolation.run(extrapolation.Config(), methods=("fsgld", "fsghmc"), progress=False).records
    }
    for method in ("fsgld", "fsghmc"):
        record = records[method]
        assert record["rmse_gp_observed"] < 0.25
        assert record["std_gap"] > 1.3 * record["std_observed"]
        assert record["std_outer"] > 1.3 * record["std_observed"]
