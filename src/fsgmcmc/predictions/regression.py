"""Predictions of real targets.

For each row and output a prediction is an equally weighted mixture,

    p(y) = 1/S Σ_s p((y − f_s) / σ_s) / σ_s,

one component for each posterior draw f_s of the function with its observation noise σ_s. The distribution p is Gaussian
here and Student's t in `student_t`. A method that gives two moments instead of draws (an exact Gaussian process) is
the case S = 1. Everything is computed on the host in float64, one block of rows at a time.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import ArrayLike

from fsgmcmc.predictions import _mixture
from fsgmcmc.predictions._mixture import by_rows

Draws = Float[np.ndarray, "draws rows outputs"]
Outputs = Float[np.ndarray, "rows outputs"]
Rows = Float[np.ndarray, " rows"]
# Means, scales and other parameters of the mixture's components.
Components = tuple[Draws, ...]


class RegressionPrediction:
    """The predictive distribution of real targets; `GaussianPrediction` and `MomentPrediction` are common subclasses.

    Unless noted otherwise, shapes are (rows, outputs) and units are those of the targets. `mean` is the mean of an
    observation, `epistemic` the standard deviation of the function over draws, `aleatoric` the root mean noise
    variance.
    """

    mean: Outputs
    epistemic: Outputs
    aleatoric: Outputs

    @property
    def _distribution(self) -> _mixture.NoiseDistribution:
        return _mixture.NORMAL

    @property
    def _components(self) -> Components:
        raise TypeError(f"{type(self).__name__} must define _components")

    @property
    def std(self) -> Outputs:
        """Standard deviation of an observation, sqrt(epistemic² + aleatoric²)."""
        return np.hypot(self.epistemic, self.aleatoric)

    def targets(self, y: ArrayLike) -> Outputs:
        """`y` as (rows, outputs), checked against this prediction; (rows,) is allowed for one output."""
        y = np.asarray(y, dtype=np.float64)
        if self.mean.shape not in (y.shape, (*y.shape, 1)):
            raise ValueError(f"targets {y.shape} do not match predictions {self.mean.shape}, (rows, outputs)")
        if not np.isfinite(y).all():
            raise ValueError("targets have NaN or infinite values: remove those rows before scoring")
        return y.reshape(self.mean.shape)

    def cdf(self, y: ArrayLike) -> Outputs:
        """Predictive probability of an observation below `y`, for each output."""
        return by_rows(partial(_mixture.cdf, self._distribution), *self._components, self.targets(y)[None])

    def covers(self, y: ArrayLike, level: float) -> Bool[np.ndarray, "rows outputs"]:
        """Whether `y` lies in the central interval of probability `level`."""
        # y lies between two quantiles exactly if F(y) lies between their levels, so no quantile is computed.
        return np.abs(self.cdf(y) - 0.5) <= level / 2

    def quantile(self, q: float | Sequence[float]) -> np.ndarray:
        """The value at which the predictive cdf equals `q`; a sequence of levels gives a leading axis."""
        levels = np.asarray(q, dtype=np.float64)
        if not ((levels > 0) & (levels < 1)).all():
            raise ValueError(f"quantile levels must lie strictly between 0 and 1, got {q}")
        quantiles = [
            by_rows(partial(_mixture.quantile, self._distribution, level), *self._components) for level in levels.flat
        ]
        return np.reshape(quantiles, (*levels.shape, *self.mean.shape))

    def interval(self, coverage: float) -> tuple[Outputs, Outputs]:
        """Lower and upper end of the central interval with predictive probability `coverage`."""
        lower, upper = self.quantile([(1 - coverage) / 2, (1 + coverage) / 2])
        return lower, upper

    def log_prob(self, y: ArrayLike) -> Rows:
        """Log density of each row, joint over outputs: log 1/S Σ_s Π_o p((y_o − f_so) / σ_so) / σ_so."""
        return by_rows(partial(_mixture.log_density, self._distribution), *self._components, self.targets(y)[None])

    def log_prob_moment(self, y: ArrayLike) -> Rows:
        """Log density of each row under one Gaussian per output with the predictive mean and std."""
        return MomentPrediction(self.mean, self.epistemic, self.aleatoric).log_prob(y)

    def crps(self, y: ArrayLike) -> Outputs:
        """Continuous ranked probability score in target units, lower is better.

            CRPS = ∫ (F(t) − 1[t ≥ y])² dt = E|X − y| − ½ E|X − X'|

        with X, X' independent draws of the predictive distribution (Grimit et al. 2006): S²/2 terms per row.
        """
        return by_rows(_mixture.gaussian_crps, *self._components, self.targets(y)[None])


@dataclass(frozen=True, eq=False)
class GaussianPrediction(RegressionPrediction):
    """Draws of the function and Gaussian observation noise.

    `functions` is (draws, rows, outputs); `noise`, a standard deviation, broadcasts against it: (draws, 1, 1) if it is
    sampled, (1, rows, 1) if it is known for each row. None is unknown noise: then only `mean` and `epistemic` exist.
    `spread` is the standard deviation of a Gaussian error of each function value, which counts as epistemic.

    >>> prediction = GaussianPrediction(np.array([[[-3.0]], [[3.0]]]), noise=4.0)
    >>> prediction.mean.item(), prediction.epistemic.item(), prediction.std.item()
    (0.0, 3.0, 5.0)
    >>> print(prediction.quantile([0.05, 0.95]).round(2).ravel(), prediction.log_prob([1.0]).round(2))
    [-8.19  8.19] [-2.6]
    """

    functions: np.ndarray
    noise: np.ndarray | float | None
    spread: np.ndarray | float = field(default=0.0, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "functions", checked_draws(self.functions, "functions"))
        np.broadcast_to(self.spread, self.functions.shape)
        if self.noise is not None:
            noise = np.broadcast_to(self.noise, self.functions.shape)
            object.__setattr__(self, "noise", np.asarray(self.noise, dtype=np.float64))
            if not ((noise > 0) & np.isfinite(noise)).all():
                raise ValueError("noise is a standard deviation and must be positive and finite")

    @property
    def _noise_components(self) -> Components:
        """The components without the spread."""
        if self.noise is None:
            raise ValueError("the observation noise at these points is unknown: pass noise= to predict")
        return self.functions, np.broadcast_to(self.noise, self.functions.shape)

    @cached_property
    def _components(self) -> Components:
        functions, noise = self._noise_components
        return functions, np.hypot(noise, self.spread) if np.any(self.spread) else noise

    @cached_property
    def mean(self) -> Outputs:  # type: ignore[override]
        """Mean of the function over draws, which is also the mean of an observation."""
        return self.functions.mean(axis=0, dtype=np.float64)

    @cached_property
    def epistemic(self) -> Outputs:  # type: ignore[override]
        """Standard deviation of the function over draws, the spread of each draw included."""
        spread = np.broadcast_to(self.spread, self.functions.shape)
        return by_rows(lambda f, s: np.sqrt(f.var(axis=0) + np.square(s).mean(axis=0)), self.functions, spread)

    @cached_property
    def aleatoric(self) -> Outputs:  # type: ignore[override]
        """Root mean variance of the observation noise."""
        return by_rows(partial(_mixture.noise_std, self._distribution), *self._noise_components)

    def rescaled(self, shift: np.ndarray | float, scale: np.ndarray | float) -> "GaussianPrediction":
        """The prediction of shift + scale · y; shift and scale are one number, or one number per output."""
        noise = None if self.noise is None else scale * self.noise
        functions = shift + scale * self.functions.astype(np.float64)
        return GaussianPrediction(functions, noise, spread=scale * self.spread)


@dataclass(frozen=True, eq=False)
class MomentPrediction(RegressionPrediction):
    """One Gaussian for each row and output, all three fields (rows, outputs).

    >>> prediction = MomentPrediction(np.zeros((1, 1)), np.full((1, 1), 3.0), np.full((1, 1), 4.0))
    >>> prediction.std.item(), round(prediction.quantile(0.975).item(), 2)
    (5.0, 9.8)
    """

    mean: np.ndarray
    epistemic: np.ndarray
    aleatoric: np.ndarray

    def __post_init__(self) -> None:
        for name in ("mean", "epistemic", "aleatoric"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), dtype=np.float64))
        shapes = [self.mean.shape, self.epistemic.shape, self.aleatoric.shape]
        if self.mean.ndim != 2 or len(set(shapes)) > 1:
            raise ValueError(f"mean, epistemic and aleatoric must be (rows, outputs), got shapes {shapes}")
        moments = np.stack([self.mean, self.epistemic, self.aleatoric])
        if not np.isfinite(moments).all() or (moments[1:] < 0).any() or (self.std == 0).any():
            raise ValueError("moments must be finite, epistemic and aleatoric not negative, std positive")

    @property
    def _components(self) -> Components:
        return self.mean[None], self.std[None]

    def rescaled(self, shift: np.ndarray | float, scale: np.ndarray | float) -> "MomentPrediction":
        """The prediction of shift + scale · y; shift and scale are one number, or one number per output."""
        return MomentPrediction(shift + scale * self.mean, scale * self.epistemic, scale * self.aleatoric)


def checked_draws(draws: ArrayLike, name: str) -> np.ndarray:
    """`draws` as (draws, rows, outputs), finite."""
    draws = np.asarray(draws)
    if draws.ndim != 3 or not len(draws):
        raise ValueError(f"{name} must be (draws, rows, outputs) with at least one draw, got shape {draws.shape}")
    if not np.isfinite(draws).all():
        raise ValueError(f"{name} have NaN or infinite values: leave out diverged chains")
    return draws
