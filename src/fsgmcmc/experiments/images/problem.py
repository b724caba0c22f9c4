"""Images: the data of one run, and the posterior of a network on it."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np

from fsgmcmc.data import PixelScale, context_images, load_images
from fsgmcmc.data.images import CLASSES, Images
from fsgmcmc.experiments.images.config import OOD, Settings
from fsgmcmc.likelihoods import Categorical
from fsgmcmc.measurement import Measurement, subset
from fsgmcmc.networks import BFloat16
from fsgmcmc.networks.convolutional import LeNet, ResNet
from fsgmcmc.posterior import Posterior
from fsgmcmc.posterior.build import function_space, parameter_space
from fsgmcmc.predictions import CategoricalPrediction
from fsgmcmc.priors import (
    Functional,
    GaussianProcess,
    GaussianWeights,
    OutlierExposure,
    PretrainedClasses,
    dirichlet_targets,
    pretrain_classes,
    rbf,
)
from fsgmcmc.priors.base import Prior
from fsgmcmc.priors.extrapolation import LARGEST, Extrapolation
from fsgmcmc.priors.weights import weak_weights

NUGGET = 1e-3
# Seed of the random choice of test images: the first images of MNIST are harder than the rest.
TEST_SEED = 0


@dataclass(frozen=True, eq=False)
class Problem:
    """Scaled training, test, out-of-distribution and context images, and the Gaussian process of the training images.

    The training images are in random order. `prior_seconds` is the duration of the fit of the Gaussian process.
    """

    x: np.ndarray
    y: np.ndarray
    test: np.ndarray
    labels: np.ndarray
    ood: np.ndarray
    context: np.ndarray
    scale: PixelScale
    fit: PretrainedClasses
    prior_seconds: float

    @property
    def evaluated(self) -> np.ndarray:
        """The test images, then the out-of-distribution images."""
        return np.concatenate([self.test, self.ood])

    @cached_property
    def extrapolation(self) -> Extrapolation:
        """The Gaussian process given at most 1000 training images, for the uncertainty beyond them."""
        rows = slice(LARGEST)
        targets, noise = dirichlet_targets(self.y[rows], CLASSES, self.fit.concentration, self.fit.noise_scale)
        return Extrapolation.of([self.fit.prior], self.x[rows], targets, [noise])

    def with_process(self, prediction: CategoricalPrediction) -> CategoricalPrediction:
        """The prediction for the evaluated images, whose logits become those of the process beyond the training images.

        On held-out training images this does not raise the NLL (benchmarks/context_kinds.py).
        """
        blend = self.extrapolation.blend(self.evaluated, prediction.logits)
        return Categorical(CLASSES).predict_spread(*blend, ())


@lru_cache(maxsize=1)
def prepare(dataset: str, seed: int, settings: Settings, data: Path | None) -> Problem:
    """The images of a run and their Gaussian process, which all methods of the seed share."""
    train, test = load_images(dataset, "train", data), load_images(dataset, "test", data)
    ood = load_images(OOD[dataset], "test", data)
    if settings.test_images is not None:
        test, ood = (images.some(settings.test_images, seed=TEST_SEED) for images in (test, ood))
    return problem_of(train.some(settings.images or len(train.x), seed), test, ood.x, settings, seed)


def problem_of(train: Images, test: Images, ood: np.ndarray, settings: Settings, seed: int) -> Problem:
    """The problem with these training images, in random order, and these images to evaluate."""
    scale = PixelScale.fit(train.x)
    x = scale(train.x)
    # The lengthscale starts at a typical distance between images.
    prior = GaussianProcess(rbf(lengthscale=math.sqrt(x[0].size), variance=4.0), nugget=NUGGET)
    began = time.monotonic()
    fit = pretrain_classes(
        prior, x, train.y, CLASSES, settings.gp_iterations, starts=1, max_points=settings.gp_images, seed=seed
    )
    seconds = time.monotonic() - began
    context = context_images(train.x, settings.context_images, seed, settings.context_kinds)
    return Problem(x, train.y, scale(test.x), test.y, scale(ood), scale(context), scale, fit, seconds)


def points_apart(problem: Problem, settings: Settings) -> Measurement:
    """Measurement points that are drawn independently of the minibatch."""
    return subset(problem.x, settings.points)


def context_prior(problem: Problem, settings: Settings) -> Functional:
    """The Gaussian process at context images, with the same mean for all classes: there is no reason for any of them.

    The large nugget makes it a prior on each logit of each image, rather than on differences between similar images.
    """
    process = problem.fit.prior
    equal = np.full(CLASSES, np.mean(process.mean))
    undecided = GaussianProcess(process.kernel, equal, settings.context_nugget, process.embedding)
    points = subset(problem.context, settings.context_points)
    return Functional(undecided, points, weight=settings.context_weight)


def exposure(problem: Problem, settings: Settings) -> OutlierExposure:
    """Outlier exposure at the same context images with the same weight."""
    return OutlierExposure(subset(problem.context, settings.context_points), settings.context_weight)


ADDITIONS: dict[str, Callable[[Problem, Settings], Prior]] = {"context": context_prior, "exposure": exposure}


def posterior(
    problem: Problem,
    settings: Settings,
    measurement: Measurement | None,
    weights: GaussianWeights = weak_weights(),  # noqa: B008 (immutable)
    addition: str | None = None,
) -> Posterior:
    """The posterior with the Gaussian process at these measurement points as the prior; `ADDITIONS` has further terms.

    Without measurement points the prior is the one on the weights. Functional posteriors have the weak prior on the
    weights as well, so that the Gaussian process is the only difference. On held-out training images SGHMC has a lower
    NLL with the weak prior than with N(0, 2 / fan in).
    """
    network = LeNet(problem.x.shape[1]) if settings.network == "lenet" else ResNet(settings.depth, settings.width)
    chosen = BFloat16(network) if settings.half else network
    likelihood, batch_size, stream = Categorical(CLASSES), settings.batch_size, settings.stream
    prior: Prior = weights if measurement is None else problem.fit.prior
    if addition is not None:
        prior = prior + ADDITIONS[addition](problem, settings)
    if measurement is None:
        return parameter_space(
            chosen, problem.x, problem.y, prior=prior, likelihood=likelihood, batch_size=batch_size, stream=stream
        )
    return function_space(
        chosen,
        problem.x,
        problem.y,
        prior=prior,
        measurement=measurement,
        likelihood=likelihood,
        batch_size=batch_size,
        stream=stream,
    )
