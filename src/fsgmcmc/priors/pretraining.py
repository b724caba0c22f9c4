"""Fit the hyperparameters of a Gaussian process by marginal likelihood.

    maximise  log N(y; m, C),    C = K(θ) + σ² I,    in θ, m and σ

    ∂/∂C = ½ (α αᵀ − C⁻¹),    ∂/∂(y − m) = −α,    α = C⁻¹ (y − m)

by L-BFGS in float64, with logarithms of positive hyperparameters. The marginal likelihood of few data has several
modes, and one of them explains everything by noise: therefore there are several starts, and a warning.
"""

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
import scipy  # submodules are loaded at first use
from jaxtyping import Float
from numpy.typing import ArrayLike, NDArray
from tinygp.kernels import Kernel

from fsgmcmc import _checks
from fsgmcmc._threads import one_blas_thread
from fsgmcmc.priors import _host
from fsgmcmc.priors.gaussian_process import GaussianProcess, check_data, in_float64
from fsgmcmc.priors.kernels import is_hyperparameter, kernel_by_name
from fsgmcmc.priors.laplace import laplace_draws
from fsgmcmc.priors.marginal_likelihood import FAILURE, LENGTHS, VARIANCE, FitSpace, Model

# Initial lengthscales are between this multiple of the median distance and 1, times log-normal factors of this log-sd.
SHORTEST_START = 0.1
START_SPREAD = 0.5
# Noise sd in units of the sd of y: its initial value, and the value at which it explains everything.
NOISE_START = 0.3
NOISE_ALONE = 0.98
# With fewer rows the warning about noise is not given; shared variance below this fraction of the total is no signal.
FEW_ROWS = 10
NEGLIGIBLE = 1e-3
# If there are more rows, the starts are compared on this many of them, and only the best is fitted to all.
SCREENING_ROWS = 256
SIGNAL_STEPS = 10
# How far a screened logarithm may lie outside the range of the starts.
NEAR = np.log(10.0)


class Pretrained(NamedTuple):
    """The result of `pretrain`.

    - `prior`: the Gaussian process with fitted kernel and mean.
    - `noise`: standard deviation of the observations, fitted or as given.
    - `evidence`: log marginal likelihood of the rows used.
    - `trace`: the evidence after each iteration of the best start.
    - `draws`: further processes with their noise, whose numbers are as uncertain as the rows leave them.
    """

    prior: GaussianProcess
    noise: float | np.ndarray
    evidence: float
    trace: Float[np.ndarray, " iterations"]
    draws: tuple[tuple[GaussianProcess, float | np.ndarray], ...] = ()


