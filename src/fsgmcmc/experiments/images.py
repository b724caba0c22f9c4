"""Image classification and detection of foreign images: settings by preset, and one run of one method.

A network learns one set of images and is then shown another: is it less certain there? `paper` keeps the settings as
they were printed, for an accelerator. `quick` and `tuned` are for two cores: a small residual network, 10,000 training
images, and the same network, warm-up and number of gradients for every sampler.
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
from fsgmcmc.convolutional import ResNet
from fsgmcmc.data import Images, PixelScale, load_images
from fsgmcmc.likelihoods import Categorical
from fsgmcmc.measurement import subset
from fsgmcmc.networks import BFloat16
from fsgmcmc.posterior import Posterior, function_space, parameter_space
from fsgmcmc.predictions import CategoricalPrediction
from fsgmcmc.priors import GaussianProcess, GaussianWeights, PretrainedClasses, pretrain_classes, rbf
from fsgmcmc.samplers import fsghmc, fsgld, sghmc, sgld, step_decay
from fsgmcmc.samplers.base import Sampler
from fsgmcmc.samples import functions_at
from fsgmcmc.sampling import DivergenceError, sample
from fsgmcmc.warm_up import DivergedWarmUpError, WarmUp

FOREIGN = {"mnist": "fashion", "fashion": "mnist", "cifar10": "svhn"}
"""Each set, and the one whose test images are foreign to it."""

CLASSES = 10
ENTROPY_BINS = 30
NUGGET = 1e-3


@dataclass(frozen=True)
class Settings:
    """Everything that a preset fixes.

    Attributes:
        depth: Of the residual network.
        width: Channels of its first stage.
        images: Training images, a random subset; None takes all.
        test_images: Test images of each set, in their order; None takes all.
        batch_size: Images of the likelihood in each gradient.
        points: Measurement points, training images drawn anew for each gradient.
        gp_images: Training images that the Dirichlet Gaussian process is fitted to.
        gp_iterations: Of that fit.
        adam_steps: Steps of the warm-up.
        learning_rate: Adam's at the start.
        step_size: None has it measured; a number is that of the mean potential U / N, as it is usually given.
        burn_in, draws, thinning: Of each chain, in steps; in epochs where `in_epochs`.
        weight_scale: Standard deviation of the weights' prior, times 1 / sqrt(fan in).
        half: Compute in bfloat16.
        stream: Leave the training images on the host.
    """

    preset: str
    depth: int = 8
    width: int = 16
    images: int | None = 10_000
    test_images: int | None = None
    batch_size: int = 125
    points: int = 40
    gp_images: int = 500
    gp_iterations: int = 50
    adam_steps: int = 1500
    learning_rate: float = 3e-3
    step_size: float | None = None
    burn_in: int = 200
    draws: int = 20
    thinning: int = 40
    chains: int = 1
    in_epochs: bool = False
    weight_scale: float = math.sqrt(2)
    half: bool = False
    stream: bool = False

    @property
    def warm_up(self) -> WarmUp | None:
        """How chains find a good region and a step; None where the step is given."""
        if self.step_size is not None:
            return None
        return WarmUp(adam_steps=self.adam_steps, learning_rate=self.learning_rate, blocks=1, block_steps=20)

    def steps_of(self, count: int, rows: int) -> int:
        """`burn_in` or `thinning` in steps where there are so many training images."""
        return count * max(rows // self.batch_size, 1) if self.in_epochs else count


PAPER = Settings(
    "paper",
    depth=18,
    width=64,
    images=None,
    gp_images=1000,
    gp_iterations=500,
    step_size=1e-2,
    burn_in=60,
    draws=10,
    thinning=2,
    in_epochs=True,
)
# Epochs of burn-in and between draws, by set.
PAPER_EPOCHS = {"mnist": (60, 2), "fashion": (100, 10), "cifar10": (80, 2)}
PRESETS = {
    "quick": Settings("quick", width=8, adam_steps=800, burn_in=100, draws=10, thinning=20),
    "tuned": Settings("tuned"),
    "paper": PAPER,
}


def settings_for(preset: str, dataset: str) -> Settings:
    """The settings of a preset for one set."""
    settings = PRESETS[preset]
    if preset != "paper":
        return settings
    burn_in, thinning = PAPER_EPOCHS[dataset]
    return replace(settings, burn_in=burn_in, thinning=thinning)


@dataclass(frozen=True, eq=False)
class Problem:
    """Training and test images on one scale, the foreign test images, and the Gaussian process of the training part."""

    x: np.ndarray
    y: np.ndarray
    test: np.ndarray
    labels: np.ndarray
    foreign: np.ndarray
    fit: PretrainedClasses


@lru_cache(maxsize=1)
def prepare(dataset: str, seed: int, settings: Settings, data: Path | None) -> Problem:
    """The images of a run and their Gaussian process, which all methods of the seed share."""
    train, test = load_images(dataset, "train", data), load_images(dataset, "test", data)
    foreign = load_images(FOREIGN[dataset], "test", data)
    train = train if settings.images is None else train.some(settings.images, seed)
    scale = PixelScale.fit(train.x)
    x = scale(train.x)
    # A kernel that knows nothing of the distances between images: the first start is their typical distance.
    prior = GaussianProcess(rbf(lengthscale=math.sqrt(x[0].size), variance=4.0), nugget=NUGGET)
    fit = pretrain_classes(
        prior, x, train.y, CLASSES, settings.gp_iterations, starts=1, max_points=settings.gp_images, seed=seed
    )
    shown, other = (scale(_first(images, settings.test_images).x) for images in (test, foreign))
    return Problem(x, train.y, shown, _first(test, settings.test_images).y, other, fit)


def _first(images: Images, rows: int | None) -> Images:
    return Images(images.name, images.x[:rows], images.y[:rows], images.files)


def posterior(problem: Problem, settings: Settings, functional: bool) -> Posterior:
    """The network's posterior with the Gaussian process or Gaussian weights as its prior."""
    network = ResNet(settings.depth, settings.width)
    chosen = BFloat16(network) if settings.half else network
    likelihood, batch_size, stream = Categorical(CLASSES), settings.batch_size, settings.stream
    if not functional:
        prior = GaussianWeights(settings.weight_scale, "fan_in")
        return parameter_space(
            chosen, problem.x, problem.y, prior=prior, likelihood=likelihood, batch_size=batch_size, stream=stream
        )
    return function_space(
        chosen,
        problem.x,
        problem.y,
        prior=problem.fit.prior,
        measurement=subset(problem.x, settings.points),
        likelihood=likelihood,
        batch_size=batch_size,
        stream=stream,
    )


