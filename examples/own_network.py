"""Write your own network: random Fourier features with trainable frequencies.

f(x; w) = sqrt(2/m) cos(x Ω + b) A,    w = (Ω, b, A)
"""

import sys
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import fsgmcmc as fs


@fs.networks.register
@dataclass(frozen=True)
class Fourier(fs.Network):
    """A sum of cosines.

    Args:
        features: m, the number of cosines.
        frequency: Standard deviation of Ω at the start.
    """

    features: int = 50
    frequency: float = 3.0

    def init(self, key, inputs, outputs):
        """Parameters at the start of a chain."""
        keys = jax.random.split(key, 3)
        return {
            "omega": self.frequency * jax.random.normal(keys[0], (inputs, self.features)),
            "phase": jax.random.uniform(keys[1], (self.features,), maxval=2 * jnp.pi),
            "amplitude": jax.random.normal(keys[2], (self.features, outputs)),
        }

    def apply(self, params, x):
        """The function values, (batch, outputs)."""
        return jnp.sqrt(2 / self.features) * jnp.cos(x @ params["omega"] + params["phase"]) @ params["amplitude"]

    def variance(self, params):
        """Variance of each array at the start; the weak prior of the weights has ten times this variance."""
        return {"omega": self.frequency**2, "phase": (2 * np.pi) ** 2 / 12, "amplitude": 1.0}


if __name__ == "__main__":
    out = Path(sys.argv[1] if len(sys.argv) > 1 else "out")
    x = np.linspace(-1, 1, 40)
    y = np.sin(6 * x) + 0.1 * np.random.default_rng(0).standard_normal(40)
    run = {"draws": 20, "thinning": 20, "burn_in": 500, "chains": 2}
    prior, likelihood = fs.GaussianProcess(fs.rbf(0.4), nugget=1e-2), fs.Gaussian(0.1)
    posterior = fs.function_space(Fourier(), x, y, prior=prior, likelihood=likelihood)
    samples = fs.sample(0, posterior, fs.fsghmc(), **run)
    out.mkdir(parents=True, exist_ok=True)
    samples.save(out / "fourier.npz")
    loaded = fs.Samples.load(out / "fourier.npz")
    print(loaded.network, f"RMSE {fs.metrics.rmse(loaded.predict(x), np.sin(6 * x)):.3f}")
