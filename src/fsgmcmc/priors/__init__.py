"""Priors: on the function a network computes, and on its weights."""

from fsgmcmc.priors.functional import Functional
from fsgmcmc.priors.gaussian_process import GaussianProcess
from fsgmcmc.priors.kernels import kernel_by_name, linear, matern12, matern32, matern52, periodic, rbf
from fsgmcmc.priors.pretraining import Pretrained, pretrain
from fsgmcmc.priors.weights import GaussianWeights, weak_weights

__all__ = [
    "Functional",
    "GaussianProcess",
    "GaussianWeights",
    "Pretrained",
    "kernel_by_name",
    "linear",
    "matern12",
    "matern32",
    "matern52",
    "periodic",
    "pretrain",
    "rbf",
    "weak_weights",
]
