"""The compiled part of `sample`: start chains, and advance them."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray

from fsgmcmc._compile import jit_loop
from fsgmcmc.posterior import Posterior
from fsgmcmc.samplers.base import Sampler, Target

# Memory that draws may take on the device before they move to the host.
BUFFER_BYTES = 64 << 20
LARGEST_BUFFER = 256
# On a CPU, matrix products of this many parameters and more are faster chain by chain than batched over chains.
SMALLEST_ALONE = 1000


@partial(jax.jit, static_argnums=1)
def chain_keys(key: PRNGKeyArray, chains: int) -> Key[Array, " chains"]:
    """A key for each chain, the same however many there are."""
    return jax.vmap(lambda chain: jax.random.fold_in(key, chain))(jnp.arange(chains))


@eqx.filter_jit
def start(keys: Key[Array, " chains"], target: Target, sampler: Sampler, positions: Float[Array, "chains k"]) -> Any:
    """The sampler's state for every chain."""
    # Steps use fold_in(key, t) with t >= 0, so the largest integer is free for the start.
    init_keys = jax.vmap(lambda key: jax.random.fold_in(key, np.uint32(2**32 - 1)))(keys)
    return jax.vmap(lambda key, w: sampler.init(key, w, target.potential))(init_keys, positions)


def advance(
    keys: Key[Array, " chains"],
    target: Target,
    sampler: Sampler,
    collect: Callable[[Any], Any],
    states: Any,
    lengths: Int[Any, " slots"],
    keeps: Bool[Any, " slots"],
    count: Int[Any, ""],
    feed: Any = None,
) -> tuple[Any, Any, Float[Any, "chains slots"]]:
    """Advance by `count` intervals of the given lengths; what `collect` sees after those that are kept, and energies.

    `feed` has the minibatches of these steps, leaves (chains, steps, …), where the target's data stay on the host.
    """
    return over_cores(_advance, (keys, states, feed), target, sampler, collect, lengths, keeps, count)


def over_cores(program: Callable[..., Any], per_chain: tuple, *shared: Any) -> Any:
    """program(*per_chain, *shared), the chains (leading axis) shared out to as many threads as there are cores.

    On a CPU, XLA computes one program in one thread where the arrays are small. Several devices share the chains
    within one program, so there is one thread then.
    """
    chains = len(jax.tree.leaves(per_chain)[0])
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    groups = min(cores, chains) if jax.default_backend() == "cpu" and len(jax.devices()) == 1 else 1
    if groups == 1:
        return program(*per_chain, *shared)

    def run_part(part: np.ndarray) -> Any:
        own = jax.tree.map(lambda leaf: leaf[part[0] : part[-1] + 1], per_chain)
        return jax.block_until_ready(program(*own, *shared))

    with ThreadPoolExecutor(groups) as threads:
        results = list(threads.map(run_part, np.array_split(np.arange(chains), groups)))
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *results)


def map_chains(function: Callable[..., Any], size: int) -> Callable[..., Any]:
    """The function of one chain of `size` parameters, for many chains within a program."""
    if size >= SMALLEST_ALONE and jax.default_backend() == "cpu":
        return lambda *per_chain: jax.lax.map(lambda one: function(*one), per_chain)
    return jax.vmap(function)


def over_devices(chain: Callable[..., Any], shared: Any, plan: Any, keys: Any, carried: Any, *others: Any) -> Any:
    """chain(shared, plan, key, carried, …) for all chains (leading axis), shared out to devices within a program."""
    arrays, rest = eqx.partition(shared, eqx.is_array)
    size = max(leaf.size // len(keys) for leaf in jax.tree.leaves(carried))

    def all_chains(arrays: Any, plan: Any, *per_chain: Any) -> Any:
        shared = eqx.combine(arrays, rest)
        return map_chains(lambda *one: chain(shared, plan, *one), size)(*per_chain)

    devices, per_chain = devices_for(len(keys)), (keys, carried, *others)
    if len(devices) > 1:
        spread, whole = PartitionSpec("chains"), PartitionSpec()
        all_chains = jax.shard_map(
            all_chains,
            mesh=jax.sharding.Mesh(devices, ("chains",)),
            in_specs=(whole, whole, *(spread for _ in per_chain)),
            out_specs=spread,
            check_vma=False,
        )
    return all_chains(arrays, plan, *per_chain)


@jit_loop
def _advance(
    keys: Key[Array, " chains"],
    states: Any,
    feed: Any,
    target: Target,
    sampler: Sampler,
    collect: Callable[[Any], Any],
    lengths: Int[Any, " slots"],
    keeps: Bool[Any, " slots"],
    count: Int[Any, ""],
) -> tuple[Any, Any, Float[Array, "chains slots"]]:
    """`advance` as one program; its plan is data, so that burn-in, thinning and the last call share it."""

    def chain(shared: tuple, plan: tuple, key: PRNGKeyArray, state: Any, feed: Any) -> tuple:
        (target, sampler, collect), (lengths, keeps, count) = shared, plan
        first = state.step

        def step(_: Any, state: Any) -> Any:
            here = target
            if feed is not None:
                here = target.fed(jax.tree.map(lambda leaf: leaf[state.step - first], feed))
            return sampler.step(jax.random.fold_in(key, state.step), state, here.potential)

        def interval(slot: Any, carry: tuple) -> tuple:
            state, kept, energies = carry
            state = jax.lax.fori_loop(0, lengths[slot], step, state)

            def add() -> Any:
                return jax.tree.map(lambda buffer, value: buffer.at[slot].set(value), kept, collect(state.position))

            kept = jax.lax.cond(keeps[slot], add, lambda: kept)
            return state, kept, energies.at[slot].set(telling_energy(target, state))

        shapes = jax.eval_shape(collect, state.position)
        kept = jax.tree.map(lambda leaf: jnp.zeros((len(lengths), *leaf.shape), leaf.dtype), shapes)
        return jax.lax.fori_loop(0, count, interval, (state, kept, jnp.zeros(len(lengths))))

    return over_devices(chain, (target, sampler, collect), (lengths, keeps, count), keys, states, feed)


def highest_energy(target: Target, start: Float[Array, "*chains"]) -> Float[Array, "*chains"]:
    """What the energy of a sound chain that began with `start` stays below; nothing is known of a bare target."""
    return target.highest_energy(start) if isinstance(target, Posterior) else jnp.full_like(start, jnp.inf)


def telling_energy(target: Target, state: Any) -> Float[Array, ""]:
    """The energy of a state, infinite where the chain was thrown to a noise that nothing wants."""
    if not isinstance(target, Posterior):
        return state.energy
    return jnp.where(target.has_wanted_noise(state.position), state.energy, jnp.inf)


@jax.jit
def finite_chains(states: Any) -> Bool[Array, " chains"]:
    """Which chains still have a finite position and energy."""
    return jnp.isfinite(states.energy) & jnp.all(jnp.isfinite(states.position), axis=1)


def buffer_slots(collect: Callable[[Any], Any], size: int, chains: int) -> int:
    """How many draws of `collect` the device may hold at once."""
    kept = jax.eval_shape(collect, jax.ShapeDtypeStruct((size,), np.float32))
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


def devices_for(chains: int) -> np.ndarray:
    """As many devices as share the chains evenly."""
    devices = jax.devices()
    count = max(n for n in range(1, len(devices) + 1) if chains % n == 0)
    return np.array(devices[:count])
