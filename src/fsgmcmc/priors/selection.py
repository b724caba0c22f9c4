"""Choosing a prior: kernels by evidence on training data, finished posteriors by the density of held-out data.

The grammar of kernels is small: smooth, rough and linear functions, each with a lengthscale per feature, and sums of
two of them. A fit that leaves no noise, with a kernel so rough that neighbours in the data know little of each other,
has put the noise into the function. No network follows that, and it is set aside.
"""

import warnings
from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fsgmcmc import _checks, metrics
from fsgmcmc.priors.gaussian_process import GaussianProcess
from fsgmcmc.priors.kernels import kernel_by_name
from fsgmcmc.priors.pretraining import Pretrained, pretrain

SINGLE = ("rbf", "matern32", "matern52", "linear")
GRAMMAR = (*SINGLE, *(" + ".join(pair) for pair in combinations(SINGLE, 2)))
# All forms are compared on so many rows, and the best of them on more: what few rows cannot tell from noise, such as
# the bends of kin8nm, makes a straight line look best. Only the winner is fitted to all.
SCREENING_ROWS = 200
FINAL_ROWS = 400
FINALISTS = 3
SCREENING_EPOCHS = 40
# Neighbours below this correlation know little of each other; noise below this fraction of what the function then
# changes from a point to its neighbour is none.
NEIGHBOURS = 0.9
NO_NOISE = 0.1


class Tried(NamedTuple):
    """A kernel that was fitted, the log marginal likelihood it reached on the screening rows, and the noise left."""

    kernel: str
    evidence: float
    noise: float


class Selection(NamedTuple):
    """What `select_kernel` found: the winner fitted to all rows used, and all that were tried.

    These are in the order of their evidence on the screening rows, which need not be that of more rows.
    """

    kernel: str
    fit: Pretrained
    tried: tuple[Tried, ...]

    def __str__(self) -> str:
        rows = [f"{row.kernel:<22}{row.evidence:>12.1f}{row.noise:>12.3g}" for row in self.tried]
        return "\n".join([f"{'kernel':<22}{'evidence':>12}{'noise':>12}", *rows])


def select_kernel(
    x: ArrayLike,
    y: ArrayLike,
    *,
    grammar: tuple[str, ...] = GRAMMAR,
    epochs: int = 100,
    starts: int = 2,
    max_points: int = 1000,
    seed: int = 0,
) -> Selection:
    """The kernel of the grammar with the largest evidence on training data, pre-trained; rough noise is set aside.

    All are fitted to 200 rows. If there are more, the best three, and the best that is not rough noise, are fitted to
    400; the winner to `max_points`.

    Args:
        x: Points, (N, d).
        y: Targets, (N,) or (N, outputs).
        grammar: Names that `kernel_by_name` reads.
        epochs: Most iterations of the winner's fit.
        starts: Starts of every fit; see `pretrain`.
        max_points: Most rows of any fit.
        seed: Of rows and starts.

    Example:
        >>> x = np.linspace(-3, 3, 40)[:, None]
        >>> y = 2 * x + 0.1 * np.random.default_rng(0).standard_normal((40, 1))
        >>> select_kernel(x, y, grammar=("matern32", "linear")).kernel
        'linear'
    """
    if not grammar:
        raise ValueError("the grammar is empty: give at least one kernel, such as ('rbf',)")
    points = _checks.matrix(x, "x")

    def fit(name: str, rows: int, epochs: int) -> Pretrained:
        process = GaussianProcess(kernel_by_name(name, points.shape[1]))
        return pretrain(process, x, y, epochs, starts=starts, max_points=min(rows, max_points), seed=seed)

    def ranked(names: Iterable[str], rows: int) -> list[tuple[str, Pretrained]]:
        fits = [(name, fit(name, rows, SCREENING_EPOCHS)) for name in names]
        return sorted(fits, key=lambda pair: -pair[1].evidence)

    def sound(fits: list[tuple[str, Pretrained]], rows: int) -> list[str]:
        return [name for name, found in fits if not _is_noise(found, points[: min(rows, max_points)])]

    with warnings.catch_warnings(action="ignore", category=UserWarning):  # what matters is how the winner fits
        compared = screened = ranked(grammar, SCREENING_ROWS)
        names, kept = [name for name, _ in screened], sound(screened, SCREENING_ROWS)
        if len(points[:max_points]) > SCREENING_ROWS:
            compared = ranked(dict.fromkeys([*names[:FINALISTS], *kept[:1]]), FINAL_ROWS)
    order = list(dict.fromkeys([*sound(compared, FINAL_ROWS), *kept])) or [compared[0][0]]
    tried = tuple(Tried(name, found.evidence, float(found.noise)) for name, found in screened)
    fits = []
    for name in order:
        fits.append((name, fit(name, max_points, epochs)))
        if sound(fits[-1:], FINAL_ROWS):
            return Selection(*fits[-1], tried)
    return Selection(*fits[0], tried)


def _is_noise(found: Pretrained, x: np.ndarray) -> bool:
    """Whether the kernel is rough noise: neighbours are hardly correlated, and nothing is left for the likelihood.

    x are as many points as the fit has seen: more of them are closer neighbours.
    """
    covariance = np.asarray(found.prior.gram(x), dtype=np.float64)
    variances = np.maximum(np.diag(covariance), np.finfo(float).tiny)
    correlation = covariance / np.sqrt(np.outer(variances, variances))
    np.fill_diagonal(correlation, -1.0)
    nearest = np.median(correlation.max(axis=1))
    change = np.sqrt(variances.mean() * max(1 - nearest**2, 0.0))
    return bool(nearest < NEIGHBOURS and float(found.noise) < NO_NOISE * change)


def choose_by_density(finished: Mapping[str, Any], x: ArrayLike, y: ArrayLike) -> tuple[str, dict[str, float]]:
    """Which of several finished posteriors gives held-out data the largest mean log density, and that of each.

    Args:
        finished: `Samples`, or anything whose `predict(x)` gives a prediction, by name.
        x: Held-out points, used in no fit.
        y: Their targets.
    """
    if not finished:
        raise ValueError("there is nothing to choose from: give at least one finished posterior")
    density = {name: -metrics.nll(samples.predict(np.asarray(x)), y) for name, samples in finished.items()}
    return max(density, key=lambda name: density[name]), density
