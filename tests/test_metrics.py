"""Laws of the scores."""

import numpy as np
import pytest

from fsgmcmc import metrics
from fsgmcmc.predictions import CategoricalPrediction, GaussianPrediction


def truth_and_targets(rows=4000, seed=0):
    """A mixture of 20 draws for each row, and one observation of each row drawn from that very mixture."""
    rng = np.random.default_rng(seed)
    functions = rng.normal(size=(20, rows, 1))
    noise = np.exp(0.5 * rng.normal(size=(20, 1, 1)))
    which = rng.integers(20, size=rows)
    y = functions[which, np.arange(rows), 0] + noise[which, 0, 0] * rng.normal(size=rows)
    return GaussianPrediction(functions, noise), y


def test_the_true_model_covers_at_the_nominal_level():
    """Three binomial counts within 4 standard deviations: a false alarm in less than 2e-4 of seeds."""
    prediction, y = truth_and_targets()
    for level in (0.5, 0.9, 0.95):
        tolerance = 4 * np.sqrt(level * (1 - level) / y.size)
        assert abs(metrics.coverage(prediction, y, level) - level) < tolerance


def test_coverage_counts_targets_inside_the_interval():
    prediction, y = truth_and_targets(rows=300)
    lower, upper = prediction.interval(0.8)
    inside = np.mean((lower[:, 0] <= y) & (y <= upper[:, 0]))
    assert metrics.coverage(prediction, y, 0.8) == inside
    np.testing.assert_allclose(metrics.width(prediction, 0.8), np.mean(upper - lower))


def test_proper_scores_prefer_the_truth():
    """Each paired difference of scores is positive by more than 4 standard errors at this seed."""
    prediction, y = truth_and_targets()
    other = GaussianPrediction(0.5 + prediction.functions, 1.5 * prediction.noise)
    for gap in (prediction.log_prob(y) - other.log_prob(y), other.crps(y)[:, 0] - prediction.crps(y)[:, 0]):
        assert gap.mean() > 4 * gap.std() / np.sqrt(gap.size)
    assert metrics.nll(prediction, y) < metrics.nll_moment(prediction, y)


def test_ece_vanishes_for_calibrated_labels_and_measures_overconfidence():
    """Labels drawn from the probabilities themselves: ECE falls like sqrt(bins / rows), here about 0.003."""
    rng = np.random.default_rng(1)
    logits = 2 * rng.normal(size=(1, 100_000, 3))
    calibrated = CategoricalPrediction(logits)
    labels = (rng.random(100_000)[:, None] > calibrated.probabilities.cumsum(axis=1)[:, :2]).sum(axis=1)
    assert metrics.ece(calibrated, labels) < 0.01
    certain = CategoricalPrediction(1000 * logits)
    np.testing.assert_allclose(metrics.ece(certain, labels), 1 - metrics.accuracy(certain, labels), atol=1e-2)
    assert metrics.nll(calibrated, labels) < metrics.nll(CategoricalPrediction(2 * logits), labels)


def test_brier_of_certainty_is_zero_or_two():
    prediction = CategoricalPrediction(np.array([[[900.0, 0.0, 0.0], [900.0, 0.0, 0.0]]]))
    assert metrics.brier(prediction, [0, 0]) == 0
    assert metrics.brier(prediction, [1, 2]) == 2


def test_auroc_is_a_probability_of_order_with_ties_counting_half():
    rng = np.random.default_rng(2)
    low, high = rng.integers(0, 8, size=40), rng.integers(3, 12, size=(5, 6))
    pairs = (high.reshape(-1, 1) > low) + 0.5 * (high.reshape(-1, 1) == low)
    np.testing.assert_allclose(metrics.auroc(low, high), pairs.mean())
    assert metrics.auroc([0, 1], [2, 3]) == 1
    assert metrics.auroc([2, 3], [0, 1]) == 0
    assert metrics.auroc(low, low) == pytest.approx(0.5)
    with pytest.raises(ValueError, match="got 0 and 2 scores"):
        metrics.auroc([], [1, 2])


def test_summary_scales_with_the_units():
    prediction, y = truth_and_targets(rows=200)
    here = metrics.summary(prediction, y)
    there = metrics.summary(prediction.rescaled(5.0, 10.0), 5 + 10 * y)
    for name, value in here.items():
        if name.startswith("nll"):
            assert there[name] == pytest.approx(value + np.log(10))
        elif name.startswith("coverage"):
            assert there[name] == value
        else:
            assert there[name] == pytest.approx(10 * value)
    assert here["rmse"] == pytest.approx(np.sqrt(np.mean((y - prediction.mean[:, 0]) ** 2)))
