"""Networks: functions f(x; w) with parameters in any pytree.

A network is anything with

    init(key, inputs, outputs) -> params          a start, drawn at random where the network knows how
    apply(params, x) -> (batch, outputs)          the function
    fan_in(params) -> pytree of ints              how many inputs each weight's unit sums over
    variance(params) -> pytree of floats          the variance with which weights start

`MLP` is the built-in one; `as_network` takes Equinox modules and `(params, apply)` pairs as well.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from fsgmcmc import _checks

Params = Any

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "tanh": jnp.tanh,
    "relu": jax.nn.relu,
    "gelu": jax.nn.gelu,
    "silu": jax.nn.silu,
    "softplus": jax.nn.softplus,
    "sigmoid": jax.nn.sigmoid,
    "elu": jax.nn.elu,
    "sin": jnp.sin,
    "identity": lambda x: x,
}


@runtime_checkable
class Network(Protocol):
    """What every network offers, whatever library its parameters come from."""

    def init(self, key: PRNGKeyArray, inputs: int, outputs: int) -> Params:
        """Parameters to start a chain from."""

    def apply(self, params: Params, x: Float[Array, "batch *features"]) -> Float[Array, "batch outputs"]:
        """The function the parameters stand for, at every row of `x`."""

    def fan_in(self, params: Params) -> Params:
        """Inputs that each leaf's units sum over, a number per leaf."""

    def variance(self, params: Params) -> Params:
        """Variance with which each leaf starts, a number per leaf."""


@dataclass(frozen=True)
class MLP:
    """A fully connected network; its input and output sizes come from the data.

        h_0 = x,   h_l = activation(h_{l-1} W_l + b_l),   f = h_L W + b [+ x A]

    Args:
        hidden: Units of each hidden layer; an empty tuple gives a linear model.
        activation: One of `ACTIVATIONS`.
        initial: `"unit"` starts every weight at N(0, 1), which short length scales need; `"fan_in"` at
            N(0, 1 / fan in), which keeps wide networks and many features tame.
        skip: Add x A, a line past all layers. Without it a network that is to be nearly linear, as some kernels want
            it, has little room in its weights, and less the steeper it is (docs/what-is-sampled.md).

    Example:
        >>> network = MLP(hidden=(100, 100), activation="tanh")
        >>> params = network.init(jax.random.key(0), inputs=3, outputs=1)
        >>> network.apply(params, jnp.ones((5, 3))).shape
        (5, 1)
    """

    hidden: tuple[int, ...] = (100, 100)
    activation: str = "tanh"
    initial: str = "unit"
    skip: bool = False

    def __post_init__(self) -> None:
        if self.activation not in ACTIVATIONS:
            raise ValueError(f"unknown activation {self.activation!r}; choose from {', '.join(ACTIVATIONS)}")
        if self.initial not in ("unit", "fan_in"):
            raise ValueError(f"unknown initial {self.initial!r}; choose 'unit' or 'fan_in'")
        if not isinstance(self.hidden, tuple | list):
            raise ValueError(f"hidden is a tuple with the units of each layer, such as (100, 100), got {self.hidden!r}")
        hidden = tuple(_checks.count(units, "units of a hidden layer") for units in self.hidden)
        object.__setattr__(self, "hidden", hidden)

    def init(self, key: PRNGKeyArray, inputs: int, outputs: int) -> Params:
        """Weights and biases drawn independently, as `initial` says."""
        sizes = (inputs, *self.hidden, outputs)
        layers = []
        for layer_key, fan_in, units in zip(jax.random.split(key, len(sizes) - 1), sizes[:-1], sizes[1:], strict=True):
            weight_key, bias_key = jax.random.split(layer_key)
            scale = 1.0 if self.initial == "unit" else fan_in**-0.5
            layers.append(
                {
                    "weight": scale * jax.random.normal(weight_key, (fan_in, units)),
                    "bias": scale * jax.random.normal(bias_key, (units,)),
                }
            )
        if self.skip:
            scale = 1.0 if self.initial == "unit" else inputs**-0.5
            skip_key = jax.random.fold_in(key, len(sizes))
            layers.append({"weight": scale * jax.random.normal(skip_key, (inputs, outputs))})
        return layers

    def apply(self, params: Params, x: Float[Array, "batch inputs"]) -> Float[Array, "batch outputs"]:
        """f(x; params) for every row of `x`."""
        last = params[len(self.hidden)]
        values = self.hidden_values(params, x) @ last["weight"] + last["bias"]
        return values + x @ params[-1]["weight"] if self.skip else values

    def hidden_values(self, params: Params, x: Float[Array, "batch inputs"]) -> Float[Array, "batch units"]:
        """The last hidden layer, or x itself in a linear model."""
        activation = ACTIVATIONS[self.activation]
        for layer in params[: len(self.hidden)]:
            x = activation(x @ layer["weight"] + layer["bias"])
        return x

    def fan_in(self, params: Params) -> Params:
        """The number of units of the layer below, for weights and biases alike."""
        return [dict.fromkeys(layer, layer["weight"].shape[0]) for layer in params]

    def variance(self, params: Params) -> Params:
        """The variances `init` draws with."""
        unit = self.initial == "unit"
        return jax.tree.map(lambda fan_in: 1.0 if unit else 1.0 / fan_in, self.fan_in(params))


