"""The command line: what it writes, and how it refuses."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import fsgmcmc
from fsgmcmc import __version__
from fsgmcmc.cli import app
from fsgmcmc.experiments.extrapolation import config as demo_config
from fsgmcmc.experiments.extrapolation.run import run as run_demo
from fsgmcmc.methods import METHODS, SAMPLERS, title_of

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
    config = demo_config.Config
    monkeypatch.setattr(
        demo_config,
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


@pytest.mark.parametrize("methods", ["sgld", pytest.param("all", marks=pytest.mark.slow)])
def test_demo_writes_records_and_a_figure(methods, short_demo, tmp_path):
    result = CliRunner().invoke(app, ["demo", "--methods", methods, "--out", str(tmp_path / "new" / "folder")])
    assert result.exit_code == 0, result.output
    document = json.loads((tmp_path / "new" / "folder" / "extrapolation.json").read_text())
    played = demo_config.METHODS if methods == "all" else methods.split(",")
    assert [record["method"] for record in document["records"]] == [*played, "gp"]
    for record in document["records"]:
        assert record.keys() >= FIELDS
        numbers = [value for name, value in record.items() if name != "method" and value is not None]
        assert np.isfinite(numbers).all()
    for record in document["records"][:-1]:
        assert record["iterations"] == (120 if record["method"] in SAMPLERS else 30)
    gp = document["records"][-1]
    assert gp["rmse_gp_observed"] == gp["rmse_gp_gap"] == 0
    assert document["config"]["seed"] == 3
    assert (tmp_path / "new" / "folder" / "extrapolation.png").read_bytes()[:4] == b"\x89PNG"
    assert "SGLD" in result.output


@pytest.mark.slow
def test_the_demo_runs_the_methods_that_are_named(short_demo, tmp_path):
    result = CliRunner().invoke(app, ["demo", "--methods", "bbb,sgld", "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    records = json.loads((tmp_path / "extrapolation.json").read_text())["records"]
    assert [record["method"] for record in records] == ["bbb", "sgld", "gp"]
    result = CliRunner().invoke(app, ["demo", "--methods", "vi", "--out", str(tmp_path)])
    assert result.exit_code == 2
    assert "unknown method vi" in result.output


def test_a_folder_that_cannot_be_written_is_refused_at_once(tmp_path):
    (tmp_path / "file").write_text("")
    result = CliRunner().invoke(app, ["demo", "--out", str(tmp_path / "file")])
    assert result.exit_code == 2
    assert "cannot write to" in result.output


@pytest.mark.parametrize("command", [["demo"], ["reproduce", "uci"], ["reproduce", "images"]])
def test_the_help_lists_the_methods_of_the_registry(command):
    result = CliRunner().invoke(app, [*command, "--help"], env={"COLUMNS": "500"})
    listed = result.output.split("or all: ")[1].split(". Default")[0].split(", ")
    baselines = {"demo": set(), "uci": {"gp", "map-ensemble"}, "images": {"gp"}}[command[-1]]
    assert set(listed) == {name for name, method in METHODS.items() if method.kind != "baseline"} | baselines


def test_the_order_and_the_titles_of_the_demo():
    titles = [title_of(method) for method in demo_config.METHODS]
    assert titles == ["fSGLD", "fSGHMC", "FBNN", "SGLD", "SGHMC", "IFBNN", "BBB"]


def test_the_benchmark_needs_a_source_checkout(tmp_path, monkeypatch):
    monkeypatch.setattr(fsgmcmc, "__file__", str(tmp_path / "lib" / "site-packages" / "fsgmcmc" / "__init__.py"))
    result = CliRunner().invoke(app, ["bench", "--out", str(tmp_path / "bench.json")])
    assert result.exit_code == 2
    assert "needs a source checkout" in result.output
    assert len(result.output.splitlines()) == 1


def test_version():
    assert CliRunner().invoke(app, ["--version"]).output.strip() == __version__


@pytest.mark.slow
def test_functional_samplers_follow_the_exact_posterior_in_the_full_demo():
    """The claims of the README: about a minute, and no statistical tolerance tighter than one chain allows."""
    records = {
        r["method"]: r for r in run_demo(demo_config.Config(), methods=("fsgld", "fsghmc"), progress=False).records
    }
    for method in ("fsgld", "fsghmc"):
        record = records[method]
        assert record["rmse_gp_observed"] < 0.25
        assert record["std_gap"] > 1.3 * record["std_observed"]
        assert record["std_outer"] > 1.3 * record["std_observed"]
