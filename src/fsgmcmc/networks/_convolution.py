"""Convolutions of images that are as fast within a compiled loop as outside of one.

XLA's CPU backend brings the convolutions of a gradient into the order of axes that its library can take, but only
outside of loops; within, they take up to twenty times as long. So the three bilinear maps

    y = F(k, x)        the convolution
    x̄ = G(k, ȳ)        its transpose in x
    k̄ = H(x, ȳ)        its transpose in k

are each written in that order, and are one another's derivatives.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

ORDER = ("NHWC", "HWIO", "NHWC")

X = Float[Array, "n height width c"]
Y = Float[Array, "n smaller_height smaller_width d"]
Kernel = Float[Array, "rows columns c d"]


class Form(NamedTuple):
    """What the three maps must know besides their arguments: sizes, stride and how x is padded."""

    image: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: int
    pads: tuple[tuple[int, int], ...]

    @property
    def reach(self) -> tuple[int, ...]:
        """Rows and columns from the first to the last place of the kernel."""
        sizes = zip(self.image, self.kernel, self.pads, strict=True)
        return tuple(
            (size + low + high - kernel) // self.stride * self.stride + 1 for size, kernel, (low, high) in sizes
        )


def convolve(kernel: Kernel, x: X, stride: int = 1, padding: str = "SAME") -> Y:
    """F(k, x)."""
    image, size = x.shape[1:3], kernel.shape[:2]
    pads = jax.lax.padtype_to_pads(image, size, (stride, stride), padding)
    return _forward(kernel, x, Form(image, size, stride, tuple((low, high) for low, high in pads)))


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def _forward(kernel: Kernel, x: X, form: Form) -> Y:
    strides = (form.stride, form.stride)
    return jax.lax.conv_general_dilated(x, kernel, strides, form.pads, dimension_numbers=ORDER)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def _to_image(kernel: Kernel, y: Y, form: Form) -> X:
    """G(k, ȳ): the turned kernel over ȳ, spread out by the stride."""
    turned = _as_it_stands(jnp.swapaxes(kernel[::-1, ::-1], 2, 3))
    pads = [
        (size - 1 - low, image - reach + low)
        for size, (low, _), image, reach in zip(form.kernel, form.pads, form.image, form.reach, strict=True)
    ]
    spread = (form.stride, form.stride)
    return jax.lax.conv_general_dilated(y, turned, (1, 1), pads, lhs_dilation=spread, dimension_numbers=ORDER)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def _to_kernel(x: X, y: Y, form: Form) -> Kernel:
    """H(x, ȳ): ȳ as a kernel over x, images in the place of channels."""
    pads = [
        (low, reach + size - image - 1 - low)
        for size, (low, _), image, reach in zip(form.kernel, form.pads, form.image, form.reach, strict=True)
    ]
    images, kernels = _as_it_stands(x.transpose(3, 1, 2, 0)), _as_it_stands(y.transpose(1, 2, 0, 3))
    spread = (form.stride, form.stride)
    found = jax.lax.conv_general_dilated(images, kernels, (1, 1), pads, rhs_dilation=spread, dimension_numbers=ORDER)
    return found.transpose(1, 2, 0, 3)


def _as_it_stands(array: Array) -> Array:
    """Keeps XLA from folding a change of axes into the convolution."""
    return jax.lax.optimization_barrier(array)


def _keep(function):  # type: ignore[no-untyped-def]
    return lambda a, b, form: (function(a, b, form), (a, b))


_forward.defvjp(_keep(_forward), lambda form, kept, y: (_to_kernel(kept[1], y, form), _to_image(kept[0], y, form)))
_to_image.defvjp(_keep(_to_image), lambda form, kept, x: (_to_kernel(x, kept[1], form), _forward(kept[0], x, form)))
_to_kernel.defvjp(
    _keep(_to_kernel), lambda form, kept, kernel: (_to_image(kernel, kept[1], form), _forward(kernel, kept[0], form))
)
