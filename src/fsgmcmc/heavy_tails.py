"""Observations with heavy-tailed noise: Student's t as a likelihood, and what it predicts.

    y = f + σ ε,    ε ~ t_ν,    p(ε) = (1 + ε²/ν)^(−(ν+1)/2) / (√ν B(ν/2, ½))

σ is the scale of the bulk of the noise; its standard deviation is σ √(ν / (ν − 2)), which is why ν > 2. Large ν is
Gaussian noise. A row far from the function pulls at it with at most (ν + 1) / (2 σ √ν), however far it is.
"""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import scipy
from jax.scipy.special import betaln
from jaxtyping import Array, Float
from numpy.typing import ArrayLike

from fsgmcmc import _checks
from fsgmcmc.likelihoods import Gaussian
from fsgmcmc.mixtures import Law, by_rows
from fsgmcmc.predictions import Components, GaussianPrediction, Outputs

LEAST_FREEDOM = 2.0
# Of the integrals on each side of a target.
CRPS_NODES = 64


class StudentT(Gaussian):
    """Observations with heavy-tailed noise: y ~ f + σ t_ν, for data with outliers.

    Args:
        noise: Scale σ in the units of y, as in `Gaussian`.
        sampled: Sample log σ and log(ν − 2) together with the weights.
        spread: Standard deviation of log σ under its prior.
        floor: What a sampled σ cannot fall below.
        freedom: Degrees of freedom ν > 2, or where they are sampled the median of their prior. That of the default is
            nearly Gaussian unless many rows say otherwise.
        freedom_spread: Standard deviation of log(ν − 2) under its prior; a wider one than the default takes hard rows
            of a small table for outliers.

    Example:
        >>> likelihood = StudentT(noise=1.0, freedom=4.0)
        >>> print(likelihood.log_prob((), jnp.zeros((2, 1)), jnp.array([[0.0], [10.0]])).round(1))
        [-1.  -9.1]
    """

    freedom: Float[Array, ""]
    freedom_spread: float = eqx.field(static=True)

    def __init__(
        self,
        noise: Any = 1.0,
        *,
        sampled: bool = False,
        spread: float = 0.3,
        floor: float = 0.0,
        freedom: float = 20.0,
        freedom_spread: float = 0.3,
    ) -> None:
        super().__init__(noise, sampled=sampled, spread=spread, floor=floor)
        _checks.positive(np.asarray(freedom, np.float32), "freedom")
        if np.ndim(freedom) or not np.float32(freedom) > LEAST_FREEDOM:
            raise ValueError(f"freedom must be a number above 2, so that the noise has a variance, got {freedom}")
        _checks.positive(freedom_spread, "freedom_spread")
        self.freedom = jnp.asarray(freedom, dtype=jnp.float32)
        self.freedom_spread = float(freedom_spread)

    def init(self) -> Any:
        """log σ and log(ν − 2) when they are sampled, nothing otherwise."""
        return super().init() | {"log_freedom": jnp.log(self.freedom - LEAST_FREEDOM)} if self.sampled else ()

    def nu(self, params: Any) -> Float[Array, "..."]:
        """ν, with the sampled parameters or as it was given."""
        return LEAST_FREEDOM + jnp.exp(params["log_freedom"]) if self.sampled else self.freedom

    def std(self, params: Any) -> Float[Array, "..."]:
        """σ √(ν / (ν − 2))."""
        nu = self.nu(params)
        return self.sigma(params) * jnp.sqrt(nu / (nu - 2))

    def without_tails(self) -> Gaussian:
        """Gaussian noise of the same scale, for a descent from far away, where heavy tails give up on most rows."""
        return Gaussian(self.noise, sampled=self.sampled, spread=self.spread, floor=float(self.floor))

    def settle(self, params: Any, f: Float[Array, "n outputs"], y: Float[Array, "n outputs"]) -> Any:
        """As in `Gaussian`, with a σ whose standard deviation, not whose scale, is the root mean square residual."""
        nu = self.nu(params)
        return super().settle(params, y + jnp.sqrt((nu - 2) / nu) * (f - y), y)

    def log_prob(self, params: Any, f: Float[Array, "n outputs"], y: Float[Array, "n outputs"]) -> Float[Array, " n"]:
        """log p(ε) − log σ with ε = (y − f) / σ, summed over outputs."""
        noise, nu = self.sigma(params), self.nu(params)
        noise = noise[:, None] if noise.ndim == 1 else noise
        constant = -0.5 * jnp.log(nu) - betaln(nu / 2, 0.5)
        tail = (nu + 1) / 2 * jnp.log1p(jnp.square((y - f) / noise) / nu)
        return jnp.sum(constant - tail - jnp.log(noise), axis=1)

    def log_prior(self, params: Any) -> Float[Array, ""]:
        """Of log σ as in `Gaussian`, and −½ ((log(ν − 2) − log(freedom − 2)) / freedom_spread)²."""
        if not self.sampled:
            return jnp.float32(0)
        away = (params["log_freedom"] - jnp.log(self.freedom - LEAST_FREEDOM)) / self.freedom_spread
        return super().log_prior(params) - 0.5 * jnp.square(away)

    def predict(self, functions: np.ndarray, params: Any, noise: Any = None) -> "StudentPrediction":
        """Function draws (draws, rows, outputs) with the noise of each draw, or the scale σ of each new row."""
        gaussian, nu = super().predict(functions, params, noise), np.asarray(self.nu(params), dtype=float)
        return StudentPrediction(functions, gaussian.noise, nu.reshape(-1, 1, 1))


