"""What an inference method says about new points.

A regression prediction is, for each row and output, an equally weighted mixture,

    p(y) = 1/S Σ_s p((y − f_s) / σ_s) / σ_s,

one component for each posterior draw f_s of the function with its observation noise σ_s, whose law p is Gaussian here
and Student's t in `heavy_tails`. A method that gives two moments instead of draws (an exact Gaussian process) is the
case S = 1. A class prediction is the mean over draws of softmax(logits). Everything is computed on the host in float64,
a block of rows at a time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import scipy  # its parts are loaded when they are first used
from jaxtyping import Float, Integer
from numpy.typing import ArrayLike

from fsgmcmc import _checks, mixtures
from fsgmcmc.mixtures import by_rows

Draws = Float[np.ndarray, "draws rows outputs"]
Outputs = Float[np.ndarray, "rows outputs"]
Rows = Float[np.ndarray, " rows"]
# Means and scales of the mixture's components, and what else their law depends on.
Components = tuple[Draws, ...]


class RegressionPrediction:
    """The predictive law of real targets; `GaussianPrediction` and `MomentPrediction` are its usual forms.

    Shapes are (rows, outputs) unless said otherwise, units those of the targets. `mean` is of an observation,
    `epistemic` the standard deviation of the function over draws, `aleatoric` the root mean noise variance.
    """

    mean: Outputs
    epistemic: Outputs
    aleatoric: Outputs

    @property
    def _law(self) -> mixtures.Law:
        return mixtures.NORMAL

    @property
    def _components(self) -> Components:
        raise TypeError("components belong to the concrete predictions")

    @property
    def std(self) -> Outputs:
        """Standard deviation of an observation, sqrt(epistemic² + aleatoric²)."""
        return np.hypot(self.epistemic, self.aleatoric)

    def targets(self, y: ArrayLike) -> Outputs:
        """`y` as (rows, outputs), checked against this prediction; (rows,) will do for one output."""
        y = np.asarray(y, dtype=np.float64)
        if self.mean.shape not in (y.shape, (*y.shape, 1)):
            raise ValueError(f"targets {y.shape} do not match predictions {self.mean.shape}, (rows, outputs)")
        if not np.isfinite(y).all():
            raise ValueError("targets hold NaN or infinite values: drop those rows before scoring")
        return y.reshape(self.mean.shape)

    def cdf(self, y: ArrayLike) -> Outputs:
        """Predictive probability of an observation below `y`, output by output."""
        return by_rows(partial(mixtures.cdf, self._law), *self._components, self.targets(y)[None])

    def quantile(self, q: float | Sequence[float]) -> np.ndarray:
        """Where the predictive cdf equals `q`; a sequence of levels gives a leading axis."""
        levels = np.asarray(q, dtype=np.float64)
        if not ((levels > 0) & (levels < 1)).all():
            raise ValueError(f"quantile levels must lie strictly between 0 and 1, got {q}")
        quantiles = [by_rows(partial(mixtures.quantile, self._law, level), *self._components) for level in levels.flat]
        return np.reshape(quantiles, (*levels.shape, *self.mean.shape))

    def interval(self, coverage: float) -> tuple[Outputs, Outputs]:
        """Lower and upper end of the central interval with predictive probability `coverage`."""
        lower, upper = self.quantile([(1 - coverage) / 2, (1 + coverage) / 2])
        return lower, upper

    def log_prob(self, y: ArrayLike) -> Rows:
        """Log density of each row, joint over outputs: log 1/S Σ_s Π_o p((y_o − f_so) / σ_so) / σ_so."""
        return by_rows(partial(mixtures.log_density, self._law), *self._components, self.targets(y)[None])

    def log_prob_moment(self, y: ArrayLike) -> Rows:
        """Log density of each row under one Gaussian an output with the predictive mean and std."""
        return MomentPrediction(self.mean, self.epistemic, self.aleatoric).log_prob(y)

    def crps(self, y: ArrayLike) -> Outputs:
        """Continuous ranked probability score in target units, lower is better.

            CRPS = ∫ (F(t) − 1[t ≥ y])² dt = E|X − y| − ½ E|X − X'|

        with X, X' independent draws of the predictive law (Grimit et al. 2006). Costs S²/2 terms a row.
        """
        return by_rows(mixtures.gaussian_crps, *self._components, self.targets(y)[None])


@dataclass(frozen=True, eq=False)
class GaussianPrediction(RegressionPrediction):
    """Draws of the function and Gaussian observation noise.

    `functions` is (draws, rows, outputs); `noise`, a standard deviation, broadcasts against it: (draws, 1, 1)
    when sampled, (1, rows, 1) when known for each row. None is unknown: only `mean` and `epistemic` exist.

    >>> prediction = GaussianPrediction(np.array([[[-3.0]], [[3.0]]]), noise=4.0)
    >>> prediction.mean.item(), prediction.epistemic.item(), prediction.std.item()
    (0.0, 3.0, 5.0)
    >>> print(prediction.quantile([0.05, 0.95]).round(2).ravel(), prediction.log_prob([1.0]).round(2))
    [-8.19  8.19] [-2.6]
    """

    functions: np.ndarray
    noise: np.ndarray | float | None

    def __post_init__(self) -> None:
        object.__setattr__(self, "functions", _checked_draws(self.functions, "functions"))
        if self.noise is not None:
            noise = np.broadcast_to(self.noise, self.functions.shape)
            object.__setattr__(self, "noise", np.asarray(self.noise, dtype=np.float64))
            if not ((noise > 0) & np.isfinite(noise)).all():
                raise ValueError("noise is a standard deviation and must be positive and finite")

    @property
    def _components(self) -> Components:
        if self.noise is None:
            raise ValueError("the observation noise at these points is unknown: pass noise= to predict")
        return self.functions, np.broadcast_to(self.noise, self.functions.shape)

    @cached_property
    def mean(self) -> Outputs:  # type: ignore[override]
        """Mean of the function over draws, and so of an observation."""
        return self.functions.mean(axis=0, dtype=np.float64)

    @cached_property
    def epistemic(self) -> Outputs:  # type: ignore[override]
        """Standard deviation of the function over draws."""
        return by_rows(lambda f: f.std(axis=0), self.functions)

    @cached_property
    def aleatoric(self) -> Outputs:  # type: ignore[override]
        """Root mean variance of the observation noise."""
        return by_rows(partial(mixtures.noise_std, self._law), *self._components)

    def rescaled(self, shift: np.ndarray | float, scale: np.ndarray | float) -> "GaussianPrediction":
        """The prediction of shift + scale · y, each a number or one number an output."""
        noise = None if self.noise is None else scale * self.noise
        return GaussianPrediction(shift + scale * self.functions.astype(np.float64), noise)


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
        """The prediction of shift + scale · y, each a number or one number an output."""
        return MomentPrediction(shift + scale * self.mean, scale * self.epistemic, scale * self.aleatoric)


@dataclass(frozen=True, eq=False)
class CategoricalPrediction:
    """Draws of the class logits, (draws, rows, classes); entropies are in nats.

    >>> disagreeing = CategoricalPrediction(np.array([[[0.0, 50.0]], [[50.0, 0.0]]]))
    >>> print(disagreeing.probabilities, disagreeing.entropy.round(3), disagreeing.mutual_information.round(3))
    [[0.5 0.5]] [0.693] [0.693]
    """

    logits: np.ndarray

    def __post_init__(self) -> None:
        object.__setattr__(self, "logits", _checked_draws(self.logits, "logits"))

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
        """Epistemic part, entropy − expected entropy: what the label would tell about the function."""
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
            lambda z, k: mixtures.log_mean(np.take_along_axis(scipy.special.log_softmax(z, 2), k, 2)),
            self.logits,
            labels,
        )


Prediction = RegressionPrediction | CategoricalPrediction


def _checked_draws(draws: ArrayLike, name: str) -> np.ndarray:
    draws = np.asarray(draws)
    if draws.ndim != 3 or not len(draws):
        raise ValueError(f"{name} must be (draws, rows, outputs), at least one draw, got shape {draws.shape}")
    if not np.isfinite(draws).all():
        raise ValueError(f"{name} hold NaN or infinite values: leave out the chains that diverged")
    return draws
