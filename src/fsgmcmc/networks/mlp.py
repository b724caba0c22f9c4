"""Fully connected networks."""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from fsgmcmc import _checks
from fsgmcmc.networks.base import Network, Params, register

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


@register
@dataclass(frozen=True)
class MLP(Network):
    """A fully connected network; its input and output sizes come from the data.

        h_0 = [x, √2 cos 2πΩx, √2 sin 2πΩx],   h_l = activation(h_{l-1} W_l + b_l),   f = h_L W + b [+ h_0 A]

    Args:
        hidden: Units of each hidden layer; an empty tuple gives a linear model.
        activation: One of `ACTIVATIONS`.
        initial: `"unit"` starts every weight at N(0, 1), which short length scales need; `"fan_in"` at
            N(0, 1 / fan in), which keeps wide networks and many features tame.
        skip: Add a linear skip connection h_0 A. Without it few weight vectors give a nearly linear function, and fewer
            the steeper it is (docs/what-is-sampled.md).
        frequencies: Rows of Ω, in cycles per unit of each feature. A function with many cycles needs them: units of x
            alone make few. `fsgmcmc.priors.frequencies` has those of a kernel.

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
    frequencies: tuple[tuple[float, ...], ...] = ()

    def __post_init__(self) -> None:
        if self.activation not in ACTIVATIONS:
            raise ValueError(f"unknown activation {self.activation!r}; choose from {', '.join(ACTIVATIONS)}")
        if self.initial not in ("unit", "fan_in"):
            raise ValueError(f"unknown initial {self.initial!r}; choose 'unit' or 'fan_in'")
        if not isinstance(self.hidden, tuple | list):
            raise ValueError(f"hidden is a tuple with the units of each layer, such as (100, 100), got {self.hidden!r}")
        hidden = tuple(_checks.count(units, "units of a hidden layer") for units in self.hidden)
        object.__setattr__(self, "hidden", hidden)
        frequencies = _checks.finite(self.frequencies, "frequencies") if len(self.frequencies) else np.zeros((0, 0))
        if frequencies.ndim != 2:
            raise ValueError(
                f"frequencies has a row for each wave and a column for each feature, got {self.frequencies}"
            )
        object.__setattr__(self, "frequencies", tuple(tuple(map(float, row)) for row in frequencies))

    def init(self, key: PRNGKeyArray, inputs: int, outputs: int) -> Params:
        """Weights and biases drawn independently, as `initial` says."""
        if self.frequencies and len(self.frequencies[0]) != inputs:
            raise ValueError(f"frequencies has {len(self.frequencies[0])} columns, but there are {inputs} features")
        inputs += 2 * len(self.frequencies)
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
        last, inputs = params[len(self.hidden)], self._inputs(x)
        values = self._layers(params, inputs) @ last["weight"] + last["bias"]
        return values + inputs @ params[-1]["weight"] if self.skip else values

    def hidden_values(self, params: Params, x: Float[Array, "batch inputs"]) -> Float[Array, "batch units"]:
        """The last hidden layer, or h_0 itself in a linear model."""
        return self._layers(params, self._inputs(x))

    def _inputs(self, x: Float[Array, "batch inputs"]) -> Float[Array, "batch features"]:
        """h_0."""
        if not self.frequencies:
            return x
        phase = 2 * jnp.pi * x @ jnp.asarray(self.frequencies, x.dtype).T
        return jnp.concatenate([x, 2**0.5 * jnp.cos(phase), 2**0.5 * jnp.sin(phase)], axis=1)

    def _layers(self, params: Params, values: Float[Array, "batch features"]) -> Float[Array, "batch units"]:
        activation = ACTIVATIONS[self.activation]
        for layer in params[: len(self.hidden)]:
            values = activation(values @ layer["weight"] + layer["bias"])
        return values

    def fan_in(self, params: Params) -> Params:
        """The number of units of the layer below, for weights and biases alike."""
        return [dict.fromkeys(layer, layer["weight"].shape[0]) for layer in params]

    def variance(self, params: Params) -> Params:
        """The variances `init` draws with."""
        unit = self.initial == "unit"
        return jax.tree.map(lambda fan_in: 1.0 if unit else 1.0 / fan_in, self.fan_in(params))