Runner = Callable[[Problem, Settings, int, Path | None], tuple[CategoricalPrediction, dict[str, Any]]]


def _sampled(sampler: Callable[..., Sampler], functional: bool) -> Runner:
    def run(
        problem: Problem, settings: Settings, seed: int, checkpoint: Path | None
    ) -> tuple[CategoricalPrediction, dict[str, Any]]:
        target = posterior(problem, settings, functional)
        step = None
        if settings.step_size is not None:
            # Langevin steps scale as 1 / U, Hamiltonian ones as its root.
            scale = len(problem.x) if sampler in (sgld, fsgld) else math.sqrt(len(problem.x))
            step = step_decay(settings.step_size / scale, rate=0.99, every=20)
        samples = sample(
            seed,
            target,
            sampler(step),
            draws=settings.draws,
            thinning=settings.steps_of(settings.thinning, len(problem.x)),
            burn_in=settings.steps_of(settings.burn_in, len(problem.x)),
            chains=settings.chains,
            warm_up=settings.warm_up,
            collect=functions_at(target, np.concatenate([problem.test, problem.foreign])),
            checkpoint=checkpoint,
        )
        logits = samples.collected.reshape(-1, *samples.collected.shape[2:])
        rate = samples.info["iterations"] * settings.chains * target.rows_per_step / samples.info["seconds"]
        info = {"weights": target.size, "step_size": samples.info["step_size"], "images_per_second": rate}
        return CategoricalPrediction(logits), info

    return run


