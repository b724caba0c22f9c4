"""Mean-field Gaussians: q(w) = Π_j N(w_j; μ_j, σ_j²)."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float


class MeanField(eqx.Module):
    """Independent normals over the vector w.

    Example:
        >>> q = MeanField(jnp.zeros(3), jnp.zeros(3))
        >>> q.divergence(0.0, jnp.ones(3)).sum().item()
        0.0
    """

    mean: Float[Array, " k"]
    log_std: Float[Array, " k"]

    @property
    def std(self) -> Float[Array, " k"]:
        """σ."""
        return jnp.exp(self.log_std)

    def log_prob(self, w: Float[Array, "*draws k"]) -> Float[Array, "*draws k"]:
        """log q of every component."""
        return -0.5 * jnp.square((w - self.mean) / self.std) - self.log_std - 0.5 * jnp.log(2 * jnp.pi)

    def entropy(self) -> Float[Array, " k"]:
        """log σ + ½ log 2πe of every component."""
        return self.log_std + 0.5 * jnp.log(2 * jnp.pi * jnp.e)

    def divergence(self, mean: Float[Array, " k"] | float, precision: Float[Array, " k"]) -> Float[Array, " k"]:
        """KL[q ‖ N(mean, 1/precision)] of every component: ½ (λ (μ − m)² + λσ² − 1 − log λ) − log σ."""
        spread = jnp.square(self.mean - mean) + jnp.square(self.std)
        return 0.5 * (precision * spread - 1 - jnp.log(precision)) - self.log_std
