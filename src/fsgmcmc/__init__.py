"""Bayesian neural networks sampled in function space.

A user meets a network (`MLP`), a prior on its function (`GaussianProcess`, `pretrain`), a likelihood (`Gaussian`), the
points where the prior is measured (`measurement`), the posterior (`function_space`), a sampler (`fsghmc`) and `sample`.
"""

from fsgmcmc import diagnostics, measurement, metrics
from fsgmcmc.diagnostics import diagnose
from fsgmcmc.functional_momentum import functional_momentum
from fsgmcmc.likelihoods import Categorical, Gaussian
from fsgmcmc.networks import MLP
from fsgmcmc.posterior import Posterior, function_space, parameter_space
from fsgmcmc.priors import (
    Functional,
    GaussianProcess,
    GaussianWeights,
    kernel_by_name,
    linear,
    matern12,
    matern32,
    matern52,
    periodic,
    pretrain,
    rbf,
    weak_weights,
)
from fsgmcmc.samplers import (
    cyclical,
    cyclical_temperature,
    fsghmc,
    fsgld,
    hamiltonian,
    hmc,
    langevin,
    mala,
    nuts,
    polynomial,
    sghmc,
    sgld,
    step_decay,
)
from fsgmcmc.samplers.base import Energy
from fsgmcmc.samples import Samples
from fsgmcmc.sampling import DivergenceError, sample
from fsgmcmc.warm_up import WarmUp

__version__ = "0.1.0"

__all__ = [
    "MLP",
    "Categorical",
    "DivergenceError",
    "Energy",
    "Functional",
    "Gaussian",
    "GaussianProcess",
    "GaussianWeights",
    "Posterior",
    "Samples",
    "WarmUp",
    "cyclical",
    "cyclical_temperature",
    "diagnose",
    "diagnostics",
    "fsghmc",
    "fsgld",
    "function_space",
    "functional_momentum",
    "hamiltonian",
    "hmc",
    "kernel_by_name",
    "langevin",
    "linear",
    "mala",
    "matern12",
    "matern32",
    "matern52",
    "measurement",
    "metrics",
    "nuts",
    "parameter_space",
    "periodic",
    "polynomial",
    "pretrain",
    "rbf",
    "sample",
    "sghmc",
    "sgld",
    "step_decay",
    "weak_weights",
]
