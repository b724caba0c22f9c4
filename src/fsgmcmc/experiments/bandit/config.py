"""Thompson sampling on mushrooms: settings by preset.

`paper` has the settings that the paper prints. `tuned` measures the step size of every sampler. `quick` is a
short test.
"""

from dataclasses import dataclass

# What the paper compares.
DEFAULT_METHODS = ("fsgld", "sgld", "bbb", "uniform")


@dataclass(frozen=True)
class Settings:
    """All settings of a preset.

    Attributes:
        rounds: Rounds of a game.
        hidden: Units of the relu network.
        capacity: Rounds that the replay buffer holds.
        batch_size: Rounds from the buffer in each gradient.
        steps: Gradient steps after each round.
        points: Measurement points, drawn from the buffer for each gradient; samplers take them from the minibatch.
        gp_rows: Rounds with random actions that the Gaussian process is fitted to.
        gp_iterations: Iterations of that fit.
        step_size: Step size of the samplers for the mean potential U / N of a full buffer; None: it is measured, for a
            buffer of 64 rounds and for a full one.
        decay: Factor of the step size every thousand rounds.
        learning_rate: Learning rate of Adam, for all methods that use it.
        weight_scaling: Scaling of the prior on the weights in parameter space, as in `GaussianWeights`.
        reward_scale: Rewards are divided by this number.
        nugget: Nugget of the Gaussian process.
        epsilon: Probability of a random action of epsilon-greedy.
        function_draws: Draws of the function in each gradient of `fbnn`.
        functions: Functions that the critic of `ifbnn` compares.
    """

    preset: str
    rounds: int = 10_000
    hidden: tuple[int, ...] = (100, 100)
    capacity: int = 4096
    batch_size: int = 64
    steps: int = 64
    points: int = 40
    gp_rows: int = 1000
    gp_iterations: int = 100
    step_size: float | None = None
    decay: float = 1.0
    learning_rate: float = 1e-3
    weight_scaling: str = "fan_in"
    reward_scale: float = 10.0
    nugget: float = 1e-3
    epsilon: float = 0.05
    function_draws: int = 20
    functions: int = 8


PRESETS = {
    "tuned": Settings("tuned"),
    "paper": Settings("paper", step_size=1e-2, decay=0.9, weight_scaling="unit"),
    "quick": Settings("quick", rounds=1000, steps=16, gp_rows=200, gp_iterations=30),
}
