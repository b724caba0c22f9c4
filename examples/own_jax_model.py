"""A model of one's own: a law of physics with a network for what the law leaves out.

A cup cools as exp(−rate t), but half-way somebody opens the window. Any pair of a pytree and a function of it can be
sampled, and a prior on functions may govern a part of it: here the network's correction. Prints the cooling rate with
and without the correction, and draws both.
"""

from pathlib import Path
from typing import Annotated

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import typer

import fsgmcmc as fs

LENGTH = {"draws": 300, "burn_in": 10_000, "thinning": 100}
QUICK = {"draws": 20, "burn_in": 100, "warm_up": fs.WarmUp(blocks=0)}
RATE, NOISE = 0.8, 0.05
NETWORK = fs.MLP((20,))


def law(params, hours):
    """Newton's law of cooling: what is left of the difference to the room."""
    return jnp.exp(-jnp.exp(params["log_rate"]) * hours)


def correction(params, hours):
    """What the law leaves out, on the scale of a tenth."""
    return 0.1 * NETWORK.apply(params["network"], hours - 2)


def main(out: Annotated[Path, typer.Argument()] = Path("out"), quick: bool = False):
    """Sample, print, draw."""
    hours = np.linspace(0, 4, 60)[:, None]
    window = -0.2 * np.exp(-0.5 * ((hours - 2) / 0.3) ** 2)
    y = np.exp(-RATE * hours) + window + NOISE * np.random.default_rng(0).standard_normal(hours.shape)

    start, likelihood = {"log_rate": jnp.float32(0)}, fs.Gaussian(NOISE)
    alone = fs.parameter_space((start, law), hours, y, likelihood=likelihood)
    start = start | {"network": NETWORK.init(jax.random.key(0), 1, 1)}
    # The nugget lets the network be a little rougher than the kernel, which makes for longer steps.
    small = fs.GaussianProcess(fs.rbf(0.4, variance=0.1**2), nugget=1e-2)
    prior = fs.Functional(small, fs.measurement.fixed(np.linspace(0, 4, 40)), correction)
    network = (start, lambda params, hours: law(params, hours) + correction(params, hours))
    corrected = fs.function_space(network, hours, y, prior=prior, likelihood=likelihood)

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    for name, posterior, sampler in (("law alone", alone, fs.sghmc()), ("law and network", corrected, fs.fsghmc())):
        samples = fs.sample(0, posterior, sampler, **(QUICK if quick else LENGTH))
        rate = np.exp(samples.params.network["log_rate"]).ravel()
        low, high = np.quantile(rate, (0.05, 0.95))
        worst = fs.diagnose(samples, hours).r_hat
        print(f"{name}: rate {rate.mean():.2f}, 90% in {low:.2f} to {high:.2f} (truth {RATE}); worst R-hat {worst:.3f}")
        prediction = samples.predict(hours)
        mean, sd = prediction.mean[:, 0], prediction.epistemic[:, 0]
        left.fill_between(hours[:, 0], mean - 2 * sd, mean + 2 * sd, alpha=0.5, lw=0, label=f"{name} ± 2 sd")
        right.hist(rate, np.linspace(0.5, 1.5, 60), density=True, alpha=0.6, label=name)
    left.plot(hours, y, "k.", ms=4, label="measured")
    left.set(xlabel="hours", ylabel="warmth left")
    right.axvline(RATE, color="k", ls=":", label="truth")
    right.set(xlabel="rate (1/hour)", yticks=[])
    for axes in (left, right):
        axes.legend(frameon=False)
        axes.spines[["top", "right"]].set_visible(False)
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "own_jax_model.png", dpi=150)


if __name__ == "__main__":
    typer.run(main)
