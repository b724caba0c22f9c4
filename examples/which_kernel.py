"""Choice of a kernel: evidence, and extrapolation of a network with two of the kernels.

`select_kernel` fits every kernel of a grammar to the data and ranks them by evidence. The same network is then sampled
with two of them; the measurement points also cover the region beyond the data. Prints the ranking and the error of each
extrapolation, and plots both with the exact Gaussian process.
"""

from pathlib import Path
from typing import Annotated

import matplotlib.pyplot as plt
import numpy as np
import typer

import fsgmcmc as fs
from fsgmcmc.plotting import function_panel

LENGTH = {"draws": 100, "burn_in": 10_000, "thinning": 100}
QUICK = {"draws": 20, "burn_in": 100, "warm_up": fs.WarmUp(blocks=0)}
GRAMMAR = ("rbf", "matern32", "linear", "linear + rbf", "linear + periodic")
SHOWN = ("rbf", "linear + periodic")


def truth(x):
    """A linear trend and a sine."""
    return x + np.sin(2 * np.pi * x)


def main(out: Annotated[Path, typer.Argument()] = Path("out"), quick: bool = False):
    """Rank, sample, print and plot."""
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(-1.5, 1.0, 50))
    y = truth(x) + 0.2 * rng.standard_normal(50)
    selection = fs.select_kernel(x, y, grammar=SHOWN if quick else GRAMMAR)
    print(selection, "\n")

    grid = np.linspace(-2.0, 2.0, 200)
    beyond = grid > 1.0
    points = fs.measurement.fixed(np.linspace(-2.0, 2.0, 40))
    shown = SHOWN[-1:] if quick else SHOWN
    figure, panels = plt.subplots(1, len(shown), figsize=(10, 3.8), sharey=True, squeeze=False, layout="constrained")
    for axes, kernel in zip(panels[0], shown, strict=True):
        fit = selection.fit if kernel == selection.kernel else fs.pretrain(kernel, x, y)
        network, likelihood = fs.MLP((30, 30)), fs.Gaussian(fit.noise)
        posterior = fs.function_space(network, x, y, prior=fit.prior, likelihood=likelihood, measurement=points)
        prediction = fs.sample(0, posterior, fs.fsghmc(), **(QUICK if quick else LENGTH)).predict(grid)
        error = np.sqrt(np.mean((prediction.mean[beyond, 0] - truth(grid[beyond])) ** 2))
        spread = prediction.epistemic[beyond].mean()
        print(f"{kernel}: beyond x = 1 the RMSE is {error:.2f}, the mean standard deviation {spread:.2f}")
        reference = fit.prior.condition(x, y, fit.noise).predict(grid)
        function_panel(axes, grid, prediction, data=(x, y), truth=truth(grid), reference=reference, title=kernel)
    panels[0, -1].legend(frameon=False, fontsize=8, loc="upper left")
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "which_kernel.png", dpi=150)


if __name__ == "__main__":
    typer.run(main)
