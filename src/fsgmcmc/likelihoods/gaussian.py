"""Gaussian observation noise, of one scale that is known or sampled, or known row by row."""

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from fsgmcmc import _checks
from fsgmcmc.likelihoods.base import Likelihood, register
from fsgmcmc.predictions.regression import GaussianPrediction

# A sampled noise beyond so many standard deviations of y, and with a log prior density this far below its maximum (in
# nats), belongs to a diverged chain.
WIDEST_NOISE, LEAST_LIKELY = 3.0, 8.0


@register
class Gaussian(Likelihood):
    """Observations with Gaussian noise: y ~ N(f, σ²).

    Where the noise is known row by row, give it to `function_space` or `parameter_space` as `noise`.

    Args:
        noise: Standard deviation σ in the units of y.
        sampled: Sample log σ together with the weights, log σ ~ N(log noise, spread²).
        spread: Standard deviation of that prior; 0.3 says σ is known to about a third.
        floor: Lower bound of a sampled σ: it is sqrt(floor² + s²), and log s is sampled as above.
        row_noise: The noise is known row by row; set by `function_space(noise=…)`.

    Example:
        >>> print(Gaussian(noise=0.5).log_prob((), jnp.zeros((2, 1)), jnp.ones((2, 1))).round(2))
        [-2.23 -2.23]
    """

    noise: Float[Array, "..."]
    sampled: bool = eqx.field(static=True)
    spread: float = eqx.field(static=True)
    floor: Float[Array, ""]
    row_noise: bool = eqx.field(static=True)

    def __init__(
        self,
        noise: Any = 1.0,  # an array gets a message of its own
        *,
        sampled: bool = False,
        spread: float = 0.3,
        floor: float = 0.0,
        row_noise: bool = False,
    ) -> None:
        _checks.positive(np.asarray(noise, np.float32), "noise")
        if np.ndim(noise):
            raise ValueError(
                f"noise of a likelihood is one number, got shape {np.shape(noise)}; give noise that is known row by "
                "row to function_space or parameter_space, as noise="
            )
        _checks.positive(spread, "spread")
        self.noise = jnp.asarray(noise, dtype=jnp.float32)
        self.sampled = bool(sampled)
        self.spread = float(spread)
        if not (np.ndim(floor) == 0 and 0 <= floor < np.inf):
            raise ValueError(f"floor must be zero or a positive number, got {floor}")
        self.floor = jnp.asarray(floor, dtype=jnp.float32)
        self.row_noise = bool(row_noise)
        if self.sampled and self.row_noise:
            raise ValueError("noise given per row is known; it cannot be sampled as well")

    def init(self) -> Any:
        """log σ when it is sampled, nothing otherwise."""
        return {"log_noise": jnp.log(self.noise)} if self.sampled else ()

    def sigma(self, params: Any) -> Float[Array, "..."]:
        """σ: sampled, or as given."""
        if not self.sampled:
            return self.noise
        return jnp.sqrt(jnp.square(self.floor) + jnp.exp(2 * params["log_noise"]))

    def noise_std(self, params: Any) -> Float[Array, "..."]:
        """Standard deviation of the noise."""
        return self.sigma(params)

    def for_row_noise(self) -> "Gaussian":
        """The same, with a noise that each batch brings."""
        return type(self).from_config(self.to_config() | {"row_noise": True})  # type: ignore[return-value]

    def with_noise(self, noise: Float[Array, "n *outputs"]) -> "Gaussian":
        """The likelihood of rows with these standard deviations."""
        return eqx.tree_at(lambda likelihood: likelihood.noise, self, noise)

    def fit_noise(
        self,
        params: Any,
        f: Float[Array, "n outputs"],
        y: Float[Array, "n outputs"],
        weights: Float[Array, " n"] | None = None,
    ) -> Any:
        """A sampled σ raised to the root mean square residual; never lowered, since a fit may follow the noise."""
        if not self.sampled:
            return params
        f = weighted_fit(f, y, weights)
        return params | {"log_noise": jnp.maximum(params["log_noise"], 0.5 * jnp.log(jnp.mean(jnp.square(y - f))))}

    def log_prob(self, params: Any, f: Float[Array, "n outputs"], y: Float[Array, "n outputs"]) -> Float[Array, " n"]:
        """−½ ((y − f)/σ)² − log σ − ½ log 2π, summed over outputs."""
        noise = self.sigma(params)
        noise = noise[:, None] if noise.ndim == 1 else noise
        density = -0.5 * jnp.square((y - f) / noise) - jnp.log(noise) - 0.5 * jnp.log(2 * jnp.pi)
        return jnp.sum(density, axis=1)

    def log_prior(self, params: Any) -> Float[Array, ""]:
        """−½ ((log σ − log noise) / spread)² when σ is sampled."""
        if not self.sampled:
            return jnp.float32(0)
        return -0.5 * jnp.square((params["log_noise"] - jnp.log(self.noise)) / self.spread)

    def is_plausible(self, params: Any, y: Float[Array, "n outputs"]) -> Bool[Array, ""]:
        """Whether σ is within three times the larger of sd(y) and `noise`, or z² / 2 ≤ 8 under its prior."""
        near = self.sigma(params) <= WIDEST_NOISE * jnp.maximum(jnp.std(y), self.noise)
        return near | (Gaussian.log_prior(self, params) >= -LEAST_LIKELY) if self.sampled else jnp.bool_(True)

    def predict(self, functions: np.ndarray, params: Any, noise: Any = None) -> GaussianPrediction:
        """Function draws (draws, rows, outputs) with the noise of each draw, or of each new row."""
        if noise is not None:
            _checks.positive(noise, "noise")
            noise = np.asarray(noise, dtype=float)
            if noise.shape not in ((), functions.shape[1:2], functions.shape[1:]):
                raise ValueError(f"noise has shape {noise.shape} but the prediction has {functions.shape[1:]}")
            noise = noise[:, None] if noise.ndim == 1 else noise
        elif self.sampled:
            noise = np.asarray(self.sigma(params), dtype=float)[:, None, None]
        elif not self.row_noise:
            noise = np.asarray(self.noise, dtype=float)
        return GaussianPrediction(functions, noise)

    def predict_spread(
        self, functions: np.ndarray, spread: np.ndarray, params: Any, noise: Any = None
    ) -> GaussianPrediction:
        """The errors of the function add to the noise."""
        return replace(self.predict(functions, params, noise), spread=spread)


def weighted_fit(f: Array, y: Array, weights: Float[Array, " n"] | None) -> Array:
    """f with residuals scaled so that their mean square is the weighted one."""
    if weights is None:
        return f
    return y + jnp.sqrt(weights / jnp.mean(weights))[:, None] * (f - y)
