"""Predictions of class labels: the mean over draws of softmax(logits)."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy  # submodules are loaded at first use
from jaxtyping import Integer
from numpy.typing import ArrayLike

from fsgmcmc import _checks
from fsgmcmc.predictions._mixture import by_rows, log_mean
from fsgmcmc.predictions.regression import Outputs, Rows, checked_draws


@dataclass(frozen=True, eq=False)
class CategoricalPrediction:
    """Draws of the class logits, (draws, rows, classes); entropies are in nats.

    >>> disagreeing = CategoricalPrediction(np.array([[[0.0, 50.0]], [[50.0, 0.0]]]))
    >>> print(disagreeing.probabilities, disagreeing.entropy.round(3), disagreeing.mutual_information.round(3))
    [[0.5 0.5]] [0.693] [0.693]
    """

    logits: np.ndarray

    def __post_init__(self) -> None:
        object.__setattr__(self, "logits", checked_draws(self.logits, "logits"))

    @cached_property
    def probabilities(self) -> Outputs:
        """Predictive class probabilities, (rows, classes)."""
        return by_rows(lambda logits: scipy.special.softmax(logits, axis=2).mean(axis=0), self.logits)

    @property
    def labels(self) -> Integer[np.ndarray, " rows"]:
        """The most probable class of each row."""
        return self.probabilities.argmax(axis=1)

    @property
    def entropy(self) -> Rows:
        """Total uncertainty, H[1/S Σ_s p_s]."""
        return scipy.special.entr(self.probabilities).sum(axis=1)

    @cached_property
    def expected_entropy(self) -> Rows:
        """Aleatoric part, 1/S Σ_s H[p_s]."""
        return by_rows(
            lambda logits: scipy.special.entr(scipy.special.softmax(logits, axis=2)).sum(axis=2).mean(axis=0),
            self.logits,
        )

    @property
    def mutual_information(self) -> Rows:
        """Epistemic part, entropy − expected entropy: the mutual information of label and function."""
        # Not negative in exact arithmetic (Jensen); rounding can leave −1e−16.
        return np.maximum(self.entropy - self.expected_entropy, 0.0)

    def targets(self, y: ArrayLike) -> Integer[np.ndarray, " rows"]:
        """`y` as integer labels (rows,), checked against this prediction."""
        labels = _checks.labels(y, self.logits.shape[2])
        if len(labels) != self.logits.shape[1]:
            raise ValueError(f"there are {len(labels)} labels for {self.logits.shape[1]} predicted rows")
        return labels

    def log_prob(self, y: ArrayLike) -> Rows:
        """Log of the mean probability of each label."""
        labels = self.targets(y)[None, :, None]
        return by_rows(
            lambda z, k: log_mean(np.take_along_axis(scipy.special.log_softmax(z, 2), k, 2)),
            self.logits,
            labels,
        )
