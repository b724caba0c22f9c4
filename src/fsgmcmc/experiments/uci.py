"""UCI regression: one run of one method on one split, by presets.

`paper` keeps the settings as they were printed. `tuned` gives every sampler the same network, the same warm-up and the
same budget: nothing is chosen by hand for a set, and nothing is chosen on test data. `quick` is a short `tuned`.
"""

import hashlib
import math
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from fsgmcmc import __version__, metrics
from fsgmcmc.data import Standardiser, load_uci
from fsgmcmc.diagnostics import diagnose
from fsgmcmc.likelihoods import Gaussian
from fsgmcmc.measurement import Measurement, fixed, sets, subset
from fsgmcmc.networks import MLP
from fsgmcmc.posterior import Posterior, function_space, parameter_space
from fsgmcmc.predictions import GaussianPrediction, RegressionPrediction
from fsgmcmc.priors import GaussianProcess, GaussianWeights, Pretrained, kernel_by_name, pretrain, select_kernel
from fsgmcmc.samplers import fsghmc, fsgld, sghmc, sgld, step_decay
from fsgmcmc.samplers.base import Sampler
from fsgmcmc.samples import Samples
from fsgmcmc.sampling import DivergenceError, sample
from fsgmcmc.warm_up import DivergedWarmUpError, WarmUp

LARGEST_GP = 2000
# Training rows beyond which a set is large.
LARGE = 1000
# R-hat needs so many.
FEWEST_DRAWS = 4
# The nugget of the network's prior: a tenth of the noise variance, so that it hides nothing the data say, and a floor.
NUGGET_OF_NOISE, NUGGET_FLOOR = 0.1, 1e-6


@dataclass(frozen=True)
class Settings:
    """Everything that a preset fixes; options of the command replace single fields.

    Attributes:
        kernel: A name for `kernel_by_name`, or "auto" to choose by evidence.
        pretraining: Iterations of the Gaussian process' fit; 0 leaves m = 0 and the kernel as it starts.
        gp_rows: Most rows of that fit.
        points: Measurement points; None takes all rows of a small set and `large_points` of a large one.
        point_sets: Where not all rows are measured, fixed sets of which each step takes one; None redraws the points.
        batch_size: Rows of the likelihood in each gradient of a large set.
        step_size: None has it measured.
    """

    preset: str
    hidden: tuple[int, ...] = (50, 50)
    kernel: str = "auto"
    pretraining: int = 100
    gp_rows: int = 700
    points: int | None = None
    large_points: int = 200
    point_sets: int | None = 16
    batch_size: int = 500
    chains: int = 4
    draws: int = 25
    thinning: int = 400
    burn_in: int = 3000
    adam_steps: int = 1500
    block_steps: int = 150
    step_size: float | None = None
    weight_scale: float = 1.0
    sampled_noise: bool = True
    noise_spread: float = 1.0

    @property
    def warm_up(self) -> WarmUp | None:
        """How chains find a good region and a step; None where the step is given."""
        if self.step_size is not None:
            return None
        return WarmUp(adam_steps=self.adam_steps, precondition=True, blocks=3, block_steps=self.block_steps)


TUNED = Settings("tuned")
PRESETS = {
    "tuned": TUNED,
    "quick": replace(TUNED, preset="quick", gp_rows=200, chains=2, draws=10, thinning=10, burn_in=100, adam_steps=500),
    "paper": Settings(
        "paper",
        hidden=(10, 10),
        kernel="rbf",
        gp_rows=1000,
        large_points=1000,
        point_sets=None,
        batch_size=1_000_000,
        chains=1,
        draws=15,
        thinning=100,
        burn_in=500,
        step_size=1e-3,
        sampled_noise=False,
    ),
}


@dataclass(frozen=True, eq=False)
class Split:
    """A training and a test part in standardised units, the Gaussian process of the training part, and its kernel."""

    x: np.ndarray
    y: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    unit: float
    fit: Pretrained
    kernel: str


@lru_cache(maxsize=2)
def prepare(dataset: str, split: int, settings: Settings, data: Path | None) -> Split:
    """A split with its pre-trained Gaussian process, which all methods of the split share."""
    table = load_uci(dataset, data)
    if split >= len(table.splits):
        raise ValueError(f"{dataset} has splits 0 to {len(table.splits) - 1}, there is no split {split}")
    train, test = table.splits[split]
    standard = Standardiser.fit(table.x[train], table.y[train])
    x, y = standard.x(table.x[train]), standard.y(table.y[train])
    with warnings.catch_warnings(action="ignore", category=UserWarning):  # a fit by noise alone is seen in the scores
        fit, kernel = _prior(x, y, settings, seed(dataset, split, "gp"))
    return Split(x, y, standard.x(table.x[test]), standard.y(table.y[test]), standard.y_std, fit, kernel)


def _prior(x: np.ndarray, y: np.ndarray, settings: Settings, number: int) -> tuple[Pretrained, str]:
    if settings.kernel == "auto" and settings.pretraining:
        chosen = select_kernel(x, y, epochs=settings.pretraining, max_points=settings.gp_rows, seed=number)
        return chosen.fit, chosen.kernel
    name = "rbf" if settings.kernel == "auto" else settings.kernel
    process = GaussianProcess(kernel_by_name(name, x.shape[1]))
    return pretrain(process, x, y, settings.pretraining, max_points=settings.gp_rows, seed=number), name


def seed(dataset: str, split: int, method: str) -> int:
    """The seed of a run, from what it is."""
    return int.from_bytes(hashlib.sha256(f"{dataset}/{split}/{method}".encode()).digest()[:4])


