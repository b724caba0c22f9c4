"""Images: settings by preset.

`paper` has the settings that the paper prints, for an accelerator. `quick` and `tuned` are for two cores: a small
residual network, 10,000 training images, and the same network, warm-up and number of gradients for every sampler.
"""

from dataclasses import dataclass, replace
from typing import Any

from fsgmcmc.inference.warm_up import WarmUp
from fsgmcmc.methods import METHODS, SAMPLERS
from fsgmcmc.samplers.hamiltonian import FRICTION_PER_STEP

OOD = {"mnist": "fashion", "fashion": "mnist", "cifar10": "svhn"}
"""Each data set, and the one whose test images are out of its distribution."""

DEFAULT_METHODS = (*SAMPLERS, "fsghmc-context", "sghmc-exposure", METHODS["gp"].name)
# The gradient noise of a minibatch of n images has a covariance of about N / n times the curvature. Along the stiffest
# direction it heats a Hamiltonian chain by (h² λ / 2 C h) N / n and a Langevin chain by (ε λ / 2) N / n: by factors of
# hundreds if the step size depends on the curvature alone. These step sizes heat both chains equally; docs/images.md
# explains the choice.
STEP_TIMES_FREQUENCY = 0.1
# Chosen without any out-of-distribution test set, by benchmarks/context_kinds.py; docs/images.md has its numbers.
CONTEXT_KINDS = ("noise", "shapes", "shuffle", "strokes")


@dataclass(frozen=True)
class Settings:
    """All settings of a preset.

    Attributes:
        network: "resnet" or "lenet".
        depth: Layers of the residual network.
        width: Channels of its first stage.
        images: Training images, a random subset; None: all.
        test_images: Test images of each data set, the same random ones for all seeds; None: all.
        batch_size: Images of the likelihood in each gradient.
        points: Measurement points: training images redrawn for each gradient; for samplers, images of its minibatch.
        gp_images: Training images that the Dirichlet Gaussian process is fitted to.
        gp_iterations: Iterations of that fit.
        context_images: Context images, the pool of the variants `context` and `exposure`.
        context_kinds: Their kinds.
        context_points: Context images in each gradient.
        context_weight: Weight of the prior or of the penalty at each of them.
        context_nugget: Nugget of the Gaussian process at them, in units of its variance.
        adam_steps: Steps of the warm-up.
        learning_rate: Initial learning rate of Adam.
        step_size: None: it is measured; a number is for the mean potential U / N, the common convention.
        step_times_frequency: h sqrt(λ_max) of a measured Hamiltonian step.
        step_times_curvature: ε λ_max of a measured Langevin step.
        burn_in, draws, thinning: Of each chain, in steps; in epochs if `in_epochs`.
        fit_draws: Draws of the weights in each gradient of `bbb` and `ifbnn`.
        function_draws: Draws of the function in each gradient of `fbnn`.
        functions: Functions that the critic of `ifbnn` compares.
        half: Compute in bfloat16.
        stream: Keep the training images on the host.
        content: A digest of the image files, so that results from other files are distinguished.
    """

    preset: str
    network: str = "resnet"
    depth: int = 8
    width: int = 16
    images: int | None = 10_000
    test_images: int | None = None
    batch_size: int = 125
    points: int = 40
    gp_images: int = 500
    gp_iterations: int = 50
    context_images: int = 2000
    context_kinds: tuple[str, ...] = CONTEXT_KINDS
    context_points: int = 20
    context_weight: float = 40.0
    context_nugget: float = 1.0
    adam_steps: int = 4000
    learning_rate: float = 5e-3
    step_size: float | None = None
    step_times_frequency: float = STEP_TIMES_FREQUENCY
    step_times_curvature: float = STEP_TIMES_FREQUENCY**2 / FRICTION_PER_STEP
    burn_in: int = 200
    draws: int = 20
    thinning: int = 50
    chains: int = 1
    in_epochs: bool = False
    fit_draws: int = 1
    function_draws: int = 10
    functions: int = 4
    half: bool = False
    stream: bool = False
    content: str = ""

    @property
    def warm_up(self) -> WarmUp | None:
        """The warm-up, which also measures the step size; None if the step size is given."""
        if self.step_size is not None:
            return None
        return WarmUp(adam_steps=self.adam_steps, learning_rate=self.learning_rate, blocks=0)

    def gradients(self, rows: int) -> int:
        """Gradient steps of a variational method: those of a sampler's chain, including the warm-up."""
        chain = self.steps_of(self.burn_in + self.draws * self.thinning, rows)
        return chain if self.warm_up is None else chain + self.adam_steps

    def steps_of(self, count: int, rows: int) -> int:
        """`burn_in`, `thinning` and similar counts in steps, for this number of training images."""
        return count * max(rows // self.batch_size, 1) if self.in_epochs else count


PAPER = Settings(
    "paper",
    depth=18,
    width=64,
    images=None,
    gp_images=1000,
    gp_iterations=500,
    step_size=1e-2,
    draws=10,
    in_epochs=True,
)
# Epochs of burn-in and between draws, by data set.
PAPER_EPOCHS = {"mnist": (60, 2), "fashion": (100, 10), "cifar10": (80, 2)}
PRESETS = {
    # Small batches: on two cores the number of steps matters more than the number of images.
    "quick": Settings(
        "quick",
        width=8,
        test_images=5000,
        batch_size=50,
        points=20,
        gp_images=300,
        adam_steps=2000,
        burn_in=100,
        draws=10,
        thinning=20,
    ),
    "tuned": Settings("tuned", test_images=5000, batch_size=50, points=20, adam_steps=3000),
    "paper": PAPER,
}


def settings_for(preset: str, dataset: str, **changes: Any) -> Settings:
    """The settings of a preset for one data set; `changes` that are not None replace fields."""
    settings = PRESETS[preset]
    if preset == "paper":
        burn_in, thinning = PAPER_EPOCHS[dataset]
        settings = replace(settings, burn_in=burn_in, thinning=thinning)
    return replace(settings, **{name: value for name, value in changes.items() if value is not None})
