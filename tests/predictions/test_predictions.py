"""Laws of predictive distributions, against SciPy, numerical integration and Monte Carlo."""

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.special import logsumexp

from fsgmcmc.predictions import CategoricalPrediction, GaussianPrediction, MomentPrediction, _mixture


def mixture(draws=7, rows=5, outputs=2, seed=0):
    """A mixture with wide gaps, unequal noise for each draw, row and output, and targets around it."""
    rng = np.random.default_rng(seed)
    functions = 3 * rng.normal(size=(draws, rows, outputs))
    noise = np.exp(rng.normal(size=functions.shape))
    return GaussianPrediction(functions, noise), 2 * rng.normal(size=(rows, outputs))


def one_gaussian():
    rng = np.random.default_rng(1)
    mean, noise = rng.normal(size=(6, 2)), np.exp(rng.normal(size=(6, 2)))
    return GaussianPrediction(mean[None], noise), MomentPrediction(mean, 0 * mean, noise)


LEVELS = [1e-6, 0.05, 0.5, 0.95, 1 - 1e-6]


def test_quantiles_invert_the_cdf_and_rise_with_the_level():
    prediction, _ = mixture(draws=40, rows=30)
    quantiles = prediction.quantile(LEVELS)
    for level, quantile in zip(LEVELS, quantiles, strict=True):
        np.testing.assert_allclose(prediction.cdf(quantile), level, rtol=1e-6)
        np.testing.assert_array_equal(prediction.quantile(level), quantile)
    assert (np.diff(quantiles, axis=0) > 0).all()
    lower, upper = prediction.interval(0.9)
    np.testing.assert_array_equal([lower, upper], quantiles[[1, 3]])


def test_quantiles_survive_components_far_apart():
    heavy_tails = 30 * np.random.default_rng(0).standard_t(3, size=(300, 100, 1))
    prediction = GaussianPrediction(heavy_tails, np.exp(np.random.default_rng(1).normal(size=(300, 1, 1))))
    for level in (0.05, 0.5):
        np.testing.assert_allclose(prediction.cdf(prediction.quantile(level)), level, rtol=1e-6)
    prediction = GaussianPrediction(np.array([-1e6, 1e6, 1e6]).reshape(3, 1, 1), noise=1e-3)
    np.testing.assert_allclose(prediction.quantile([1 / 6, 2 / 3]).ravel(), [-1e6, 1e6], rtol=1e-8)
    assert -1e6 < prediction.quantile(1 / 3).item() < 1e6


def test_log_density_is_that_of_a_mixture_of_products():
    prediction, y = mixture()
    by_hand = stats.norm.logpdf(y, prediction.functions, prediction.noise).sum(axis=2)
    np.testing.assert_allclose(prediction.log_prob(y), logsumexp(by_hand, axis=0) - np.log(7))
    moments = stats.norm.logpdf(y, prediction.mean, prediction.std).sum(axis=1)
    np.testing.assert_allclose(prediction.log_prob_moment(y), moments)
    assert np.isfinite(prediction.log_prob(y + 1e4)).all()


def test_moments_are_those_of_the_predictive_law():
    prediction, _ = mixture(rows=1, outputs=1)

    def moment(power):
        def integrand(y):
            return (y - prediction.mean.item()) ** power * np.exp(prediction.log_prob([y]).item())

        return quad(integrand, -50, 50, points=prediction.functions.ravel(), limit=200)[0]

    np.testing.assert_allclose([moment(0), moment(1), moment(2)], [1, 0, prediction.std.item() ** 2], atol=1e-6)
    np.testing.assert_allclose(prediction.epistemic, prediction.functions.std(axis=0))


def test_crps_is_the_integrated_squared_difference_of_cdfs():
    prediction, y = mixture(rows=1, outputs=1)

    def integrand(t):
        return (prediction.cdf([t]).item() - (t >= y.item())) ** 2

    integral = quad(integrand, -60, y.item(), limit=200)[0] + quad(integrand, y.item(), 60, limit=200)[0]
    np.testing.assert_allclose(prediction.crps(y).item(), integral, rtol=1e-6)


