"""Images and foreign images: settings by preset, and the posterior of a network on one set.

`paper` keeps the settings as they were printed, for an accelerator. `quick` and `tuned` are for two cores: a small
residual network, 10,000 training images, and the same network, warm-up and number of gradients for every sampler.
"""

import math
import time
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from fsgmcmc.convolutional import ResNet
from fsgmcmc.data import PixelScale, load_images
from fsgmcmc.data.images import CLASSES
from fsgmcmc.likelihoods import Categorical
from fsgmcmc.measurement import Measurement, subset
from fsgmcmc.networks import BFloat16
from fsgmcmc.posterior import Posterior
from fsgmcmc.priors import GaussianProcess, GaussianWeights, PretrainedClasses, pretrain_classes, rbf
from fsgmcmc.priors.weights import weak_weights
from fsgmcmc.samplers.hamiltonian import FRICTION_PER_STEP
from fsgmcmc.spaces import function_space, parameter_space
from fsgmcmc.warm_up import WarmUp

FOREIGN = {"mnist": "fashion", "fashion": "mnist", "cifar10": "svhn"}
"""Each set, and the one whose test images are foreign to it."""

NUGGET = 1e-3
# The noise of a minibatch of n images has about N / n times the curvature for its covariance. Along the stiffest
# direction it heats a Hamiltonian chain by (h² λ / 2 C h) N / n, a Langevin chain by (ε λ / 2) N / n: hundreds of times
# with steps that suit the curvature alone. These steps heat both alike; docs/images.md has what they were chosen by.
STEP_TIMES_FREQUENCY = 0.1
# Of the choice of test images: the first ones of MNIST are harder than the others.
TEST_SEED = 0


