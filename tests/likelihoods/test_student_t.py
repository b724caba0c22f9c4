"""Student's t noise: the likelihood and its predictions, against SciPy and numerical integration."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats
from scipy.integrate import quad
from scipy.special import logsumexp

from fsgmcmc import MLP, Gaussian, Samples, StudentT, WarmUp, parameter_space, sample, sghmc, sgld
from fsgmcmc.inference.warm_up import warm_up
from fsgmcmc.likelihoods.student_t import StudentPrediction, log_gamma_half_step
from fsgmcmc.predictions import GaussianPrediction


def mixture(draws=7, rows=5, outputs=2, seed=0):
    """Components with wide gaps, unequal scales and tails from nearly infinite to nearly Gaussian, and targets."""
    rng = np.random.default_rng(seed)
    functions = 3 * rng.normal(size=(draws, rows, outputs))
    prediction = StudentPrediction(
        functions, np.exp(rng.normal(size=functions.shape)), np.geomspace(2.2, 50, draws)[:, None, None]
    )
    return prediction, 2 * rng.normal(size=(rows, outputs))


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, 40).astype(np.float32)
    return x, (np.sin(3 * x) + 0.1 * rng.standard_t(3, 40)).astype(np.float32)


@pytest.mark.parametrize("noise", [0.7, np.array([0.5, 2.0, 1.0])], ids=["one noise", "noise of each row"])
def test_the_density_is_that_of_scipy(noise):
    rng = np.random.default_rng(0)
    f, y = jnp.asarray(rng.normal(size=(2, 3, 2)), jnp.float32)
    y = y.at[0, 0].set(100.0)
    expected = stats.t.logpdf(y, 4.5, f, np.reshape(noise, (-1, 1))).sum(axis=1)
    one = np.ndim(noise) == 0
    likelihood = StudentT(noise, df=4.5) if one else StudentT(df=4.5).with_noise(jnp.asarray(noise, jnp.float32))
    np.testing.assert_allclose(likelihood.log_prob((), f, y), expected, rtol=2e-6)


def test_a_row_far_away_pulls_no_harder_than_the_bound():
    nu, sigma = 5.0, 0.3
    likelihood = StudentT(sigma, df=nu)
    pull = jax.vmap(jax.grad(lambda f, y: likelihood.log_prob((), f[None, None], y[None, None])[0]), (None, 0))
    pulls = np.abs(pull(jnp.float32(0), jnp.geomspace(1e-3, 1e6, 200)))
    assert pulls.max() == pytest.approx((nu + 1) / (2 * sigma * np.sqrt(nu)), rel=1e-2)
    assert pulls[-1] < 1e-4


def test_many_degrees_of_freedom_are_gaussian():
    f, y = jnp.asarray(np.random.default_rng(1).normal(size=(2, 50, 1)), jnp.float32)
    heavy, light = StudentT(0.5, df=1e6).log_prob((), f, y), Gaussian(0.5).log_prob((), f, y)
    np.testing.assert_allclose(heavy, light, atol=1e-3)


def test_the_constant_and_its_derivatives_are_those_of_gamma_functions():
    a = np.geomspace(1, 1e4, 50)
    with jax.enable_x64(True):
        value = log_gamma_half_step(jnp.asarray(a))
        slope = jax.vmap(jax.grad(log_gamma_half_step))(jnp.asarray(a))
    np.testing.assert_allclose(value, special.gammaln(a + 0.5) - special.gammaln(a), atol=1e-7)
    np.testing.assert_allclose(slope, special.digamma(a + 0.5) - special.digamma(a), atol=1e-7)


def test_sampled_parameters_have_their_prior_and_their_place_in_the_density(rows):
    likelihood = StudentT(0.2, sampled=True, spread=0.5, floor=0.05, df=6.0, df_spread=0.7)
    own = {"log_noise": jnp.log(0.3), "log_df": jnp.log(1.5)}
    sigma = np.hypot(0.05, 0.3)
    assert float(likelihood.sigma(own)) == pytest.approx(sigma)
    assert float(likelihood.noise_std(own)) == pytest.approx(stats.t(3.5, scale=sigma).std(), rel=1e-5)
    expected = stats.norm.logpdf(np.log(0.3), np.log(0.2), 0.5) - stats.norm.logpdf(0, 0, 0.5)
    expected += stats.norm.logpdf(np.log(1.5), np.log(4.0), 0.7) - stats.norm.logpdf(0, 0, 0.7)
    assert float(likelihood.log_prior(own)) == pytest.approx(expected, rel=1e-5)
    f, y = jnp.zeros((40, 1)), jnp.asarray(rows[1])[:, None]
    np.testing.assert_allclose(likelihood.log_prob(own, f, y), stats.t.logpdf(y[:, 0], 3.5, 0, sigma), atol=2e-6)


def test_noise_is_fitted_to_the_residuals(rows):
    likelihood = StudentT(1e-3, sampled=True, df=3.0)
    f, y = jnp.zeros((40, 1)), jnp.asarray(rows[1])[:, None]
    fitted = likelihood.fit_noise(likelihood.init(), f, y)
    assert float(likelihood.noise_std(fitted)) == pytest.approx(float(jnp.sqrt(jnp.mean(y * y))), rel=1e-5)
    assert float(likelihood.nu(fitted)) == pytest.approx(3.0)


@pytest.mark.slow
def test_what_was_sampled_predicts_and_is_kept(rows, tmp_path):
    x, y = rows
    likelihood = StudentT(0.1, sampled=True, spread=1.0, df=5.0)
    weighted = parameter_space(MLP((10,)), x, y, likelihood=likelihood, weights=np.ones(40))
    unweighted = parameter_space(MLP((10,)), x, y, likelihood=likelihood)
    key = jax.random.key(0)
    w = weighted.init(key)
    np.testing.assert_allclose(weighted.potential(key, w)[1], unweighted.potential(key, w)[1], rtol=1e-5, atol=1e-5)
    kept = sample(0, unweighted, sghmc(), draws=5, burn_in=300, chains=2)
    kept.save(tmp_path / "samples.npz")
    before, after = (each.predict(x) for each in (kept, Samples.load(tmp_path / "samples.npz")))
    assert isinstance(after, StudentPrediction)
    np.testing.assert_array_equal(before.log_prob(y), after.log_prob(y))
    np.testing.assert_array_equal(before.df, after.df)
    nu = 2 + np.exp(kept.params.likelihood["log_df"].reshape(-1, 1, 1))
    np.testing.assert_allclose(before.df, nu, rtol=1e-6)
    assert np.ptp(nu) > 0


@pytest.mark.slow
def test_adam_descends_as_if_the_noise_were_gaussian(rows):
    """Else a row that is far from the start would not pull: with tails, gradients of the likelihood vanish there."""
    x, y = rows
    given = {"sampled": True, "spread": 1.0, "floor": 0.01}
    heavy = parameter_space(MLP((10,)), x, 50 * y, likelihood=StudentT(0.1, **given, df=3.0))
    light = parameter_space(MLP((10,)), x, 50 * y, likelihood=Gaussian(0.1, **given))
    key = jax.random.key(0)
    w = heavy.init(key)
    (energy, gradient), mask = heavy.for_optimisation().potential(key, w), heavy.network_mask()
    np.testing.assert_array_equal(gradient[~mask], 0.0)
    expected_energy, expected = light.potential(key, light.init(key))
    assert float(energy) == pytest.approx(float(expected_energy), rel=1e-6)
    np.testing.assert_allclose(gradient[mask], expected[light.network_mask()], rtol=1e-5)
    assert np.abs(heavy.potential(key, w)[1][mask]).max() < 1e-3 * np.abs(gradient[mask]).max()
    sampler = sgld(1e-12)  # given, so that nothing is measured: the warm-up is Adam alone
    starts = [target.init(key)[None] for target in (heavy, light)]
    (_, ended), (_, gaussian) = (
        warm_up(key, target, sampler, start, WarmUp(adam_steps=20, blocks=0))
        for target, start in zip((heavy, light), starts, strict=True)
    )
    np.testing.assert_allclose(ended[0][mask], gaussian[0][light.network_mask()], rtol=1e-5, atol=1e-6)
    weighted = parameter_space(MLP((10,)), x, 50 * y, likelihood=heavy.likelihood, weights=np.full(40, 2.0))
    doubled = parameter_space(MLP((10,)), np.tile(x, 2), np.tile(50 * y, 2), likelihood=heavy.likelihood)
    of_weighted, of_doubled = (each.for_optimisation().potential(key, w)[1] for each in (weighted, doubled))
    np.testing.assert_allclose(of_weighted, of_doubled, rtol=1e-4, atol=1e-2)


def test_a_prediction_is_a_mixture():
    prediction, y = mixture()
    parts = stats.t(prediction.df, prediction.functions, prediction.noise)
    np.testing.assert_allclose(prediction.log_prob(y), logsumexp(parts.logpdf(y).sum(axis=2), axis=0) - np.log(7))
    np.testing.assert_allclose(prediction.cdf(y), parts.cdf(y).mean(axis=0))
    np.testing.assert_allclose(prediction.aleatoric, np.sqrt(parts.var().mean(axis=0)))
    levels = [1e-4, 0.05, 0.5, 0.95]
    quantiles = prediction.quantile(levels)
    for level, quantile in zip(levels, quantiles, strict=True):
        np.testing.assert_allclose(prediction.cdf(quantile), level, rtol=1e-5)
    other, there = prediction.rescaled(100.0, 20.0), 100 + 20 * y
    np.testing.assert_allclose(other.log_prob(there), prediction.log_prob(y) - 2 * np.log(20))
    np.testing.assert_allclose(other.crps(there), 20 * prediction.crps(y))


@pytest.mark.parametrize("draws", [1, 7, 60])
def test_crps_is_the_integrated_squared_difference_of_cdfs(draws):
    prediction, y = mixture(draws, rows=1, outputs=1)

    def integrand(t):
        return (prediction.cdf([t]).item() - (t >= y.item())) ** 2

    ends = (-np.inf, y.item()), (y.item(), np.inf)
    integral = sum(quad(integrand, *end, limit=300, epsrel=1e-6)[0] for end in ends)
    assert prediction.crps(y).item() == pytest.approx(integral, rel=5e-3)


def test_crps_of_nearly_gaussian_noise_is_that_of_gaussian_noise():
    rng = np.random.default_rng(3)
    functions, noise, y = rng.normal(size=(50, 30, 1)), np.exp(rng.normal(size=(50, 1, 1)) - 2), rng.normal(size=30)
    heavy = StudentPrediction(functions, noise, 1e6)
    np.testing.assert_allclose(heavy.crps(y), GaussianPrediction(functions, noise).crps(y), rtol=1e-2)


def test_what_has_no_variance_is_refused():
    for df in (2.0, 2.00000001):
        with pytest.raises(ValueError, match="above 2"):
            StudentT(df=df)
    with pytest.raises(ValueError, match="above 2"):
        StudentPrediction(np.zeros((1, 1, 1)), 1.0, 1.5)
