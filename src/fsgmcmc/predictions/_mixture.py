"""Equally weighted mixtures of one distribution, shifted and scaled: p(y) = 1/S Σ_s p((y − f_s) / σ_s) / σ_s.

Arrays are (draws, rows, outputs) in float64; `by_rows` splits them into blocks of rows.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy  # submodules are loaded at first use

# Numbers in one (draws, block of rows, outputs) temporary: 1 MB in float64, which stays in the cache.
BLOCK_NUMBERS = 2**17
QUANTILE_TOLERANCE = 1e-7  # in scales of the narrowest component


class NoiseDistribution(NamedTuple):
    """The distribution of a component with f = 0 and σ = 1, as functions of z and of shape parameters such as ν."""

    log_density: Callable[..., np.ndarray]
    cdf: Callable[..., np.ndarray]
    quantile: Callable[..., np.ndarray]
    variance: Callable[..., np.ndarray | float]


NORMAL = NoiseDistribution(
    log_density=lambda z: -0.5 * np.square(z) - 0.5 * np.log(2 * np.pi),
    cdf=lambda z: scipy.special.ndtr(z),
    quantile=lambda level: scipy.special.ndtri(level),
    variance=lambda: 1.0,
)


def by_rows(function: Callable[..., np.ndarray], draws: np.ndarray, *others: np.ndarray) -> np.ndarray:
    """`function` of blocks of rows (axis 1 of every argument); the results are concatenated along axis 0."""
    block = max(1, BLOCK_NUMBERS // (len(draws) * draws.shape[2]))
    blocks = [slice(start, start + block) for start in range(0, max(draws.shape[1], 1), block)]
    return np.concatenate([function(draws[:, b].astype(np.float64), *(a[:, b] for a in others)) for b in blocks])


def log_mean(values: np.ndarray) -> np.ndarray:
    """log 1/S Σ_s exp Σ_o values_so, for each row."""
    return scipy.special.logsumexp(values.sum(axis=2), axis=0) - np.log(len(values))


def log_density(
    distribution: NoiseDistribution, means: np.ndarray, scales: np.ndarray, *rest: np.ndarray
) -> np.ndarray:
    """Log density of each row, joint over outputs; `rest` has the shape parameters of the components and then y."""
    *shape, y = rest
    return log_mean(distribution.log_density((y - means) / scales, *shape) - np.log(scales))


def cdf(distribution: NoiseDistribution, means: np.ndarray, scales: np.ndarray, *rest: np.ndarray) -> np.ndarray:
    """Probability of an observation below y, for each output; arguments as in `log_density`."""
    *shape, y = rest
    return distribution.cdf((y - means) / scales, *shape).mean(axis=0)


def noise_std(distribution: NoiseDistribution, means: np.ndarray, scales: np.ndarray, *shape: np.ndarray) -> np.ndarray:
    """Root mean variance of the components around their means."""
    del means
    return np.sqrt(np.mean(np.square(scales) * distribution.variance(*shape), axis=0))


def _mean_absolute(mean: np.ndarray | float, variance: np.ndarray) -> np.ndarray:
    """E|Z| = r (exp(−z²)/√π + z erf z) with r = √(2 variance) and z = mean / r, for Z ~ N(mean, variance)."""
    r = np.sqrt(2 * variance)
    z = mean / r
    return r * (np.exp(-z * z) / np.sqrt(np.pi) + z * scipy.special.erf(z))


def gaussian_crps(means: np.ndarray, sds: np.ndarray, y: np.ndarray) -> np.ndarray:
    """E|X − y| − ½ E|X − X'| for Gaussian components."""
    variances = np.square(sds)
    # Each pair once, one draw with all later ones, so that no (draws, draws, rows) array is needed.
    pairs = _mean_absolute(0.0, 2 * variances).sum(axis=0) / 2
    for i in range(len(means) - 1):
        pairs += _mean_absolute(means[i] - means[i + 1 :], variances[i] + variances[i + 1 :]).sum(axis=0)
    return _mean_absolute(means - y, variances).mean(axis=0) - pairs / len(means) ** 2


def quantile(
    distribution: NoiseDistribution, level: float, means: np.ndarray, scales: np.ndarray, *shape: np.ndarray
) -> np.ndarray:
    """Newton steps on Φ⁻¹(F(t)) = Φ⁻¹(level), a straight line for one Gaussian, safeguarded by bisection."""
    z, tolerance = scipy.special.ndtri(level), QUANTILE_TOLERANCE * scales.min(axis=0)
    # The quantile of the mixture lies between the smallest and the largest quantile of its components.
    of_components = means + scales * distribution.quantile(level, *shape)
    lower, upper = of_components.min(axis=0), of_components.max(axis=0)
    t, step, older = (lower + upper) / 2, upper - lower, upper - lower
    while (step > tolerance).any():
        standardised = (t - means) / scales
        below = distribution.cdf(standardised, *shape).mean(axis=0)
        lower, upper = np.where(below < level, t, lower), np.where(below < level, upper, t)
        with np.errstate(all="ignore"):
            density = np.mean(np.exp(distribution.log_density(standardised, *shape)) / scales, axis=0)
            probit = scipy.special.ndtri(below)
            newton = t - (probit - z) * np.exp(NORMAL.log_density(probit)) / density
        # Bisect if Newton's method cycles between components, or is NaN because the density underflows.
        within = (newton >= lower) & (newton <= upper) & (np.abs(newton - t) <= older / 2)
        moved = np.where(within | (np.abs(newton - t) <= tolerance), newton, (lower + upper) / 2)
        t, step, older = moved, np.abs(moved - t), step
    return t
