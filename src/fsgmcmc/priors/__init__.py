"""Priors on the function of a network and on its weights."""

from fsgmcmc.priors.dirichlet import PretrainedClasses, dirichlet_targets, pretrain_classes
from fsgmcmc.priors.exposure import OutlierExposure
from fsgmcmc.priors.features import prior_features
from fsgmcmc.priors.functional import Functional
from fsgmcmc.priors.gaussian_process import GaussianProcess
from fsgmcmc.priors.kernels import kernel_by_name, linear, matern12, matern32, matern52, periodic, rbf
from fsgmcmc.priors.pretraining import Pretrained, pretrain
from fsgmcmc.priors.selection import Selection, choose_by_density, select_kernel
from fsgmcmc.priors.spectrum import frequencies
from fsgmcmc.priors.weights import GaussianWeights, weak_weights

__all__ = [
    "Functional",
    "GaussianProcess",
    "GaussianWeights",
    "OutlierExposure",
    "Pretrained",
    "PretrainedClasses",
    "Selection",
    "choose_by_density",
    "dirichlet_targets",
    "frequencies",
    "kernel_by_name",
    "linear",
    "matern12",
    "matern32",
    "matern52",
    "periodic",
    "pretrain",
    "pretrain_classes",
    "prior_features",
    "rbf",
    "select_kernel",
    "weak_weights",
]
