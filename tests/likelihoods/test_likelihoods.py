"""Likelihoods against SciPy, and what they refuse."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from fsgmcmc import MLP, Categorical, Dirichlet, Gaussian, GaussianWeights, parameter_space


def test_gaussian_log_density_is_that_of_scipy():
    rng = np.random.default_rng(0)
    f, y, noise = rng.normal(size=(5, 2)), rng.normal(size=(5, 2)), np.exp(rng.normal(size=5))
    values, targets = jnp.asarray(f, jnp.float32), jnp.asarray(y, jnp.float32)
    for likelihood, sigma in ((Gaussian(0.3), 0.3), (Gaussian().with_noise(jnp.asarray(noise, jnp.float32)), noise)):
        by_scipy = stats.norm.logpdf(y, f, np.broadcast_to(sigma, 5)[:, None]).sum(axis=1)
        np.testing.assert_allclose(likelihood.log_prob((), values, targets), by_scipy, rtol=2e-5)


def test_known_noise_follows_its_row_into_a_minibatch(key):
    """The misfit of a batch is that of its rows with their noise and weights, times N/n."""
    rng = np.random.default_rng(0)
    x, y, noise, weights = rng.normal(size=(4, 12))
    noise, weights = np.exp(noise), np.exp(weights)
    posterior = parameter_space(MLP((3,)), x, y, likelihood=Gaussian(), noise=noise, weights=weights, batch_size=4)
    params = posterior.parameters(posterior.init(key))
    batch = posterior.data.batch(key)
    rows = [int(np.argmin(np.abs(x - each))) for each in np.asarray(batch.x)[:, 0]]
    f = posterior.network.apply(params.network, batch.x)
    each = weights[rows] * stats.norm.logpdf(y[rows], np.asarray(f)[:, 0], noise[rows])
    np.testing.assert_allclose(posterior.misfit(batch, f, ()), -12 / 4 * each.sum(), rtol=1e-4)


def test_categorical_log_density_is_a_log_softmax():
    f = np.array([[0.3, -1.0, 2.0], [500.0, 0.0, -500.0], [0.0, 0.0, 0.0]])
    y = jnp.array([1, 2, 0], dtype=jnp.int32)
    by_scipy = special.log_softmax(f, axis=1)[np.arange(3), np.asarray(y)]
    np.testing.assert_allclose(Categorical(3).log_prob((), jnp.asarray(f, jnp.float32), y), by_scipy, rtol=1e-6)


def test_dirichlet_log_density_is_that_of_its_targets_by_scipy():
    f, y = np.random.default_rng(0).normal(size=(4, 3)), np.array([2, 0, 1, 2])
    alpha = 0.1 + np.eye(3)[y]
    variance = np.log(1 + 1 / alpha)
    by_scipy = stats.norm.logpdf(np.log(alpha) - variance / 2, f, 1.5 * np.sqrt(variance)).sum(axis=1)
    likelihood = Dirichlet(3, concentration=0.1, noise_scale=1.5)
    np.testing.assert_allclose(
        likelihood.log_prob((), jnp.asarray(f, jnp.float32), jnp.asarray(y)), by_scipy, rtol=2e-5
    )
    with pytest.raises(ValueError, match="concentration"):
        Dirichlet(3, concentration=0.0)


@pytest.mark.parametrize("batch_size", [None, 2])
def test_sampled_noise_has_the_gradient_of_its_likelihood_and_of_its_prior(key, batch_size):
    """In log σ, U is N log σ + Σ r² / 2σ² + ((log σ − log σ₀) / spread)² / 2.

    All rows are the same, so that every minibatch says N/n times the same and the mean over batches is no matter.
    """
    rows, x, y, scale, spread, other = 7, 0.4, 1.5, 2.0, 0.25, np.log(0.9)
    posterior = parameter_space(
        MLP((3,)),
        np.full((rows, 1), x),
        np.full(rows, y),
        likelihood=Gaussian(0.5, sampled=True, spread=spread),
        prior=GaussianWeights(scale),
        batch_size=batch_size,
    )
    start = posterior.init(key)
    np.testing.assert_allclose(posterior.parameters(start).likelihood["log_noise"], np.log(0.5), rtol=1e-6)
    w = start.at[-1].set(other)
    position = jax.tree.map(lambda leaf: np.asarray(leaf, float), posterior.parameters(w))
    first, last = position.network

    def energy(log_noise):
        f = np.tanh(x * first["weight"] + first["bias"]) @ last["weight"] + last["bias"]
        weights = sum(np.square(leaf).sum() for leaf in jax.tree.leaves(position.network)) / (2 * scale**2)
        prior = 0.5 * ((log_noise - np.log(0.5)) / spread) ** 2
        return -rows * stats.norm.logpdf(y, f.item(), np.exp(log_noise)) + prior + weights

    value, gradient = eqx.filter_jit(posterior.potential)(key, w)
    slope = (energy(other + 1e-5) - energy(other - 1e-5)) / 2e-5
    np.testing.assert_allclose(value, energy(other), rtol=1e-5)
    np.testing.assert_allclose(posterior.parameters(gradient).likelihood["log_noise"], slope, rtol=1e-5)
    # The noise that whitens the residual is the sampled one, not the one it started from.
    f = np.tanh(x * first["weight"] + first["bias"]) @ last["weight"] + last["bias"]
    bias = rows * (f - y)[0] / np.exp(2 * other) + last["bias"] / scale**2
    np.testing.assert_allclose(posterior.parameters(gradient).network[-1]["bias"], bias, rtol=1e-5)


def test_predictions_carry_the_noise_of_their_draw_or_of_their_row():
    functions = np.zeros((3, 2, 1))
    log_noise = np.log([0.1, 1.0, 10.0])
    by_draw = Gaussian(sampled=True).predict(functions, {"log_noise": log_noise})
    np.testing.assert_allclose(np.broadcast_to(by_draw.noise, (3, 2, 1))[:, 1, 0], [0.1, 1.0, 10.0])
    by_row = Gaussian().for_row_noise().predict(functions, (), noise=[0.5, 0.7])
    np.testing.assert_allclose(by_row.aleatoric[:, 0], [0.5, 0.7])
    with pytest.raises(ValueError, match="noise"):
        Gaussian().for_row_noise().predict(functions, ()).log_prob(np.zeros((2, 1)))
    with pytest.raises(ValueError, match="no observation noise"):
        Categorical(2).predict(np.zeros((3, 2, 2)), (), noise=0.1)


@pytest.mark.parametrize("noise", [0.0, -0.1, np.nan, np.inf])
def test_noise_must_be_positive_and_finite(noise):
    with pytest.raises(ValueError, match="noise must be positive and finite, got"):
        Gaussian(noise)


def test_noise_that_does_not_fit_is_refused():
    x, noise = np.zeros((4, 1)), [0.1, 0.2, 0.3]
    with pytest.raises(ValueError, match=r"noise has shape \(3,\) but y has 4 rows"):
        parameter_space(MLP((3,)), x, np.zeros(4), likelihood=Gaussian(), noise=noise)
    with pytest.raises(ValueError, match="per row is known; it cannot be sampled"):
        parameter_space(MLP((3,)), x[:3], np.zeros(3), likelihood=Gaussian(sampled=True), noise=noise)
    with pytest.raises(ValueError, match="Categorical has no observation noise"):
        parameter_space(MLP((3,)), x[:3], np.zeros(3), likelihood=Categorical(2), noise=noise)
    with pytest.raises(ValueError, match="give noise that is known row by row to function_space"):
        Gaussian(noise)
    with pytest.raises(ValueError, match="spread must be positive"):
        Gaussian(0.1, sampled=True, spread=0)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, -1, 2], "label -1 is outside 0 … 2"),
        ([0, 3, 1], "label 3 is outside 0 … 2"),
        ([0.0, 0.5, 1.0], "labels must be whole numbers from 0 to 2"),
        ([0.0, np.nan, 1.0], "labels must be whole numbers from 0 to 2"),
        (["a", "b", "c"], "labels must be whole numbers from 0 to 2"),
        (np.eye(3), r"labels must be one number per row, got shape \(3, 3\)"),
        ([], r"one number per row, got shape \(0,\)"),
    ],
)
def test_wrong_labels_are_refused(labels, message):
    with pytest.raises(ValueError, match=message):
        Categorical(3).targets(labels)


def test_labels_are_taken_in_every_usual_form():
    for labels in ([0, 2, 1], [0.0, 2.0, 1.0], [[0], [2], [1]], np.array([0, 2, 1], np.uint8)):
        targets = Categorical(3).targets(labels)
        assert targets.dtype == np.int32
        assert targets.tolist() == [0, 2, 1]


def test_one_class_is_refused():
    with pytest.raises(ValueError, match="classes must be a whole number of at least 2, got 1"):
        Categorical(1)


def test_a_sampled_noise_stays_above_its_floor():
    likelihood = Gaussian(0.5, sampled=True, floor=0.3)
    tiny, large = {"log_noise": jnp.float32(-50.0)}, {"log_noise": jnp.float32(2.0)}
    assert likelihood.sigma(tiny) == pytest.approx(0.3)
    assert likelihood.sigma(large) == pytest.approx(np.hypot(0.3, np.exp(2.0)))
    density = likelihood.log_prob(tiny, jnp.zeros((1, 1)), jnp.ones((1, 1))).item()
    assert density == pytest.approx(stats.norm.logpdf(1.0, scale=0.3), rel=1e-5)
    with pytest.raises(ValueError, match="floor"):
        Gaussian(0.5, sampled=True, floor=-1.0)


def test_a_noise_is_implausible_where_neither_data_nor_prior_support_it():
    y = jnp.linspace(-1, 1, 20)[:, None]
    likelihood = Gaussian(0.01, sampled=True, spread=1.0)
    plausible = [bool(likelihood.is_plausible({"log_noise": jnp.log(sigma)}, y)) for sigma in (1e-4, 0.5, 100.0)]
    assert plausible == [True, True, False]
    assert Gaussian(100.0, sampled=True).is_plausible({"log_noise": jnp.log(100.0)}, y)
    assert Gaussian(100.0).is_plausible((), y)


def test_one_heavy_row_of_a_minibatch_is_no_divergence():
    """Its energy is that of all rows as heavy as itself."""
    rng = np.random.default_rng(0)
    x, weights = rng.normal(size=(60, 1)), np.r_[1e6, np.ones(59)]
    posterior = parameter_space(MLP((3,)), x, x[:, 0], likelihood=Gaussian(0.5), weights=weights, batch_size=10)
    energies = jax.vmap(lambda key: posterior.energy(key, posterior.init(key)))(jax.random.split(jax.random.key(0), 50))
    assert energies.max() > 1000 * energies.min() > 0
    assert energies.max() < posterior.energy_limit(energies.min())
