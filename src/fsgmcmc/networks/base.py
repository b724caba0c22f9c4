"""The contract of a network: a function f(x; w) with parameters in any pytree.

    init(key, inputs, outputs) -> params        required: where a chain starts
    apply(params, x) -> (batch, outputs)        required: the function
    fan_in(params), variance(params)            scales of the weights, by default from their shapes
    to_config(), from_config(config)            by default the fields of a dataclass; for saving without code

A network is static in compiled programs: it must be hashable and must not hold arrays. A frozen dataclass is both.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import fields, is_dataclass
from typing import Any, ClassVar

import jax
from jaxtyping import Array, Float, PRNGKeyArray

from fsgmcmc._registry import Registry

Params = Any


class Network(ABC):
    """The base class of all networks; a subclass defines `init` and `apply`.

    Attributes:
        reverse_only: True for a network of functions with a `custom_vjp`, of which `jax.jvp` cannot be taken.
    """

    reverse_only: ClassVar[bool] = False

    @abstractmethod
    def init(self, key: PRNGKeyArray, inputs: int, outputs: int) -> Params:
        """Parameters to start a chain from, for `inputs` features and `outputs` outputs."""

    @abstractmethod
    def apply(self, params: Params, x: Float[Array, "batch *features"]) -> Float[Array, "batch outputs"]:
        """The function values at every row of `x`."""

    def fan_in(self, params: Params) -> Params:
        """Inputs that each unit sums over, a number per leaf; by default all axes but the last, as in `x @ w`."""
        return jax.tree.map(lambda leaf: math.prod(leaf.shape[:-1]), params)

    def variance(self, params: Params) -> Params:
        """Variance with which each leaf starts, a number per leaf; by default 1 / fan in."""
        return jax.tree.map(lambda fan_in: 1.0 / max(fan_in, 1), self.fan_in(params))

    def to_config(self) -> dict[str, Any]:
        """The arguments of the constructor, as JSON."""
        described: Any = self
        if not is_dataclass(described):
            raise TypeError(f"{type(self).__name__} is not a dataclass: define to_config and from_config to save it")
        return {field.name: getattr(self, field.name) for field in fields(described) if field.init}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "Network":
        """The network that `to_config` described; lists become tuples."""
        return cls(**{name: _tuples(value) for name, value in config.items()})


def _tuples(value: Any) -> Any:
    """Lists as tuples, also within each other."""
    return tuple(map(_tuples, value)) if isinstance(value, list | tuple) else value


NETWORKS: Registry[Network] = Registry("network", Network)  # type: ignore[type-abstract]
# Use it as a decorator: `Samples.save` and `save_model` then write the network by its name and configuration.
register = NETWORKS.register
