"""Frequencies of a kernel: which waves a network needs as inputs to follow a process with this kernel.

A stationary kernel is a mixture of waves (Bochner), v Σ_w cos(2π w·(x − x')):

    periodic   harmonics m / p of each feature, with weights ∝ I_m(1/ℓ²)
    rbf        w ~ N(0, 1 / (2πℓ)²)
    matern     w ~ t_{2ν} with scale 1 / (2πℓ) in the direction of each feature

Units of a network on x alone make few cycles over the range of the data. A kernel with a short lengthscale or period
asks for many: then the waves become inputs of the network, which still learns what to do with them. Only
harmonics are where there are several features, in which rows are sparse; of one feature, waves with four rows a cycle.
"""

from typing import Any

import numpy as np
import scipy  # submodules are loaded at first use
from numpy.typing import ArrayLike
from tinygp import kernels, transforms

from fsgmcmc import _checks
from fsgmcmc.priors.kernels import InUnits, Periodic

# Harmonics of a periodic kernel: so many at most, or as many as have this share of its variance.
HARMONICS = 8
SHARE = 0.99
# A range of more lengthscales than this is long; then so many waves of each kernel.
LONG = 10.0
WAVES = 32
ROWS_PER_CYCLE = 4
# 2ν of the kernels whose spectral density is a t distribution; that of the rbf is its limit.
DEGREES = {kernels.ExpSquared: np.inf, kernels.Exp: 1, kernels.Matern32: 3, kernels.Matern52: 5}


def frequencies(kernel: kernels.Kernel | tuple[kernels.Kernel, ...], x: ArrayLike) -> tuple[tuple[float, ...], ...]:
    """Waves of the kernel for `MLP(frequencies=…)`, in cycles per unit of each feature of the rows x.

    There are none where a network makes the cycles by itself: without a periodic part, and with a lengthscale above a
    tenth of the range of x.

    >>> from fsgmcmc.priors.kernels import linear, periodic
    >>> frequencies(periodic(0.5, lengthscale=3.0) + linear(), np.linspace(0, 10, 50))
    ((2.0,), (4.0,))
    """
    x = _checks.matrix(x, "x", np.float64)
    each = kernel if isinstance(kernel, tuple) else (kernel,)
    found = np.concatenate([np.zeros((0, x.shape[1])), *(waves for one in each for waves in _waves(one, x))])
    return tuple(tuple(map(float, row)) for row in np.unique(found, axis=0))


def _waves(kernel: Any, x: np.ndarray, scale: Any = 1.0) -> list[np.ndarray]:
    """Frequencies of each part of a kernel of inputs x / scale."""
    spans = np.ptp(x, axis=0)
    if isinstance(kernel, kernels.Sum | kernels.Product):
        return _waves(kernel.kernel1, x, scale) + _waves(kernel.kernel2, x, scale)
    if isinstance(kernel, transforms.Cholesky) and np.ndim(kernel.factor) < 2:
        return _waves(kernel.kernel, x, scale * np.asarray(kernel.factor))
    if isinstance(kernel, InUnits):
        return _waves(kernel.kernel, x, scale / np.asarray(kernel.scale))
    if isinstance(kernel, Periodic):
        return _harmonics(np.broadcast_to(scale * kernel.period, spans.shape), kernel.lengthscale, spans)
    if type(kernel) in DEGREES and len(spans) == 1:
        lengthscale = float(np.squeeze(scale * np.asarray(kernel.scale)))
        waves = _random(DEGREES[type(kernel)], lengthscale)
        return [waves[waves[:, 0] * spans[0] <= len(x) / ROWS_PER_CYCLE]] if spans[0] > LONG * lengthscale else []
    return []


def _harmonics(period: np.ndarray, lengthscale: Any, spans: np.ndarray) -> list[np.ndarray]:
    """m / p along each feature that has at least half a cycle."""
    waves = []
    for feature, (p, ell) in enumerate(zip(period, np.broadcast_to(lengthscale, spans.shape), strict=True)):
        # exp(−2 sin²(πd/p) / ℓ²) = e^{−1/ℓ²} Σ_m I_m(1/ℓ²) cos(2πmd/p), twice for m > 0
        variance = scipy.special.ive(np.arange(HARMONICS + 1), 1 / np.square(float(ell))) * np.r_[1, [2] * HARMONICS]
        number = int(np.searchsorted(np.cumsum(variance[1:]), SHARE * (1 - variance[0]))) + 1
        if spans[feature] >= p / 2:
            waves.append(np.outer(np.arange(1, min(number, HARMONICS) + 1) / p, np.eye(len(spans))[feature]))
    return waves


def _random(degrees: float, lengthscale: float) -> np.ndarray:
    """Evenly spaced quantiles of the spectral density, on one side: a wave of −w is one of w."""
    levels = 0.5 + (np.arange(WAVES) + 0.5) / (2 * WAVES)
    quantiles = scipy.stats.norm.ppf(levels) if np.isinf(degrees) else scipy.stats.t.ppf(levels, degrees)
    return quantiles[:, None] / (2 * np.pi * lengthscale)
