"""Bayes by Backprop where the best mean-field posterior is known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fsgmcmc import MLP, Categorical, Gaussian, GaussianWeights, cyclical, metrics, parameter_space
from fsgmcmc.variational import ScaleMixture, bbb, fit
from fsgmcmc.variational.mean_field import MeanField
from linear_gaussian import linear_gaussian


def test_it_finds_the_best_mean_field_posterior_of_a_linear_model():
    """For a Gaussian N(m, H⁻¹) it is N(m, 1/diag H): the right mean, and too little variance."""
    model = linear_gaussian("parameter")
    steps = 4000
    samples = fit(
        0, model.posterior, bbb(draws_per_step=8), steps=steps, learning_rate=cyclical(0.02, length=steps), draws=20_000
    )
    w = samples.positions[0]
    std = 1 / np.sqrt(np.diag(model.precision))
    np.testing.assert_allclose(w.mean(axis=0), model.mean.ravel(), atol=0.1 * std.max())
    np.testing.assert_allclose(w.std(axis=0), std, rtol=0.05)


def test_a_mixture_of_equal_scales_is_the_gaussian_prior():
    """The sampled divergence then has the closed one as its mean, to 5 standard errors."""
    x = np.linspace(-1, 1, 10)
    posterior = parameter_space(MLP((3,)), x, np.sin(x), prior=GaussianWeights(0.7), likelihood=Gaussian(0.5))
    q = MeanField(jnp.linspace(-1, 1, posterior.size), jnp.full(posterior.size, -1.0))

    def losses(method):
        keys = jax.random.split(jax.random.key(0), 4000)
        return np.asarray(jax.jit(jax.vmap(lambda key: method.objective(key, posterior, q)[0]))(keys))

    difference = losses(bbb(mixture=ScaleMixture(0.3, 0.7, 0.7))) - losses(bbb())
    assert abs(difference.mean()) < 5 * difference.std() / np.sqrt(len(difference))
    assert difference.std() > 0


@pytest.mark.slow
def test_a_narrow_component_prunes_weights():
    x = np.linspace(-1, 1, 30)
    posterior = parameter_space(MLP((10,), initial="fan_in"), x, 0 * x, likelihood=Gaussian(1.0))
    settings = {"steps": 1500, "learning_rate": 0.02, "draws": 50}
    plain = fit(0, posterior, bbb(), **settings).positions
    pruned = fit(0, posterior, bbb(mixture=ScaleMixture(0.1, 1.0, 0.05)), **settings).positions
    assert np.abs(pruned).mean() < 0.5 * np.abs(plain).mean()


def test_a_learned_noise_comes_out_near_the_truth_with_an_uncertainty():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, 400)
    y = x + 0.3 * rng.standard_normal(400)
    posterior = parameter_space(
        MLP((5,), initial="fan_in"), x, y, likelihood=Gaussian(1.0, sampled=True, spread=2.0), batch_size=100
    )
    samples = fit(0, posterior, bbb(), steps=3000, learning_rate=cyclical(0.02, length=3000), draws=500)
    log_noise = np.asarray(samples.params.likelihood["log_noise"])[0]
    assert np.exp(log_noise.mean()) == pytest.approx(0.3, rel=0.15)
    # The posterior sd of log σ given n residuals is 1 / sqrt(2n).
    assert log_noise.std() == pytest.approx(1 / np.sqrt(800), rel=0.3)


def test_classes_and_several_outputs_with_known_noise_are_fitted():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (60, 1))
    settings = {"steps": 800, "learning_rate": 0.02, "draws": 50}
    classes = parameter_space(MLP((8,), initial="fan_in"), x, x[:, 0] > 0, likelihood=Categorical(2))
    assert metrics.accuracy(fit(0, classes, bbb(), **settings).predict(x), x[:, 0] > 0) > 0.9
    y = np.column_stack([x, -x])
    outputs = parameter_space(
        MLP((8,), initial="fan_in"), x, y, likelihood=Gaussian(), noise=np.full((60, 2), 0.1), batch_size=20
    )
    assert metrics.rmse(fit(0, outputs, bbb(), **settings).predict(x, noise=0.1), y) < 0.2


def test_nonsense_is_refused():
    with pytest.raises(ValueError, match="probability"):
        ScaleMixture(1.5)
    with pytest.raises(TypeError, match="ScaleMixture"):
        bbb(mixture=0.5)
    with pytest.raises(ValueError, match="initial_log_std"):
        bbb(initial_log_std=float("nan"))
