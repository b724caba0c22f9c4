"""One-dimensional extrapolation: settings."""

from dataclasses import dataclass

from fsgmcmc.experiments.tables import ordered
from fsgmcmc.methods import INFERENCE

# Panels of the figure in rows of three; further methods of the registry follow.
FIRST_PANELS = ("fsgld", "fsghmc", "fbnn", "sgld", "sghmc", "ifbnn")
METHODS = tuple(ordered(INFERENCE, FIRST_PANELS))


@dataclass(frozen=True)
class Config:
    """Settings. What is not named below is as in the paper, except that every step size is measured.

    By default the functional methods have the waves of the kernel as inputs, fixed measurement points that cover the
    interval, and every sampler has a preconditioner and the friction of full batches. `PRESETS["paper"]` has none of
    these: networks of x alone with N(0, 1) weights, and measurement points that are drawn anew at every step.

    Attributes:
        seed: Seed of the data and of the chains.
        hidden: Units of the tanh network.
        noise: Standard deviation of the observations.
        epochs: Iterations of the pre-training of the prior.
        pool: Points of U(−1, 1) that join the training inputs as candidates for measurement points.
        points: Measurement points drawn at every step, where they are not fixed.
        grid: Fixed measurement points on an even grid, beside the training inputs; 0 draws `points` from the pool.
        waves: Whether the networks of the functional methods have the waves of the kernel as inputs.
        adapted: Whether samplers have a preconditioner and the friction of full batches.
        burn_in: Steps before sampling.
        iterations: Steps of sampling.
        samples: Draws kept from each chain.
        chains: Independent chains of each sampler.
        decay: Factor of the step size every 5000 steps.
        adam_steps: Steps of Adam in the warm-up, the same for all samplers.
        fit_steps: Steps of the variational methods.
        fit_rate: Initial learning rate of the variational methods, which decays to zero along a cosine.
        fit_draws: Draws of the weights in each gradient of BBB and IFBNN.
        function_draws: Draws of the function in each gradient of FBNN.
        functions: Functions of the bridge and of the GP in each gradient of IFBNN.
        test_points: New noisy observations on (−1, 1) for the negative log-likelihood.
    """

    seed: int = 3
    hidden: tuple[int, ...] = (100, 100)
    noise: float = 0.5
    epochs: int = 100
    pool: int = 40
    points: int = 40
    grid: int = 60
    waves: bool = True
    adapted: bool = True
    burn_in: int = 2000
    iterations: int = 8000
    samples: int = 80
    chains: int = 4
    decay: float = 0.9
    adam_steps: int = 500
    fit_steps: int = 10_000
    fit_rate: float = 0.01
    fit_draws: int = 4
    function_draws: int = 50
    functions: int = 16
    test_points: int = 500


PRESETS = {"tuned": Config(), "paper": Config(grid=0, waves=False, adapted=False, chains=1)}
