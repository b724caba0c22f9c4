"""Schedules: numbers that may change with the step count.

A schedule is a callable of the step, `initial` times a factor that starts at one. An optax schedule (or any other
callable of the step) is accepted wherever one of these is. `initial=None` leaves the number to the warm-up, which
measures the curvature of the potential and fills it in.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fsgmcmc import _checks


class Schedule(eqx.Module):
    """`initial × factor(step)`; `initial` is an array, so that other values need no compilation."""

    initial: Float[Array, ""] | None

    def __init__(self, initial: Any = None) -> None:
        self.initial = None if initial is None else jnp.asarray(initial, dtype=jnp.float32)

    def factor(self, step: Any) -> Any:
        """How the number has changed since the start; constant unless a subclass says otherwise."""
        del step
        return 1.0

    def __call__(self, step: Any) -> Float[Array, "..."]:
        """The value at a step."""
        return jnp.asarray(self.initial) * self.factor(step)

    def scaled(self, factor: Any) -> "Schedule":
        """The same course, `factor` times as high."""
        return eqx.tree_at(lambda schedule: schedule.initial, self, jnp.asarray(self.initial) * factor)

    def started_at(self, initial: Any) -> "Schedule":
        """The same course from another start."""
        leaf = jnp.asarray(initial, dtype=jnp.float32)
        return eqx.tree_at(lambda schedule: schedule.initial, self, leaf, is_leaf=lambda node: node is None)


class _StepDecay(Schedule):
    rate: float = eqx.field(static=True)
    every: int = eqx.field(static=True)

    def __init__(self, initial: Any, rate: float, every: int) -> None:
        super().__init__(initial)
        self.rate, self.every = rate, every

    def factor(self, step: Any) -> Any:
        return self.rate ** jnp.asarray(step // self.every, jnp.float32)


class _Polynomial(Schedule):
    offset: float = eqx.field(static=True)
    power: float = eqx.field(static=True)

    def __init__(self, initial: Any, offset: float, power: float) -> None:
        super().__init__(initial)
        self.offset, self.power = offset, power

    def factor(self, step: Any) -> Any:
        return (1 + step / self.offset) ** -self.power


class _Cosine(Schedule):
    length: int = eqx.field(static=True)

    def __init__(self, initial: Any, length: int) -> None:
        super().__init__(initial)
        self.length = length

    def factor(self, step: Any) -> Any:
        return 0.5 * (1 + jnp.cos(jnp.pi * (step % self.length) / self.length))


class CyclicTemperature(Schedule):
    """Zero while a cycle explores, `initial` while it samples."""

    length: int = eqx.field(static=True)
    exploration: float = eqx.field(static=True)

    def __init__(self, initial: Any, length: int, exploration: float) -> None:
        super().__init__(initial)
        self.length, self.exploration = length, exploration

    def factor(self, step: Any) -> Any:
        """One in the sampling phase, zero in the exploration phase."""
        return (step % self.length >= self.exploration * self.length) * 1.0


class _Custom(Schedule):
    function: Callable[[Any], Any] = eqx.field(static=True)

    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__(1.0)
        self.function = function

    def factor(self, step: Any) -> Any:
        return self.function(step)


def constant(initial: float | None = None) -> Schedule:
    """The same value at every step."""
    return Schedule(initial)


def step_decay(initial: float | None = None, *, rate: float = 0.9, every: int = 5000) -> Schedule:
    """initial × rate^⌊t / every⌋; the paper's schedule.

    Example:
        >>> [round(float(step_decay(1.0, rate=0.5, every=10)(jnp.array(t))), 3) for t in (0, 9, 10, 25)]
        [1.0, 1.0, 0.5, 0.25]
    """
    _checks.positive(rate, "rate")
    return _StepDecay(initial, float(rate), _checks.count(every, "every"))


def polynomial(initial: float | None = None, *, offset: float = 1.0, power: float = 0.55) -> Schedule:
    """a (b + t)^−γ with b = offset, γ = power and a such that the start is `initial`."""
    _checks.positive(offset, "offset")
    _checks.positive(power, "power")
    return _Polynomial(initial, float(offset), float(power))


def cyclical(initial: float | None = None, *, length: int) -> Schedule:
    """Cosine cycles: ½ initial (1 + cos(π (t mod length) / length)). Use it with `cyclical_temperature`."""
    return _Cosine(initial, _checks.count(length, "length"))


def cyclical_temperature(temperature: float = 1.0, *, length: int, exploration: float = 0.8) -> Schedule:
    """Temperature zero in the first `exploration` part of each cycle, `temperature` in the rest.

    `sample` keeps draws from the sampling phases only.
    """
    if not 0 <= exploration < 1:
        raise ValueError(f"exploration is a fraction of the cycle in [0, 1), got {exploration}")
    return CyclicTemperature(temperature, _checks.count(length, "length"), float(exploration))


def as_schedule(value: Any, name: str, *, zero_allowed: bool = False) -> Schedule:
    """A schedule from a number, an optax schedule, None, or a schedule."""
    if isinstance(value, Schedule):
        schedule = value
    elif callable(value):
        return _Custom(value)
    else:
        schedule = Schedule(value)
    if schedule.initial is not None and not (zero_allowed and np.all(np.asarray(schedule.initial) == 0)):
        _checks.positive(schedule.initial, name)
    return schedule
