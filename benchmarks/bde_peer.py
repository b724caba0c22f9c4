"""Bayesian deep ensembles on one problem, in an environment of their own.

    python -m venv venv/bde
    venv/bde/bin/pip install -c constraints-bde.txt sklearn-contrib-bde
    venv/bde/bin/python benchmarks/bde_peer.py problem.npz draws.npz

sklearn-contrib-bde needs blackjax 1.2.2 and fsgmcmc a later one, so this file imports neither fsgmcmc nor anything of
the other benchmarks. `problem.npz` has x, y, x_test and seed; `draws.npz` gets the means and the noise of the draws,
(draws, rows), in the units of y. Settings are those of the regression example in bde's README, with more epochs
because the tables are small; early stopping ends them. Members whose chain diverged are left out.
"""

import sys

import jax
import numpy as np
from bde import BdeRegressor
from bde.loss import GaussianNLL

MEMBERS, EPOCHS, WARM_UP, SAMPLES, THINNING = 8, 1000, 5000, 2000, 2
# Draws of each member that are kept: the time of scoring grows with the square of their number.
KEPT = 50
# What bde adds to a standard deviation.
LEAST_NOISE = 1e-6


def fit(x: np.ndarray, y: np.ndarray, seed: int) -> BdeRegressor:
    """Of standardised rows and targets."""
    model = BdeRegressor(
        hidden_layers=[16, 16],
        n_members=MEMBERS,
        seed=seed,
        loss=GaussianNLL(),
        epochs=EPOCHS,
        validation_split=0.15,
        lr=1e-3,
        weight_decay=1e-4,
        warmup_steps=WARM_UP,
        n_samples=SAMPLES,
        n_thinning=THINNING,
        patience=10,
    )
    model.fit(x=x, y=y)
    return model


def main(problem: str, draws: str) -> None:
    """Read the problem, fit, write the draws."""
    with np.load(problem) as given:
        x, y, x_test, seed = given["x"], given["y"], given["x_test"], int(given["seed"])
    centre, spread = x.mean(axis=0), np.where(np.ptp(x, axis=0) > 0, x.std(axis=0), 1.0)
    model = fit((x - centre) / spread, (y - y.mean()) / y.std(), seed)
    # (members, draws, rows, [mean, standard deviation before softplus])
    raw = np.asarray(model.predict((x_test - centre) / spread, raw=True), np.float64)
    # Now and then the chain of a member diverges, and all of its draws are NaN.
    finite = np.isfinite(raw).all(axis=(1, 2, 3))
    if not finite.any():
        raise ArithmeticError(f"all {len(raw)} members diverged")
    raw = raw[finite, :: max(raw.shape[1] // KEPT, 1)].reshape(-1, *raw.shape[2:])
    noise = np.asarray(jax.nn.softplus(raw[..., 1]), np.float64) + LEAST_NOISE
    np.savez(draws, means=y.mean() + y.std() * raw[..., 0], noise=y.std() * noise)


if __name__ == "__main__":
    main(*sys.argv[1:])
