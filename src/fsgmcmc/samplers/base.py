"""The contract of a sampler: `init` and `step`, given a potential.

    state = sampler.init(key, position, potential)
    state = sampler.step(key, state, potential)

`potential(key, w) -> (energy, gradient)` with w a vector in R^k. A sampler is a small pytree: step size, temperature
and preconditioner are arrays in it, so that the warm-up can set them without another compilation.
"""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from fsgmcmc import _checks
from fsgmcmc.samplers.schedules import CyclicTemperature, Schedule, as_schedule

Vector = Float[Array, " k"]
# Each sampler's own NamedTuple; all have `position`, `step` (how many were taken) and `energy` (the last one seen).
State = Any
Potential = Callable[[PRNGKeyArray, Vector], tuple[Float[Array, ""], Vector]]


class Curvature(NamedTuple):
    """Input of the step-size rules: measurements of a potential in preconditioned coordinates P^½.

    Attributes:
        largest: λ_max of the Gauss-Newton (or Hessian) matrix.
        gradient_noise: Mean variance of a stochastic gradient's entries, zero for a deterministic potential.
    """

    largest: Float[Array, ""]
    gradient_noise: Float[Array, ""]


class Sampler(eqx.Module):
    """The common part of all samplers.

    Attributes:
        step_size: A schedule; its start is None until the warm-up has measured a stable one.
        temperature: A schedule; one samples the posterior, zero descends to its mode.
        preconditioner: Diagonal P as a vector, or None for the identity.
        space: `"function"` or `"parameter"` where a posterior of the other kind is to be refused; the dynamics do not
            depend on it.
    """

    step_size: Schedule
    temperature: Schedule
    preconditioner: Vector | None
    space: str | None = eqx.field(static=True)

    needs_deterministic: ClassVar[bool] = False

    def __init__(
        self, step_size: object, temperature: object = 1.0, preconditioner: object = None, space: str | None = None
    ) -> None:
        if preconditioner is not None:
            _checks.positive(preconditioner, "preconditioner")
        if space not in (None, "function", "parameter"):
            raise ValueError(f"space is 'function', 'parameter' or None, got {space!r}")
        if self.needs_deterministic and isinstance(temperature, CyclicTemperature):
            raise ValueError(
                "a Metropolis-corrected sampler cannot explore at temperature zero: give a positive number"
            )
        self.step_size = as_schedule(step_size, "step_size")
        self.temperature = as_schedule(temperature, "temperature", zero_allowed=not self.needs_deterministic)
        self.preconditioner = None if preconditioner is None else jnp.asarray(preconditioner, jnp.float32)
        self.space = space

    def init(self, key: PRNGKeyArray, position: Vector, potential: Potential) -> State:
        """The state of a chain that starts at `position`."""
        raise NotImplementedError(f"{type(self).__name__} must define init(key, position, potential)")

    def step(self, key: PRNGKeyArray, state: State, potential: Potential) -> State:
        """The next state."""
        raise NotImplementedError(f"{type(self).__name__} must define step(key, state, potential)")

    def stable_step(self, curvature: Curvature, size: int) -> Float[Array, ""]:
        """The largest step this sampler can take with a small bias in every direction of R^size."""
        raise NotImplementedError(
            f"{type(self).__name__} must define stable_step(curvature, size), or be given a step_size"
        )

    @property
    def initial_step(self) -> float:
        """The step size at the start, NaN before it is measured."""
        return float("nan") if self.step_size.initial is None else float(self.step_size(0))

    def with_step(self, step_size: object) -> "Sampler":
        """The same sampler with its schedule starting at `step_size`."""
        return eqx.tree_at(lambda sampler: sampler.step_size, self, self.step_size.started_at(step_size))

    def with_preconditioner(self, preconditioner: Vector | None) -> "Sampler":
        """The same sampler in other coordinates."""
        return eqx.tree_at(
            lambda sampler: sampler.preconditioner, self, preconditioner, is_leaf=lambda node: node is None
        )

    def with_scaled_step(self, factor: float) -> "Sampler":
        """The same sampler with steps `factor` times as long."""
        return eqx.tree_at(lambda sampler: sampler.step_size, self, self.step_size.scaled(factor))

    def samples_at(self, step: int) -> bool:
        """Whether a draw made after this many steps is one of the posterior, not of a cycle's exploration."""
        return not isinstance(self.temperature, CyclicTemperature) or bool(self.temperature.factor(step - 1))

    @property
    def root(self) -> Vector | float:
        """P^½."""
        return 1.0 if self.preconditioner is None else jnp.sqrt(self.preconditioner)