def test_crps_agrees_with_monte_carlo():
    """Within 5 standard errors in each of 10 cells: a false alarm in less than 1e-5 of seeds."""
    prediction, y = mixture()
    rng, size = np.random.default_rng(2), 200_000
    which = rng.integers(7, size=(2, size))
    x, other = prediction.functions[which] + prediction.noise[which] * rng.normal(size=(2, size, 5, 2))
    terms = np.abs(x - y) - 0.5 * np.abs(x - other)
    assert (np.abs(terms.mean(axis=0) - prediction.crps(y)) < 5 * terms.std(axis=0) / np.sqrt(size)).all()


def test_one_component_is_one_gaussian():
    draws, moments = one_gaussian()
    y = np.random.default_rng(3).normal(size=(6, 2))
    for name in ("cdf", "log_prob", "log_prob_moment", "crps"):
        np.testing.assert_allclose(getattr(draws, name)(y), getattr(moments, name)(y))
    exact = stats.norm.ppf(np.reshape(LEVELS, (5, 1, 1)), moments.mean, moments.std)
    np.testing.assert_allclose(draws.quantile(LEVELS), exact, rtol=1e-9)
    np.testing.assert_allclose(draws.log_prob(y), moments.log_prob_moment(y))


@pytest.mark.parametrize("prediction", [mixture(rows=6)[0], one_gaussian()[1]], ids=["draws", "moments"])
def test_rescaling_changes_units_and_nothing_else(prediction):
    y = np.random.default_rng(4).normal(size=(6, 2))
    shift, scale = np.array([100.0, -3.0]), np.array([20.0, 0.5])
    other, there = prediction.rescaled(shift, scale), shift + scale * y
    np.testing.assert_allclose(other.log_prob(there), prediction.log_prob(y) - np.log(scale).sum())
    np.testing.assert_allclose(other.crps(there), scale * prediction.crps(y))
    np.testing.assert_allclose(other.cdf(there), prediction.cdf(y))
    np.testing.assert_allclose(other.quantile(0.3), shift + scale * prediction.quantile(0.3), rtol=1e-6)
    np.testing.assert_allclose(other.std, scale * prediction.std)


def everything(regression, y, classes, labels):
    r, c = regression, classes
    yield from (r.epistemic, r.aleatoric, r.cdf(y), r.quantile([0.1, 0.7]), r.log_prob(y), r.crps(y))
    yield from (c.probabilities, c.expected_entropy, c.log_prob(labels))


def test_blocks_of_rows_change_nothing(monkeypatch):
    labels = np.arange(23) % 3

    def compute():
        regression, y = mixture(rows=23)
        logits = np.random.default_rng(5).normal(size=(4, 23, 3)).astype(np.float32)
        return list(everything(regression, y, CategoricalPrediction(logits), labels))

    whole = compute()
    monkeypatch.setattr(_mixture, "BLOCK_NUMBERS", 7 * 2 * 5)
    for blocked, unblocked in zip(compute(), whole, strict=True):
        np.testing.assert_allclose(blocked, unblocked, rtol=1e-7)


def test_noise_broadcasts_and_float32_draws_are_scored_in_float64():
    functions = np.random.default_rng(6).normal(size=(3, 4, 1)).astype(np.float32)
    y = np.zeros(4)
    for noise in (np.array([1.0, 2.0, 3.0]).reshape(3, 1, 1), np.arange(1.0, 5).reshape(1, 4, 1), 2.0):
        full = GaussianPrediction(functions.astype(np.float64), np.broadcast_to(noise, (3, 4, 1)))
        broadcast = GaussianPrediction(functions, noise)
        for name in ("crps", "log_prob", "cdf", "log_prob_moment"):
            np.testing.assert_allclose(getattr(broadcast, name)(y), getattr(full, name)(y), rtol=1e-14)