def pretrain(
    prior: GaussianProcess | Kernel | str,
    x: ArrayLike,
    y: ArrayLike,
    epochs: int = 100,
    *,
    noise: ArrayLike | None = None,
    learn_mean: bool = True,
    starts: int = 4,
    max_points: int = 1000,
    draws: int = 0,
    seed: int = 0,
) -> Pretrained:
    """Fit kernel, mean and noise to data.

    Args:
        prior: The first start. Floats in its kernel are fitted, integers are not. It may also be a kernel, a name such
            as "rbf + linear", which has a lengthscale per feature, or "auto": `select_kernel` selects it by evidence.
        x: Points, (N, d).
        y: Targets, (N,) or (N, outputs).
        epochs: Maximum number of L-BFGS iterations from each start; 0 returns the first start.
        noise: Known standard deviations: one number, (N,) or (N, outputs). None fits one number.
        learn_mean: Whether the constant mean of each output is fitted.
        starts: Number of starts; those after the first depend on the scales of x and y.
        max_points: Maximum number of rows, drawn at random after exact duplicates (x and y) are removed.
        draws: Number of draws of the fitted numbers around their optimum (`fsgmcmc.priors.laplace`).
        seed: Seed of the starts, of the rows and of the draws.

    >>> from fsgmcmc.priors.kernels import rbf
    >>> x = np.linspace(0, 10, 50)[:, None]
    >>> fit = pretrain(GaussianProcess(rbf()), x, np.sin(x), noise=0.1)
    >>> fit.evidence > GaussianProcess(rbf()).evidence(x, np.sin(x), noise=0.1)
    True
    """
    x, y, known = check_data(x, y, 1.0 if noise is None else noise)
    if isinstance(prior, str) and prior == "auto":
        from fsgmcmc.priors.selection import select_kernel

        if noise is not None or not learn_mean:
            raise ValueError('"auto" fits noise and mean with each kernel: call select_kernel first, then pretrain')
        return select_kernel(x, y, epochs=epochs, starts=starts, max_points=max_points, draws=draws, seed=seed).fit
    if not isinstance(prior, GaussianProcess):
        prior = GaussianProcess(kernel_by_name(prior, x.shape[1]) if isinstance(prior, str) else prior)
    prior.check_outputs(y.shape[1])
    x = in_float64(GaussianProcess.embed, prior, x)
    epochs = _checks.count(epochs, "epochs", least=0)
    starts = _checks.count(starts, "starts") if epochs else 1
    rng = np.random.default_rng(seed)
    distinct = _distinct(x, y, known)
    rows = distinct[rng.permutation(len(distinct))[: _checks.count(max_points, "max_points")]]
    x, y, used_noise = x[rows], y[rows], known[rows] if known.ndim else known

    sd = float(np.sqrt(y.var(axis=0).mean()))
    constant = sd <= np.finfo(np.float32).eps * np.abs(y).max()
    unit = 1.0 if constant else sd
    mean = np.broadcast_to(np.asarray(prior.mean, np.float64), y.shape[1]) if learn_mean else prior.mean
    first = Model(prior.kernel, mean, NOISE_START * unit if noise is None else used_noise)
    space = FitSpace(first, Model(jax.tree.map(is_hyperparameter, prior.kernel), learn_mean, noise is None), unit)
    begins = _starts(space, x[:SCREENING_ROWS], y.mean(axis=0), starts, rng)
    if len(begins) > 1 and (is_period := space.named("period") & space.logs).any():
        # The evidence has a mode for almost every period: one start is at that of the data.
        begins[1, is_period] = np.log(np.resize(_periods(x, y), is_period.sum()))
    bounds = space.bounds(begins)

    def climb(rows: int, begins: np.ndarray, epochs: int) -> _Climb:
        loss = partial(space.loss, x[:rows], y[:rows])
        return max((_climb(loss, begin, bounds, epochs) for begin in begins), key=lambda climb: climb.evidence)

    with one_blas_thread():
        if len(x) > SCREENING_ROWS and epochs:
            screened = climb(SCREENING_ROWS, begins, epochs).place
            # A feature that is irrelevant for few rows has a gradient of zero: its value is moved back near the starts.
            screened = np.clip(screened, begins.min(axis=0) - NEAR, begins.max(axis=0) + NEAR)
            begins = climb(len(x), np.stack([begins[0], screened]), epochs=0).place[None]
        best = climb(len(x), begins, epochs)
        places = laplace_draws(partial(space.loss, x, y), best.place, _checks.count(draws, "draws", least=0), seed)
    if best.evidence <= -FAILURE:
        raise ValueError("the marginal likelihood is not finite at any start: check the kernel and the scale of x")
    found = space.model(best.place)
    if not constant and len(x) >= FEW_ROWS and _noise_alone(found, x, sd if noise is None else np.inf):
        warnings.warn(
            "the fitted Gaussian process explains the data by noise alone: try another kernel, or in regression "
            "noise=... if it is known",
            UserWarning,
            stacklevel=2,
        )

    def fitted(model: Model) -> tuple[GaussianProcess, float | np.ndarray]:
        mean = float(model.mean[0]) if learn_mean and y.shape[1] == 1 else model.mean
        process = GaussianProcess(model.kernel, mean, prior.nugget, prior.embedding)
        return process, model.noise if noise is None else known if known.ndim else float(known)

    lowest, highest = np.transpose(bounds)
    drawn = tuple(fitted(space.model(np.clip(place, lowest, highest))) for place in places)
    return Pretrained(*fitted(found), best.evidence, best.trace, drawn)


