# The names of the package and where they live: for type checkers, and for the loader in __init__.py.

from . import (
    bandits as bandits,
    data as data,
    diagnostics as diagnostics,
    measurement as measurement,
    metrics as metrics,
    variational as variational,
)
from .convolutional import LeNet as LeNet, ResNet as ResNet
from .diagnostics import diagnose as diagnose
from .estimators import (
    FunctionalBNNClassifier as FunctionalBNNClassifier,
    FunctionalBNNRegressor as FunctionalBNNRegressor,
)
from .gp_momentum import functional_momentum as functional_momentum
from .heavy_tails import StudentT as StudentT
from .likelihoods import Categorical as Categorical, Dirichlet as Dirichlet, Gaussian as Gaussian, Weighted as Weighted
from .networks import MLP as MLP, BFloat16 as BFloat16
from .posterior import Posterior as Posterior
from .priors import (
    Functional as Functional,
    GaussianProcess as GaussianProcess,
    GaussianWeights as GaussianWeights,
    choose_by_density as choose_by_density,
    kernel_by_name as kernel_by_name,
    linear as linear,
    matern12 as matern12,
    matern32 as matern32,
    matern52 as matern52,
    periodic as periodic,
    pretrain as pretrain,
    pretrain_classes as pretrain_classes,
    rbf as rbf,
    select_kernel as select_kernel,
    weak_weights as weak_weights,
)
from .samplers import (
    cyclical as cyclical,
    cyclical_temperature as cyclical_temperature,
    fsghmc as fsghmc,
    fsgld as fsgld,
    hamiltonian as hamiltonian,
    hmc as hmc,
    langevin as langevin,
    mala as mala,
    nuts as nuts,
    polynomial as polynomial,
    sghmc as sghmc,
    sgld as sgld,
    step_decay as step_decay,
)
from .samplers.base import Energy as Energy
from .samples import Samples as Samples, functions_at as functions_at
from .sampling import DivergenceError as DivergenceError, sample as sample
from .spaces import function_space as function_space, parameter_space as parameter_space
from .warm_up import WarmUp as WarmUp

__version__: str
