"""UCI regression: settings by preset.

`paper` has the settings that the paper prints. `tuned` gives every sampler the same network, the same warm-up and the
same budget, and every variational method the same number of steps. No setting is chosen by hand for a data set, and
none is chosen on test data. `quick` is a short `tuned`.
"""

from dataclasses import asdict, dataclass, replace
from typing import Any

from fsgmcmc.defaults import NUGGET_OF_NOISE, thinning_for, warm_up_for
from fsgmcmc.inference.warm_up import WarmUp
from fsgmcmc.methods import METHODS

DEFAULT_METHODS = tuple(name for name, method in METHODS.items() if not method.is_variational)


@dataclass(frozen=True)
class Fitting:
    """How the variational methods are fitted.

    Attributes:
        steps: Gradient steps.
        learning_rate: Learning rate of Adam; with `decays` it falls to zero along a cosine.
        draws_per_step: Draws of the weights in each gradient of `bbb` and `ifbnn`.
        function_draws: Draws of the function in each gradient of `fbnn`.
        functions: Functions that the critic of `ifbnn` compares in each gradient.
        batch_size: Rows of the likelihood in each gradient.
        random_points: Measurement points of `fbnn` besides the batch, uniform in the box of the training inputs.
        points: Measurement points of `ifbnn`, redrawn from the training inputs.
        initial_log_std: log σ of q at the start.
        coupling: Coupling of the bridge of `ifbnn` to q.
        weight_scale: Standard deviation of the prior on the weights in `bbb`, times 1/sqrt(fan in); None: that of the
            samplers.
        kept: Draws from q that predictions use.
    """

    steps: int = 5000
    learning_rate: float = 0.01
    decays: bool = True
    draws_per_step: int = 4
    function_draws: int = 30
    functions: int = 16
    batch_size: int = 50
    random_points: int = 10
    points: int = 40
    initial_log_std: float = -5.0
    coupling: float = 0.01
    weight_scale: float | None = 2.0
    kept: int = 100

    @property
    def options(self) -> dict[str, Any]:
        """All fields by name; a method and its measurement points take those that they have."""
        return asdict(self)


@dataclass(frozen=True)
class Settings:
    """All settings of a preset; command-line options replace single fields.

    Attributes:
        kernel: A name for `kernel_by_name`, or "auto" to select it by the evidence.
        pretraining: Iterations of the fit of the Gaussian process; 0 keeps m = 0 and the initial kernel.
        gp_rows: Maximum number of rows in that fit.
        points: Measurement points; None: all rows of a small data set and `large_points` rows of a large one.
        point_sets: Number of fixed sets of measurement points, of which each step uses one, if not all rows are
            measurement points; None redraws the points at each step.
        batch_size: Rows of the likelihood in each gradient of a large data set.
        thinning: Steps between kept draws on a large data set.
        stretch: Factor of `thinning` on a smaller data set, where steps are cheaper.
        burn_in: Steps before the first draw; a measured step size is measured again after each third of them.
        step_size: None: it is measured.
        nugget_of_noise: δ of the samplers' functional prior in units of the noise variance of the Gaussian process.
            With 0.1 the network follows the process even where the data contradict it; with much larger values the
            prior has little effect.
        weight_scale: Standard deviation of the weights' prior in parameter space; None: the weak prior that
            functional posteriors have besides their Gaussian process, so that the process is the only difference.
        sampled_noise: Whether the noise is sampled, or fixed at the estimate of the Gaussian process.
        heavy_tails: Whether sampled noise is Student's t with sampled degrees of freedom, or Gaussian. Variational
            methods always have Gaussian noise, as published.
        fitting: Settings of the variational methods.
    """

    preset: str
    hidden: tuple[int, ...] = (50, 50)
    kernel: str = "auto"
    pretraining: int = 100
    gp_rows: int = 700
    points: int | None = None
    large_points: int = 200
    point_sets: int | None = 16
    batch_size: int = 500
    chains: int = 4
    draws: int = 25
    thinning: int = 500
    stretch: float = 2.0
    burn_in: int = 3000
    adam_steps: int = 1500
    step_size: float | None = None
    nugget_of_noise: float = 2.0
    weight_scale: float | None = None
    sampled_noise: bool = True
    heavy_tails: bool = True
    fitting: Fitting = Fitting()

    @property
    def warm_up(self) -> WarmUp | None:
        """The warm-up, which also measures the step size; None if the step size is given."""
        if self.step_size is not None:
            return None
        return warm_up_for(self.burn_in, self.adam_steps)

    @property
    def further_burn_in(self) -> int:
        """Steps between the warm-up, which includes the burn-in, and the first draw."""
        return 0 if self.warm_up is not None else self.burn_in

    def thinning_of(self, rows: int) -> int:
        """Steps between kept draws for this number of training rows."""
        return thinning_for(rows, self.thinning, self.stretch)


TUNED = Settings("tuned")
QUICK_FITTING = Fitting(steps=500, function_draws=20, functions=8, kept=20)
# An epoch is one step over all rows, at most 1000. Initial σ, random points and function draws are those published for
# FBNN.
PAPER_FITTING = Fitting(
    steps=2000,
    learning_rate=1e-3,
    decays=False,
    draws_per_step=1,
    function_draws=100,
    batch_size=1000,
    random_points=5,
    initial_log_std=-2.0,
    coupling=0.0,
    weight_scale=None,
)
PRESETS = {
    "tuned": TUNED,
    "quick": replace(
        TUNED,
        preset="quick",
        gp_rows=200,
        chains=2,
        draws=10,
        thinning=10,
        stretch=1.0,
        burn_in=100,
        adam_steps=500,
        fitting=QUICK_FITTING,
    ),
    "paper": Settings(
        "paper",
        hidden=(10, 10),
        kernel="rbf",
        gp_rows=1000,
        large_points=1000,
        point_sets=None,
        batch_size=1_000_000,
        chains=1,
        draws=15,
        thinning=100,
        stretch=1.0,
        burn_in=500,
        step_size=1e-3,
        nugget_of_noise=NUGGET_OF_NOISE,
        weight_scale=1.0,
        sampled_noise=False,
        fitting=PAPER_FITTING,
    ),
}
