"""The compiled part of `sample`: start chains, and run steps of them."""

from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray

from fsgmcmc._compile import jit_loop, jit_once
from fsgmcmc.inference._devices import across_cores, across_devices
from fsgmcmc.posterior.target import Target
from fsgmcmc.samplers.base import Sampler

# Memory that draws may take on the device before they move to the host.
BUFFER_BYTES = 64 << 20
LARGEST_BUFFER = 256


class Kept(eqx.Module):
    """What is kept of w; a module, so that arrays in `collect` are arguments of a program and not constants in it."""

    collect: Callable[[Any], Any] | None = None

    def __call__(self, target: Target, w: Any) -> Any:
        """w, or what `collect` makes of its parameters."""
        return w if self.collect is None else self.collect(target.parameters(w))


def states_at(
    keys: Key[Array, " chains"], target: Target, sampler: Sampler, positions: Float[Array, "chains k"]
) -> Any:
    """The sampler's state for every chain; of chains that have a key each, `start_keys` are free."""
    return jax.vmap(lambda key, w: sampler.init(key, w, target.potential))(keys, positions)


start = jit_once(states_at)


@jax.jit
def start_keys(keys: Key[Array, " chains"]) -> Key[Array, " chains"]:
    """Keys that no step uses: steps have fold_in(key, t) with t >= 0, so that the largest integer is free."""
    return jax.vmap(lambda key: jax.random.fold_in(key, np.uint32(2**32 - 1)))(keys)


def run_steps(
    keys: Key[Array, " chains"],
    target: Target,
    sampler: Sampler,
    collect: Callable[[Target, Any], Any],
    states: Any,
    lengths: Int[Any, " slots"],
    keeps: Bool[Any, " slots"],
    count: Int[Any, ""],
    feed: Any = None,
) -> tuple[Any, Any, Float[Any, "chains slots"]]:
    """Run `count` intervals of the given lengths; what `collect` returns after those that are kept, and energies.

    `feed` has the minibatches of these steps, leaves (chains, steps, …), where the target's data stay on the host.
    """
    return across_cores(_run_steps, (keys, states, feed), target, sampler, collect, lengths, keeps, count)


@jit_loop
def _run_steps(
    keys: Key[Array, " chains"],
    states: Any,
    feed: Any,
    target: Target,
    sampler: Sampler,
    collect: Callable[[Target, Any], Any],
    lengths: Int[Any, " slots"],
    keeps: Bool[Any, " slots"],
    count: Int[Any, ""],
) -> tuple[Any, Any, Float[Array, "chains slots"]]:
    """`run_steps` as one program; its plan is data, so that burn-in, thinning and the last call share it."""

    def chain(shared: tuple, plan: tuple, key: PRNGKeyArray, state: Any, feed: Any) -> tuple:
        (target, sampler, collect), (lengths, keeps, count) = shared, plan
        first = state.step

        def step(_: Any, state: Any) -> Any:
            here = target
            if feed is not None:
                here = target.with_batch(jax.tree.map(lambda leaf: leaf[state.step - first], feed))
            return sampler.step(jax.random.fold_in(key, state.step), state, here.potential)

        def interval(slot: Any, carry: tuple) -> tuple:
            state, kept, energies = carry
            state = jax.lax.fori_loop(0, lengths[slot], step, state)

            def add() -> Any:
                return jax.tree.map(
                    lambda buffer, value: buffer.at[slot].set(value), kept, collect(target, state.position)
                )

            kept = jax.lax.cond(keeps[slot], add, lambda: kept)
            return state, kept, energies.at[slot].set(checked_energy(target, state))

        shapes = jax.eval_shape(lambda w: collect(target, w), state.position)
        kept = jax.tree.map(lambda leaf: jnp.zeros((len(lengths), *leaf.shape), leaf.dtype), shapes)
        return jax.lax.fori_loop(0, count, interval, (state, kept, jnp.zeros(len(lengths))))

    return across_devices(chain, (target, sampler, collect), (lengths, keeps, count), keys, states, feed)


def checked_energy(target: Target, state: Any) -> Float[Array, ""]:
    """The energy of a state, infinite at positions that only a diverged chain reaches."""
    return jnp.where(target.is_plausible(state.position), state.energy, jnp.inf)


@jax.jit
def finite_chains(states: Any) -> Bool[Array, " chains"]:
    """Which chains still have a finite position and energy."""
    return jnp.isfinite(states.energy) & jnp.all(jnp.isfinite(states.position), axis=1)


def buffer_slots(target: Target, collect: Callable[[Target, Any], Any], size: int, chains: int) -> int:
    """How many draws of `collect` the device may hold at once."""
    kept = jax.eval_shape(lambda w: collect(target, w), jax.ShapeDtypeStruct((size,), np.float32))
    draw_bytes = chains * sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(kept))
    return int(np.clip(BUFFER_BYTES // max(draw_bytes, 1), 1, LARGEST_BUFFER))


def intervals(done: int, kept_steps: Iterator[int], most_steps: int, most_slots: int) -> list[tuple[int, bool]]:
    """The next intervals from step `done` on, as (length, whether its end is kept), within one call's limits."""
    plan: list[tuple[int, bool]] = []
    here, end = done, done + most_steps
    for kept in kept_steps:
        stop = min(kept, end)
        plan.append((stop - here, stop == kept))
        here = stop
        if here == end or len(plan) == most_slots:
            break
    return plan
