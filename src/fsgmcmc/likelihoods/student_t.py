"""Heavy-tailed observation noise: Student's t.

    y = f + σ ε,    ε ~ t_ν,    p(ε) = (1 + ε²/ν)^(−(ν+1)/2) / (√ν B(ν/2, ½))

σ is the scale of the bulk of the noise; its standard deviation is σ √(ν / (ν − 2)), which is why ν > 2. Large ν is
Gaussian noise. A row far from the function pulls at it with at most (ν + 1) / (2 σ √ν), however far it is.
"""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fsgmcmc import _checks
from fsgmcmc.likelihoods.base import register
from fsgmcmc.likelihoods.gaussian import Gaussian, weighted_fit
from fsgmcmc.predictions.student_t import LEAST_DF, StudentPrediction


@register
class StudentT(Gaussian):
    """Observations with heavy-tailed noise: y ~ f + σ t_ν, for data with outliers.

    Args:
        noise: Scale σ in the units of y, as in `Gaussian`.
        sampled: Sample log σ and log(ν − 2) together with the weights.
        spread: Standard deviation of log σ under its prior.
        floor: What a sampled σ cannot fall below.
        df: Degrees of freedom ν > 2, or the median of their prior if they are sampled. The default is nearly Gaussian
            unless many rows are in the tails.
        df_spread: Standard deviation of log(ν − 2) under its prior; a wider one than the default takes hard rows
            of a small table for outliers.

    Example:
        >>> likelihood = StudentT(noise=1.0, df=4.0)
        >>> print(likelihood.log_prob((), jnp.zeros((2, 1)), jnp.array([[0.0], [10.0]])).round(1))
        [-1.  -9.1]
    """

    df: Float[Array, ""]
    df_spread: float = eqx.field(static=True)

    def __init__(
        self,
        noise: Any = 1.0,
        *,
        sampled: bool = False,
        spread: float = 0.3,
        floor: float = 0.0,
        row_noise: bool = False,
        df: float = 20.0,
        df_spread: float = 0.3,
    ) -> None:
        super().__init__(noise, sampled=sampled, spread=spread, floor=floor, row_noise=row_noise)
        _checks.positive(np.asarray(df, np.float32), "df")
        if np.ndim(df) or not np.float32(df) > LEAST_DF:
            raise ValueError(f"df must be a number above 2, so that the noise has a variance, got {df}")
        _checks.positive(df_spread, "df_spread")
        self.df = jnp.asarray(df, dtype=jnp.float32)
        self.df_spread = float(df_spread)

    def init(self) -> Any:
        """log σ and log(ν − 2) when they are sampled, nothing otherwise."""
        return super().init() | {"log_df": jnp.log(self.df - LEAST_DF)} if self.sampled else ()

    def nu(self, params: Any) -> Float[Array, "..."]:
        """ν, with the sampled parameters or as it was given."""
        return LEAST_DF + jnp.exp(params["log_df"]) if self.sampled else self.df

    def noise_std(self, params: Any) -> Float[Array, "..."]:
        """σ √(ν / (ν − 2))."""
        nu = self.nu(params)
        return self.sigma(params) * jnp.sqrt(nu / (nu - 2))

    def with_gaussian_noise(self) -> Gaussian:
        """Gaussian noise of the same scale, for Adam: far from the data, heavy tails ignore most rows."""
        names = ("noise", "sampled", "spread", "floor", "row_noise")
        return Gaussian(**{name: self.to_config()[name] for name in names})

    def fit_noise(
        self,
        params: Any,
        f: Float[Array, "n outputs"],
        y: Float[Array, "n outputs"],
        weights: Float[Array, " n"] | None = None,
    ) -> Any:
        """As in `Gaussian`, with a σ whose standard deviation, not whose scale, is the root mean square residual."""
        nu, f = self.nu(params), weighted_fit(f, y, weights)
        return super().fit_noise(params, y + jnp.sqrt((nu - 2) / nu) * (f - y), y)

    def log_prob(self, params: Any, f: Float[Array, "n outputs"], y: Float[Array, "n outputs"]) -> Float[Array, " n"]:
        """log p(ε) − log σ with ε = (y − f) / σ, summed over outputs."""
        noise, nu = self.sigma(params), self.nu(params)
        noise = noise[:, None] if noise.ndim == 1 else noise
        constant = log_gamma_half_step(nu / 2) - 0.5 * jnp.log(jnp.pi * nu)
        tail = (nu + 1) / 2 * jnp.log1p(jnp.square((y - f) / noise) / nu)
        return jnp.sum(constant - tail - jnp.log(noise), axis=1)

    def log_prior(self, params: Any) -> Float[Array, ""]:
        """Of log σ as in `Gaussian`, and −½ ((log(ν − 2) − log(df − 2)) / df_spread)²."""
        if not self.sampled:
            return jnp.float32(0)
        away = (params["log_df"] - jnp.log(self.df - LEAST_DF)) / self.df_spread
        return super().log_prior(params) - 0.5 * jnp.square(away)

    def predict(self, functions: np.ndarray, params: Any, noise: Any = None) -> StudentPrediction:
        """Function draws (draws, rows, outputs) with the noise of each draw, or the scale σ of each new row."""
        gaussian, nu = super().predict(functions, params, noise), np.asarray(self.nu(params), dtype=float)
        return StudentPrediction(functions, gaussian.noise, nu.reshape(-1, 1, 1))


def log_gamma_half_step(a: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """log Γ(a + ½) − log Γ(a) for a ≥ 1, to rounding in float32 with all derivatives.

        log Γ(b + ½) − log Γ(b) = ½ log b − 1/(8b) + 1/(192b³) − 1/(640b⁵) + O(b⁻⁷),    b = a + 4

    The derivatives of `gammaln` are series; they would be half of the program that measures the curvature.

    >>> print(log_gamma_half_step(jnp.array([1.0, 10.0])).round(5))
    [-0.12078  1.1388 ]
    """
    shifts = jnp.arange(4.0)
    b = a + 4.0
    shifted = 0.5 * jnp.log(b) - 1 / (8 * b) + 1 / (192 * b**3) - 1 / (640 * b**5)
    return shifted - jnp.sum(jnp.log1p(0.5 / (a[..., None] + shifts)), axis=-1)
