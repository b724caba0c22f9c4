"""A model whose posterior is known in closed form, and the test of a sampler's law against it.

The network is linear in its parameters, f(x; w) = Φ(x) w, so that with fixed measurement points the posterior of w is
Gaussian with precision H = ΦᵀΦ/σ² + Φ_Mᵀ(K + δI)⁻¹Φ_M + Λ, and that of function values follows.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import scipy.stats

from fsgmcmc import Gaussian, GaussianProcess, GaussianWeights, function_space, measurement, parameter_space, rbf
from fsgmcmc.posterior import Posterior

FEATURES = 6
NOISE = 0.8
WEIGHT_SCALE = 1.0
# Two-sided error rate of one call of `assert_law`, shared among all the statistics it looks at.
FALSE_ALARM_RATE = 1e-5


class LinearGaussian(NamedTuple):
    posterior: Posterior
    points: np.ndarray
    basis: np.ndarray
    precision: np.ndarray
    mean: np.ndarray


def features(x):
    return jnp.cos(jnp.arange(FEATURES) * x + 0.3 * jnp.arange(FEATURES))


def apply(params, x):
    return features(x) @ params["w"]


def linear_gaussian(space: str = "function") -> LinearGaussian:
    rng = np.random.default_rng(0)
    x = np.linspace(-2.5, 2.5, 8)[:, None]
    y = np.sin(2 * x) + NOISE * rng.standard_normal(x.shape)
    points = np.linspace(-3, 3, FEATURES)[:, None]
    network = ({"w": jnp.zeros((FEATURES, 1))}, apply)
    phi, basis = np.asarray(features(x), float), np.asarray(features(points), float)
    precision = phi.T @ phi / NOISE**2
    if space == "function":
        process = GaussianProcess(rbf(lengthscale=1.0, variance=2.0), nugget=0.1)
        posterior = function_space(
            network,
            x,
            y,
            prior=process + GaussianWeights(WEIGHT_SCALE),
            likelihood=Gaussian(NOISE),
            measurement=measurement.fixed(points),
        )
        covariance = np.asarray(process.covariance(points), float)
        precision += basis.T @ np.linalg.solve(covariance, basis)
    else:
        posterior = parameter_space(network, x, y, prior=GaussianWeights(WEIGHT_SCALE), likelihood=Gaussian(NOISE))
    precision += np.eye(FEATURES) / WEIGHT_SCALE**2
    mean = np.linalg.solve(precision, phi.T @ y[:, 0] / NOISE**2)
    return LinearGaussian(posterior, points, basis, precision, mean)


def assert_law(values: np.ndarray, mean: np.ndarray, covariance: np.ndarray, tolerance: float = 0.05) -> None:
    """`values` (chains, draws, d) come from chains whose stationary law is N(mean, covariance).

    Whitened, every direction has mean 0 and variance 1. Chains are independent, so the average over a chain's draws
    gives one independent number per chain and Student's t tells whether their mean is right: 2d statistics, each at
    FALSE_ALARM_RATE / 2d. The variances must also be right to `tolerance`, several standard errors wide, so that the
    test cannot pass for want of data.
    """
    values = np.asarray(values, float)
    white = np.linalg.solve(np.linalg.cholesky(covariance), (values - mean).reshape(-1, len(mean)).T).T
    white = white.reshape(values.shape)
    chains = values.shape[0]
    statistics = np.concatenate([white.mean(axis=1), (white**2).mean(axis=1) - 1], axis=1)
    errors = statistics.std(axis=0, ddof=1) / np.sqrt(chains)
    threshold = scipy.stats.t.isf(FALSE_ALARM_RATE / 2 / statistics.shape[1], chains - 1)
    scores = statistics.mean(axis=0) / errors
    assert np.abs(scores).max() < threshold, (scores.round(1), threshold)
    variance_error, standard_error = statistics.mean(axis=0)[len(mean) :], errors[len(mean) :]
    assert standard_error.max() < tolerance / 3, "too few draws to tell"
    assert np.abs(variance_error).max() < tolerance, variance_error
