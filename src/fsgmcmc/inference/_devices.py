"""Chains across the cores of a CPU, or across devices."""

from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec
from jaxtyping import Array, Key, PRNGKeyArray

from fsgmcmc._threads import cores, each_on_a_core

# On a CPU, matrix products of this many parameters and more are faster chain by chain than batched over chains.
SMALLEST_ALONE = 1000


@partial(jax.jit, static_argnums=1)
def chain_keys(key: PRNGKeyArray, chains: int) -> Key[Array, " chains"]:
    """A key for each chain, the same however many there are."""
    return jax.vmap(lambda chain: jax.random.fold_in(key, chain))(jnp.arange(chains))


def across_cores(program: Callable[..., Any], per_chain: tuple, *shared: Any) -> Any:
    """program(*per_chain, *shared), with chains (the leading axis) split into one thread per core.

    On a CPU, XLA computes one program in one thread where the arrays are small. Several devices share the chains
    within one program, so there is one thread then.
    """
    chains = len(jax.tree.leaves(per_chain)[0])
    groups = min(cores(), chains) if jax.default_backend() == "cpu" and len(jax.devices()) == 1 else 1
    if groups == 1:
        return program(*per_chain, *shared)

    def run_part(part: np.ndarray) -> Any:
        own = jax.tree.map(lambda leaf: leaf[part[0] : part[-1] + 1], per_chain)
        return jax.block_until_ready(program(*own, *shared))

    results = each_on_a_core(run_part, np.array_split(np.arange(chains), groups))
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *results)


def map_chains(function: Callable[..., Any], size: int) -> Callable[..., Any]:
    """The function of one chain of `size` parameters, for many chains within a program."""
    if size >= SMALLEST_ALONE and jax.default_backend() == "cpu":
        return lambda *per_chain: jax.lax.map(lambda one: function(*one), per_chain)
    return jax.vmap(function)


def across_devices(chain: Callable[..., Any], shared: Any, plan: Any, keys: Any, carried: Any, *others: Any) -> Any:
    """chain(shared, plan, key, carried, …) for all chains (leading axis), split across devices within a program."""
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


def devices_for(chains: int) -> np.ndarray:
    """The largest number of devices that divides the chains."""
    devices = jax.devices()
    count = max(n for n in range(1, len(devices) + 1) if chains % n == 0)
    return np.array(devices[:count])
