"""A functional distribution for the momentum of Hamiltonian samplers.

    E(z) = ½ g(X; z)ᵀ (K_g + δI)⁻¹ g(X; z) + ½ l ‖z‖²,    v(z) = J_zᵀ (K_g + δI)⁻¹ g(X; z) + l z

g is the network with z in place of its weights, X a fixed set of points, K_g the covariance of a zero-mean Gaussian
process. The second term, l > 0, makes the distribution proper. It is not Gaussian: z is carried, never redrawn.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from fsgmcmc import _checks
from fsgmcmc.measurement import fixed
from fsgmcmc.posterior import Posterior
from fsgmcmc.priors.functional import BoundProcess, Functional
from fsgmcmc.priors.gaussian_process import GaussianProcess
from fsgmcmc.random import normal
from fsgmcmc.samplers.base import Vector
from fsgmcmc.samplers.curvature import largest_eigenvalue
from fsgmcmc.samplers.momentum import Momentum


class FunctionalMomentum(Momentum):
    """Built by `functional_momentum`."""

    network: Any = eqx.field(static=True)
    flattener: Any = eqx.field(static=True)
    prior: BoundProcess
    weight: Float[Array, ""]
    measured_curvature: Float[Array, ""]

    @property
    def can_refresh(self) -> bool:
        """N(0, I) is not the distribution of z."""
        return False

    def energy(self, z: Vector) -> Float[Array, ""]:
        """E(z)."""
        points, factor = self.prior.draw(jax.random.key(0))
        values = self.network.apply(self.flattener.unflatten(z).network, points)
        return self.prior.energy(factor, values) + 0.5 * self.weight * jnp.sum(z * z)

    def velocity(self, z: Vector) -> Vector:
        """∇E(z), one vector-Jacobian product in z."""
        return jax.grad(self.energy)(z)

    @property
    def largest_curvature(self) -> Float[Array, ""]:
        """λ_max of ∇²E at a typical z, measured when the momentum was built."""
        return self.measured_curvature

    def thermostat(
        self,
        key: PRNGKeyArray,
        z: Vector,
        friction: Float[Array, ""],
        temperature: Float[Array, ""],
        refresh: bool | Array,
    ) -> Vector:
        """z ← z − C h v(z) + sqrt(2 C h T) ξ."""
        del refresh
        noise = normal(key, len(z))
        return z - friction * self.velocity(z) + jnp.sqrt(2 * friction * temperature) * noise


def functional_momentum(
    posterior: Posterior, process: GaussianProcess, points: Any, *, weight: float = 1.0
) -> FunctionalMomentum:
    """The functional momentum distribution for the network of a posterior.

    Args:
        posterior: The posterior whose network is g; z has the shape of its parameters.
        process: The prior of g; its mean is not used.
        points: The fixed points X at which g is evaluated.
        weight: l, the precision of the Gaussian on z, which makes the distribution proper.
    """
    _checks.positive(weight, "weight")
    centred = eqx.tree_at(lambda process: process.mean, process, 0.0)
    prior = Functional(centred, fixed(points)).bind()
    momentum = FunctionalMomentum(posterior.network, posterior.flattener, prior, jnp.float32(weight), jnp.float32(1))
    return eqx.tree_at(lambda m: m.measured_curvature, momentum, _largest_curvature(momentum))


@eqx.filter_jit
def _largest_curvature(momentum: FunctionalMomentum) -> Float[Array, ""]:
    z_key, start_key, power_key = jax.random.split(jax.random.key(0), 3)
    size = momentum.flattener.size
    z = jax.random.normal(z_key, (size,)) / jnp.sqrt(momentum.weight)
    start = jax.random.normal(start_key, (size,))
    return largest_eigenvalue(power_key, lambda _, v: jax.jvp(momentum.velocity, (z,), (v,))[1], start)