def _log_t(z: np.ndarray, nu: np.ndarray) -> np.ndarray:
    constant = -0.5 * np.log(nu) - scipy.special.betaln(nu / 2, 0.5)
    return constant - (nu + 1) / 2 * np.log1p(z * z / nu)


STUDENT = Law(
    log_density=_log_t,
    cdf=lambda z, nu: scipy.special.stdtr(nu, z),
    quantile=lambda level, nu: scipy.special.stdtrit(nu, level),
    variance=lambda nu: nu / (nu - 2),
)


@dataclass(frozen=True, eq=False)
class StudentPrediction(GaussianPrediction):
    """Draws of the function and heavy-tailed noise: p(y) = 1/S Σ_s t_νs((y − f_s) / σ_s) / σ_s.

    `noise` is the scale σ; `freedom` is ν > 2 and broadcasts against the functions as it does.

    >>> prediction = StudentPrediction(np.zeros((1, 1, 1)), noise=1.0, freedom=np.full((1, 1, 1), 4.0))
    >>> round(prediction.std.item() ** 2, 6), round(prediction.quantile(0.95).item(), 2)
    (2.0, 2.13)
    """

    freedom: np.ndarray | float

    def __post_init__(self) -> None:
        super().__post_init__()
        freedom = np.asarray(self.freedom, dtype=np.float64)
        object.__setattr__(self, "freedom", freedom)
        np.broadcast_to(freedom, self.functions.shape)
        if not ((freedom > LEAST_FREEDOM) & np.isfinite(freedom)).all():
            raise ValueError("freedom must be finite and above 2, so that the noise has a variance")

    @property
    def _law(self) -> Law:
        return STUDENT

    @property
    def _components(self) -> Components:
        return (*super()._components, np.broadcast_to(self.freedom, self.functions.shape))

    def rescaled(self, shift: np.ndarray | float, scale: np.ndarray | float) -> "StudentPrediction":
        """The prediction of shift + scale · y, each a number or one number an output."""
        gaussian = super().rescaled(shift, scale)
        return StudentPrediction(gaussian.functions, gaussian.noise, self.freedom)

    def crps(self, y: ArrayLike) -> Outputs:
        """∫_{−∞}^{y} F(t)² dt + ∫_{y}^{∞} (1 − F(t))² dt, each by Gauss-Legendre nodes.

        Within half a per cent for a hundred draws; a few per cent where a few narrow components lie far apart.
        """
        return by_rows(_student_crps, *self._components, self.targets(y)[None])


def _student_crps(means: np.ndarray, scales: np.ndarray, nu: np.ndarray, y: np.ndarray) -> np.ndarray:
    """t = y ∓ w u / (1 − u), u in (0, 1), w the distance in which the law lies."""
    nodes, weights = np.polynomial.legendre.leggauss(CRPS_NODES)
    nodes, weights = (nodes + 1) / 2, weights / 2
    width = np.sqrt(np.mean(np.square(means - y) + np.square(scales), axis=0))
    total = np.zeros(y.shape[1:])
    for node, weight in zip(nodes, weights, strict=True):
        away = width * node / (1 - node)
        below = scipy.special.stdtr(nu, (y - away - means) / scales).mean(axis=0)
        above = scipy.special.stdtr(nu, (means - y - away) / scales).mean(axis=0)
        total += weight * width / (1 - node) ** 2 * (below**2 + above**2)
    return total
