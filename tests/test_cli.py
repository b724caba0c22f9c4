"""The command line: what it writes, and how it refuses."""

import pytest
from typer.testing import CliRunner

from fsgmcmc import __version__
from fsgmcmc.cli import app
from fsgmcmc.experiments.extrapolation import config as demo_config
from fsgmcmc.experiments.extrapolation.run import run as run_demo

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
    short = demo_config.Config(
        hidden=(10,),
        burn_in=40,
        iterations=80,
        samples=8,
        adam_steps=20,
        chains=1,
        fit_steps=30,
        function_draws=8,
        functions=4,
    )
    monkeypatch.setattr(demo_config, "PRESETS", {"tuned": short})


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
