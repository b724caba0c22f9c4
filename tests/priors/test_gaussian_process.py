"""A Gaussian process has the law it claims, and conditions exactly."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.gaussian_process import GaussianProcessRegressor, kernels as sk

from fsgmcmc.priors.gaussian_process import GaussianProcess
from fsgmcmc.priors.kernels import matern32, matern52, rbf

RNG = np.random.default_rng(0)
X, F = RNG.normal(size=(12, 2)), RNG.normal(size=(12, 2))
SHARED = GaussianProcess(matern52([0.7, 2.0], 1.5), mean=0.3)
SEPARATE = GaussianProcess((rbf(0.8), matern32(2.0, 4.0)), mean=[1.0, -2.0], nugget=1e-2)
EACH = pytest.mark.parametrize("prior", [SHARED, SEPARATE], ids=["shared", "separate"])


def covariances(prior, x):
    """K + δI of each output, in float64."""
    with jax.enable_x64(True):
        gram = np.asarray(prior.gram(jnp.asarray(x)))
    nugget = [prior.nugget * np.diag(K).mean() * np.eye(len(x)) for K in np.broadcast_to(gram, (2, len(x), len(x)))]
    return gram + np.stack(nugget)


@EACH
def test_log_prob_is_the_multivariate_normal_density_in_both_precisions(prior):
    means = np.broadcast_to(prior.mean, 2)
    expected = sum(
        multivariate_normal(np.full(12, m), C).logpdf(f)
        for m, C, f in zip(means, covariances(prior, X), F.T, strict=True)
    )
    np.testing.assert_allclose(jax.jit(GaussianProcess.log_prob)(prior, X, F), expected, rtol=1e-4)
    with jax.enable_x64(True):
        np.testing.assert_allclose(jax.jit(GaussianProcess.log_prob)(prior, X, F), expected, rtol=1e-10)


@EACH
def test_score_is_the_gradient_of_log_prob(prior):
    with jax.enable_x64(True):
        gradient = jax.jit(jax.grad(GaussianProcess.log_prob, 2))(prior, X, F)
        np.testing.assert_allclose(jax.jit(GaussianProcess.score)(prior, X, F), gradient, rtol=1e-9)
    assert jax.jit(GaussianProcess.score)(prior, X, F).dtype == jnp.float32


@EACH
def test_whitening_inverts_the_covariance_of_a_smooth_kernel(prior):
    x = np.linspace(-1, 1, 60)[:, None] * [1.0, 1.0]
    W = np.broadcast_to(prior.whitening(np.float32(x)), (2, 60, 60))
    identity = W.swapaxes(1, 2) @ W @ covariances(prior, np.float32(x).astype(float))
    np.testing.assert_allclose(identity, np.broadcast_to(np.eye(60), identity.shape), atol=1e-8)


def test_a_singular_covariance_asks_for_a_nugget():
    with pytest.raises(ValueError, match="raise the nugget"):
        GaussianProcess(rbf(), nugget=0.0).whitening(np.repeat(X, 2, axis=0))
    assert np.isfinite(GaussianProcess(rbf()).whitening(np.repeat(X, 2, axis=0))).all()


@EACH
def test_draws_have_the_mean_and_covariance_of_the_prior(prior, key):
    x, draws = X[:4], 20_000
    sample = np.asarray(prior.sample(key, x, draws, outputs=2))
    # 2 · (4 + 10) statistics, each within 5 standard errors: false alarms at a rate below 2e-5.
    for f, m, C in zip(np.moveaxis(sample, 2, 0), np.broadcast_to(prior.mean, 2), covariances(prior, x), strict=True):
        variance = np.diag(C)
        assert (np.abs(f.mean(axis=0) - m) < 5 * np.sqrt(variance / draws)).all()
        assert (np.abs(np.cov(f.T) - C) < 5 * np.sqrt((np.outer(variance, variance) + C**2) / draws)).all()
    # Outputs are independent of each other.
    assert np.abs(np.corrcoef(sample[:, 0].T)[0, 1]) < 5 / np.sqrt(draws)


@pytest.mark.parametrize("noise", [0.2, np.linspace(0.1, 0.5, 12)], ids=["one noise", "noise of each datum"])
def test_exact_posterior_and_evidence_are_those_of_scikit_learn(noise):
    reference = GaussianProcessRegressor(
        1.5 * sk.Matern([0.7, 2.0], nu=2.5), alpha=np.broadcast_to(noise, 12) ** 2, optimizer=None
    )
    new = RNG.normal(size=(30, 2))
    prediction = SHARED.condition(X, F, noise).predict(new, noise=0.2)
    for c in range(2):
        mean, sd = reference.fit(X, F[:, c] - SHARED.mean).predict(new, return_std=True)
        np.testing.assert_allclose(prediction.mean[:, c], mean + SHARED.mean, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(prediction.epistemic[:, c], sd, rtol=1e-6)
    np.testing.assert_array_equal(prediction.aleatoric, np.full((30, 2), 0.2))
    reference.fit(X, F - SHARED.mean)
    np.testing.assert_allclose(SHARED.evidence(X, F, noise), reference.log_marginal_likelihood_value_, rtol=1e-8)


def test_outputs_with_their_own_kernels_and_noises_are_separate_regressions():
    noise = np.exp(RNG.normal(size=(12, 2)))
    both = SEPARATE.condition(X, F, noise).predict(X, noise)
    total = 0.0
    for c in range(2):
        one = GaussianProcess(SEPARATE.kernel[c], SEPARATE.mean[c])
        alone = one.condition(X, F[:, c], noise[:, c]).predict(X, noise[:, c])
        np.testing.assert_allclose(both.mean[:, [c]], alone.mean, rtol=1e-9)
        np.testing.assert_allclose(both.std[:, [c]], alone.std, rtol=1e-9)
        total += one.evidence(X, F[:, c], noise[:, c])
    np.testing.assert_allclose(SEPARATE.evidence(X, F, noise), total)


def test_noise_of_each_datum_says_nothing_about_new_points():
    posterior = SHARED.condition(X, F, np.full(12, 0.1))
    with pytest.raises(ValueError, match="give the noise of the new points"):
        posterior.predict(X)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GaussianProcess("rbf"), "kernel_by_name"),
        (lambda: GaussianProcess(()), "got \\(\\)"),
        (lambda: GaussianProcess((rbf(), 1.0)), "must be a tinygp kernel"),
        (lambda: GaussianProcess(rbf(), nugget=-1.0), "nugget .* got -1.0"),
        (lambda: GaussianProcess(rbf(), nugget=np.nan), "nugget .* got nan"),
        (lambda: GaussianProcess(rbf(), mean=np.inf), "mean must be a finite number"),
        (lambda: GaussianProcess((rbf(), rbf()), mean=[1.0, 2.0, 3.0]), "kernel 2, mean 3"),
        (lambda: SEPARATE.log_prob(X, F[:, :1]), "kernel 2, mean 2, values 1"),
        (lambda: SHARED.condition(X, F[:5], 0.1), "x has 12 rows but y has 5"),
        (lambda: SHARED.condition(X, F, np.ones(5)), r"noise has shape \(5,\)"),
        (lambda: SHARED.condition(X, F, 0.0), "noise must be positive"),
        (
            lambda: SHARED.whitening([[0.0, 1.0], [2.0, np.nan]]),
            r"x has 1 value\(s\) that are not finite .* at \(1, 1\): nan",
        ),
    ],
)
def test_errors_name_the_value_and_the_place(make, message):
    with pytest.raises(ValueError, match=message):
        make()
