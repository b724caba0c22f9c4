# The names of the package and where they live: for type checkers, and for the loader in __init__.py.

from . import diagnostics as diagnostics
from . import measurement as measurement
from . import metrics as metrics
from .diagnostics import diagnose as diagnose
from .gp_momentum import functional_momentum as functional_momentum
from .likelihoods import Categorical as Categorical
from .likelihoods import Gaussian as Gaussian
from .networks import MLP as MLP
from .posterior import Posterior as Posterior
from .posterior import function_space as function_space
from .posterior import parameter_space as parameter_space
from .priors import (
    Functional as Functional,
)
from .priors import (
    GaussianProcess as GaussianProcess,
)
from .priors import (
    GaussianWeights as GaussianWeights,
)
from .priors import (
    kernel_by_name as kernel_by_name,
)
from .priors import (
    linear as linear,
)
from .priors import (
    matern12 as matern12,
)
from .priors import (
    matern32 as matern32,
)
from .priors import (
    matern52 as matern52,
)
from .priors import (
    periodic as periodic,
)
from .priors import (
    pretrain as pretrain,
)
from .priors import (
    rbf as rbf,
)
from .priors import (
    weak_weights as weak_weights,
)
from .samplers import (
    cyclical as cyclical,
)
from .samplers import (
    cyclical_temperature as cyclical_temperature,
)
from .samplers import (
    fsghmc as fsghmc,
)
from .samplers import (
    fsgld as fsgld,
)
from .samplers import (
    hamiltonian as hamiltonian,
)
from .samplers import (
    hmc as hmc,
)
from .samplers import (
    langevin as langevin,
)
from .samplers import (
    mala as mala,
)
from .samplers import (
    nuts as nuts,
)
from .samplers import (
    polynomial as polynomial,
)
from .samplers import (
    sghmc as sghmc,
)
from .samplers import (
    sgld as sgld,
)
from .samplers import (
    step_decay as step_decay,
)
from .samplers.base import Energy as Energy
from .samples import Samples as Samples
from .sampling import DivergenceError as DivergenceError
from .sampling import sample as sample
from .warm_up import WarmUp as WarmUp

__version__: str
