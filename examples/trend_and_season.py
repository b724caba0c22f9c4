"""Two sub-networks, each with its own kernel: a forecast of monthly values as the sum of a trend and a season.

The trend has a linear kernel; its measurement points include the forecast years. The season has a periodic kernel; its
measurement points cover one year. Prints the scores of the forecast and of the exact Gaussian process with the same
kernels, and plots the forecast and its parts.
"""

from pathlib import Path
from typing import Annotated

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import typer

import fsgmcmc as fs

LENGTH = {"draws": 200, "burn_in": 20_000, "thinning": 100}
QUICK = {"draws": 20, "burn_in": 100, "warm_up": fs.WarmUp(blocks=0)}
NOISE = 0.3
TREND, SEASON = fs.linear(0.25), fs.periodic(period=1.0)
NETWORK = fs.MLP((20,))


def trend(params, years):
    """A network of time."""
    return NETWORK.apply(params["trend"], years)


def season(params, years):
    """A network of the time of the year, periodic by construction."""
    angle = 2 * jnp.pi * years
    return NETWORK.apply(params["season"], jnp.concatenate([jnp.sin(angle), jnp.cos(angle)], axis=1))


def main(out: Annotated[Path, typer.Argument()] = Path("out"), quick: bool = False):
    """Sample, print and plot."""
    years = (np.arange(84) / 12 - 2.5)[:, None]
    y = 0.4 * years + np.sin(2 * np.pi * years) + 0.4 * np.cos(4 * np.pi * years)
    y += NOISE * np.random.default_rng(0).standard_normal(y.shape)
    seen, ahead = slice(60), slice(60, None)

    keys = jax.random.split(jax.random.key(0))
    params = {"trend": NETWORK.init(keys[0], 1, 1), "season": NETWORK.init(keys[1], 2, 1)}
    network = (params, lambda params, years: trend(params, years) + season(params, years))
    prior = fs.Functional(fs.GaussianProcess(TREND), fs.measurement.fixed(np.linspace(-2.5, 4.5, 15)), trend)
    prior += fs.Functional(fs.GaussianProcess(SEASON), fs.measurement.fixed(np.arange(24) / 24), season)
    posterior = fs.function_space(network, years[seen], y[seen], prior=prior, likelihood=fs.Gaussian(NOISE))
    samples = fs.sample(0, posterior, fs.fsghmc(), **(QUICK if quick else LENGTH))
    print(fs.diagnose(samples, years))

    exact = fs.GaussianProcess(TREND + SEASON).condition(years[seen], y[seen], NOISE)
    for name, model in (("networks", samples), ("exact GP", exact)):
        forecast = model.predict(years[ahead])
        rmse, coverage = fs.metrics.rmse(forecast, y[ahead]), fs.metrics.coverage(forecast, y[ahead], 0.9)
        print(f"{name}: RMSE {rmse:.3f} (noise {NOISE}), {coverage:.0%} of 24 months in the 90% interval")

    figure, (whole, apart) = plt.subplots(1, 2, figsize=(11, 3.8), layout="constrained")
    grid = np.linspace(-2.5, 4.5, 400)[:, None]
    lower, upper = samples.predict(grid).interval(0.9)
    whole.fill_between(grid[:, 0], lower[:, 0], upper[:, 0], alpha=0.3, lw=0, label="90% of observations")
    whole.plot(years[seen], y[seen], "k.", label="training data")
    whole.plot(years[ahead], y[ahead], ".", color="tab:red", label="test data")
    for part, color in ((trend, "tab:green"), (season, "tab:orange")):
        draws = jax.vmap(jax.vmap(part, (0, None)), (0, None))(samples.params.network, jnp.asarray(grid))
        lower, upper = np.quantile(draws[..., 0], (0.05, 0.95), axis=(0, 1))
        apart.fill_between(grid[:, 0], lower, upper, color=color, alpha=0.4, lw=0, label=f"90% of {part.__name__}s")
    for axes in (whole, apart):
        axes.set(xlabel="years", ylim=(-3.4, 4.2))
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, loc="upper left")
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "trend_and_season.png", dpi=150)


if __name__ == "__main__":
    typer.run(main)
