"""Momentum measures: the distribution of the auxiliary variable z of Hamiltonian samplers.

A measure with density exp(−E(z)) gives the velocity v(z) = ∇E(z) and a thermostat, a move of z that leaves the
measure (at temperature T) invariant. The induced measure of the paper is the standard Gaussian in z: E = ½‖z‖².
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from fsgmcmc.random import normal
from fsgmcmc.samplers.base import Vector


class Momentum(eqx.Module):
    """The induced measure N(0, I), in coordinates whitened by the mass M = P⁻¹."""

    @property
    def can_refresh(self) -> bool:
        """Whether a fresh draw from N(0, T) is a draw from the measure."""
        return True

    def energy(self, z: Vector) -> Float[Array, ""]:
        """E(z) = ½‖z‖²."""
        return 0.5 * jnp.sum(z * z)

    def velocity(self, z: Vector) -> Vector:
        """v(z) = z."""
        return z

    @property
    def largest_curvature(self) -> Float[Array, ""]:
        """The largest eigenvalue of ∇²E, by whose root stable steps are shorter."""
        return jnp.float32(1)

    def thermostat(
        self,
        key: PRNGKeyArray,
        z: Vector,
        friction: Float[Array, ""],
        temperature: Float[Array, ""],
        refresh: bool | Array,
    ) -> Vector:
        """The exact Ornstein-Uhlenbeck step over a time with friction C h; a refresh forgets z entirely.

        z ← a z + sqrt(T (1 − a²)) ξ,    a = exp(−C h), or 0 to refresh
        """
        kept = jnp.where(refresh, 0.0, jnp.exp(-friction))
        noise = normal(key, len(z))
        return kept * z + jnp.sqrt(temperature * (1 - kept**2)) * noise