def posterior(split: Split, settings: Settings, functional: bool) -> Posterior:
    """The network's posterior with the Gaussian process or Gaussian weights as its prior."""
    noise = float(split.fit.noise)
    options: dict[str, Any] = {
        "likelihood": Gaussian(noise, sampled=settings.sampled_noise, spread=settings.noise_spread),
        "batch_size": settings.batch_size if len(split.x) > LARGE else None,
    }
    network = MLP(settings.hidden, initial="fan_in")
    if not functional:
        return parameter_space(network, split.x, split.y, prior=GaussianWeights(settings.weight_scale), **options)
    process = split.fit.prior
    variance = float(np.mean(np.diag(process.gram(split.x[:200])))) or 1.0
    nugget = NUGGET_OF_NOISE * noise**2 / variance + NUGGET_FLOOR
    measured = _measurement(split.x, settings)
    if settings.point_sets is None:
        nugget = max(nugget, 1e-3)
    prior = GaussianProcess(process.kernel, process.mean, nugget)
    return function_space(network, split.x, split.y, prior=prior, measurement=measured, **options)


def _measurement(x: np.ndarray, settings: Settings) -> Measurement:
    size = settings.points or (settings.large_points if len(x) > LARGE else len(x))
    if size >= len(x):
        return fixed(x)
    return subset(x, size) if settings.point_sets is None else sets(x, size, settings.point_sets)


Method = Callable[[Split, Settings, int], tuple[RegressionPrediction, Samples | None]]


def _sampled(sampler: Callable[..., Sampler], functional: bool) -> Method:
    def run(split: Split, settings: Settings, number: int) -> tuple[RegressionPrediction, Samples]:
        target = posterior(split, settings, functional)
        step = None if settings.step_size is None else step_decay(settings.step_size)
        samples = sample(
            number,
            target,
            sampler(step, **_friction(sampler, target)),
            draws=settings.draws,
            thinning=settings.thinning,
            burn_in=settings.burn_in,
            chains=settings.chains,
            warm_up=settings.warm_up,
            back_off=2 if settings.step_size is None else 0,
            progress=False,
        )
        prediction = samples.predict(split.x_test)
        assert isinstance(prediction, GaussianPrediction)
        return prediction, samples

    return run


def _friction(sampler: Callable[..., Sampler], target: Posterior) -> dict[str, float]:
    """Little friction where the gradient has no noise."""
    return {"friction_per_step": 0.02} if sampler in (sghmc, fsghmc) and target.is_deterministic else {}


def _gaussian_process(split: Split, settings: Settings, number: int) -> tuple[RegressionPrediction, None]:
    rows = np.random.default_rng(number).permutation(len(split.x))[:LARGEST_GP]
    exact = split.fit.prior.condition(split.x[rows], split.y[rows], noise=split.fit.noise)
    return exact.predict(split.x_test), None


def _map_ensemble(split: Split, settings: Settings, number: int) -> tuple[RegressionPrediction, None]:
    """Where Adam leaves the chains of a parameter-space posterior, with their noise."""
    target, warm_up = posterior(split, settings, functional=False), WarmUp(adam_steps=settings.adam_steps, blocks=0)
    chains = max(settings.chains, 4)
    # One step so small that nothing moves.
    ends = sample(
        number, target, sgld(1e-14), draws=1, thinning=1, burn_in=0, chains=chains, warm_up=warm_up, progress=False
    )
    prediction = ends.predict(split.x_test)
    assert isinstance(prediction, GaussianPrediction)
    return prediction, None


# Later methods join here.
METHODS: dict[str, Method] = {
    "sgld": _sampled(sgld, functional=False),
    "fsgld": _sampled(fsgld, functional=True),
    "sghmc": _sampled(sghmc, functional=False),
    "fsghmc": _sampled(fsghmc, functional=True),
    "gp": _gaussian_process,
    "map-ensemble": _map_ensemble,
}


def run(dataset: str, split: int, method: str, settings: Settings, data: Path | None = None) -> dict[str, Any]:
    """One run: its record, with scores missing where it diverged."""
    prepared = prepare(dataset, split, settings, data)
    record: dict[str, Any] = {"dataset": dataset, "method": method, "preset": settings.preset, "split": split}
    record |= {"kernel": prepared.kernel, "settings": fingerprint(settings)}
    began = time.monotonic()
    try:
        with warnings.catch_warnings(action="ignore", category=UserWarning):
            prediction, samples = METHODS[method](prepared, settings, seed(dataset, split, method))
        scores = _scores(prediction, prepared, samples)
    except (DivergenceError, DivergedWarmUpError):
        scores = {}
    diverged = not scores or not all(math.isfinite(scores[name]) for name in ("rmse", "nll"))
    finite = {name: value for name, value in scores.items() if math.isfinite(value)}
    return record | dict.fromkeys(SCORES) | finite | {"seconds": time.monotonic() - began, "diverged": diverged}


SCORES = (
    *("rmse", "rmse_std", "nll", "nll_moment", "nll_std", "crps", "coverage_50", "coverage_90", "coverage_95"),
    *("width_90", "r_hat", "r_hat_worst", "ess"),
)


def _scores(prediction: RegressionPrediction, split: Split, samples: Samples | None) -> dict[str, float]:
    """Scores in original units, but for those whose name ends in std."""
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


def fingerprint(settings: Settings) -> str:
    """What tells records of other settings, or of another version, apart."""
    return hashlib.sha256(repr((__version__, sorted(asdict(settings).items()))).encode()).hexdigest()[:12]
