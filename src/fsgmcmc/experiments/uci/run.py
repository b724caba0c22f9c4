"""UCI regression: one run of one method on one split."""

import hashlib
import math
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from fsgmcmc import __version__, metrics, variational
from fsgmcmc.defaults import BACK_OFFS, LEAST_NOISE, NUGGET_OF_NOISE
from fsgmcmc.diagnostics import diagnose
from fsgmcmc.errors import DivergenceError
from fsgmcmc.experiments.uci.config import Settings
from fsgmcmc.experiments.uci.problem import (
    Split,
    measured_posterior,
    posterior,
    prepare,
    seed,
    weighted_posterior,
    weights_of,
)
from fsgmcmc.inference.sample import sample
from fsgmcmc.inference.warm_up import WarmUp
from fsgmcmc.methods import SAMPLERS, VARIATIONAL, Method
from fsgmcmc.posterior import Posterior
from fsgmcmc.predictions import GaussianPrediction, RegressionPrediction
from fsgmcmc.priors import GaussianWeights
from fsgmcmc.priors.functional import SMALLEST_REDRAWN_NUGGET
from fsgmcmc.samplers import cyclical, sgld, step_decay
from fsgmcmc.samples import Samples

# Rows that the exact Gaussian process conditions on at most.
LARGEST_GP = 2000
# R-hat needs at least this many draws.
FEWEST_DRAWS = 4

Runner = Callable[[Split, Settings, int], tuple[RegressionPrediction, Samples | None]]


def _sampled(kind: Method) -> Runner:
    def run(split: Split, settings: Settings, number: int) -> tuple[RegressionPrediction, Samples]:
        target = posterior(split, settings, kind.is_functional)
        step = None if settings.step_size is None else step_decay(settings.step_size)
        samples = sample(
            number,
            target,
            kind.sampler(target, step),
            draws=settings.draws,
            thinning=settings.thinning_of(len(split.x)),
            burn_in=settings.further_burn_in,
            chains=settings.chains,
            warm_up=settings.warm_up,
            back_off=BACK_OFFS if settings.step_size is None else 0,
            progress=False,
        )
        return _predict(samples, split), samples

    return run


def _gaussian_process(split: Split, settings: Settings, number: int) -> tuple[RegressionPrediction, None]:
    rows = np.random.default_rng(number).permutation(len(split.x))[:LARGEST_GP]
    exact = split.fit.prior.condition(split.x[rows], split.y[rows], noise=split.fit.noise)
    return exact.predict(split.x_test), None


def _map_ensemble(split: Split, settings: Settings, number: int) -> tuple[RegressionPrediction, None]:
    """The end points of Adam on a parameter-space posterior, with their noise."""
    settings = replace(settings, heavy_tails=False)  # Adam does not fit heavy tails
    target, warm_up = posterior(split, settings, functional=False), WarmUp(adam_steps=settings.adam_steps, blocks=0)
    chains = max(settings.chains, 4)
    # One sampling step that is too small to move the weights.
    ends = sample(
        number, target, sgld(1e-14), draws=1, thinning=1, burn_in=0, chains=chains, warm_up=warm_up, progress=False
    )
    return _predict(ends, split), None


def _fitted(method: Method) -> Runner:
    def run(split: Split, settings: Settings, number: int) -> tuple[RegressionPrediction, None]:
        fitting = settings.fitting
        target = _functional(split, settings, method) if method.is_functional else _weights(split, settings)
        decaying = cyclical(fitting.learning_rate, length=fitting.steps)
        samples = variational.fit(
            number,
            target,
            method.approximation(fitting.options),
            steps=fitting.steps,
            learning_rate=decaying if fitting.decays else fitting.learning_rate,
            draws=fitting.kept,
            progress=False,
        )
        return _predict(samples, split), None

    return run


