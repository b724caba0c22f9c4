"""Adapters: models of other libraries as networks.

ApplyNetwork       (params, apply): every chain starts at the given parameters
FunctionNetwork    (init, apply): every chain starts at its own draw of init
BFloat16           another network, computed in bfloat16
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from fsgmcmc.networks.base import Network, Params


@dataclass(frozen=True)
class ApplyNetwork(Network):
    """A network given by an apply function and the parameters that every chain starts from.

    Two of them are equal when their functions are, so that compiled programs are shared.
    """

    params: Params
    function: Callable[[Params, Array], Array]
    fan_in_axes: str = "leading"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ApplyNetwork) and self.function is other.function

    def __hash__(self) -> int:
        return hash(self.function)

    def init(self, key: PRNGKeyArray, inputs: int, outputs: int) -> Params:
        """The given parameters, whatever the key."""
        del key, inputs, outputs
        return self.params

    def apply(self, params: Params, x: Float[Array, "batch *features"]) -> Float[Array, "batch outputs"]:
        """The given function, with a trailing output axis added when it has none."""
        return _with_outputs(self.function(params, x))

    def fan_in(self, params: Params) -> Params:
        """All axes but the last for `x @ w` layouts (Flax), all but the first for Equinox."""
        if self.fan_in_axes == "leading":
            return super().fan_in(params)
        return jax.tree.map(lambda leaf: math.prod(leaf.shape[1:]), params)


@dataclass(frozen=True)
class FunctionNetwork(Network):
    """A network given by two functions; every chain starts at its own draw of the first.

    Args:
        initialise: `initialise(key, inputs, outputs) -> params`, a pytree of float arrays.
        function: `function(params, x) -> (batch, outputs)`.

    Example:
        >>> line = FunctionNetwork(
        ...     lambda key, inputs, outputs: {"slope": jax.random.normal(key, (inputs, outputs))},
        ...     lambda params, x: x @ params["slope"],
        ... )
        >>> line.apply(line.init(jax.random.key(0), 3, 1), jnp.ones((5, 3))).shape
        (5, 1)
    """

    initialise: Callable[[PRNGKeyArray, int, int], Params]
    function: Callable[[Params, Array], Array]

    def init(self, key: PRNGKeyArray, inputs: int, outputs: int) -> Params:
        """A draw of `initialise`."""
        return self.initialise(key, inputs, outputs)

    def apply(self, params: Params, x: Float[Array, "batch *features"]) -> Float[Array, "batch outputs"]:
        """The given function, with a trailing output axis added when it has none."""
        return _with_outputs(self.function(params, x))


def _with_outputs(values: Array) -> Array:
    return values[:, None] if values.ndim == 1 else values


@dataclass(frozen=True)
class BFloat16(Network):
    """A network that computes in bfloat16, for accelerators; its parameters and its values stay in float32.

    Example:
        >>> from fsgmcmc import MLP
        >>> network = BFloat16(MLP((10,)))
        >>> params = network.init(jax.random.key(0), inputs=3, outputs=1)
        >>> network.apply(params, jnp.ones((5, 3))).dtype
        dtype('float32')
    """

    network: Network

    @property
    def reverse_only(self) -> bool:  # type: ignore[override]
        """That of the network."""
        return self.network.reverse_only

    def init(self, key: PRNGKeyArray, inputs: int, outputs: int) -> Params:
        """Start of the network."""
        return self.network.init(key, inputs, outputs)

    def apply(self, params: Params, x: Float[Array, "batch *features"]) -> Float[Array, "batch outputs"]:
        """The network with rounded parameters at rounded inputs."""
        low = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), (params, x))
        return self.network.apply(*low).astype(jnp.float32)

    def fan_in(self, params: Params) -> Params:
        """That of the network."""
        return self.network.fan_in(params)

    def variance(self, params: Params) -> Params:
        """That of the network."""
        return self.network.variance(params)


def as_network(network: Any) -> Network:
    """The network for a `Network`, a `(params, apply)` pair or an Equinox module of one example.

    Example:
        >>> line = as_network(({"slope": jnp.ones((1, 1))}, lambda params, x: x @ params["slope"]))
        >>> line.apply(line.params, jnp.array([[2.0]])).item()
        2.0
    """
    if isinstance(network, Network):
        try:
            hash(network)
        except TypeError as error:
            raise TypeError(
                f"{type(network).__name__} cannot be hashed ({error}): make it a frozen dataclass whose fields are "
                "numbers, words and tuples; arrays belong in its parameters"
            ) from None
        return network
    if isinstance(network, eqx.Module) and callable(network):
        params, rest = eqx.partition(network, eqx.is_inexact_array)
        return ApplyNetwork(params, lambda params, x: jax.vmap(eqx.combine(params, rest))(x), fan_in_axes="trailing")
    if isinstance(network, tuple) and len(network) == 2 and callable(network[1]):
        params, function = network
        wrong = [leaf for leaf in jax.tree.leaves(params) if not jnp.issubdtype(jnp.result_type(leaf), jnp.floating)]
        if wrong:
            raise TypeError(
                f"every leaf of params must be a float array, but one is {wrong[0]!r}; "
                "keep integers and flags inside apply"
            )
        return ApplyNetwork(jax.tree.map(jnp.asarray, params), function)
    raise TypeError(
        f"cannot use {type(network).__name__} as a network; give an MLP, a FunctionNetwork(init, apply), an Equinox "
        "module or a pair (params, apply) with apply(params, x) -> (batch, outputs)"
    )
