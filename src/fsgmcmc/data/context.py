"""Context images: images that are not data, at which a prior can be enforced as well.

A prior at training images does not determine the network at other images. Context images are made from random numbers
and from the training images alone, so that no out-of-distribution (OOD) image is needed. `KINDS` has one function for
each kind; all compute with intensities between 0 and 1.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, UInt8

from fsgmcmc import _checks

Pixels = Float[np.ndarray, "n height width channels"]
# Exponents of 1/f^p noise: from nearly white to smooth.
NOISE_EXPONENTS = (0.5, 1.0, 1.5, 2.0)
# Of smooth noise this share is thresholded, which gives regions with sharp edges.
THRESHOLDED = 0.3
# Blocks for each side of a shuffled image.
BLOCKS = (2, 3, 4, 5, 6, 7)
LARGEST_NUMBER_OF_SHAPES = 3
POINTS_OF_A_STROKE = 24


def context_images(
    images: Any,
    size: int,
    seed: int = 0,
    kinds: Sequence[str] = ("noise", "shapes", "shuffle", "strokes"),
) -> UInt8[np.ndarray, "size height width channels"]:
    """Context images with the shape of training images, as bytes, in random order.

    Args:
        images: Training images as bytes (n, height, width, channels), before `PixelScale`.
        size: Number of context images; each kind has the same share, up to rounding.
        seed: Seed of the random numbers.
        kinds: Names of `KINDS`: `"noise"` is 1/f noise, `"shapes"` rectangles and ellipses, `"strokes"` smooth curves,
            `"shuffle"` training images cut into blocks that are rearranged, `"invert"` training images as negatives.

    Example:
        >>> images = np.zeros((5, 28, 28, 1), np.uint8)
        >>> context_images(images, size=8).shape
        (8, 28, 28, 1)
    """
    images = np.asarray(images)
    if images.ndim != 4 or images.dtype != np.uint8 or images.size == 0:
        raise ValueError(
            f"images must be bytes (n, height, width, channels), got {images.dtype} of shape {images.shape}"
        )
    size = _checks.count(size, "size")
    if isinstance(kinds, str):
        raise TypeError(f"kinds is a list of names, such as [{kinds!r}]")
    kinds = list(kinds)
    unknown = [str(kind) for kind in kinds if kind not in KINDS]
    if unknown or not kinds:
        raise ValueError(f"unknown kind {', '.join(unknown) or 'of no name'}; choose from {', '.join(KINDS)}")
    rng = np.random.default_rng(seed)
    shares = np.diff(np.arange(len(kinds) + 1) * size // len(kinds))
    made = []
    for kind, share in zip(kinds, shares, strict=True):
        sources = images[rng.integers(0, len(images), share)].astype(np.float32) / 255
        made.append(KINDS[kind](rng, sources))
    pixels = rng.permutation(np.concatenate(made), axis=0)
    return np.round(255 * np.clip(pixels, 0, 1)).astype(np.uint8)


def _noise(rng: np.random.Generator, sources: Pixels) -> Pixels:
    """Noise with the spectrum 1/f^p, of random contrast and brightness; some of it is thresholded."""
    n, height, width, _ = sources.shape
    frequency = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.fftfreq(width))
    exponents = rng.choice(NOISE_EXPONENTS, n)[:, None, None, None]
    amplitudes = np.maximum(frequency, 1 / max(height, width))[..., None] ** -exponents
    spectrum = amplitudes * np.fft.fft2(rng.standard_normal(sources.shape), axes=(1, 2))
    smooth = np.fft.ifft2(spectrum, axes=(1, 2)).real
    smooth -= smooth.mean(axis=(1, 2), keepdims=True)
    smooth /= np.maximum(smooth.std(axis=(1, 2), keepdims=True), 1e-12)
    contrast, brightness = rng.uniform(0.1, 0.4, (n, 1, 1, 1)), rng.uniform(0.2, 0.8, (n, 1, 1, 1))
    pixels = brightness + contrast * smooth
    sharp = np.where(pixels > 0.6, rng.uniform(0.4, 1, (n, 1, 1, 1)), 0.0)
    return np.where(rng.random((n, 1, 1, 1)) < THRESHOLDED, sharp, pixels)


def _shuffle(rng: np.random.Generator, sources: Pixels) -> Pixels:
    """Each image is cut into g × g blocks, which are rearranged at random."""
    shuffled, (_, height, width, channels) = sources.copy(), sources.shape
    sides = rng.choice([g for g in BLOCKS if g <= min(height, width)] or [1], len(sources))
    for g in np.unique(sides):
        own = np.flatnonzero(sides == g)
        h, w = -(-height // g), -(-width // g)
        even = np.pad(sources[own], ((0, 0), (0, g * h - height), (0, g * w - width), (0, 0)), mode="edge")
        blocks = even.reshape(-1, g, h, g, w, channels).swapaxes(2, 3).reshape(len(own), g * g, -1)
        order = rng.random((len(own), g * g, 1)).argsort(axis=1)
        blocks = np.take_along_axis(blocks, order, axis=1)
        whole = blocks.reshape(-1, g, g, h, w, channels).swapaxes(2, 3).reshape(-1, g * h, g * w, channels)
        shuffled[own] = whole[:, :height, :width]
    return shuffled


def _invert(rng: np.random.Generator, sources: Pixels) -> Pixels:
    """Negatives."""
    del rng
    return 1 - sources


def _shapes(rng: np.random.Generator, sources: Pixels) -> Pixels:
    """One to three rectangles and ellipses, plain or with a random texture, on a dark or a plain background."""
    _, height, width, channels = sources.shape
    side = min(height, width)
    rows, columns = np.mgrid[:height, :width]
    pixels = _backgrounds(rng, sources, share=0.3)
    for picture in pixels:
        for _ in range(rng.integers(1, LARGEST_NUMBER_OF_SHAPES + 1)):
            y, x = rng.uniform(0.2, 0.8, 2) * (height, width)
            a, b = rng.uniform(0.08, 0.4, 2) * side
            dy, dx = np.abs(rows - y) / a, np.abs(columns - x) / b
            inside = np.maximum(dy, dx) < 1 if rng.random() < 0.5 else dy**2 + dx**2 < 1
            texture = rng.uniform(0.6, 1, (height, width, 1)) if rng.random() < 0.5 else np.ones((height, width, 1))
            picture[inside] = (rng.uniform(0.3, 1, channels) * texture)[inside]
    return pixels


def _strokes(rng: np.random.Generator, sources: Pixels) -> Pixels:
    """One to three cubic Bézier curves with random width, on a dark or a plain background."""
    _, height, width, channels = sources.shape
    rows, columns = np.mgrid[:height, :width]
    t = np.linspace(0, 1, POINTS_OF_A_STROKE)[:, None]
    basis = np.hstack([(1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t**2 * (1 - t), t**3])
    pixels = _backgrounds(rng, sources, share=0.15)
    for picture in pixels:
        for _ in range(rng.integers(1, LARGEST_NUMBER_OF_SHAPES + 1)):
            y, x = (basis @ (rng.uniform(0.12, 0.88, (4, 2)) * (height, width))).T
            distance = np.hypot(rows[..., None] - y, columns[..., None] - x).min(axis=-1)
            ink = np.clip(rng.uniform(0.02, 0.07) * min(height, width) + 0.5 - distance, 0, 1)
            np.maximum(picture, ink[..., None] * rng.uniform(0.5, 1, channels), out=picture)
    return pixels


def _backgrounds(rng: np.random.Generator, sources: Pixels, share: float) -> Pixels:
    """Black images, of which this share has one random darker intensity in each channel."""
    n, channels = len(sources), sources.shape[-1]
    plain = (rng.random((n, 1)) < share) * rng.uniform(0, 0.5, (n, channels))
    return np.broadcast_to(plain[:, None, None], sources.shape).copy()


KINDS: dict[str, Callable[[np.random.Generator, Pixels], Pixels]] = {
    "noise": _noise,
    "shapes": _shapes,
    "strokes": _strokes,
    "shuffle": _shuffle,
    "invert": _invert,
}
