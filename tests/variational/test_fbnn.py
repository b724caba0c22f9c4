"""FBNN against the exact Gaussian-process posterior."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fsgmcmc import MLP, Categorical, Gaussian, GaussianProcess, cyclical, function_space, measurement, metrics, rbf
from fsgmcmc.variational import fbnn, fit
from fsgmcmc.variational.mean_field import MeanField

NOISE = 0.3
X = np.linspace(-1, 1, 8)
Y = np.sin(3 * X) + NOISE * np.random.default_rng(0).standard_normal(8)
PRIOR = GaussianProcess(rbf(0.5), nugget=1e-2)


def posterior(noise=NOISE, **options):
    return function_space(MLP((100,)), X, Y, prior=PRIOR, likelihood=Gaussian(noise), **options)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [{}, pytest.param({"measurement": measurement.box(-1.0, 1.0, 8)}, marks=pytest.mark.slow)],
    ids=["at the data", "at the data and at random points"],
)
def test_a_wide_network_comes_close_to_the_exact_posterior_at_the_data(options):
    """The mean within 0.15 (the noise is 0.3, the data span 2); the sd of f within a third on average."""
    exact = PRIOR.condition(X, Y, NOISE).predict(X)
    samples = fit(
        0,
        posterior(**options),
        fbnn(function_draws=60, initial_log_std=-3.0),
        steps=2500,
        learning_rate=cyclical(0.02, length=2500),
        draws=1000,
        progress=False,
    )
    found = samples.predict(X)
    np.testing.assert_allclose(found.mean, exact.mean, atol=0.15)
    assert np.mean(found.epistemic / exact.epistemic) == pytest.approx(1.0, abs=0.33)


def test_the_gradient_is_that_of_the_bound_where_q_is_gaussian_in_function_space():
    """A linear model at as many points as weights: KL between Gaussians in closed form; estimated over many keys."""
    points = np.array([-1.0, 0.0, 1.0])
    network = ({"w": jnp.zeros((3, 1))}, lambda params, x: jnp.concatenate([x**0, x, x**2], axis=1) @ params["w"])
    prior = GaussianProcess(rbf(1.0), nugget=0.1)
    target = function_space(network, points, points**2, prior=prior, likelihood=Gaussian(1.0))
    q = MeanField(jnp.array([0.3, -0.2, 0.5]), jnp.array([-0.5, 0.0, -1.0]))
    phi = jnp.stack([points**0, points, points**2], axis=1).astype(jnp.float32)
    C = jnp.asarray(prior.covariance(points[:, None]))
    nugget = float(prior.nugget_variance(points[:, None]))

    def bound(q):
        mean = phi @ q.mean
        cov = phi @ jnp.diag(q.std**2) @ phi.T
        misfit = 0.5 * jnp.sum((jnp.asarray(points**2, jnp.float32) - mean) ** 2) + 0.5 * jnp.trace(cov)
        cov = cov + nugget * jnp.eye(3)
        solved = jnp.linalg.solve(C, jnp.concatenate([cov, mean[:, None]], axis=1))
        kl = 0.5 * (jnp.trace(solved[:, :3]) + mean @ solved[:, 3] - jnp.linalg.slogdet(cov)[1])
        return misfit + kl

    exact = jax.grad(bound)(q)
    method = fbnn(function_draws=300, spectrum=0.999)
    keys = jax.random.split(jax.random.key(0), 100)
    estimate = jax.tree.map(
        lambda leaf: leaf.mean(axis=0), jax.jit(jax.vmap(lambda k: method.objective(k, target, q)[1]))(keys)
    )
    np.testing.assert_allclose(estimate.mean, exact.mean, atol=0.1 * float(jnp.abs(exact.mean).max()))
    np.testing.assert_allclose(estimate.log_std, exact.log_std, atol=0.2 * float(jnp.abs(exact.log_std).max()))


@pytest.mark.parametrize(
    ("weighting", "batch_size"), [pytest.param("published", 2, marks=pytest.mark.slow), ("bound", None)]
)
def test_the_prior_keeps_its_strength_in_small_batches(weighting, batch_size):
    """A nearly white prior N(0, 1) and noise of 1: the posterior at each datum y = 2 is N(1, ½)."""
    x = np.arange(8.0)
    target = function_space(
        ({"w": jnp.zeros((8, 1))}, lambda params, x: jnp.exp(-10 * (x - jnp.arange(8.0)) ** 2) @ params["w"]),
        x,
        np.full(8, 2.0),
        prior=GaussianProcess(rbf(0.2), nugget=1e-2),
        likelihood=Gaussian(1.0),
        batch_size=batch_size,
        measurement=measurement.fixed(np.array([[50.0]])),
    )
    method = fbnn(function_draws=50, initial_log_std=-1.0, weighting=weighting)
    samples = fit(0, target, method, steps=1500, learning_rate=cyclical(0.02, length=1500), draws=500)
    prediction = samples.predict(x)
    assert prediction.mean.mean() == pytest.approx(1.0, abs=0.1)
    assert prediction.epistemic.mean() == pytest.approx(np.sqrt(0.5), abs=0.12)


@pytest.mark.slow
def test_the_weightings_differ_by_the_factor_of_the_batch():
    """The gradient is g_misfit + κ g_KL, with κ = N/n = 4 as published and 1 otherwise."""
    x = np.linspace(-1, 1, 8)
    target = posterior(batch_size=2, measurement=measurement.fixed(x))
    q = fbnn().init(jax.random.key(0), target)

    def gradient(method, target=target):
        return np.asarray(eqx.filter_jit(method.objective)(jax.random.key(1), target, q)[1].mean)

    without_data = posterior(batch_size=2, measurement=measurement.fixed(x), noise=1e6)
    divergence = gradient(fbnn(weighting="bound"), without_data)
    np.testing.assert_allclose(
        gradient(fbnn()) - gradient(fbnn(weighting="bound")),
        3 * divergence,
        rtol=1e-2,
        atol=1e-2 * np.abs(divergence).max(),
    )


@pytest.mark.slow
def test_classes_with_a_kernel_of_their_own_are_fitted():
    x = np.linspace(-1, 1, 40)
    target = function_space(
        MLP((20,), initial="fan_in"),
        x,
        x > 0,
        prior=GaussianProcess((rbf(0.5), rbf(1.0)), mean=[0.0, 0.5]),
        likelihood=Categorical(2),
        batch_size=20,
        measurement=measurement.subset(x, 10),
    )
    samples = fit(0, target, fbnn(function_draws=20), steps=300, learning_rate=0.02)
    assert metrics.accuracy(samples.predict(x), x > 0) > 0.9


def test_a_prior_it_cannot_take_is_refused_before_compiling():
    tiny = GaussianProcess(rbf(0.5), nugget=1e-6)
    narrow = function_space(
        MLP((5,)), X, Y, prior=tiny, likelihood=Gaussian(NOISE), batch_size=4, measurement=measurement.fixed(X)
    )
    with pytest.raises(ValueError, match="nugget"):
        fit(0, narrow, fbnn(), steps=1)
    of_batch = function_space(
        MLP((5,)), X, Y, prior=PRIOR, likelihood=Gaussian(NOISE), batch_size=4, measurement=measurement.minibatch(3)
    )
    with pytest.raises(ValueError, match="for samplers"):
        fit(0, of_batch, fbnn(), steps=1)
    with pytest.raises(ValueError, match="one functional prior"):
        fit(0, function_space(MLP((5,)), X, Y, prior=PRIOR + PRIOR, likelihood=Gaussian(NOISE)), fbnn(), steps=1)
    with pytest.raises(ValueError, match="weighting"):
        fbnn(weighting="half")
    with pytest.raises(ValueError, match="draws"):
        fbnn(function_draws=2)
    with pytest.raises(ValueError, match="spectrum"):
        fbnn(spectrum=1.0)
