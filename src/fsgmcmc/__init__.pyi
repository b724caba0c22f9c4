# The names of the package and where they live: for type checkers, and for the loader in __init__.py.

from . import (
    bandits as bandits,
    data as data,
    diagnostics as diagnostics,
    likelihoods as likelihoods,
    measurement as measurement,
    methods as methods,
    metrics as metrics,
    networks as networks,
    predictions as predictions,
    variational as variational,
)
from .diagnostics import diagnose as diagnose
from .errors import DivergenceError as DivergenceError
from .estimators import (
    FunctionalBNNClassifier as FunctionalBNNClassifier,
    FunctionalBNNRegressor as FunctionalBNNRegressor,
    load_model as load_model,
    save_model as save_model,
)
from .inference.sample import sample as sample
from .inference.warm_up import WarmUp as WarmUp
from .likelihoods import (
    Categorical as Categorical,
    Dirichlet as Dirichlet,
    Gaussian as Gaussian,
    Likelihood as Likelihood,
    StudentT as StudentT,
)
from .networks import (
    MLP as MLP,
    BFloat16 as BFloat16,
    FunctionNetwork as FunctionNetwork,
    LeNet as LeNet,
    Network as Network,
    ResNet as ResNet,
)
from .posterior.build import function_space as function_space, parameter_space as parameter_space
from .posterior.potential import Posterior as Posterior
from .posterior.target import Energy as Energy, Target as Target
from .predictions import DistributionPrediction as DistributionPrediction
from .priors import (
    Functional as Functional,
    GaussianProcess as GaussianProcess,
    GaussianWeights as GaussianWeights,
    OutlierExposure as OutlierExposure,
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
from .priors.functional_momentum import functional_momentum as functional_momentum
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
from .samplers.base import Sampler as Sampler
from .samples import Samples as Samples, functions_at as functions_at

__version__: str
