"""The rows of a fit.

A fit depends on the set of rows and their weights, not on their order: equal rows are merged, their weights summed, and
the rest is put into one order before anything random happens. A weight of 2 is therefore a row seen twice, exactly.
"""

from typing import Any, NamedTuple

import numpy as np

from fsgmcmc.estimators.prior import FittedPrior
from fsgmcmc.likelihoods import Likelihood


class Rows(NamedTuple):
    """Distinct rows in one order, in the units of the data, and how often each counts."""

    x: np.ndarray
    y: np.ndarray
    weights: np.ndarray


class Prepared(NamedTuple):
    """What the targets of some rows give: a prior, a likelihood, and targets in the units of the function.

    Attributes:
        prior: The Gaussian process of the kernel, and others.
        likelihood: Of the standardised targets.
        y: The standardised targets.
        latent: Values of the function with noise, which the processes are given.
        noise: The standard deviation of `latent` beside each process of `prior.beyond`.
        nugget: Of the network's prior.
    """

    prior: FittedPrior
    likelihood: Likelihood
    y: np.ndarray
    latent: np.ndarray
    noise: tuple[Any, ...]
    nugget: float


def distinct_rows(x: np.ndarray, y: np.ndarray, weights: np.ndarray) -> Rows:
    """Each row with a positive weight once.

    >>> distinct_rows(np.array([[1.0], [2.0], [1.0]]), np.array([5.0, 6.0, 5.0]), np.ones(3)).weights.sum().item()
    3.0
    """
    seen = weights > 0
    both, place = np.unique(np.column_stack([x, y])[seen], axis=0, return_inverse=True)
    weights = np.bincount(place.ravel(), weights[seen])
    order = np.random.default_rng(0).permutation(len(both))
    return Rows(both[order, :-1], both[order, -1], weights[order])