def _weights(split: Split, settings: Settings) -> Posterior:
    scale = settings.fitting.weight_scale
    prior = weights_of(settings) if scale is None else GaussianWeights(scale, "fan_in")
    return weighted_posterior(split, replace(settings, heavy_tails=False), prior, settings.fitting.batch_size)


def _functional(split: Split, settings: Settings, method: Method) -> Posterior:
    """Learned noise is at least that of the Gaussian process, as published: otherwise q interpolates the data."""
    points = method.measured_at(split.x, settings.fitting.options)
    batch_size, floor = settings.fitting.batch_size, max(float(split.fit.noise), LEAST_NOISE)
    settings = replace(settings, nugget_of_noise=NUGGET_OF_NOISE, heavy_tails=False)
    return measured_posterior(split, settings, points, batch_size, SMALLEST_REDRAWN_NUGGET, floor)


def _predict(samples: Samples, split: Split) -> GaussianPrediction:
    prediction = samples.predict(split.x_test)
    assert isinstance(prediction, GaussianPrediction)
    return prediction


RUNNERS: dict[str, Runner] = {
    **{name: _sampled(kind) for name, kind in SAMPLERS.items()},
    "gp": _gaussian_process,
    "map-ensemble": _map_ensemble,
    **{name: _fitted(method) for name, method in VARIATIONAL.items()},
}


def run(dataset: str, split: int, method: str, settings: Settings, data: Path | None = None) -> dict[str, Any]:
    """The record of one run; a diverged run has no scores."""
    prepared = prepare(dataset, split, settings, data)
    record: dict[str, Any] = {"dataset": dataset, "method": method, "preset": settings.preset, "split": split}
    record |= {"kernel": prepared.kernel, "settings": fingerprint(settings, method)}
    began = time.monotonic()
    try:
        with warnings.catch_warnings(action="ignore", category=UserWarning):
            prediction, samples = RUNNERS[method](prepared, settings, seed(dataset, split, method))
        scores = _scores(prediction, prepared, samples)
    except DivergenceError:
        scores = {}
    diverged = not scores or not all(math.isfinite(scores[name]) for name in ("rmse", "nll"))
    finite = {name: value for name, value in scores.items() if math.isfinite(value)}
    return record | dict.fromkeys(SCORES) | finite | {"seconds": time.monotonic() - began, "diverged": diverged}


SCORES = (
    *("rmse", "rmse_std", "nll", "nll_moment", "nll_std", "crps", "coverage_50", "coverage_90", "coverage_95"),
    *("width_90", "r_hat", "r_hat_worst", "ess"),
)


def _scores(prediction: RegressionPrediction, split: Split, samples: Samples | None) -> dict[str, float]:
    """Scores in original units, except those whose name ends in std."""
    y, unit = split.y_test, split.unit
    rmse, nll = metrics.rmse(prediction, y), metrics.nll(prediction, y)
    scores = {
        "rmse": rmse * unit,
        "rmse_std": rmse,
        "nll": nll + math.log(unit),
        "nll_moment": metrics.nll_moment(prediction, y) + math.log(unit),
        "nll_std": nll,
        "crps": metrics.crps(prediction, y) * unit,
        **{f"coverage_{level}": metrics.coverage(prediction, y, level / 100) for level in (50, 90, 95)},
        "width_90": metrics.width(prediction, 0.9) * unit,
    }
    if samples is not None and samples.draws >= FEWEST_DRAWS:
        report = diagnose(samples, split.x_test[:500])
        scores |= {"r_hat": report.r_hat_median, "r_hat_worst": report.r_hat, "ess": report.ess_median}
    return scores


def fingerprint(settings: Settings, method: str) -> str:
    """A hash of the version and of the settings that the method reads; it is in the name of the record's file."""
    fields = asdict(settings)
    if method not in VARIATIONAL:
        del fields["fitting"]
    if method not in SAMPLERS:
        del fields["heavy_tails"]
    return hashlib.sha256(repr((__version__, sorted(fields.items()))).encode()).hexdigest()[:12]