def _gaussian_process(
    problem: Problem, settings: Settings, seed: int, checkpoint: Path | None
) -> tuple[CategoricalPrediction, dict[str, Any]]:
    """The Dirichlet Gaussian process alone."""
    del settings, checkpoint
    return problem.fit.classify(np.concatenate([problem.test, problem.foreign]), draws=50, seed=seed), {}


METHODS: dict[str, Runner] = {
    "sgld": _sampled(sgld, functional=False),
    "fsgld": _sampled(fsgld, functional=True),
    "sghmc": _sampled(sghmc, functional=False),
    "fsghmc": _sampled(fsghmc, functional=True),
    "gp": _gaussian_process,
}


def run(
    dataset: str, seed: int, method: str, settings: Settings, data: Path | None = None, checkpoint: Path | None = None
) -> dict[str, Any]:
    """One run: its record, with scores missing where it diverged.

    `checkpoint` is a file from which an interrupted run goes on; it is gone when the run is finished.
    """
    problem = prepare(dataset, seed, settings, data)
    record: dict[str, Any] = {"dataset": dataset, "method": method, "preset": settings.preset, "seed": seed}
    record |= {"images": len(problem.x), "settings": fingerprint(settings)}
    began = time.monotonic()
    try:
        with warnings.catch_warnings(action="ignore", category=UserWarning):
            prediction, info = METHODS[method](problem, settings, number(dataset, seed, method), checkpoint)
        scores = score(prediction, problem.labels)
    except (DivergenceError, DivergedWarmUpError):
        info, scores = {}, {}
    if checkpoint is not None:
        checkpoint.unlink(missing_ok=True)
    nothing = dict.fromkeys((*SCORES, "weights", "step_size", "images_per_second"))
    return record | nothing | info | scores | {"seconds": time.monotonic() - began, "diverged": not scores}


SCORES = (
    *("error", "nll", "ece", "brier", "auroc_entropy", "auroc_mutual_information"),
    *("aupr_entropy", "aupr_mutual_information"),
)


def score(prediction: CategoricalPrediction, labels: np.ndarray) -> dict[str, Any]:
    """Scores of a prediction whose first rows are the test images and whose others are foreign; error in per cent."""
    size = len(labels)
    known = CategoricalPrediction(prediction.logits[:, :size])
    foreign = CategoricalPrediction(prediction.logits[:, size:])
    scores: dict[str, Any] = {
        "error": 100 * (1 - metrics.accuracy(known, labels)),
        "nll": metrics.nll(known, labels),
        "ece": metrics.ece(known, labels),
        "brier": metrics.brier(known, labels),
    }
    for name in ("entropy", "mutual_information"):
        pair = getattr(known, name), getattr(foreign, name)
        scores |= {f"auroc_{name}": metrics.auroc(*pair), f"aupr_{name}": metrics.aupr(*pair)}
    rows, confidence, right = metrics.reliability(known, labels)
    full = rows > 0
    edges = np.linspace(0, math.log(CLASSES), ENTROPY_BINS + 1)
    return scores | {
        "reliability": [rows[full].tolist(), confidence[full].tolist(), right[full].tolist()],
        "entropy_known": np.histogram(known.entropy, edges)[0].tolist(),
        "entropy_foreign": np.histogram(foreign.entropy, edges)[0].tolist(),
    }


def number(dataset: str, seed: int, method: str) -> int:
    """The seed of a run's chains, from what it is."""
    return int.from_bytes(hashlib.sha256(f"{dataset}/{seed}/{method}".encode()).digest()[:4])


def fingerprint(settings: Settings) -> str:
    """What tells records of other settings, or of another version, apart."""
    return hashlib.sha256(repr((__version__, sorted(asdict(settings).items()))).encode()).hexdigest()[:12]