@dataclass(frozen=True)
class Fixed:
    """A network given by an apply function and the parameters every chain starts from.

    Two of them are equal when their functions are, so that compiled programs are shared.
    """

    params: Params
    function: Callable[[Params, Array], Array]
    fan_in_axes: str = "leading"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fixed) and self.function is other.function

    def __hash__(self) -> int:
        return hash(self.function)

    def init(self, key: PRNGKeyArray, inputs: int, outputs: int) -> Params:
        """The given parameters, whatever the key."""
        del key, inputs, outputs
        return self.params

    def apply(self, params: Params, x: Float[Array, "batch *features"]) -> Float[Array, "batch outputs"]:
        """The given function, with a trailing output axis added when it has none."""
        values = self.function(params, x)
        return values[:, None] if values.ndim == 1 else values

    def fan_in(self, params: Params) -> Params:
        """All axes but the last for `x @ w` layouts (Flax), all but the first for Equinox."""
        axes = slice(None, -1) if self.fan_in_axes == "leading" else slice(1, None)
        return jax.tree.map(lambda leaf: math.prod(leaf.shape[axes]), params)

    def variance(self, params: Params) -> Params:
        """1 / fan in, the usual scale of a start."""
        return jax.tree.map(lambda fan_in: 1.0 / max(fan_in, 1), self.fan_in(params))


@dataclass(frozen=True)
class BFloat16:
    """A network that computes in bfloat16, for accelerators; its parameters and its values stay in float32.

    Example:
        >>> network = BFloat16(MLP((10,)))
        >>> params = network.init(jax.random.key(0), inputs=3, outputs=1)
        >>> network.apply(params, jnp.ones((5, 3))).dtype
        dtype('float32')
    """

    network: Network

    @property
    def reverse_only(self) -> bool:
        """The network's own."""
        return not has_forward_mode(self.network)

    def init(self, key: PRNGKeyArray, inputs: int, outputs: int) -> Params:
        """The network's own start."""
        return self.network.init(key, inputs, outputs)

    def apply(self, params: Params, x: Float[Array, "batch *features"]) -> Float[Array, "batch outputs"]:
        """The network of rounded parameters at rounded inputs."""
        low = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), (params, x))
        return self.network.apply(*low).astype(jnp.float32)

    def fan_in(self, params: Params) -> Params:
        """The network's own."""
        return self.network.fan_in(params)

    def variance(self, params: Params) -> Params:
        """The network's own."""
        return self.network.variance(params)


def has_forward_mode(network: Network) -> bool:
    """Whether `jax.jvp` can be taken; a network of functions with a `custom_vjp` says `reverse_only = True`."""
    return not getattr(network, "reverse_only", False)


def as_network(network: Any) -> Network:
    """The network behind an `MLP`, a `(params, apply)` pair or an Equinox module of one example.

    Example:
        >>> line = as_network(({"slope": jnp.ones((1, 1))}, lambda params, x: x @ params["slope"]))
        >>> line.apply(line.params, jnp.array([[2.0]])).item()
        2.0
    """
    if isinstance(network, eqx.Module) and callable(network):
        params, rest = eqx.partition(network, eqx.is_inexact_array)
        return Fixed(params, lambda params, x: jax.vmap(eqx.combine(params, rest))(x), fan_in_axes="trailing")
    if isinstance(network, tuple) and len(network) == 2 and callable(network[1]):
        params, function = network
        wrong = [leaf for leaf in jax.tree.leaves(params) if not jnp.issubdtype(jnp.result_type(leaf), jnp.floating)]
        if wrong:
            raise TypeError(
                f"every leaf of params must be a float array, but one is {wrong[0]!r}; "
                "keep integers and flags inside apply"
            )
        return Fixed(jax.tree.map(jnp.asarray, params), function)
    if isinstance(network, Network) and not isinstance(network, type):
        return network
    raise TypeError(
        f"cannot use {type(network).__name__} as a network; give an MLP, an Equinox module "
        "or a pair (params, apply) with apply(params, x) -> (batch, outputs)"
    )
