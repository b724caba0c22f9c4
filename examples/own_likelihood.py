"""Write your own likelihood: counts y ~ Poisson(exp f).

One class is enough for sampling, prediction, metrics, saving and the scikit-learn estimator.
"""

import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import scipy.stats
from jax.scipy.special import gammaln

import fsgmcmc as fs


@fs.likelihoods.register
class Poisson(fs.Likelihood):
    """Counts with a log link: the network computes the logarithm of the rate."""

    def log_prob(self, params, f, y):
        """y f − exp f − log y!, summed over outputs."""
        return jnp.sum(y * f - jnp.exp(f) - gammaln(y + 1), axis=1)

    def predict(self, functions, params, noise=None):
        """A mixture of Poisson distributions, one for each draw."""
        return fs.DistributionPrediction(functions, scipy.stats.poisson(np.exp(functions)))

    def latent_targets(self, y):
        """Approximate values of f, to which an estimator fits its Gaussian process."""
        return np.log(y + 0.5)


if __name__ == "__main__":
    out = Path(sys.argv[1] if len(sys.argv) > 1 else "out")
    out.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    x, new_x = rng.uniform(-1, 1, (80, 1)), rng.uniform(-1, 1, (200, 1))
    y, new_y = (rng.poisson(np.exp(1 + np.sin(3 * inputs))) for inputs in (x, new_x))

    prior = fs.GaussianProcess(fs.rbf(0.7), mean=1.0)
    posterior = fs.function_space(fs.MLP((30,)), x, y, prior=prior, likelihood=Poisson())
    samples = fs.sample(0, posterior, fs.fsghmc(), draws=50, thinning=20, burn_in=500, chains=2)
    prediction = samples.predict(new_x)
    print(f"NLL {fs.metrics.nll(prediction, new_y):.2f} nats, CRPS {fs.metrics.crps(prediction, new_y):.2f} counts")
    print(f"{fs.metrics.coverage(prediction, new_y, 0.9):.0%} of new counts are in the 90 % intervals")
    samples.save(out / "poisson.npz")
    print(f"loaded: NLL {fs.metrics.nll(fs.Samples.load(out / 'poisson.npz').predict(new_x), new_y):.2f} nats")

    # The estimator standardises the inputs, fits the kernel and chooses all settings of the run.
    settings = {"chains": 2, "samples": 25, "burn_in": 500, "thinning": 10, "random_state": 0}
    model = fs.FunctionalBNNRegressor("rbf", likelihood=Poisson(), hidden=(30,), **settings).fit(x, y[:, 0])
    fs.save_model(model, out / "poisson-model")
    model, _ = fs.load_model(out / "poisson-model")
    print(f"estimator: NLL {fs.metrics.nll(model.predict_distribution(new_x), new_y):.2f} nats")
