"""Features of a process inside a network."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fsgmcmc import MLP, Gaussian, GaussianProcess, matern32, parameter_space, rbf, sample, sghmc, weak_weights
from fsgmcmc.priors import prior_features

PROCESS = GaussianProcess(rbf(0.3, variance=2.0), mean=0.7)


def test_under_the_weak_prior_the_features_have_the_moments_of_the_process():
    points = np.linspace(-1, 1, 60)[:, None]
    network = prior_features(MLP((5,)), PROCESS, points)
    params = network.init(jax.random.key(0), 1, 1)
    precision = weak_weights().precision(network, params)["beta"]
    np.testing.assert_allclose(precision, 1.0, rtol=1e-6)
    phi = np.asarray(network.features(jnp.asarray(points)))
    np.testing.assert_allclose(phi @ phi.T, PROCESS.gram(points), atol=2e-3)
    alone = jax.tree.map(jnp.zeros_like, params)
    np.testing.assert_allclose(network.apply(alone, jnp.asarray(points)), 0.7, rtol=1e-6)


def test_networks_with_equal_features_share_programs_and_others_do_not():
    points = np.linspace(-1, 1, 20)
    one, same = (prior_features(MLP((5,)), PROCESS, points) for _ in range(2))
    others = prior_features(MLP((5,)), PROCESS, points + 0.1), prior_features(MLP((5,)), GaussianProcess(rbf()), points)
    assert one == same
    assert hash(one) == hash(same)
    assert all(one != other for other in others)


def test_duplicate_points_and_more_features_than_points_are_fine():
    points = np.repeat(np.linspace(-1, 1, 4), 5)
    phi = prior_features(MLP((5,)), GaussianProcess(matern32()), points).features(jnp.asarray(points[:, None]))
    assert phi.shape == (20, 4)
    np.testing.assert_allclose(phi @ phi.T, GaussianProcess(matern32()).gram(points[:, None]), atol=1e-5)


def test_inputs_with_other_features_than_the_points_are_refused():
    network = prior_features(MLP((5,)), PROCESS, np.zeros((3, 2)) + np.arange(3)[:, None])
    with pytest.raises(ValueError, match=r"the points of the features \(2,\)"):
        parameter_space(network, np.arange(4.0), np.arange(4.0), prior=weak_weights(), likelihood=Gaussian(0.1))


@pytest.mark.parametrize("process", [rbf(), GaussianProcess((rbf(), rbf()))], ids=["a kernel", "two kernels"])
def test_other_processes_are_refused(process):
    with pytest.raises((TypeError, ValueError), match=r"GaussianProcess|one kernel"):
        prior_features(MLP((5,)), process, np.zeros((3, 1)))


def test_the_posterior_is_near_that_of_the_process_where_there_are_data_and_beyond():
    """The network adds variance of its own: standard deviations are above those of the process, by at most half."""
    rng = np.random.default_rng(0)
    x, grid = np.concatenate([rng.uniform(-1, -0.2, 20), rng.uniform(0.3, 1, 20)]), np.linspace(-1.3, 1.3, 53)
    y = np.sin(9 * x) + 0.1 * rng.standard_normal(40)
    process = GaussianProcess(rbf(0.25))
    network = prior_features(MLP((5,), initial="fan_in"), process, np.linspace(-1.5, 1.5, 100))
    posterior = parameter_space(network, x, y, prior=weak_weights(), likelihood=Gaussian(0.1))
    samples = sample(0, posterior, sghmc(), draws=50, thinning=100, burn_in=1000, chains=2)
    functions, exact = samples.functions(grid).reshape(-1, 53), process.condition(x, y, 0.1).predict(grid)
    error = functions.mean(axis=0) - exact.mean[:, 0]
    assert np.sqrt(np.mean(np.square(error))) < 0.15
    assert 0.8 < np.mean(functions.std(axis=0)) / np.mean(exact.epistemic) < 1.5
