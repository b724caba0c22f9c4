"""Langevin dynamics.

    w ← w − ε P ∇Ũ(w) + sqrt(2 ε T P) η,    η ~ N(0, I)

On a function-space posterior this is fSGLD, on a parameter-space one SGLD. On a Gaussian target a mode of
curvature λ (in the coordinates of P) has 1 / (1 − ελ/2) times its true variance.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from fsgmcmc.random import normal
from fsgmcmc.samplers.base import Curvature, Potential, Sampler, Vector

# ε λ_max, stable below 2: the stiffest mode is then 11 % too wide in variance, all others less.
STEP_TIMES_CURVATURE = 0.2
LARGEST_CURVATURE = 2.0
# Variance that gradient noise may add to the injected noise, as a fraction.
HEATING = 0.1


class LangevinState(NamedTuple):
    """Position, step count and the energy at the position before."""

    position: Vector
    step: Int[Array, ""]
    energy: Float[Array, ""]


class Langevin(Sampler):
    """The sampler; build it with `langevin`, `fsgld` or `sgld`."""

    step_times_curvature: float = eqx.field(static=True, default=STEP_TIMES_CURVATURE)

    def __init__(self, *common: Any, step_times_curvature: float = STEP_TIMES_CURVATURE) -> None:
        super().__init__(*common)
        self.step_times_curvature = step_times_curvature

    def init(self, key: PRNGKeyArray, position: Vector, potential: Potential) -> LangevinState:
        """Start at `position`."""
        energy, _ = potential(key, position)
        return LangevinState(position, jnp.int32(0), energy)

    def step(self, key: PRNGKeyArray, state: LangevinState, potential: Potential) -> LangevinState:
        """One gradient, one draw of noise."""
        gradient_key, noise_key = jax.random.split(key)
        energy, gradient = potential(gradient_key, state.position)
        step_size, temperature = self.step_size(state.step), self.temperature(state.step)
        noise = normal(noise_key, len(gradient))
        drift = step_size * self.root**2 * gradient
        diffusion = jnp.sqrt(2 * step_size * temperature) * self.root * noise
        return LangevinState(state.position - drift + diffusion, state.step + 1, energy)

    def stable_step(self, curvature: Curvature, size: int) -> Float[Array, ""]:
        """ε = min(c / λ_max, 2 × 0.1 / gradient noise), c being `step_times_curvature`."""
        del size
        return jnp.minimum(
            self.step_times_curvature / curvature.largest,
            2 * HEATING / jnp.maximum(curvature.gradient_noise, jnp.finfo(jnp.float32).tiny),
        )


def langevin(
    step_size: Any = None,
    *,
    step_times_curvature: float = STEP_TIMES_CURVATURE,
    temperature: Any = 1.0,
    preconditioner: Any = None,
    space: str | None = None,
) -> Langevin:
    """Stochastic-gradient Langevin dynamics, the simplest sampler, robust to noise in the gradient.

    Args:
        step_size: ε, a number, a schedule, or None to have it measured in the warm-up.
        step_times_curvature: c = ε λ_max of a step that is measured, below 2.
        temperature: T, a number or a schedule.
        preconditioner: Diagonal of P as a vector, or None to have the warm-up decide.
        space: Refuse posteriors that are not in this space.

    Example:
        >>> from fsgmcmc import Energy
        >>> target, sampler = Energy(lambda w: 2 * jnp.sum(w * w), jnp.ones(1)), langevin(0.1, temperature=0.0)
        >>> state = sampler.init(jax.random.key(0), target.start, target.potential)
        >>> state = sampler.step(jax.random.key(1), state, target.potential)
        >>> round(state.position.item(), 3)  # 1 − 0.1 · 4
        0.6
    """
    if not 0 < step_times_curvature < LARGEST_CURVATURE:
        raise ValueError(f"step_times_curvature must be above 0 and below 2, such as 0.2, got {step_times_curvature}")
    return Langevin(step_size, temperature, preconditioner, space, step_times_curvature=float(step_times_curvature))


def fsgld(
    step_size: Any = None,
    *,
    step_times_curvature: float = STEP_TIMES_CURVATURE,
    temperature: Any = 1.0,
    preconditioner: Any = None,
) -> Langevin:
    """Functional SGLD (Wu, Xuan and Lu, 2025): `langevin` on a function-space posterior.

    Args:
        step_size: ε, a number, a schedule, or None to have it measured in the warm-up.
        step_times_curvature: c = ε λ_max of a step that is measured, below 2.
        temperature: T, a number or a schedule.
        preconditioner: Diagonal of P as a vector, or None to have the warm-up decide.
    """
    return langevin(
        step_size,
        step_times_curvature=step_times_curvature,
        temperature=temperature,
        preconditioner=preconditioner,
        space="function",
    )


def sgld(
    step_size: Any = None,
    *,
    step_times_curvature: float = STEP_TIMES_CURVATURE,
    temperature: Any = 1.0,
    preconditioner: Any = None,
) -> Langevin:
    """SGLD (Welling and Teh, 2011): `langevin` on a parameter-space posterior.

    Args:
        step_size: ε, a number, a schedule, or None to have it measured in the warm-up.
        step_times_curvature: c = ε λ_max of a step that is measured, below 2.
        temperature: T, a number or a schedule.
        preconditioner: Diagonal of P as a vector, or None to have the warm-up decide.
    """
    return langevin(
        step_size,
        step_times_curvature=step_times_curvature,
        temperature=temperature,
        preconditioner=preconditioner,
        space="parameter",
    )
