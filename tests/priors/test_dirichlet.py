"""Classes as regression targets: closed forms, and what the Gaussian processes make of them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from fsgmcmc import MLP, Categorical, GaussianProcess, function_space, matern52, measurement, metrics, rbf
from fsgmcmc.priors.dirichlet import dirichlet_targets, pretrain_classes

RNG = np.random.default_rng(0)
IMAGES = RNG.normal(size=(60, 4, 4, 1)).astype(np.float32)
LABELS = (IMAGES[:, :2].sum(axis=(1, 2, 3)) > 0).astype(int) + (IMAGES[:, 2:].sum(axis=(1, 2, 3)) > 2)


def test_targets_match_the_moments_of_the_gamma_they_stand_for():
    """exp of N(ỹ, σ̃²) has the mean and the variance of Gamma(α, 1)."""
    labels = np.array([0, 2])
    targets, noise = dirichlet_targets(labels, 3, concentration=0.1)
    alpha = 0.1 + np.eye(3)[labels]
    law = stats.lognorm(s=noise, scale=np.exp(targets))
    np.testing.assert_allclose(law.mean(), alpha)
    np.testing.assert_allclose(law.var(), alpha)


@pytest.mark.parametrize("kernel", [rbf(3.0), (rbf(3.0), rbf(2.0), matern52(3.0))], ids=["shared", "own"])
def test_log_density_and_score_are_those_of_independent_gaussians(kernel):
    prior = GaussianProcess(kernel, mean=[-1.0, -2.0, -3.0], nugget=1e-2)
    x, f = IMAGES[:7], RNG.normal(size=(7, 3))
    expected = 0.0
    for c in range(3):
        one = kernel[c] if isinstance(kernel, tuple) else kernel
        K = np.asarray(one(jnp.asarray(x.reshape(7, -1)), jnp.asarray(x.reshape(7, -1))), float)
        expected += stats.multivariate_normal.logpdf(f[:, c], np.full(7, -1.0 - c), K + 1e-2 * np.eye(7))
    assert float(prior.log_prob(x, f.astype(np.float32))) == pytest.approx(expected, rel=1e-4)
    slope = jax.grad(lambda f: prior.log_prob(x, f))(jnp.asarray(f, jnp.float32))
    np.testing.assert_allclose(prior.score(x, jnp.asarray(f, jnp.float32)), slope, rtol=1e-3, atol=1e-3)


def test_the_gaussian_processes_alone_classify_images():
    fit = pretrain_classes(GaussianProcess(rbf(3.0)), IMAGES, LABELS, 3, epochs=30, starts=1)
    assert fit.prior.mean.shape == (3,)
    assert (fit.prior.mean < -0.3).all()
    prediction = fit.classify(IMAGES)
    assert metrics.accuracy(prediction, LABELS) > 0.9
    far = fit.classify(100 + IMAGES)
    assert far.entropy.mean() > prediction.entropy.mean()


@pytest.mark.parametrize(("slope", "widest"), [(100.0, 1.0), (1.5, 4.0)])
def test_labels_that_are_uncertain_have_wider_targets(slope, widest):
    """Of labels that x decides t is 1; of coins with odds e^{1.5 x} it is more."""
    x = RNG.normal(size=(150, 1))
    labels = (RNG.uniform(size=150) < 1 / (1 + np.exp(-np.clip(slope * x[:, 0], -30, 30)))).astype(int)
    fit = pretrain_classes(GaussianProcess(rbf()), x, labels, 2, epochs=30, noise_scale=None)
    assert 1.0 <= fit.noise_scale <= widest
    assert (fit.noise_scale > 1.0) == (widest > 1.0)


def test_an_embedding_is_what_the_kernel_sees():
    def mean_pixel(x):
        return x.mean(axis=(1, 2))

    prior = GaussianProcess(rbf(1.0), embedding=mean_pixel)
    np.testing.assert_allclose(prior.gram(IMAGES), GaussianProcess(rbf(1.0)).gram(IMAGES.mean(axis=(1, 2))), rtol=1e-5)
    fit = pretrain_classes(prior, IMAGES, LABELS, 3, epochs=2, starts=1)
    assert fit.prior.embedding is mean_pixel
    assert fit.classify(IMAGES[:2]).logits.shape == (100, 2, 3)


def test_it_is_the_prior_of_a_network_on_images():
    network = (MLP((5,)).init(jax.random.key(0), 16, 3), lambda p, x: MLP((5,)).apply(p, x.reshape(len(x), -1)))
    prior = GaussianProcess(rbf(3.0), mean=[-1.0, -2.0, -3.0])
    posterior = function_space(
        network,
        IMAGES,
        LABELS,
        prior=prior,
        likelihood=Categorical(3),
        measurement=measurement.subset(IMAGES, 10),
        batch_size=20,
        weight_prior=None,
    )
    key, w = jax.random.key(1), posterior.init(jax.random.key(2))
    energy, gradient = posterior.potential(key, w)
    np.testing.assert_allclose(gradient, jax.grad(lambda w: posterior.energy(key, w))(w), rtol=1e-3, atol=1e-3)
    assert np.isfinite(energy)


def test_nonsense_is_refused():
    with pytest.raises(ValueError, match="label"):
        dirichlet_targets([3], 3)
    with pytest.raises(ValueError, match="concentration"):
        dirichlet_targets([0], 3, concentration=0.0)
    with pytest.raises(ValueError, match="rows"):
        pretrain_classes(GaussianProcess(rbf()), IMAGES, LABELS[:5], 3)
