"""Thompson sampling on mushrooms: the agent of each method."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from fsgmcmc.bandits import Agent, Fitted, Greedy, NeuralLinear, ReplayBuffer, Sampled, Uniform
from fsgmcmc.experiments.bandit.config import Settings
from fsgmcmc.experiments.bandit.problem import Problem
from fsgmcmc.methods import SAMPLERS, VARIATIONAL, Method
from fsgmcmc.posterior import Posterior
from fsgmcmc.samplers import step_decay
from fsgmcmc.samplers.curvature import measure
from fsgmcmc.samplers.schedules import Schedule

# Rounds in the smaller of the two buffers for which step sizes are measured.
FEW_ROWS = 64

Builder = Callable[[Problem, Settings], Agent]


def _sampled(kind: Method) -> Builder:
    def build(problem: Problem, settings: Settings) -> Agent:
        target = problem.functional if kind.is_functional else problem.weights
        schedule: Schedule
        if settings.step_size is None:
            schedule = _measured_steps(kind, target, problem.memory, settings.steps)
        else:
            # Langevin steps scale as 1 / U, Hamiltonian steps as its square root.
            step = settings.step_size / settings.capacity ** (0.5 if kind.has_momentum else 1.0)
            schedule = step_decay(step, rate=settings.decay, every=1000 * settings.steps)
        return Sampled(target, kind.build(schedule), settings.steps)

    return build


class BufferSchedule(Schedule):
    """Step sizes while a buffer fills: the largest curvature grows with the rows, λ = a + b N, and ε ∝ λ^(−1/power).

    Attributes:
        initial: Step size of a full buffer.
        ratio: Step size of the first rounds divided by it.
        power: 1 for Langevin dynamics, 2 for Hamiltonian dynamics.
        steps: Gradient steps after each round.
        capacity: Rounds that the buffer holds.
    """

    ratio: Float[Array, ""]
    power: int = eqx.field(static=True)
    steps: int = eqx.field(static=True)
    capacity: int = eqx.field(static=True)

    def __init__(self, full: float, few: float, power: int, steps: int, capacity: int) -> None:
        super().__init__(full)
        self.ratio, self.power, self.steps, self.capacity = jnp.float32(few / full), power, steps, capacity

    def factor(self, step: Any) -> Any:
        """The step size divided by that of a full buffer."""
        rows = step // self.steps + 1
        filled = jnp.clip((rows - FEW_ROWS) / max(self.capacity - FEW_ROWS, 1), 0.0, 1.0)
        return ((1 - filled) * self.ratio**-self.power + filled) ** (-1 / self.power)


def _measured_steps(kind: Method, target: Posterior, memory: ReplayBuffer, steps: int) -> BufferSchedule:
    """The stable step sizes of the sampler at the initial weights, with buffers of random rounds."""
    sampler = kind.build(None)
    start_key, key = jax.random.split(jax.random.key(0))
    w = target.init(start_key)
    curvature = jax.jit(lambda target, w: measure(key, target, w))
    few, full = (
        float(sampler.stable_step(curvature(target.with_data(replace(memory, seen=jnp.int32(rows))), w), w.size))
        for rows in (FEW_ROWS, len(memory.rows.x))
    )
    return BufferSchedule(full, few, 2 if kind.has_momentum else 1, steps, len(memory.rows.x))


def _fitted(method: Method) -> Builder:
    def build(problem: Problem, settings: Settings) -> Agent:
        target = problem.measured if method.is_functional else problem.weights
        options = {"function_draws": settings.function_draws, "functions": settings.functions}
        return Fitted(target, method.approximation(options), settings.learning_rate, settings.steps)

    return build


AGENTS: dict[str, Builder] = {
    **{name: _sampled(kind) for name, kind in SAMPLERS.items()},
    **{name: _fitted(method) for name, method in VARIATIONAL.items()},
    "neural-linear": lambda problem, s: NeuralLinear(
        problem.weights, 0.0, s.learning_rate, s.steps, noise=float(problem.fit.noise)
    ),
    "greedy": lambda problem, s: Greedy(problem.weights, 0.0, s.learning_rate, s.steps),
    "epsilon-greedy": lambda problem, s: Greedy(problem.weights, s.epsilon, s.learning_rate, s.steps),
    "uniform": lambda problem, s: Uniform(),
}
