"""R-hat and effective sample size against autoregressions whose truth is known, and the report's warnings."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.signal import lfilter

from fsgmcmc.diagnostics import diagnose, effective_sample_size, r_hat


def autoregression(correlation, chains=4, draws=2000, quantities=20, seed=0):
    """Stationary AR(1) chains of unit variance; n draws are worth n (1 − ρ) / (1 + ρ) independent ones."""
    innovations = np.random.default_rng(seed).normal(size=(chains, draws, quantities))
    innovations[:, 1:] *= np.sqrt(1 - correlation**2)
    return lfilter([1.0], [1.0, -correlation], innovations, axis=1)


@pytest.mark.parametrize("chains", [1, 4])
@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9])
def test_ess_and_r_hat_of_an_autoregression(correlation, chains):
    """The estimate of one quantity has a relative sd of up to 0.25 (one chain, ρ = 0.9) and a bias of 3%.

    The mean of 20 then lies within 0.2 of the truth except in 1 of about 1000 seeds.
    """
    values = autoregression(correlation, chains)
    truth = chains * 2000 * (1 - correlation) / (1 + correlation)
    assert effective_sample_size(values).mean() == pytest.approx(truth, rel=0.2)
    assert np.median(r_hat(values)) < 1.05


def test_r_hat_sees_shifted_and_widened_chains():
    chains = autoregression(0.0)
    factor = np.array([1, 1, 1, 10])[:, None, None]
    assert r_hat(chains + 3 * np.arange(4)[:, None, None]).min() > 1.5
    assert r_hat(chains * factor).min() > 1.1
    trending = chains[:1] + np.linspace(0, 8, 2000)[:, None]
    assert r_hat(trending).min() > 1.5
    assert effective_sample_size(trending).max() < 50


def test_units_do_not_matter():
    """Small variations on a large mean, which float32 cannot hold."""
    values = autoregression(0.5)
    moved = 1e8 + 1e-2 * values
    np.testing.assert_allclose(r_hat(moved), r_hat(values), rtol=1e-3)
    np.testing.assert_allclose(effective_sample_size(moved), effective_sample_size(values), rtol=1e-3)


def test_constants_and_stuck_chains():
    values = np.full((2, 11, 1, 3), 0.1)
    values[1, :, :, 1] = 7  # two chains, each stuck at its own value
    values[:, :, :, 2] = np.resize([-1, 1], (11, 1))  # two values only
    assert r_hat(values).shape == (1, 3)
    assert r_hat(values)[0, :2].tolist() == [1, np.inf]
    assert r_hat(values)[0, 2] == pytest.approx(1, abs=0.2)
    assert np.isnan(effective_sample_size(values)[0, 0])
    assert effective_sample_size(values)[0, 1] == 0


def test_bad_values_are_named():
    with pytest.raises(ValueError, match=r"got \(4, 3\): keep more draws"):
        r_hat(np.zeros((4, 3)))
    with pytest.raises(ValueError, match="leave out diverged chains"):
        effective_sample_size(np.full((2, 10), np.nan))


def samples(functions, energy=None, positions=None):
    energy = functions[:, :, 0, 0] if energy is None else energy
    return SimpleNamespace(functions=lambda x: functions, energy=energy, positions=positions)


def test_report_of_healthy_chains_is_quiet_and_measures_the_spread():
    functions = 3 * autoregression(0.3).reshape(4, 2000, 10, 2)
    weights = autoregression(0.0, seed=1)
    report = diagnose(samples(functions, positions=weights), np.zeros((10, 1)))
    assert report.warnings == ()
    assert report.spread == pytest.approx(3, rel=0.1)
    assert report.r_hat >= report.r_hat_median
    assert report.ess <= report.ess_median
    assert report.weight_growth == pytest.approx(0, abs=0.05)
    assert "warning" not in str(report)


def test_report_says_what_is_wrong_and_the_remedy():
    chains = autoregression(0.0)
    functions = (chains + 5 * np.arange(4)[:, None, None])[..., None]
    energy = chains[..., 0] - np.linspace(0, 6, 2000)
    weights = np.geomspace(1.0, 2.0, 2000)[None, :, None] * np.ones((4, 1, 10))
    report = diagnose(samples(functions, energy, weights), np.zeros((20, 1)))
    assert report.energy_drift == pytest.approx(-4 / np.sqrt(1 + 2**2 / 12), rel=0.1)
    assert report.weight_growth == pytest.approx(np.log(4) * 2 / 3, rel=1e-2)
    remedies = {
        "r_hat": (report.r_hat, "more chains"),
        "ess": (report.ess, "run longer"),
        "energy_drift": (report.energy_drift, "energy is still falling.*more burn-in"),
        "weight_growth": (report.weight_growth, "grew 2.5-fold.*stronger weight prior"),
    }
    assert [warning.code for warning in report.warnings] == list(remedies)
    for code, value, message in report.warnings:
        assert value == remedies[code][0]
        assert re.search(remedies[code][1], message)
        assert message in str(report)


def test_report_without_weights_or_movement():
    report = diagnose(samples(np.ones((2, 11, 3, 1)), energy=np.zeros((2, 11))), np.zeros((3, 1)))
    assert (report.r_hat, report.ess, report.energy_drift, report.weight_growth) == (1, 0, 0, None)
    assert len(report.warnings) == 1