def _distinct(x: np.ndarray, y: np.ndarray, noise: np.ndarray) -> NDArray[np.int64]:
    """Rows without exact duplicates, because duplicates would imply that there is no noise."""
    columns = [x, y] if noise.ndim == 0 else [x, y, noise.reshape(len(x), -1)]
    return np.sort(np.unique(np.concatenate(columns, axis=1), axis=0, return_index=True)[1])


def _starts(
    space: FitSpace, x: np.ndarray, mean: np.ndarray, count: int, rng: np.random.Generator
) -> Float[np.ndarray, "starts z"]:
    """The values of the user first, then values that depend on the scales of the data."""
    # A distance in d features is about √d times a distance in one feature.
    each = np.sqrt(x.shape[1]) * np.array([_median_distance(column[:, None]) for column in x.T])
    widths = {(): _median_distance(x), each.shape: each}
    width = space.vector([widths.get(shape, 1.0) for shape in space.shapes])
    is_length = space.named(*LENGTHS) & space.vector([shape in widths for shape in space.shapes]) & space.logs
    is_variance = space.named(VARIANCE) & space.logs

    starts = [space.first]
    for shift in np.linspace(0.0, np.log(SHORTEST_START), count - 1):
        jitter = START_SPREAD * rng.standard_normal(len(width))
        z = np.where(is_length, np.log(width) + shift + jitter, space.first)
        z[space.named("mean")] = mean / space.unit
        # Variances are scaled until the mean of diag K is the variance of y; by half a step, as they may be multiplied.
        for _ in range(SIGNAL_STEPS if is_variance.any() else 0):
            signal = _host.evaluate(space.model(z).kernel, x).mean()
            z[is_variance] += 0.5 * np.log(space.unit**2 / signal) if signal > 0 else 0.0
        starts.append(z)
    return np.stack(starts)


def _periods(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The period of each feature with the highest peak of the periodogram of y, of which a linear trend is removed.

    >>> x = np.random.default_rng(0).uniform(0, 20, (100, 1))
    >>> print(_periods(x, 3 * x + np.sin(2 * np.pi * x)).round(2))
    [1.]
    """
    design = np.column_stack([np.ones(len(x)), x])
    residual = (y - design @ np.linalg.lstsq(design, y, rcond=None)[0]).sum(axis=1)
    periods = []
    for column in x.T:
        span = float(np.ptp(column)) or 1.0
        cycles = np.arange(2.0, max(len(x) / 2, 3.0), 0.1)  # over the range; with fewer a period is a trend
        power = scipy.signal.lombscargle(column, residual, 2 * np.pi * cycles / span)
        periods.append(span / cycles[np.argmax(power)])
    return np.array(periods)


def _median_distance(points: np.ndarray) -> float:
    distances = scipy.spatial.distance.pdist(points)
    apart = distances[distances > 0]
    return float(np.median(apart)) if apart.size else 1.0


class _Climb(NamedTuple):
    evidence: float
    place: np.ndarray
    trace: np.ndarray


def _climb(loss: Callable[..., Any], z: np.ndarray, bounds: list[tuple[float, float]], epochs: int) -> _Climb:
    trace: list[float] = []

    def record(intermediate_result: Any) -> None:
        trace.append(-float(intermediate_result.fun))

    if epochs == 0:
        return _Climb(-loss(z)[0], z, np.array(trace))
    options = {"maxiter": epochs}
    result = scipy.optimize.minimize(
        loss, z, jac=True, method="L-BFGS-B", bounds=bounds, callback=record, options=options
    )
    return _Climb(-float(result.fun), result.x, np.array(trace))


def _noise_alone(model: Model, x: np.ndarray, sd: float) -> bool:
    K = _host.evaluate(model.kernel, x, x)
    own = np.diagonal(K, axis1=-2, axis2=-1)
    shared = np.sqrt((np.square(K).sum(axis=(-2, -1)) - np.square(own).sum(axis=-1)).mean()) / len(x)
    total = own.mean() + np.square(model.noise).mean()
    return bool(shared < NEGLIGIBLE * total or np.mean(model.noise) > NOISE_ALONE * sd)
