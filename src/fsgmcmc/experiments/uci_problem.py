"""UCI regression: settings by preset, and the posterior of a network on one split.

`paper` keeps the settings as they were printed. `tuned` gives every sampler the same network, the same warm-up and the
same budget, and every variational method the same number of steps: nothing is chosen by hand for a set, and nothing is
chosen on test data. `quick` is a short `tuned`.
"""

import hashlib
import warnings
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from fsgmcmc.data import Standardiser, load_uci
from fsgmcmc.likelihoods import Gaussian
from fsgmcmc.measurement import Measurement, fixed, sets, subset
from fsgmcmc.networks import MLP
from fsgmcmc.posterior import Posterior
from fsgmcmc.priors import GaussianProcess, GaussianWeights, Pretrained, kernel_by_name, pretrain, select_kernel
from fsgmcmc.priors.weights import weak_weights
from fsgmcmc.recipe import (
    LARGE,
    NUGGET_OF_NOISE,
    SAMPLED_NOISE_FLOOR,
    batch_size_for,
    learned_noise,
    nugget_for,
    thinning_for,
    warm_up_for,
)
from fsgmcmc.spaces import function_space, parameter_space
from fsgmcmc.warm_up import WarmUp

# At points that change with the step the factor is one of float32.
REDRAWN_NUGGET = 1e-3


@dataclass(frozen=True)
class Fitting:
    """How the variational methods are fitted.

    Attributes:
        steps: Gradient steps.
        learning_rate: Adam's; it decays to zero along a cosine where `decays`.
        draws: Draws of the weights in each gradient of `bbb` and `ifbnn`.
        function_draws: Draws of the function in each gradient of `fbnn`.
        functions: Functions that the critic of `ifbnn` compares in each gradient.
        batch_size: Rows of the likelihood in each gradient.
        random_points: Measurement points of `fbnn` beside the batch, uniform in the box of the training inputs.
        points: Measurement points of `ifbnn`, redrawn from the training inputs.
        initial_log_std: log σ of q at the start.
        coupling: Of the bridge of `ifbnn` to q.
        weight_scale: Standard deviation of the weights' prior in `bbb`, times 1/sqrt(fan in); None takes the samplers'.
        kept: Draws of q for predictions.
    """

    steps: int = 5000
    learning_rate: float = 0.01
    decays: bool = True
    draws: int = 4
    function_draws: int = 30
    functions: int = 16
    batch_size: int = 50
    random_points: int = 10
    points: int = 40
    initial_log_std: float = -5.0
    coupling: float = 0.01
    weight_scale: float | None = 2.0
    kept: int = 100


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
        thinning: Steps between kept draws of a large set.
        stretch: A set that is not large, whose steps cost less, has so many times as many between kept draws.
        burn_in: Steps before the first draw; where the step is measured, it is so again after each third of them.
        step_size: None has it measured.
        nugget_of_noise: δ of the samplers' functional prior in units of the noise variance of the Gaussian process. A
            tenth holds the network to the process where the data know better; much more leaves hardly a prior.
        weight_scale: Standard deviation of the weights' prior in parameter space; None takes the weak prior that the
            functional posteriors have beside their Gaussian process, so that it alone makes the difference.
        sampled_noise: Whether the noise is sampled, or stays what the Gaussian process found.
        heavy_tails: Whether a sampled noise is Student's t, with sampled degrees of freedom, or Gaussian; that of the
            variational methods is Gaussian, as published.
        fitting: Of the variational methods.
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
    thinning: int = 500
    stretch: float = 2.0
    burn_in: int = 3000
    adam_steps: int = 1500
    step_size: float | None = None
    nugget_of_noise: float = 2.0
    weight_scale: float | None = None
    sampled_noise: bool = True
    heavy_tails: bool = True
    fitting: Fitting = Fitting()

    @property
    def warm_up(self) -> WarmUp | None:
        """How chains find a good region and a step; None where the step is given."""
        if self.step_size is not None:
            return None
        return warm_up_for(self.burn_in, self.adam_steps)

    @property
    def further_burn_in(self) -> int:
        """Steps between the warm-up, which has the burn-in in it, and the first draw."""
        return 0 if self.warm_up is not None else self.burn_in

    def thinning_of(self, rows: int) -> int:
        """Steps between kept draws where there are so many training rows."""
        return thinning_for(rows, self.thinning, self.stretch)


TUNED = Settings("tuned")
QUICK_FITTING = Fitting(steps=500, function_draws=20, functions=8, kept=20)
# An epoch is a step over all rows, or over 1000; start, random points and function draws are FBNN's as published.
PAPER_FITTING = Fitting(
    steps=2000,
    learning_rate=1e-3,
    decays=False,
    draws=1,
    function_draws=100,
    batch_size=1000,
    random_points=5,
    initial_log_std=-2.0,
    coupling=0.0,
    weight_scale=None,
)
PRESETS = {
    "tuned": TUNED,
    "quick": replace(
        TUNED,
        preset="quick",
        gp_rows=200,
        chains=2,
        draws=10,
        thinning=10,
        stretch=1.0,
        burn_in=100,
        adam_steps=500,
        fitting=QUICK_FITTING,
    ),
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
        stretch=1.0,
        burn_in=500,
        step_size=1e-3,
        nugget_of_noise=NUGGET_OF_NOISE,
        weight_scale=1.0,
        sampled_noise=False,
        fitting=PAPER_FITTING,
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
    batch_size = batch_size_for(len(split.x), settings.batch_size)
    if functional:
        return measured_posterior(split, settings, _measurement(split.x, settings), batch_size)
    return weighted_posterior(split, settings, weights_of(settings), batch_size)


def weights_of(settings: Settings) -> GaussianWeights:
    """The prior on the weights in parameter space."""
    return weak_weights() if settings.weight_scale is None else GaussianWeights(settings.weight_scale)


def weighted_posterior(split: Split, settings: Settings, prior: GaussianWeights, batch_size: int | None) -> Posterior:
    """With a prior on the weights."""
    network, likelihood = MLP(settings.hidden, initial="fan_in"), _likelihood(split, settings)
    return parameter_space(network, split.x, split.y, prior=prior, likelihood=likelihood, batch_size=batch_size)


def measured_posterior(
    split: Split,
    settings: Settings,
    measured: Measurement,
    batch_size: int | None,
    least_nugget: float = 0.0,
    noise_floor: float = SAMPLED_NOISE_FLOOR,
) -> Posterior:
    """With the Gaussian process at these measurement points."""
    process = split.fit.prior
    nugget = max(nugget_for(process, split.x, float(split.fit.noise), settings.nugget_of_noise), least_nugget)
    if settings.point_sets is None:
        nugget = max(nugget, REDRAWN_NUGGET)
    return function_space(
        MLP(settings.hidden, initial="fan_in"),
        split.x,
        split.y,
        prior=GaussianProcess(process.kernel, process.mean, nugget),
        measurement=measured,
        likelihood=_likelihood(split, settings, noise_floor),
        batch_size=batch_size,
    )


def _likelihood(split: Split, settings: Settings, floor: float = SAMPLED_NOISE_FLOOR) -> Gaussian:
    noise = float(split.fit.noise)
    return learned_noise(noise, floor, settings.heavy_tails) if settings.sampled_noise else Gaussian(noise)


def _measurement(x: np.ndarray, settings: Settings) -> Measurement:
    size = settings.points or (settings.large_points if len(x) > LARGE else len(x))
    if size >= len(x):
        return fixed(x)
    return subset(x, size) if settings.point_sets is None else sets(x, size, settings.point_sets)
