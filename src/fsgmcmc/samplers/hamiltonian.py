"""Hamiltonian dynamics with friction.

    dw = v(z) dt,    dz = −∇U(w) dt − C v(z) dt + sqrt(2 C T) dB,    v(z) = ∇E(z)

On a function-space posterior this is fSGHMC, on a parameter-space one SGHMC. Every integrator costs one gradient
of U a step. Each is written from one kick to the next, so that neighbouring half kicks share their gradient:

    baoab      B A½ O A½      kick h, drift h/2, thermostat, drift h/2; exact on Gaussian targets
    obabo      B½ O B½ A      variance 1 / (1 − h²λ/4) for a mode of curvature λ
    leapfrog   B½ O B½ A      with no friction and the momentum redrawn every m steps: same variance
    euler      w += h v(z); z += −h∇U − C h v + noise     the paper's literal update, biased, for comparison

B kicks z by −h∇U, A drifts w by h v(z), O is the thermostat of the momentum measure. With a preconditioner P the
mass is P⁻¹ and z is kept in the whitened coordinates P^½ z.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from fsgmcmc import _checks
from fsgmcmc.random import normal
from fsgmcmc.samplers.base import Curvature, Potential, Sampler, Vector
from fsgmcmc.samplers.momentum import Momentum

INTEGRATORS = ("baoab", "obabo", "leapfrog", "euler")
# h sqrt(λ_max), stable below 2: half-kick integrators are then at most 7 % too wide in variance. baoab is exact on
# Gaussian targets, so that it may take longer steps.
STEP_TIMES_FREQUENCY = 0.5
STEP_TIMES_FREQUENCY_BAOAB = 0.7
LARGEST_FREQUENCY = 2.0
# Variance that gradient noise may add to the injected noise, as a fraction.
HEATING = 0.05
# C h where nothing is given: enough to absorb the noise of minibatches and redrawn points.
FRICTION_PER_STEP = 0.1
TRAJECTORY = 10


class HamiltonianState(NamedTuple):
    """Position, step count, the energy at the position before, and the momentum (before its kick)."""

    position: Vector
    step: Int[Array, ""]
    energy: Float[Array, ""]
    momentum: Vector


class Hamiltonian(Sampler):
    """The sampler; build it with `hamiltonian`, `fsghmc` or `sghmc`."""

    integrator: str = eqx.field(static=True)
    friction: Float[Array, ""] | None
    friction_per_step: float = eqx.field(static=True)
    step_times_frequency: float = eqx.field(static=True)
    resample_every: int | None = eqx.field(static=True)
    momentum: Momentum

    def __init__(
        self,
        *common: Any,
        integrator: str,
        friction: Any,
        friction_per_step: float,
        step_times_frequency: float,
        resample_every: int | None,
        momentum: Momentum,
    ) -> None:
        super().__init__(*common)
        self.integrator = integrator
        self.friction = None if friction is None else jnp.asarray(friction, jnp.float32)
        self.friction_per_step = friction_per_step
        self.step_times_frequency = step_times_frequency
        self.resample_every = resample_every
        self.momentum = momentum

    def init(self, key: PRNGKeyArray, position: Vector, potential: Potential) -> HamiltonianState:
        """Start at `position` with a Gaussian momentum."""
        energy_key, momentum_key = jax.random.split(key)
        energy, _ = potential(energy_key, position)
        momentum = jnp.sqrt(self.temperature(0)) * normal(momentum_key, len(position))
        return HamiltonianState(position, jnp.int32(0), energy, momentum)

    def step(self, key: PRNGKeyArray, state: HamiltonianState, potential: Potential) -> HamiltonianState:
        """One gradient, one move of the thermostat."""
        gradient_key, noise_key = jax.random.split(key)
        energy, gradient = potential(gradient_key, state.position)
        step_size, temperature = self.step_size(state.step), self.temperature(state.step)
        friction = self._friction_per_step(step_size)
        refresh = self.resample_every is not None and state.step % self.resample_every == 0
        kick = -step_size * self.root * gradient
        w, z = state.position, state.momentum

        def drift(w: Vector, z: Vector, part: float) -> Vector:
            return w + part * step_size * self.root * self.momentum.velocity(z)

        def thermostat(z: Vector) -> Vector:
            return self.momentum.thermostat(noise_key, z, friction, temperature, refresh)

        if self.integrator == "baoab":
            z = z + kick
            w = drift(w, z, 0.5)
            z = thermostat(z)
            w = drift(w, z, 0.5)
        elif self.integrator in ("obabo", "leapfrog"):
            z = thermostat(z + 0.5 * kick) + 0.5 * kick
            w = drift(w, z, 1.0)
        else:
            fresh_key, noise_key = jax.random.split(noise_key)
            fresh = jnp.sqrt(temperature) * normal(fresh_key, len(z))
            z = jnp.where(refresh, fresh, z)
            noise = jnp.sqrt(2 * friction * temperature) * normal(noise_key, len(z))
            w, z = drift(w, z, 1.0), z + kick - friction * self.momentum.velocity(z) + noise
        return HamiltonianState(w, state.step + 1, energy, z)

    def stable_step(self, curvature: Curvature, size: int) -> Float[Array, ""]:
        """h = min(c / sqrt(λ_max λ_E), sqrt(0.05 × 2 C h / gradient noise)), λ_E the curvature of E(z).

        c is `step_times_frequency`.
        """
        del size
        by_curvature = self.step_times_frequency / jnp.sqrt(curvature.largest * self.momentum.largest_curvature)
        friction = self._friction_per_step(by_curvature)
        noise = jnp.maximum(curvature.gradient_noise, jnp.finfo(jnp.float32).tiny)
        by_noise = jnp.where(friction > 0, jnp.sqrt(HEATING * 2 * friction / noise), jnp.inf)
        return jnp.minimum(by_curvature, by_noise)

    def _friction_per_step(self, step_size: Float[Array, ""]) -> Float[Array, ""]:
        if self.friction is not None:
            return self.friction * step_size
        if self.resample_every is not None:
            return jnp.float32(0)
        return self.friction_per_step / self.momentum.largest_curvature


def hamiltonian(
    step_size: Any = None,
    *,
    friction: float | None = None,
    friction_per_step: float = FRICTION_PER_STEP,
    step_times_frequency: float | None = None,
    integrator: str = "baoab",
    resample_every: int | None = None,
    momentum: Momentum | None = None,
    temperature: Any = 1.0,
    preconditioner: Any = None,
    space: str | None = None,
) -> Hamiltonian:
    """Stochastic-gradient Hamiltonian Monte Carlo: carries its momentum, so it travels further than Langevin.

    Args:
        step_size: h, a number, a schedule, or None to have it measured in the warm-up.
        friction: C in units of 1 / time, so that a step forgets a fraction C h of the momentum. By default
            `friction_per_step` says it when the momentum is carried, and it is 0 when it is resampled.
        friction_per_step: C h, whatever the step turns out to be (over λ_max of a functional momentum). Without any
            noise in the gradient 0.002 travels further than the default.
        step_times_frequency: c = h sqrt(λ_max) of a step that is measured, below 2. By default 0.7 for baoab and
            0.5 for the others.
        integrator: One of baoab, obabo, leapfrog, euler; see the module's docstring.
        resample_every: Draw the momentum anew every so many steps (m in the paper) instead of only by friction.
            leapfrog and euler do so every 10 steps unless a friction is given.
        momentum: The measure of the auxiliary variable: the induced one by default, or `functional_momentum`.
        temperature: T, a number or a schedule.
        preconditioner: Diagonal of P as a vector, or None to have the warm-up decide.
        space: Refuse posteriors that are not in this space.

    Example:
        >>> from fsgmcmc import Energy, sample
        >>> target = Energy(lambda w: 0.5 * jnp.sum(w * w), jnp.zeros(2))
        >>> draws = sample(0, target, hamiltonian(0.5), draws=1000, thinning=5, burn_in=100, warm_up=None).positions
        >>> bool(abs(draws.var() - 1) < 0.1)
        True
    """
    momentum = Momentum() if momentum is None else momentum
    if integrator not in INTEGRATORS:
        raise ValueError(f"unknown integrator {integrator!r}; choose from {', '.join(INTEGRATORS)}")
    if friction is not None:
        _checks.positive(friction, "friction")
    _checks.positive(friction_per_step, "friction_per_step")
    if step_times_frequency is None:
        exact = integrator == "baoab" and momentum.can_refresh
        step_times_frequency = STEP_TIMES_FREQUENCY_BAOAB if exact else STEP_TIMES_FREQUENCY
    if not 0 < step_times_frequency < LARGEST_FREQUENCY:
        raise ValueError(f"step_times_frequency must be above 0 and below 2, such as 0.7, got {step_times_frequency}")
    if resample_every is None and friction is None and integrator in ("leapfrog", "euler") and momentum.can_refresh:
        resample_every = TRAJECTORY
    if resample_every is not None:
        _checks.count(resample_every, "resample_every")
        if not momentum.can_refresh:
            raise ValueError(
                "a functional momentum cannot be redrawn: N(0, M) is not its distribution, and the chain would sample "
                "another posterior; leave resample_every out and let the friction do it"
            )
        if integrator == "euler" and resample_every == 1:
            raise ValueError(
                "euler with resample_every=1 never uses the gradient: each step drifts with a fresh momentum; "
                "use at least 2, or another integrator"
            )
    return Hamiltonian(
        step_size,
        temperature,
        preconditioner,
        space,
        integrator=integrator,
        friction=friction,
        friction_per_step=float(friction_per_step),
        step_times_frequency=float(step_times_frequency),
        resample_every=resample_every,
        momentum=momentum,
    )


def fsghmc(
    step_size: Any = None,
    *,
    friction: float | None = None,
    friction_per_step: float = FRICTION_PER_STEP,
    step_times_frequency: float | None = None,
    integrator: str = "baoab",
    resample_every: int | None = None,
    momentum: Momentum | None = None,
    temperature: Any = 1.0,
    preconditioner: Any = None,
) -> Hamiltonian:
    """Functional SGHMC (Wu, Xuan and Lu, 2025): `hamiltonian` on a function-space posterior.

    Args:
        step_size: h, a number, a schedule, or None to have it measured in the warm-up.
        friction: C in units of 1 / time; by default `friction_per_step` decides.
        friction_per_step: C h, whatever the step size is.
        step_times_frequency: c = h sqrt(λ_max) of a step that is measured, below 2.
        integrator: One of baoab, obabo, leapfrog, euler.
        resample_every: Draw the momentum anew every so many steps.
        momentum: The distribution of the momentum: Gaussian, or a `functional_momentum`.
        temperature: T, a number or a schedule.
        preconditioner: Diagonal of P as a vector, or None to have the warm-up decide.
    """
    return hamiltonian(
        step_size,
        friction=friction,
        friction_per_step=friction_per_step,
        step_times_frequency=step_times_frequency,
        integrator=integrator,
        resample_every=resample_every,
        momentum=momentum,
        temperature=temperature,
        preconditioner=preconditioner,
        space="function",
    )


def sghmc(
    step_size: Any = None,
    *,
    friction: float | None = None,
    friction_per_step: float = FRICTION_PER_STEP,
    step_times_frequency: float | None = None,
    integrator: str = "baoab",
    resample_every: int | None = None,
    momentum: Momentum | None = None,
    temperature: Any = 1.0,
    preconditioner: Any = None,
) -> Hamiltonian:
    """SGHMC (Chen, Fox and Guestrin, 2014): `hamiltonian` on a parameter-space posterior.

    Args:
        step_size: h, a number, a schedule, or None to have it measured in the warm-up.
        friction: C in units of 1 / time; by default `friction_per_step` decides.
        friction_per_step: C h, whatever the step size is.
        step_times_frequency: c = h sqrt(λ_max) of a step that is measured, below 2.
        integrator: One of baoab, obabo, leapfrog, euler.
        resample_every: Draw the momentum anew every so many steps.
        momentum: The distribution of the momentum: Gaussian, or a `functional_momentum`.
        temperature: T, a number or a schedule.
        preconditioner: Diagonal of P as a vector, or None to have the warm-up decide.
    """
    return hamiltonian(
        step_size,
        friction=friction,
        friction_per_step=friction_per_step,
        step_times_frequency=step_times_frequency,
        integrator=integrator,
        resample_every=resample_every,
        momentum=momentum,
        temperature=temperature,
        preconditioner=preconditioner,
        space="parameter",
    )
