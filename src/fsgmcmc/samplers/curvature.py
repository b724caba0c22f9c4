"""Measuring a potential: its largest curvature, its diagonal and the noise of its gradient.

Only products of the curvature matrix with a vector are needed, `target.curvature`: by default the derivative of the
gradient, of a posterior the Gauss-Newton product.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from fsgmcmc.posterior.target import Target
from fsgmcmc.samplers.base import Curvature, Vector

POWER_STEPS = 20
NOISE_PROBES = 8
DIAGONAL_PROBES = 32
# Damping of the preconditioner, relative to the mean of the diagonal: no direction is more than 100 times freer.
DAMPING = 0.01


def measure(key: PRNGKeyArray, target: Target, w: Vector, root: Vector | float = 1.0) -> Curvature:
    """Largest eigenvalue of P^½ H P^½ by power iteration, and the gradient's noise there, at `w`.

    The minibatch is drawn anew in every power step, and the largest value of the second half counts.
    """
    start_key, power_key, noise_key = jax.random.split(key, 3)

    def product(key: PRNGKeyArray, v: Vector) -> Vector:
        return root * target.curvature(key, w, root * v)

    largest = largest_eigenvalue(power_key, product, jax.random.normal(start_key, w.shape))

    def gradient(key: PRNGKeyArray) -> Vector:
        return root * target.potential(key, w)[1]

    gradients = jax.lax.map(gradient, jax.random.split(noise_key, NOISE_PROBES))
    return Curvature(largest, jnp.mean(jnp.var(gradients, axis=0, ddof=1)))


def largest_eigenvalue(
    key: PRNGKeyArray, product: Callable[[PRNGKeyArray, Vector], Vector], start: Vector
) -> Float[Array, ""]:
    """λ_max of a symmetric matrix given by its (possibly noisy) products with vectors, by power iteration."""

    def power_step(direction: Vector, key: PRNGKeyArray) -> tuple[Vector, Float[Array, ""]]:
        image = product(key, direction)
        length = jnp.linalg.norm(image)
        return image / jnp.maximum(length, jnp.finfo(jnp.float32).tiny), length

    _, lengths = jax.lax.scan(power_step, start / jnp.linalg.norm(start), jax.random.split(key, POWER_STEPS))
    return jnp.max(lengths[POWER_STEPS // 2 :])


def diagonal_preconditioner(key: PRNGKeyArray, target: Target, w: Vector) -> Vector:
    """P = 1 / (G + 0.01 mean G), G the diagonal of the curvature from random signs: E[s ⊙ H s], clipped at 0.

    Scaled to a mean of one, so that a step size keeps its meaning when P is switched on.
    """
    size = w.shape

    def probe(key: PRNGKeyArray) -> Float[Array, " k"]:
        sign_key, batch_key = jax.random.split(key)
        signs = jax.random.rademacher(sign_key, size, jnp.float32)
        return signs * target.curvature(batch_key, w, signs)

    diagonal = jnp.mean(jax.lax.map(probe, jax.random.split(key, DIAGONAL_PROBES)), axis=0)
    diagonal = jnp.maximum(diagonal, 0.0)
    preconditioner = 1.0 / (diagonal + DAMPING * jnp.mean(diagonal))
    return preconditioner / jnp.mean(preconditioner)