@dataclass(frozen=True)
class Settings:
    """Everything that a preset fixes.

    Attributes:
        depth: Of the residual network.
        width: Channels of its first stage.
        images: Training images, a random subset; None takes all.
        test_images: Test images of each set, the same random ones for all seeds; None takes all.
        batch_size: Images of the likelihood in each gradient.
        points: Measurement points, training images drawn anew for each gradient; for samplers, images of its minibatch.
        gp_images: Training images that the Dirichlet Gaussian process is fitted to.
        gp_iterations: Of that fit.
        adam_steps: Steps of the warm-up.
        learning_rate: Adam's at the start.
        step_size: None has it measured; a number is that of the mean potential U / N, as it is usually given.
        step_times_frequency: h sqrt(λ_max) of a Hamiltonian step that is measured.
        step_times_curvature: ε λ_max of a Langevin step that is measured.
        burn_in, draws, thinning: Of each chain, in steps; in epochs where `in_epochs`.
        fit_draws: Draws of the weights in each gradient of `bbb` and `ifbnn`.
        function_draws: Draws of the function in each gradient of `fbnn`.
        functions: Functions that the critic of `ifbnn` compares.
        half: Compute in bfloat16.
        stream: Leave the training images on the host.
        content: A digest of the image files, so that results of other files are told apart.
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
    adam_steps: int = 4000
    learning_rate: float = 5e-3
    step_size: float | None = None
    step_times_frequency: float = STEP_TIMES_FREQUENCY
    step_times_curvature: float = STEP_TIMES_FREQUENCY**2 / FRICTION_PER_STEP
    burn_in: int = 200
    draws: int = 20
    thinning: int = 50
    chains: int = 1
    in_epochs: bool = False
    fit_draws: int = 1
    function_draws: int = 10
    functions: int = 4
    half: bool = False
    stream: bool = False
    content: str = ""

    @property
    def warm_up(self) -> WarmUp | None:
        """How chains find a good region and a step; None where the step is given."""
        if self.step_size is not None:
            return None
        return WarmUp(adam_steps=self.adam_steps, learning_rate=self.learning_rate, blocks=0)

    def gradients(self, rows: int) -> int:
        """Steps of a sampler's chain with its warm-up, which are those of a variational method."""
        chain = self.steps_of(self.burn_in + self.draws * self.thinning, rows)
        return chain if self.warm_up is None else chain + self.adam_steps

    def steps_of(self, count: int, rows: int) -> int:
        """`burn_in`, `thinning` and the like in steps where there are so many training images."""
        return count * max(rows // self.batch_size, 1) if self.in_epochs else count


PAPER = Settings(
    "paper",
    depth=18,
    width=64,
    images=None,
    gp_images=1000,
    gp_iterations=500,
    step_size=1e-2,
    draws=10,
    in_epochs=True,
)
# Epochs of burn-in and between draws, by set.
PAPER_EPOCHS = {"mnist": (60, 2), "fashion": (100, 10), "cifar10": (80, 2)}
PRESETS = {
    # Small batches: on two cores the number of steps limits, not the number of images.
    "quick": Settings(
        "quick",
        width=8,
        test_images=5000,
        batch_size=50,
        points=20,
        gp_images=300,
        adam_steps=2000,
        burn_in=100,
        draws=10,
        thinning=20,
    ),
    "tuned": Settings("tuned", test_images=5000, batch_size=50, points=20, adam_steps=3000),
    "paper": PAPER,
}


def settings_for(preset: str, dataset: str, **changes: Any) -> Settings:
    """The settings of a preset for one set, with fields changed where a change is not None."""
    settings = PRESETS[preset]
    if preset == "paper":
        burn_in, thinning = PAPER_EPOCHS[dataset]
        settings = replace(settings, burn_in=burn_in, thinning=thinning)
    return replace(settings, **{name: value for name, value in changes.items() if value is not None})


@dataclass(frozen=True, eq=False)
class Problem:
    """Training and test images on one scale, the foreign test images, and the Gaussian process of the training part.

    `prior_seconds` is how long the Gaussian process took.
    """

    x: np.ndarray
    y: np.ndarray
    test: np.ndarray
    labels: np.ndarray
    foreign: np.ndarray
    fit: PretrainedClasses
    prior_seconds: float

    @property
    def shown(self) -> np.ndarray:
        """The test images, then the foreign ones."""
        return np.concatenate([self.test, self.foreign])


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
    began = time.monotonic()
    fit = pretrain_classes(
        prior, x, train.y, CLASSES, settings.gp_iterations, starts=1, max_points=settings.gp_images, seed=seed
    )
    seconds = time.monotonic() - began
    if settings.test_images is not None:
        test, foreign = (images.some(settings.test_images, seed=TEST_SEED) for images in (test, foreign))
    return Problem(x, train.y, scale(test.x), test.y, scale(foreign.x), fit, seconds)


def points_apart(problem: Problem, settings: Settings) -> Measurement:
    """Measurement points that have nothing to do with the minibatch."""
    return subset(problem.x, settings.points)


def posterior(
    problem: Problem,
    settings: Settings,
    measurement: Measurement | None,
    weights: GaussianWeights = weak_weights(),  # noqa: B008 (immutable)
) -> Posterior:
    """The network's posterior with the Gaussian process at these points as its prior.

    Without any the prior of the weights remains. Functional posteriors have the weak one as well, so that the Gaussian
    process alone makes the difference; on held-out training images it leaves SGHMC a lower NLL than N(0, 2 / fan in).
    """
    network = ResNet(settings.depth, settings.width)
    chosen = BFloat16(network) if settings.half else network
    likelihood, batch_size, stream = Categorical(CLASSES), settings.batch_size, settings.stream
    if measurement is None:
        return parameter_space(
            chosen, problem.x, problem.y, prior=weights, likelihood=likelihood, batch_size=batch_size, stream=stream
        )
    return function_space(
        chosen,
        problem.x,
        problem.y,
        prior=problem.fit.prior,
        measurement=measurement,
        likelihood=likelihood,
        batch_size=batch_size,
        stream=stream,
    )
