"""What works without tuning from 20 to 100,000 rows; the estimators and the experiments share it.

Up to 1000 rows: all of them in every gradient, and the functional prior measured at all of them. Up to 4000: all of
them in every gradient, and the prior measured at 1000 fixed points. More: minibatches, and the prior measured at one
of several fixed sets of points, another one at each step.
"""

import numpy as np

from fsgmcmc.inference.warm_up import WarmUp
from fsgmcmc.likelihoods import Gaussian, StudentT
from fsgmcmc.measurement import Measurement, fixed, sets
from fsgmcmc.priors.gaussian_process import GaussianProcess

# Training rows up to which the functional prior is measured at all of them, and points of a fixed set at the most.
LARGE = 1000
# Training rows up to which each gradient has all of them; beyond, so many, and so many points in each of several sets.
FULL_BATCH = 4000
BATCH_SIZE = 500
POINTS, POINT_SETS = 200, 16
# Points around few rows, and how far they lie from a row, in standard deviations of the features.
AROUND = 100
REACHES = (0.5, 1.0, 2.0, 4.0)
# The nugget of the network's prior: a tenth of the noise variance, and a floor (others: docs/what-is-sampled.md).
NUGGET_OF_NOISE, NUGGET_FLOOR = 0.1, 1e-6
# Least noise that is sampled, and that of the functional variational methods, in standard deviations of y. The step
# is measured in the warm-up, and curvature grows as 1 / σ²: without a floor data without noise make the steps unstable.
SAMPLED_NOISE_FLOOR = 0.005
LEAST_NOISE = 0.05
# How well the scale of a learned noise is known before the network sees the data: the spread of its logarithm.
NOISE_SPREAD = 1.0
# Momentum is kept for some 500 steps, or 50 where the gradient has noise: long enough to cross the slowest directions.
# Steps are longer than the sampler's default, since the warm-up measures the curvature until the draws begin.
STEP_TIMES_FREQUENCY = 1.0
FRICTION, FRICTION_OF_BATCHES = 0.002, 0.02
BLOCKS = 3
# How often a run may start over with half the step: on some tables the curvature grows along the chains.
BACK_OFFS = 6


def learned_noise(start: float, floor: float = SAMPLED_NOISE_FLOOR, heavy_tails: bool = True) -> Gaussian:
    """Observations whose noise is sampled with the weights, from a scale found beside the Gaussian process."""
    likelihood = StudentT if heavy_tails else Gaussian
    return likelihood(start, sampled=True, spread=NOISE_SPREAD, floor=floor)


def padded_rows(rows: int) -> int:
    """The next of 64, 72, 80, … 128, 144, … (eighths of powers of two): sizes at which programs are compiled."""
    eighth = max(2 ** (rows - 1).bit_length() // 16, 8)
    return max(-(-rows // eighth) * eighth, 64)


def batch_size_for(rows: int, size: int = BATCH_SIZE, full: int = FULL_BATCH) -> int | None:
    """Rows of the likelihood in each gradient; None is all, up to `full` rows."""
    return size if rows > full else None


def measured_at(x: np.ndarray) -> Measurement:
    """Where a functional prior is measured: at all rows where they are few, and around them.

    The prior is enforced only at the measurement points: with the rows alone the network is overconfident beyond them.
    Points around the rows, near and far, are `AROUND` or a fifth of all.
    """
    rng = np.random.default_rng(0)
    if len(x) <= LARGE:
        return fixed(np.concatenate([x, _around(rng, x, AROUND)]))
    if len(x) <= FULL_BATCH:
        rows = rng.permutation(len(x))[: LARGE - LARGE // 5]
        return fixed(np.concatenate([x[rows], _around(rng, x, LARGE // 5)]))
    rows = rng.permutation(len(x))[: POINTS * POINT_SETS]
    return sets(np.concatenate([x[rows], _around(rng, x, len(rows) // 4)]), POINTS, POINT_SETS)


def _around(rng: np.random.Generator, x: np.ndarray, count: int) -> np.ndarray:
    """Rows moved by up to several standard deviations of each feature, which is one here."""
    reach = rng.choice(REACHES, (count, 1))
    return (x[rng.integers(len(x), size=count)] + reach * rng.standard_normal((count, x.shape[1]))).astype(x.dtype)


def warm_up_for(burn_in: int, adam_steps: int) -> WarmUp:
    """The warm-up: Adam, then the burn-in in blocks, after each of which the step is measured again.

    Without a burn-in it is measured where Adam ends.
    """
    blocks = BLOCKS if burn_in else 0
    return WarmUp(adam_steps=adam_steps, precondition=True, blocks=blocks, block_steps=-(-burn_in // BLOCKS))


def nugget_for(process: GaussianProcess, x: np.ndarray, noise: float, of_noise: float = NUGGET_OF_NOISE) -> float:
    """δ = `of_noise` σ² of a network's prior where observations have this noise, relative to the prior's variance."""
    variance = float(np.mean(np.diag(process.gram(x[:200])))) or 1.0
    return of_noise * noise**2 / variance + NUGGET_FLOOR


def thinning_for(rows: int, thinning: int, stretch: float) -> int:
    """Steps between kept draws: a set that is not large, whose steps cost less, has `stretch` times as many."""
    return round(thinning * (1.0 if rows > LARGE else stretch))
