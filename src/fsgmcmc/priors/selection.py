"""Selection of a prior: kernels by evidence on training data, finished posteriors by the density of held-out data.

The grammar of kernels is small: smooth, rough and linear functions, each with a lengthscale per feature, and sums of
two of them. If a fit has almost no noise and its kernel is so rough that neighbouring points are hardly correlated, the
function has fitted the noise. A network cannot represent such a function, so this kernel is rejected.
"""

import warnings
from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fsgmcmc import _checks, metrics
from fsgmcmc._threads import each_on_a_core, one_blas_thread
from fsgmcmc.priors.gaussian_process import GaussianProcess
from fsgmcmc.priors.kernels import kernel_by_name
from fsgmcmc.priors.pretraining import Pretrained, pretrain

SINGLE = ("rbf", "matern32", "matern52", "linear")
GRAMMAR = (*SINGLE, *(" + ".join(pair) for pair in combinations(SINGLE, 2)))
# All kernels are compared on few rows, and the best of them on more: with few rows some nonlinear data sets, such as
# kin8nm, look like a linear function with noise. Only the selected kernel is fitted to all rows.
SCREENING_ROWS = 200
FINAL_ROWS = 400
FINALISTS = 3
SCREENING_EPOCHS = 40
# Neighbouring points with a lower correlation are hardly correlated; noise below this fraction of the typical change of
# the function between neighbours is almost none.
NEIGHBOURS = 0.9
NO_NOISE = 0.1


class Tried(NamedTuple):
    """A kernel that was fitted: its log marginal likelihood on the screening rows, its noise and its process.

    `is_noise` says that the function fits the noise, so that the kernel is rejected. `draws` are those of `pretrain`.
    """

    kernel: str
    evidence: float
    noise: float
    prior: GaussianProcess
    is_noise: bool
    draws: tuple[tuple[GaussianProcess, Any], ...] = ()


class Selection(NamedTuple):
    """The result of `select_kernel`: the selected kernel, its fit to all rows used, and all kernels that were tried.

    `tried` has the order of the evidence on the screening rows; with more rows the order may differ.
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
    draws: int = 0,
    seed: int = 0,
) -> Selection:
    """The pre-trained kernel of the grammar with the largest evidence; kernels that fit the noise are rejected.

    All kernels are fitted to 200 rows. If there are more rows, the best three kernels, and the best that was not
    rejected, are fitted to 400. The selected kernel is fitted to `max_points`.

    Args:
        x: Points, (N, d).
        y: Targets, (N,) or (N, outputs).
        grammar: Names for `kernel_by_name`.
        epochs: Maximum number of iterations of the last fit.
        starts: Number of starts of every fit; see `pretrain`.
        max_points: Maximum number of rows of every fit.
        draws: Number of draws of the numbers of each kernel, given the screening rows; see `pretrain`.
        seed: Seed of the rows and of the starts.

    Example:
        >>> x = np.linspace(-3, 3, 40)[:, None]
        >>> y = 2 * x + 0.1 * np.random.default_rng(0).standard_normal((40, 1))
        >>> select_kernel(x, y, grammar=("matern32", "linear")).kernel
        'linear'
    """
    if not grammar:
        raise ValueError("the grammar is empty: give at least one kernel, such as ('rbf',)")
    points = _checks.matrix(x, "x")

    def fit(name: str, rows: int, epochs: int, draws: int = 0) -> Pretrained:
        process, rows = GaussianProcess(kernel_by_name(name, points.shape[1])), min(rows, max_points)
        return pretrain(process, x, y, epochs, starts=starts, max_points=rows, draws=draws, seed=seed)

    def ranked(names: Iterable[str], rows: int, draws: int = 0) -> list[tuple[str, Pretrained]]:
        fits = each_on_a_core(lambda name: (name, fit(name, rows, SCREENING_EPOCHS, draws)), list(names))
        return sorted(fits, key=lambda pair: -pair[1].evidence)

    def accepted(fits: list[tuple[str, Pretrained]], rows: int) -> list[str]:
        return [name for name, found in fits if not _is_noise(found, points[: min(rows, max_points)])]

    # Only warnings of the last fit matter.
    with warnings.catch_warnings(action="ignore", category=UserWarning), one_blas_thread():
        compared = screened = ranked(grammar, SCREENING_ROWS, draws)
        names, kept = [name for name, _ in screened], accepted(screened, SCREENING_ROWS)
        if len(points[:max_points]) > SCREENING_ROWS:
            compared = ranked(dict.fromkeys([*names[:FINALISTS], *kept[:1]]), FINAL_ROWS)
    order = list(dict.fromkeys([*accepted(compared, FINAL_ROWS), *kept])) or [compared[0][0]]
    tried = tuple(
        Tried(name, found.evidence, float(found.noise), found.prior, name not in kept, found.draws)
        for name, found in screened
    )
    fits = []
    for name in order:
        fits.append((name, fit(name, max_points, epochs)))
        if accepted(fits[-1:], FINAL_ROWS):
            return Selection(*fits[-1], tried)
    return Selection(*fits[0], tried)


def _is_noise(found: Pretrained, x: np.ndarray) -> bool:
    """Whether the function fits the noise: neighbouring points are hardly correlated, and the fitted noise is tiny.

    x must have as many points as the fit, because neighbours are closer if there are more points.
    """
    covariance = np.asarray(found.prior.gram(x), dtype=np.float64)
    variances = np.maximum(np.diag(covariance), np.finfo(float).tiny)
    correlation = covariance / np.sqrt(np.outer(variances, variances))
    np.fill_diagonal(correlation, -1.0)
    nearest = np.median(correlation.max(axis=1))
    change = np.sqrt(variances.mean() * max(1 - nearest**2, 0.0))
    return bool(nearest < NEIGHBOURS and float(found.noise) < NO_NOISE * change)


def choose_by_density(finished: Mapping[str, Any], x: ArrayLike, y: ArrayLike) -> tuple[str, dict[str, float]]:
    """The name of the posterior with the largest mean log density of held-out data, and the density of each.

    Args:
        finished: `Samples`, or anything whose `predict(x)` gives a prediction, by name.
        x: Held-out points, not used in any fit.
        y: Their targets.
    """
    if not finished:
        raise ValueError("there is nothing to choose from: give at least one finished posterior")
    density = {name: -metrics.nll(samples.predict(np.asarray(x)), y) for name, samples in finished.items()}
    return max(density, key=lambda name: density[name]), density
