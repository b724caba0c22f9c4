"""Full-batch samplers with a Metropolis correction: MALA, HMC and NUTS, over blackjax.

They leave exp(−U/T) exactly invariant at any step size, and so serve as references for the stochastic-gradient
samplers. They need a potential that is the same at every call: full batch and fixed measurement points.

HMC also runs with a functional momentum. There z is redrawn from N(0, M), which is not the distribution exp(−E(z))
that its trajectories conserve; the correction accounts for that by accepting with N(0, M), and as E need not be
symmetric, each trajectory runs in a random direction of time.
"""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from fsgmcmc import _checks
from fsgmcmc.samplers.base import Curvature, Potential, Sampler, Vector
from fsgmcmc.samplers.momentum import Momentum

STEP_TIMES_FREQUENCY = 0.5


class MetropolisState(NamedTuple):
    """Position with its energy and gradient, step count, and the last acceptance probability."""

    position: Vector
    step: Int[Array, ""]
    energy: Float[Array, ""]
    gradient: Vector
    acceptance: Float[Array, ""]


class Metropolis(Sampler):
    """The common part: blackjax sees the density of u = P^−½ w at temperature T."""

    needs_deterministic: ClassVar[bool] = True

    def init(self, key: PRNGKeyArray, position: Vector, potential: Potential) -> MetropolisState:
        """Start at `position`."""
        energy, gradient = potential(key, position)
        return MetropolisState(position, jnp.int32(0), energy, gradient, jnp.float32(1))

    def step(self, key: PRNGKeyArray, state: MetropolisState, potential: Potential) -> MetropolisState:
        """One proposal, accepted or not."""
        temperature = self.temperature(state.step)

        def log_density(u: Vector) -> Float[Array, ""]:
            return -potential(key, self.root * u)[0] / temperature

        u = state.position / self.root
        here = (u, -state.energy / temperature, -self.root * state.gradient / temperature)
        (u, value, gradient), acceptance = self.propose(key, here, log_density, self.step_size(state.step))
        return MetropolisState(
            self.root * u, state.step + 1, -value * temperature, -gradient * temperature / self.root, acceptance
        )

    def propose(
        self, key: PRNGKeyArray, here: tuple, log_density: Callable, step_size: Float[Array, ""]
    ) -> tuple[tuple, Float[Array, ""]]:
        """The next (position, log density, gradient) and the acceptance probability."""
        raise TypeError("propose belongs to the concrete samplers")

    def stable_step(self, curvature: Curvature, size: int) -> Float[Array, ""]:
        """h = 0.5 / sqrt(λ_max)."""
        del size
        return STEP_TIMES_FREQUENCY / jnp.sqrt(curvature.largest)


class MALA(Metropolis):
    """Langevin proposals."""

    def propose(
        self, key: PRNGKeyArray, here: tuple, log_density: Callable, step_size: Float[Array, ""]
    ) -> tuple[tuple, Float[Array, ""]]:
        """u' = u + ε ∇ log p(u) + sqrt(2ε) η."""
        import blackjax

        state = blackjax.mcmc.mala.MALAState(*here)
        state, info = blackjax.mala.build_kernel()(key, state, log_density, step_size)
        return tuple(state), info.acceptance_rate

    def stable_step(self, curvature: Curvature, size: int) -> Float[Array, ""]:
        """ε = k^(−1/3) / λ_max, the scaling at which acceptance does not fall with the dimension."""
        return size ** (-1 / 3) / curvature.largest


class HMC(Metropolis):
    """Leapfrog trajectories of fixed length."""

    length: int = eqx.field(static=True)
    momentum: Momentum

    def stable_step(self, curvature: Curvature, size: int) -> Float[Array, ""]:
        """h = 0.5 / sqrt(λ_max λ_E), λ_E the curvature of E(z)."""
        return super().stable_step(curvature, size) / jnp.sqrt(self.momentum.largest_curvature)

    def __init__(self, *common: Any, length: int, momentum: Momentum) -> None:
        super().__init__(*common)
        self.length = length
        self.momentum = momentum

    def propose(
        self, key: PRNGKeyArray, here: tuple, log_density: Callable, step_size: Float[Array, ""]
    ) -> tuple[tuple, Float[Array, ""]]:
        """`length` leapfrog steps from a fresh momentum."""
        import blackjax

        if not self.momentum.can_refresh:
            return self._propose_functional(key, here, log_density, step_size)
        state, mass = blackjax.mcmc.hmc.HMCState(*here), jnp.ones_like(here[0])
        state, info = blackjax.hmc.build_kernel()(key, state, log_density, step_size, mass, self.length)
        return tuple(state), info.acceptance_rate

    def _propose_functional(
        self, key: PRNGKeyArray, here: tuple, log_density: Callable, step_size: Float[Array, ""]
    ) -> tuple[tuple, Float[Array, ""]]:
        momentum_key, direction_key, accept_key = jax.random.split(key, 3)
        z = jax.random.normal(momentum_key, here[0].shape)
        h = step_size * jax.random.rademacher(direction_key, (), jnp.float32)
        *there, z_end = leapfrog(here, z, h, self.length, log_density, self.momentum)
        log_ratio = there[1] - here[1] - 0.5 * jnp.sum(z_end**2 - z**2)
        acceptance = jnp.where(jnp.isfinite(log_ratio), jnp.exp(jnp.minimum(log_ratio, 0.0)), 0.0)
        accepted = jax.random.uniform(accept_key) < acceptance
        return tuple(jnp.where(accepted, new, old) for new, old in zip(there, here, strict=True)), acceptance


