"""Known noise of each row: two instruments, one of them ten times as precise.

`function_space` and `predict` take the standard deviation of each row as `noise`. The same data are sampled a second
time with one noise for all rows, fitted by `pretrain`. Prints the scores of both runs and plots both.
"""

from pathlib import Path
from typing import Annotated

import matplotlib.pyplot as plt
import numpy as np
import typer

import fsgmcmc as fs

LENGTH = {"draws": 100, "burn_in": 3000, "thinning": 100}
QUICK = {"draws": 20, "burn_in": 100, "warm_up": fs.WarmUp(blocks=0)}
FINE, CRUDE = 0.05, 0.5


def measured(rng, size):
    """Inputs, observations and the noise of the instrument of each row."""
    x, noise = rng.uniform(-1, 1, size), np.where(rng.uniform(size=size) < 0.25, FINE, CRUDE)
    return x, np.sin(5 * x) + noise * rng.standard_normal(size), noise


def main(out: Annotated[Path, typer.Argument()] = Path("out"), quick: bool = False):
    """Sample, print and plot."""
    x, y, noise = measured(np.random.default_rng(2), 50)
    new_x, new_y, new_noise = measured(np.random.default_rng(3), 500)
    grid = np.linspace(-1, 1, 200)
    points = fs.measurement.fixed(np.linspace(-1, 1, 30))

    figure, panels = plt.subplots(1, 2, figsize=(10, 3.8), sharey=True, layout="constrained")
    for axes, known in zip(panels, (True, False), strict=True):
        row_noise = noise if known else None
        fit = fs.pretrain(fs.rbf(0.3), x, y, noise=row_noise)
        likelihood = fs.Gaussian() if known else fs.Gaussian(fit.noise)
        options = {"likelihood": likelihood, "noise": row_noise, "measurement": points}
        posterior = fs.function_space(fs.MLP((30, 30)), x, y, prior=fit.prior, **options)
        samples = fs.sample(0, posterior, fs.fsghmc(), **(QUICK if quick else LENGTH))
        title = "known noise of each row" if known else f"one noise for all rows ({fit.noise:.2f}, fitted)"
        new = samples.predict(new_x, noise=new_noise if known else None)
        error = fs.metrics.rmse(samples.predict(new_x), np.sin(5 * new_x))
        print(f"{title}: RMSE to the truth {error:.3f}, NLL of new data {fs.metrics.nll(new, new_y):.3f} nats per row")

        function = samples.predict(grid)
        mean, sd = function.mean[:, 0], function.epistemic[:, 0]
        axes.fill_between(grid, mean - 2 * sd, mean + 2 * sd, alpha=0.3, lw=0, label="mean ± 2 sd")
        axes.plot(grid, mean, label="mean")
        axes.plot(grid, np.sin(5 * grid), "k:", lw=1, label="truth")
        for kind, color in ((CRUDE, "0.7"), (FINE, "tab:red")):
            rows = noise == kind
            axes.errorbar(x[rows], y[rows], kind, fmt=".", color=color, lw=0.8, label=f"noise {kind}")
        axes.set_title(title)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].legend(frameon=False, fontsize=8)
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "known_noise.png", dpi=150)


if __name__ == "__main__":
    typer.run(main)
