"""Convergence: the diagnostics of a run that is too short and of one that is long enough.

Both runs sample the same posterior with four chains. R-hat compares the chains, the effective sample size is the
equivalent number of independent draws, and the energy drift shows a burn-in that is too short. R-hat and the effective
sample size are computed on function values: weights have symmetries, and chains that agree on the function can disagree
on the weights. Prints both reports and plots the trace of the function at one point.
"""

from pathlib import Path
from typing import Annotated

import matplotlib.pyplot as plt
import numpy as np
import typer

import fsgmcmc as fs

RUNS = {
    "too short": {"draws": 100, "burn_in": 0, "thinning": 1, "warm_up": fs.WarmUp(adam_steps=100)},
    "long enough": {"draws": 200, "burn_in": 20_000, "thinning": 200},
}
QUICK = {"draws": 20, "burn_in": 0, "thinning": 1, "warm_up": fs.WarmUp(blocks=0)}
POINT = 0.1  # in the gap between the data


def main(out: Annotated[Path, typer.Argument()] = Path("out"), quick: bool = False):
    """Sample, print and plot."""
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(-1, -0.3, 12), rng.uniform(0.5, 1, 8)])
    y = np.sin(4 * x) + 0.2 * rng.standard_normal(20)
    grid = np.linspace(-1.5, 1.5, 40)
    posterior = fs.function_space(
        fs.MLP((50,)),
        x,
        y,
        prior=fs.GaussianProcess(fs.rbf(0.5), nugget=1e-2),
        likelihood=fs.Gaussian(0.2),
        measurement=fs.measurement.fixed(grid),
        # With the default, which is weaker, the norm of the weights needs a longer burn-in.
        weight_prior=fs.GaussianWeights(2.0),
    )

    figure, panels = plt.subplots(1, 2, figsize=(10, 3.4), sharey=True, layout="constrained")
    for axes, (name, length) in zip(panels, RUNS.items(), strict=True):
        samples = fs.sample(0, posterior, fs.fsghmc(), **(length | QUICK if quick else length))
        report = fs.diagnose(samples, grid)
        print(f"{name}: {samples.info['iterations']} steps per chain\n{report}\n")
        axes.plot(samples.functions([[POINT]])[:, :, 0, 0].T, lw=0.9)
        axes.set_title(f"{name}: R-hat {report.r_hat:.2f}, ESS {report.ess:.0f}")
        axes.set_xlabel("draw")
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel(f"f({POINT}), four chains")
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "converged.png", dpi=150)


if __name__ == "__main__":
    typer.run(main)
