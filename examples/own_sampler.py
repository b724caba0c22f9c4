"""Write your own sampler: the Langevin scheme of Leimkuhler and Matthews (2013), which averages two noises.

    w ← w − ε P ∇Ũ(w) + sqrt(2 ε T P) (η + η') / 2,    η the noise of the step before, η' of this one

With full-batch gradients its variances on a Gaussian target are exact at every stable step size.
"""

import sys
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import fsgmcmc as fs


class AveragedState(NamedTuple):
    """`position`, `step` and `energy` are required; the noise of the last step is this sampler's own."""

    position: jax.Array
    step: jax.Array
    energy: jax.Array
    noise: jax.Array


class AveragedLangevin(fs.Sampler):
    """Step size, temperature, preconditioner and their schedules come from the base class."""

    def init(self, key, position, potential):
        """The state of a chain that starts at `position`."""
        energy_key, noise_key = jax.random.split(key)
        energy, _ = potential(energy_key, position)
        return AveragedState(position, jnp.int32(0), energy, jax.random.normal(noise_key, position.shape))

    def step(self, key, state, potential):
        """One gradient, one draw of noise."""
        gradient_key, noise_key = jax.random.split(key)
        energy, gradient = potential(gradient_key, state.position)
        noise = jax.random.normal(noise_key, state.position.shape)
        size, temperature = self.step_size(state.step), self.temperature(state.step)
        diffusion = jnp.sqrt(2 * size * temperature) * self.root * (state.noise + noise) / 2
        return AveragedState(state.position - size * self.root**2 * gradient + diffusion, state.step + 1, energy, noise)

    def stable_step(self, curvature, size):
        """ε = 0.5 / λ_max; the scheme is stable below 2 / λ_max. It gives the step size where none is given."""
        return 0.5 / curvature.largest


if __name__ == "__main__":
    out = Path(sys.argv[1] if len(sys.argv) > 1 else "out")
    x = np.linspace(-1, 1, 30)
    prior, likelihood = fs.GaussianProcess(fs.rbf(0.5), nugget=1e-2), fs.Gaussian(0.2)
    posterior = fs.function_space(fs.MLP((20,)), x, np.sin(4 * x), prior=prior, likelihood=likelihood)
    run = {"burn_in": 500, "thinning": 20, "chains": 2, "checkpoint": out / "own_sampler.npz"}
    first = fs.sample(0, posterior, AveragedLangevin(None), draws=10, **run)  # measures the step size
    more = fs.sample(0, posterior, AveragedLangevin(None), draws=20, **run)  # resumes
    print(f"step size {more.info['step_size']:.2g}, resumed: {np.array_equal(first.positions, more.positions[:, :10])}")
    print(f"RMSE {fs.metrics.rmse(more.predict(x), np.sin(4 * x)):.3f}")
