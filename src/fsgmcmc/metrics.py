"""Scores of a prediction on held-out targets, one float each.

Regression scores are in the units of the targets of the prediction (call `rescaled` first for other units);
log densities and entropies are in nats. Lower is better, except for `accuracy`, `auroc`, `aupr` and `coverage`, which
should equal its level.

>>> import numpy as np
>>> from fsgmcmc.predictions import GaussianPrediction
>>> summary(GaussianPrediction(np.zeros((1, 4, 1)), noise=1.0), y=[-1.0, 1.0, -1.0, 1.0])["rmse"]
1.0
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Integer
from numpy.typing import ArrayLike

from fsgmcmc.predictions import CategoricalPrediction, Prediction, RegressionPrediction

RELIABILITY_BINS = 15


def rmse(prediction: RegressionPrediction, y: ArrayLike) -> float:
    """Root mean squared error of the predictive mean, over rows and outputs; target units.

    >>> from fsgmcmc.predictions import MomentPrediction
    >>> rmse(MomentPrediction(np.zeros((2, 1)), np.ones((2, 1)), np.ones((2, 1))), [2.0, -2.0])
    2.0
    """
    return float(np.sqrt(np.mean(np.square(prediction.targets(y) - prediction.mean))))


def nll(prediction: Prediction, y: ArrayLike) -> float:
    """Mean over rows of −log p(y), where p is the mixture over draws; nats per row, joint over outputs.

    >>> from fsgmcmc.predictions import CategoricalPrediction
    >>> round(nll(CategoricalPrediction(np.zeros((5, 1, 2))), [1]), 4)  # log 2
    0.6931
    """
    return float(-np.mean(prediction.log_prob(y)))


def nll_moment(prediction: RegressionPrediction, y: ArrayLike) -> float:
    """Mean over rows of −log p(y), where p is one Gaussian with the predictive mean and std; nats per row.

    Many papers report this score. On average it is not below `nll` if the mixture is the true distribution.

    >>> from fsgmcmc.predictions import GaussianPrediction
    >>> round(nll_moment(GaussianPrediction(np.array([[[-1.0]], [[1.0]]]), noise=1.0), [0.0]), 4)  # log sqrt(2π · 2)
    1.2655
    """
    return float(-np.mean(prediction.log_prob_moment(y)))


def crps(prediction: RegressionPrediction, y: ArrayLike) -> float:
    """Continuous ranked probability score, mean over rows and outputs; target units.

    >>> from fsgmcmc.predictions import GaussianPrediction
    >>> round(crps(GaussianPrediction(np.zeros((1, 1, 1)), noise=1.0), [0.0]), 4)  # (√2 − 1) / √π
    0.2337
    """
    return float(np.mean(prediction.crps(y)))


def coverage(prediction: RegressionPrediction, y: ArrayLike, level: float) -> float:
    """Fraction of targets inside the central interval of probability `level`; it equals `level` if calibrated.

    >>> from fsgmcmc.predictions import GaussianPrediction
    >>> coverage(GaussianPrediction(np.zeros((1, 4, 1)), noise=1.0), [-3.0, -1.0, 1.0, 1.5], level=0.9)
    0.75
    """
    return float(np.mean(prediction.covers(y, level)))


def width(prediction: RegressionPrediction, level: float) -> float:
    """Mean width of the central interval of probability `level`; target units.

    >>> from fsgmcmc.predictions import GaussianPrediction
    >>> round(width(GaussianPrediction(np.zeros((1, 1, 1)), noise=1.0), level=0.9), 3)  # 2 · 1.645
    3.29
    """
    lower, upper = prediction.interval(level)
    return float(np.mean(upper - lower))


def accuracy(prediction: CategoricalPrediction, y: ArrayLike) -> float:
    """Fraction of rows whose most probable class is the label.

    >>> from fsgmcmc.predictions import CategoricalPrediction
    >>> accuracy(CategoricalPrediction(np.array([[[0.0, 1.0], [0.0, 1.0]]])), [1, 0])
    0.5
    """
    return float(np.mean(prediction.labels == prediction.targets(y)))


class Reliability(NamedTuple):
    """Rows binned by the probability of the top label: number of rows, mean probability, and accuracy.

    The last two are NaN for an empty bin.
    """

    rows: Integer[np.ndarray, " bins"]
    confidence: Float[np.ndarray, " bins"]
    accuracy: Float[np.ndarray, " bins"]


def reliability(prediction: CategoricalPrediction, y: ArrayLike, bins: int = RELIABILITY_BINS) -> Reliability:
    """The numbers of a reliability diagram, in `bins` bins of equal width on (0, 1].

    >>> from fsgmcmc.predictions import CategoricalPrediction
    >>> reliability(CategoricalPrediction(np.zeros((1, 4, 2))), [0, 0, 0, 1], bins=2).accuracy[0].item()
    0.75
    """
    top = prediction.probabilities.max(axis=1)
    correct = prediction.labels == prediction.targets(y)
    # Softmax probabilities can be 1 + 1e-16; these rows belong to the last bin.
    bin_of_row = np.clip(np.ceil(top * bins).astype(int) - 1, 0, bins - 1)
    rows, confidence, right = (np.bincount(bin_of_row, weights, bins) for weights in (None, top, correct))
    with np.errstate(invalid="ignore"):
        return Reliability(rows, confidence / rows, right / rows)


def ece(prediction: CategoricalPrediction, y: ArrayLike, bins: int = RELIABILITY_BINS) -> float:
    """Expected calibration error of the top label: Σ_b (n_b / n) |accuracy_b − confidence_b|, bins of `reliability`.

    >>> from fsgmcmc.predictions import CategoricalPrediction
    >>> ece(CategoricalPrediction(np.zeros((1, 4, 2))), [0, 0, 0, 1])  # confidence ½, accuracy ¾
    0.25
    """
    rows, confidence, right = reliability(prediction, y, bins)
    return float(np.nansum(rows * np.abs(right - confidence)) / rows.sum())


def brier(prediction: CategoricalPrediction, y: ArrayLike) -> float:
    """Brier score: Σ_c (p_c − 1[y = c])², mean over rows; 0 to 2.

    >>> from fsgmcmc.predictions import CategoricalPrediction
    >>> brier(CategoricalPrediction(np.zeros((1, 1, 2))), [0])
    0.5
    """
    truth = np.eye(prediction.probabilities.shape[1])[prediction.targets(y)]
    return float(np.mean(np.square(prediction.probabilities - truth).sum(axis=1)))


def auroc(scores_in: ArrayLike, scores_out: ArrayLike) -> float:
    """Probability that an out-of-distribution (OOD) point scores above an in-distribution point; ties count half.

    Scores are uncertainties (`epistemic`, `entropy`, ...): `scores_in` of in-distribution points, `scores_out` of OOD
    points.

    >>> auroc(scores_in=[0.1, 0.2], scores_out=[0.2, 0.3])
    0.875
    """
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(*_labelled(scores_in, scores_out)))


def aupr(scores_in: ArrayLike, scores_out: ArrayLike) -> float:
    """Area under the precision-recall curve of OOD points (average precision); scores as in `auroc`.

    The value of a random score is the share of OOD points.

    >>> aupr(scores_in=[0.1, 0.25], scores_out=[0.2, 0.3])
    0.8333333333333333
    """
    from sklearn.metrics import average_precision_score

    return float(average_precision_score(*_labelled(scores_in, scores_out)))


def _labelled(scores_in: ArrayLike, scores_out: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Labels of all points, 1 for OOD points, and their scores."""
    inside, outside = np.ravel(scores_in), np.ravel(scores_out)
    if not (inside.size and outside.size):
        raise ValueError(
            f"OOD detection needs both scores_in and scores_out, got {inside.size} and {outside.size} scores"
        )
    return np.repeat([0, 1], [inside.size, outside.size]), np.concatenate([inside, outside])


def summary(prediction: Prediction, y: ArrayLike) -> dict[str, float]:
    """All scores by name, for regression or for classification.

    >>> from fsgmcmc.predictions import CategoricalPrediction
    >>> sorted(summary(CategoricalPrediction(np.zeros((1, 2, 2))), [0, 1]))
    ['accuracy', 'brier', 'ece', 'nll']
    """
    if isinstance(prediction, CategoricalPrediction):
        return {score.__name__: score(prediction, y) for score in (accuracy, nll, ece, brier)}
    return {
        "rmse": rmse(prediction, y),
        "nll": nll(prediction, y),
        "nll_moment": nll_moment(prediction, y),
        "crps": crps(prediction, y),
        "coverage_50": coverage(prediction, y, 0.5),
        "coverage_90": coverage(prediction, y, 0.9),
        "coverage_95": coverage(prediction, y, 0.95),
        "width_90": width(prediction, 0.9),
    }
