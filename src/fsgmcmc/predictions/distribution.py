"""Predictions with any distribution of `scipy.stats`: mixtures over draws, continuous or discrete.

    F(y) = 1/S Σ_s F_s(y),    one frozen distribution F_s with arrays (draws, rows, outputs) for each posterior draw s

A custom likelihood can return it: `DistributionPrediction(functions, scipy.stats.poisson(np.exp(functions)))`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool
from numpy.typing import ArrayLike

from fsgmcmc.predictions._mixture import log_mean
from fsgmcmc.predictions.regression import Outputs, RegressionPrediction, Rows, checked_draws

BISECTIONS = 60
# Nodes of the integral of the CRPS on each side of a target.
CRPS_NODES = 64
# Tail probability that the sum of the CRPS of counts leaves out.
NEGLIGIBLE = 1e-9


@dataclass(frozen=True, eq=False)
class DistributionPrediction(RegressionPrediction):
    """Draws of the function, and the distribution of an observation for each of them.

    Args:
        functions: f, (draws, rows, outputs).
        distribution: A frozen distribution of `scipy.stats` whose parameters broadcast to the shape of `functions`.

    Example:
        >>> import scipy.stats
        >>> rates = np.array([1.0, 3.0]).reshape(2, 1, 1)
        >>> prediction = DistributionPrediction(np.log(rates), scipy.stats.poisson(rates))
        >>> prediction.mean.item(), prediction.quantile(0.5).item(), round(prediction.std.item() ** 2, 6)
        (2.0, 2.0, 3.0)
    """

    functions: np.ndarray
    distribution: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "functions", checked_draws(self.functions, "functions"))
        if not hasattr(self.distribution, "args"):
            raise TypeError(
                f"distribution must be frozen, such as scipy.stats.poisson(rates), not {self.distribution!r}"
            )
        means = np.asarray(self.distribution.mean())
        if np.broadcast_shapes(means.shape, self.functions.shape) != self.functions.shape:
            raise ValueError(f"the distribution has shape {means.shape}, functions have {self.functions.shape}")
        if not np.isfinite(means).all():
            raise ValueError("the mean of the distribution is not finite for some draws: leave out diverged chains")

    @property
    def is_discrete(self) -> bool:
        """Whether observations are counts."""
        return hasattr(self.distribution, "pmf")

    def _each(self, values: ArrayLike) -> np.ndarray:
        return np.broadcast_to(np.asarray(values, dtype=np.float64), self.functions.shape)

    @cached_property
    def mean(self) -> Outputs:  # type: ignore[override]
        """Mean of an observation."""
        return self._each(self.distribution.mean()).mean(axis=0)

    @cached_property
    def epistemic(self) -> Outputs:  # type: ignore[override]
        """Standard deviation over draws of the mean of an observation."""
        return self._each(self.distribution.mean()).std(axis=0)

    @cached_property
    def aleatoric(self) -> Outputs:  # type: ignore[override]
        """Root mean variance of an observation given the function."""
        return np.sqrt(self._each(self.distribution.var()).mean(axis=0))

    def log_prob(self, y: ArrayLike) -> Rows:
        """Log probability (of counts) or log density of each row, joint over outputs."""
        log_density = self.distribution.logpmf if self.is_discrete else self.distribution.logpdf
        return log_mean(self._each(log_density(self.targets(y)[None])))

    def cdf(self, y: ArrayLike) -> Outputs:
        """Predictive probability of an observation at or below `y`, for each output."""
        return self._cdf(self.targets(y))

    def _cdf(self, y: np.ndarray) -> Outputs:
        return self._each(self.distribution.cdf(y[None])).mean(axis=0)

    def covers(self, y: ArrayLike, level: float) -> Bool[np.ndarray, "rows outputs"]:
        """Whether `y` lies in the central interval of probability `level`, its ends included."""
        y = self.targets(y)
        lower, upper = self.interval(level)
        return (lower <= y) & (y <= upper)

    def quantile(self, q: float | Sequence[float]) -> np.ndarray:
        """The smallest y with F(y) ≥ q, by bisection; a sequence of levels gives a leading axis."""
        levels = np.asarray(q, dtype=np.float64)
        if not ((levels > 0) & (levels < 1)).all():
            raise ValueError(f"quantile levels must lie strictly between 0 and 1, got {q}")
        quantiles = [self._quantile(level) for level in levels.flat]
        return np.reshape(quantiles, (*levels.shape, *self.mean.shape))

    def _quantile(self, level: float) -> Outputs:
        # The quantile of a mixture lies between the smallest and the largest quantile of its components.
        of_components = self._each(self.distribution.ppf(level))
        lower, upper = of_components.min(axis=0), of_components.max(axis=0)
        middle: Callable[[np.ndarray, np.ndarray], np.ndarray]
        if self.is_discrete:
            lower = lower - 1  # F(lower) < level from here on
            middle = lambda low, high: np.floor((low + high) / 2)  # noqa: E731
        else:
            middle = lambda low, high: (low + high) / 2  # noqa: E731
        for _ in range(BISECTIONS):
            if self.is_discrete and (upper - lower <= 1).all():
                break
            at = middle(lower, upper)
            enough = self._cdf(at) >= level
            lower, upper = np.where(enough, lower, at), np.where(enough, at, upper)
        return upper

    def crps(self, y: ArrayLike) -> Outputs:
        """Continuous ranked probability score in target units: ∫ (F(t) − 1[t ≥ y])² dt, or a sum over counts."""
        y = self.targets(y)
        if self.is_discrete:
            low = min(float(np.min(self.distribution.ppf(NEGLIGIBLE))), float(y.min()))
            high = max(float(np.max(self.distribution.ppf(1 - NEGLIGIBLE))), float(y.max()))
            counts = np.arange(np.floor(low), np.ceil(high) + 1)
            return sum(np.square(self._cdf(np.full(y.shape, t)) - (t >= y)) for t in counts)
        nodes, weights = np.polynomial.legendre.leggauss(CRPS_NODES)
        nodes, weights = (nodes + 1) / 2, weights / 2
        width = np.sqrt(np.square(self.mean - y) + np.square(self.std))
        total = np.zeros(y.shape)
        for node, weight in zip(nodes, weights, strict=True):
            away = width * node / (1 - node)
            below, above = self._cdf(y - away), 1 - self._cdf(y + away)
            total += weight * width / (1 - node) ** 2 * (below**2 + above**2)
        return total
