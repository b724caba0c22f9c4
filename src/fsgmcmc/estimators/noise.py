"""The noise before the network sees the data: its scale, and how small it may become.

A network with more weights than rows can pass through all of them, and a noise that is learned with it then becomes too
small. The same happens to the noise fitted with a process whose kernel is rough. Three numbers of the data say what is
too small: the errors e_i of each target given the others under the process of the prior, with variances s_i² that
include its noise σ; the noise σ_k beside other kernels; and the spacing Δ of targets that are rounded.

    scale = max(σ max(1, rms(e_i / s_i)), median σ_k),    floor = max(0.3 scale, Δ / √12)
"""

import numpy as np

from fsgmcmc.estimators.prior import FittedPrior

# Part of the process's noise that the network's keeps at least: a network can explain more than its process, not all.
LEAST_PART = 0.3
# Rows whose errors are computed, and the share of distinct targets below which they are rounded.
ROWS = 1000
ROUNDED = 0.5


def scale_of(prior: FittedPrior, x: np.ndarray, y: np.ndarray) -> float:
    """The noise beside the process, larger where the rows or other kernels say so."""
    error, variance = prior.process.condition(x[:ROWS], y[:ROWS], prior.noise).leave_one_out()
    surprise = float(np.sqrt(np.mean(np.square(error) / variance)))
    return max(prior.noise * max(1.0, surprise), float(np.median([each.noise for each in prior.beyond])))


def floor_of(scale: float, y: np.ndarray) -> float:
    """What a learned noise cannot fall below.

    >>> round(floor_of(1.0, np.random.default_rng(0).normal(size=50)), 3)
    0.3
    >>> round(floor_of(1.0, np.array([2.0, 4.0, 4.0, 6.0, 6.0, 6.0, 4.0])), 3)
    0.577
    """
    values = np.unique(y)
    if len(values) < 2 or len(values) > ROUNDED * len(y):
        return LEAST_PART * scale
    return max(LEAST_PART * scale, float(np.diff(values).min()) / 12**0.5)
