"""UCI regression: the data of one split, and the posterior of a network on it."""

import hashlib
import warnings
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from fsgmcmc.data import Standardiser, load_uci
from fsgmcmc.defaults import LARGE, SAMPLED_NOISE_FLOOR, batch_size_for, learned_noise, nugget_for
from fsgmcmc.experiments.uci.config import Settings
from fsgmcmc.likelihoods import Gaussian
from fsgmcmc.measurement import Measurement, fixed, sets, subset
from fsgmcmc.networks import MLP
from fsgmcmc.posterior import Posterior
from fsgmcmc.posterior.build import function_space, parameter_space
from fsgmcmc.priors import GaussianProcess, GaussianWeights, Pretrained, kernel_by_name, pretrain, select_kernel
from fsgmcmc.priors.weights import weak_weights

# Redrawn measurement points are factorised in float32, which needs at least this nugget.
REDRAWN_NUGGET = 1e-3


@dataclass(frozen=True, eq=False)
class Split:
    """Training and test data in standardised units, the Gaussian process of the training data, and its kernel."""

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
        raise ValueError(f"{dataset} has splits 0 to {len(table.splits) - 1}, not split {split}")
    train, test = table.splits[split]
    standard = Standardiser.fit(table.x[train], table.y[train])
    x, y = standard.x(table.x[train]), standard.y(table.y[train])
    # The scores show when the fit explains the data as noise; the warning is not needed.
    with warnings.catch_warnings(action="ignore", category=UserWarning):
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
    """The seed of a run, a hash of its data set, split and method."""
    return int.from_bytes(hashlib.sha256(f"{dataset}/{split}/{method}".encode()).digest()[:4])


def posterior(split: Split, settings: Settings, functional: bool) -> Posterior:
    """The posterior with the Gaussian process or Gaussian weights as the prior."""
    batch_size = batch_size_for(len(split.x), settings.batch_size, LARGE)
    if functional:
        return measured_posterior(split, settings, _measurement(split.x, settings), batch_size)
    return weighted_posterior(split, settings, weights_of(settings), batch_size)


def weights_of(settings: Settings) -> GaussianWeights:
    """The prior on the weights in parameter space."""
    return weak_weights() if settings.weight_scale is None else GaussianWeights(settings.weight_scale)


def weighted_posterior(split: Split, settings: Settings, prior: GaussianWeights, batch_size: int | None) -> Posterior:
    """The posterior with a prior on the weights."""
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
    """The posterior with the Gaussian process as the prior, at these measurement points."""
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