class NUTS(Metropolis):
    """Trajectories that stop when they turn back."""

    max_doublings: int = eqx.field(static=True)

    def __init__(self, *common: Any, max_doublings: int) -> None:
        super().__init__(*common)
        self.max_doublings = max_doublings

    def propose(
        self, key: PRNGKeyArray, here: tuple, log_density: Callable, step_size: Float[Array, ""]
    ) -> tuple[tuple, Float[Array, ""]]:
        """One tree of leapfrog steps."""
        import blackjax

        state, mass = blackjax.mcmc.hmc.HMCState(*here), jnp.ones_like(here[0])
        state, info = blackjax.nuts.build_kernel()(key, state, log_density, step_size, mass, self.max_doublings)
        return tuple(state), info.acceptance_rate


def leapfrog(
    here: tuple,
    z: Vector,
    h: Float[Array, ""],
    length: int,
    log_density: Callable,
    momentum: Momentum,
) -> tuple[Vector, Float[Array, ""], Vector, Vector]:
    """`length` steps of half kick, drift, half kick in H = −log p(u) + E(z); h < 0 runs back in time.

    Returns position, log density, its gradient, and the momentum.
    """

    def one(_: Any, carry: tuple) -> tuple:
        u, _, gradient, z = carry
        z = z + 0.5 * h * gradient
        u = u + h * momentum.velocity(z)
        value, gradient = jax.value_and_grad(log_density)(u)
        return u, value, gradient, z + 0.5 * h * gradient

    return jax.lax.fori_loop(0, length, one, (*here, z))


def mala(
    step_size: Any = None, *, temperature: Any = 1.0, preconditioner: Any = None, space: str | None = None
) -> MALA:
    """Metropolis-adjusted Langevin (Roberts and Tweedie, 1996).

    Args:
        step_size: ε as in `langevin`, a number, a schedule, or None to have it measured in the warm-up.
        temperature: T, a positive number or a schedule.
        preconditioner: Diagonal of P as a vector, or None to have the warm-up decide.
        space: Refuse posteriors that are not in this space.
    """
    return MALA(step_size, temperature, preconditioner, space)


def hmc(
    step_size: Any = None,
    *,
    length: int = 10,
    momentum: Momentum | None = None,
    temperature: Any = 1.0,
    preconditioner: Any = None,
    space: str | None = None,
) -> HMC:
    """Hamiltonian Monte Carlo with a fixed number of leapfrog steps a proposal.

    Args:
        step_size: h, a number, a schedule, or None to have it measured in the warm-up.
        length: Leapfrog steps of a proposal.
        momentum: The distribution of the momentum: Gaussian, or a `functional_momentum`.
        temperature: T, a positive number or a schedule.
        preconditioner: Diagonal of P as a vector, or None to have the warm-up decide.
        space: Refuse posteriors that are not in this space.

    Example:
        >>> from fsgmcmc import Energy, sample
        >>> target = Energy(lambda w: 0.5 * jnp.sum(w * w), jnp.zeros(1))
        >>> draws = sample(0, target, hmc(0.5, length=5), draws=500, burn_in=20, thinning=1).positions
        >>> bool(abs(draws.var() - 1) < 0.2)
        True
    """
    length = _checks.count(length, "length")
    return HMC(step_size, temperature, preconditioner, space, length=length, momentum=momentum or Momentum())


def nuts(
    step_size: Any = None,
    *,
    max_doublings: int = 8,
    temperature: Any = 1.0,
    preconditioner: Any = None,
    space: str | None = None,
) -> NUTS:
    """The no-U-turn sampler (Hoffman and Gelman, 2014).

    Args:
        step_size: h, a number, a schedule, or None to have it measured in the warm-up.
        max_doublings: Trajectories have up to 2^max_doublings leapfrog steps.
        temperature: T, a positive number or a schedule.
        preconditioner: Diagonal of P as a vector, or None to have the warm-up decide.
        space: Refuse posteriors that are not in this space.
    """
    max_doublings = _checks.count(max_doublings, "max_doublings")
    return NUTS(step_size, temperature, preconditioner, space, max_doublings=max_doublings)
