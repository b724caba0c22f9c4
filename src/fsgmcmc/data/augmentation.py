"""Random transformations of images that do not change their labels."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from fsgmcmc import _checks

ImageBatch = Float[Array, "n height width channels"]


@dataclass(frozen=True)
class Shifted:
    """Shift each image by up to `pixels`, repeating its border, and mirror half of them at random if `mirrored`.

    Example:
        >>> Shifted(2)(jax.random.key(0), jnp.ones((3, 8, 8, 1))).shape
        (3, 8, 8, 1)
    """

    pixels: int = 2
    mirrored: bool = False

    def __post_init__(self) -> None:
        _checks.count(self.pixels, "pixels", least=0)

    def __call__(self, key: PRNGKeyArray, x: ImageBatch) -> ImageBatch:
        """The images, transformed at random by this key."""
        shift_key, mirror_key = jax.random.split(key)
        most = self.pixels
        padded = jnp.pad(x, ((0, 0), (most, most), (most, most), (0, 0)), mode="edge")
        corners = jax.random.randint(shift_key, (len(x), 2), 0, 2 * most + 1)

        def window(image: Array, corner: Array) -> Array:
            return jax.lax.dynamic_slice(image, (corner[0], corner[1], 0), x.shape[1:])

        moved = jax.vmap(window)(padded, corners)
        if not self.mirrored:
            return moved
        turned = jax.random.bernoulli(mirror_key, shape=(len(x), 1, 1, 1))
        return jnp.where(turned, moved[:, :, ::-1], moved)
