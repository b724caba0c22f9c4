"""Images: the data of one run, and the posterior of a network on it."""

import math
import time
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from fsgmcmc.data import PixelScale, load_images
from fsgmcmc.data.images import CLASSES
from fsgmcmc.experiments.images.config import OOD, Settings
from fsgmcmc.likelihoods import Categorical
from fsgmcmc.measurement import Measurement, subset
from fsgmcmc.networks import BFloat16
from fsgmcmc.networks.convolutional import ResNet
from fsgmcmc.posterior import Posterior
from fsgmcmc.posterior.build import function_space, parameter_space
from fsgmcmc.priors import GaussianProcess, GaussianWeights, PretrainedClasses, pretrain_classes, rbf
from fsgmcmc.priors.weights import weak_weights

NUGGET = 1e-3
# Seed of the random choice of test images: the first images of MNIST are harder than the rest.
TEST_SEED = 0


@dataclass(frozen=True, eq=False)
class Problem:
    """Scaled training, test and out-of-distribution images, and the Gaussian process of the training images.

    `prior_seconds` is the duration of the fit of the Gaussian process.
    """

    x: np.ndarray
    y: np.ndarray
    test: np.ndarray
    labels: np.ndarray
    ood: np.ndarray
    fit: PretrainedClasses
    prior_seconds: float

    @property
    def evaluated(self) -> np.ndarray:
        """The test images, then the out-of-distribution images."""
        return np.concatenate([self.test, self.ood])


@lru_cache(maxsize=1)
def prepare(dataset: str, seed: int, settings: Settings, data: Path | None) -> Problem:
    """The images of a run and their Gaussian process, which all methods of the seed share."""
    train, test = load_images(dataset, "train", data), load_images(dataset, "test", data)
    ood = load_images(OOD[dataset], "test", data)
    train = train if settings.images is None else train.some(settings.images, seed)
    scale = PixelScale.fit(train.x)
    x = scale(train.x)
    # The lengthscale starts at a typical distance between images.
    prior = GaussianProcess(rbf(lengthscale=math.sqrt(x[0].size), variance=4.0), nugget=NUGGET)
    began = time.monotonic()
    fit = pretrain_classes(
        prior, x, train.y, CLASSES, settings.gp_iterations, starts=1, max_points=settings.gp_images, seed=seed
    )
    seconds = time.monotonic() - began
    if settings.test_images is not None:
        test, ood = (images.some(settings.test_images, seed=TEST_SEED) for images in (test, ood))
    return Problem(x, train.y, scale(test.x), test.y, scale(ood.x), fit, seconds)


def points_apart(problem: Problem, settings: Settings) -> Measurement:
    """Measurement points that are drawn independently of the minibatch."""
    return subset(problem.x, settings.points)


def posterior(
    problem: Problem,
    settings: Settings,
    measurement: Measurement | None,
    weights: GaussianWeights = weak_weights(),  # noqa: B008 (immutable)
) -> Posterior:
    """The posterior with the Gaussian process at these measurement points as the prior.

    Without measurement points the prior is the one on the weights. Functional posteriors have the weak prior on the
    weights as well, so that the Gaussian process is the only difference. On held-out training images SGHMC has a lower
    NLL with the weak prior than with N(0, 2 / fan in).
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