def test_entropy_splits_into_noise_and_disagreement():
    rng = np.random.default_rng(7)
    logits = 4 * rng.normal(size=(6, 50, 3))
    prediction = CategoricalPrediction(logits)
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=2, keepdims=True)
    divergence = stats.entropy(probabilities, probabilities.mean(axis=0)[None], axis=2).mean(axis=0)
    np.testing.assert_allclose(prediction.mutual_information, divergence)
    np.testing.assert_allclose(prediction.entropy, prediction.expected_entropy + divergence)
    agreeing = CategoricalPrediction(np.repeat(logits[:1], 5, axis=0))
    np.testing.assert_allclose(agreeing.mutual_information, 0, atol=1e-12)


def test_class_log_probability_is_that_of_the_mean_and_does_not_underflow():
    logits = np.random.default_rng(8).normal(size=(5, 9, 4))
    prediction, labels = CategoricalPrediction(logits), np.arange(9) % 4
    np.testing.assert_allclose(prediction.log_prob(labels), np.log(prediction.probabilities[np.arange(9), labels]))
    np.testing.assert_array_equal(prediction.labels, prediction.probabilities.argmax(axis=1))
    assert CategoricalPrediction(np.array([[[0.0, 2000.0]]])).log_prob([0]).item() == -2000


@pytest.mark.parametrize("name", ["aleatoric", "std", "quantile", "log_prob", "crps", "cdf", "log_prob_moment"])
def test_unknown_noise_names_the_remedy(name):
    prediction = GaussianPrediction(np.ones((3, 2, 1)), None)
    assert prediction.mean.tolist() == [[1], [1]]
    assert prediction.rescaled(0.0, 2.0).noise is None
    ask = {"aleatoric": lambda: prediction.aleatoric, "std": lambda: prediction.std}
    ask["quantile"] = lambda: prediction.quantile(0.5)
    with pytest.raises(ValueError, match="pass noise= to predict"):
        ask.get(name, lambda: getattr(prediction, name)(np.ones(2)))()


def test_bad_input_is_named():
    prediction, y = mixture()
    classes, zero = CategoricalPrediction(np.zeros((1, 3, 2))), np.zeros((1, 1))
    for message, call in {
        r"targets \(4, 2\) do not match predictions \(5, 2\)": lambda: prediction.log_prob(y[:4]),
        r"targets \(5,\) do not match": lambda: prediction.crps(y[:, 0]),
        "NaN": lambda: prediction.cdf(np.where(y > 0, y, np.nan)),
        "strictly between 0 and 1": lambda: prediction.quantile(1.0),
        "noise is a standard deviation": lambda: GaussianPrediction(np.zeros((2, 3, 1)), 0.0),
        r"\(4,1,1\)": lambda: GaussianPrediction(np.zeros((2, 3, 1)), np.ones((4, 1, 1))),
        "leave out diverged chains": lambda: GaussianPrediction(np.full((2, 3, 1), np.inf), 1.0),
        r"got shape \(2, 3\)": lambda: GaussianPrediction(np.zeros((2, 3)), 1.0),
        "std positive": lambda: MomentPrediction(zero, zero, zero),
        "not negative": lambda: MomentPrediction(zero, zero + 1, zero + 1).rescaled(0.0, -1.0),
        r"must be \(rows, outputs\)": lambda: MomentPrediction(zero[0], zero[0], zero[0]),
        "labels must be whole numbers from 0 to 1": lambda: classes.log_prob([0.0, 0.5, 1.0]),
        "there are 2 labels for 3 predicted rows": lambda: classes.log_prob([0, 1]),
        "label -1 is outside": lambda: classes.log_prob([-1, 0, 2]),
    }.items():
        with pytest.raises(ValueError, match=message):
            call()
