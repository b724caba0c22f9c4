"""Networks for images (rows, height, width, channels): residual networks and LeNet.

Their normalisation is by groups of channels within one image. Batch statistics would make the value at an image depend
on the other images of its batch: such a network computes no function of its input, and a posterior over functions needs
one.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from fsgmcmc import _checks
from fsgmcmc.networks._convolution import convolve
from fsgmcmc.networks.base import Network, register

# Residual blocks of each stage, by the usual names.
STAGES = {8: (1, 1, 1), 14: (2, 2, 2), 20: (3, 3, 3), 18: (2, 2, 2, 2), 34: (3, 4, 6, 3)}
# Channels of a normalised group, and what keeps its standard deviation from zero.
CHANNELS_PER_GROUP = 8
SMALLEST_VARIANCE = 1e-5

Images = Float[Array, "batch height width channels"]
Features = Float[Array, "batch smaller_height smaller_width features"]


class _Convolutional(Network):
    """Shared by the networks below: initial scales, and convolutions without a forward mode."""

    reverse_only: ClassVar[bool] = True

    def fan_in(self, params: Any) -> Any:
        """Inputs that each unit sums over: all axes of a kernel or matrix but the last, one for scales and shifts."""
        return jax.tree.map(lambda leaf: max(int(np.prod(leaf.shape[:-1])), 1), params)

    def variance(self, params: Any) -> Any:
        """2 / fan in for kernels and matrices, one for scales and shifts."""
        return jax.tree.map(
            lambda leaf, fan_in: 2.0 / fan_in if len(leaf.shape) > 1 else 1.0, params, self.fan_in(params)
        )


@register
@dataclass(frozen=True)
class ResNet(_Convolutional):
    """A residual network with group normalisation: two 3 x 3 convolutions a block, a linear layer on pixel means.

        h ← relu(h' + norm(conv(relu(norm(conv(h))))))

    where h' is h, or norm(conv(h)) with a 1 x 1 kernel where a stage begins with half the pixels and twice the
    channels. A normalised group has eight channels, or all of them where eight do not divide them.

    Args:
        depth: 18 and 34 have four stages, for pictures; 8, 14 and 20 have three, for two cores.
        width: Channels of the first stage; 64 for the ResNet-18 of the literature.

    Example:
        >>> network = ResNet(depth=8, width=4)
        >>> params = network.init(jax.random.key(0), inputs=1, outputs=10)
        >>> network.apply(params, jnp.zeros((2, 28, 28, 1))).shape
        (2, 10)
    """

    depth: int = 18
    width: int = 64

    def __post_init__(self) -> None:
        if _checks.count(self.depth, "depth") not in STAGES:
            raise ValueError(f"depth must be one of {', '.join(map(str, sorted(STAGES)))}, got {self.depth!r}")
        _checks.count(self.width, "width")

    def init(self, key: PRNGKeyArray, inputs: int, outputs: int) -> Any:
        """Kernels of variance 2 / fan in, scales one, shifts zero; `inputs` are the channels of an image."""
        keys = iter(jax.random.split(key, 3 * sum(STAGES[self.depth]) + 2))
        channels = self.width
        params: dict[str, Any] = {"stem": _layer(next(keys), 3, inputs, channels), "stages": []}
        for stage, blocks in enumerate(STAGES[self.depth]):
            entering, channels = channels, self.width * 2**stage
            made = []
            for block in range(blocks):
                before = entering if block == 0 else channels
                made.append(
                    {
                        "first": _layer(next(keys), 3, before, channels),
                        "second": _layer(next(keys), 3, channels, channels),
                    }
                    | ({"shortcut": _layer(next(keys), 1, before, channels)} if before != channels else {})
                )
            params["stages"].append(made)
        weight = _normal(next(keys), (channels, outputs))
        return params | {"head": {"weight": weight, "bias": jnp.zeros(outputs)}}

    def apply(self, params: Any, x: Images) -> Float[Array, "batch outputs"]:
        """Logits of every image."""
        h = jax.nn.relu(_convolve(params["stem"], x))
        for stage in params["stages"]:
            for block in stage:
                stride = 2 if "shortcut" in block else 1
                change = _convolve(block["second"], jax.nn.relu(_convolve(block["first"], h, stride)))
                h = jax.nn.relu(change + (_convolve(block["shortcut"], h, stride) if stride == 2 else h))
        return jnp.mean(h, axis=(1, 2)) @ params["head"]["weight"] + params["head"]["bias"]


@register
@dataclass(frozen=True)
class LeNet(_Convolutional):
    """LeNet-5 with relu: two 5 x 5 convolutions, each followed by means over 2 x 2 pixels, and three linear layers.

    Args:
        size: Height and width of the images, 28 or 32 and so on.

    Example:
        >>> network = LeNet(size=28)
        >>> params = network.init(jax.random.key(0), inputs=1, outputs=10)
        >>> network.apply(params, jnp.zeros((2, 28, 28, 1))).shape
        (2, 10)
    """

    size: int = 28

    def __post_init__(self) -> None:
        _checks.count(self.size, "size", least=12)

    def init(self, key: PRNGKeyArray, inputs: int, outputs: int) -> Any:
        """Kernels and matrices of variance 2 / fan in, biases zero."""
        pixels = ((self.size // 2 - 4) // 2) ** 2
        shapes = [(5, 5, inputs, 6), (5, 5, 6, 16), (16 * pixels, 120), (120, 84), (84, outputs)]
        keys = jax.random.split(key, len(shapes))
        return [
            {"weight": _normal(layer_key, shape), "bias": jnp.zeros(shape[-1])}
            for layer_key, shape in zip(keys, shapes, strict=True)
        ]

    def apply(self, params: Any, x: Images) -> Float[Array, "batch outputs"]:
        """Logits of every image."""
        if x.shape[1:3] != (self.size, self.size):
            raise ValueError(f"LeNet({self.size}) is for {self.size} x {self.size} pixels, these have {x.shape[1:3]}")
        *convolutions, first, second, last = params
        for layer, padding in zip(convolutions, ("SAME", "VALID"), strict=True):
            x = jax.nn.relu(convolve(layer["weight"], x, 1, padding) + layer["bias"])
            x = jax.lax.reduce_window(x, 0.0, jax.lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") / 4
        x = x.reshape(len(x), -1)
        for layer in (first, second):
            x = jax.nn.relu(x @ layer["weight"] + layer["bias"])
        return x @ last["weight"] + last["bias"]


def _layer(key: PRNGKeyArray, size: int, before: int, after: int) -> dict[str, Array]:
    return {
        "kernel": _normal(key, (size, size, before, after)),
        "scale": jnp.ones(after),
        "shift": jnp.zeros(after),
    }


def _normal(key: PRNGKeyArray, shape: tuple[int, ...]) -> Array:
    return jnp.sqrt(2.0 / np.prod(shape[:-1])) * jax.random.normal(key, shape)


def _convolve(layer: dict[str, Array], x: Images, stride: int = 1) -> Features:
    """A convolution and the normalisation of its values, group by group of channels within each image.

    v ↦ a v + b with a = scale / sd and b = shift − a mean: two numbers for each image and channel, so that the values
    are read as few times as possible.
    """
    values = convolve(layer["kernel"], x, stride)
    channels = values.shape[-1]
    groups = channels // CHANNELS_PER_GROUP if channels % CHANNELS_PER_GROUP == 0 else 1

    def group_mean(numbers: Features) -> Float[Array, "batch 1 1 features"]:
        by_group = jnp.mean(numbers, axis=(1, 2)).reshape(-1, groups, channels // groups).mean(axis=-1)
        return jnp.repeat(by_group, channels // groups, axis=1)[:, None, None]

    exact = values.astype(jnp.float32)  # a difference of squares has no digits left in bfloat16
    mean = group_mean(exact)
    variance = jnp.maximum(group_mean(jnp.square(exact)) - jnp.square(mean), 0.0)
    a = layer["scale"] * jax.lax.rsqrt(variance + SMALLEST_VARIANCE)
    return (a * exact + (layer["shift"] - a * mean)).astype(values.dtype)
