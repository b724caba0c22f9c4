"""Weighted functional priors and outlier exposure: their energies and gradients are those of their formulas."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from fsgmcmc import (
    MLP,
    Categorical,
    Functional,
    Gaussian,
    GaussianProcess,
    OutlierExposure,
    fsghmc,
    function_space,
    measurement,
    parameter_space,
    rbf,
    sghmc,
    variational,
    weak_weights,
)

RNG = np.random.default_rng(0)
X, LABELS = RNG.normal(size=(8, 2)).astype(np.float32), np.array([2, 0, 1, 1, 2, 0, 0, 1])
POINTS = jnp.asarray(RNG.normal(size=(5, 2)), jnp.float32)
PROCESS = GaussianProcess(rbf(0.8), np.array([1.0, 0.0, -1.0]), nugget=0.05)
NETWORK = MLP((3,))
MEASUREMENTS = {
    "fixed": measurement.fixed(POINTS),
    "one of several sets": measurement.sets(np.concatenate([POINTS, -POINTS]), 5, count=2),
    "pool": measurement.subset(np.concatenate([POINTS, -POINTS]), 5),
    "box": measurement.box([-1, -1], [1, 1], 5),
    "minibatch": measurement.minibatch(5),
}


@pytest.mark.parametrize("kind", MEASUREMENTS)
def test_weight_is_a_factor_of_the_energy_and_of_its_gradient(kind, key):
    values = jnp.asarray(RNG.normal(size=(5, 3)), jnp.float32)

    def energy_and_gradient(**weight):
        bound = Functional(PROCESS, MEASUREMENTS[kind], **weight).bind()
        _, factor = bound.measure(key, None, jnp.asarray(X))
        return jax.value_and_grad(lambda f: bound.energy(factor, f))(values)

    (energy, gradient), (weighted, weighted_gradient) = energy_and_gradient(), energy_and_gradient(weight=2.5)
    assert float(weighted) == pytest.approx(2.5 * float(energy), rel=1e-6)
    np.testing.assert_allclose(weighted_gradient, 2.5 * gradient, rtol=1e-5, atol=1e-6)


def test_posteriors_of_all_weights_share_one_program(key):
    compiled = []

    @eqx.filter_jit
    def energy(posterior, w):
        compiled.append(None)
        return posterior.energy(key, w)

    def posterior(weight):
        prior = Functional(PROCESS, MEASUREMENTS["fixed"], weight=weight) + OutlierExposure(
            measurement.fixed(POINTS), weight
        )
        return function_space(NETWORK, X, LABELS, prior=prior, likelihood=Categorical(3), weight_prior=None)

    w = posterior(1.0).init(key)
    one, two, four = (float(energy(posterior(weight), w)) for weight in (1.0, 2.0, 4.0))
    assert four - two == pytest.approx(2 * (two - one), rel=1e-4)
    assert len(compiled) == 1
    for wrong in (0.0, 1e-60, 1e60, True):
        with pytest.raises(ValueError, match="weight must be a positive number"):
            Functional(PROCESS, MEASUREMENTS["fixed"], weight=wrong)
    prior = Functional(PROCESS, MEASUREMENTS["fixed"])
    with pytest.raises(ValueError, match="measurement is for a bare GaussianProcess"):
        function_space(NETWORK, X, LABELS, prior=prior, measurement=MEASUREMENTS["pool"], likelihood=Categorical(3))


@pytest.mark.parametrize("space", ["function", "parameter"])
def test_exposure_adds_the_cross_entropy_from_equal_probabilities(space, key):
    exposure = OutlierExposure(measurement.fixed(POINTS), weight=2.5)
    if space == "function":
        own, build, options = PROCESS, function_space, {"measurement": MEASUREMENTS["fixed"]}
    else:
        own, build, options = weak_weights(), parameter_space, {}
    without, exposed = (
        build(NETWORK, X, LABELS, prior=prior, likelihood=Categorical(3), **options) for prior in (own, own + exposure)
    )
    assert exposed.space == without.space == space
    assert exposed.is_deterministic
    w = without.init(key)
    logits = np.asarray(NETWORK.apply(without.parameters(w).network, POINTS), np.float64)
    expected = -2.5 * special.log_softmax(logits, axis=1).mean(axis=1).sum()
    (before, slope), (after, exposed_slope) = (each.potential(key, w) for each in (without, exposed))
    assert float(after - before) == pytest.approx(expected, rel=1e-4)

    def through_logits(w):
        f = NETWORK.apply(without.parameters(w).network, POINTS)
        return jnp.vdot(f, 2.5 * (special.softmax(logits, axis=1) - 1 / 3))

    np.testing.assert_allclose(exposed_slope - slope, jax.grad(through_logits)(w), rtol=1e-3, atol=1e-4)


def test_exposure_is_least_at_equal_probabilities_and_pulls_towards_them():
    bound = OutlierExposure(measurement.fixed(POINTS), weight=3.0).bind()
    logits = np.float32(RNG.normal(scale=3, size=(5, 4)))
    energy, gradient = jax.value_and_grad(lambda f: bound.energy(None, f))(logits)
    np.testing.assert_allclose(gradient, 3 * (special.softmax(logits, axis=1) - 0.25), rtol=1e-5, atol=1e-6)
    equal = bound.energy(None, jnp.full((5, 4), 7.0))
    assert float(equal) == pytest.approx(3 * 5 * np.log(4), rel=1e-5)
    assert energy > equal
    less = np.asarray(logits - 0.1 * gradient)
    entropies = [special.entr(special.softmax(f, axis=1)).sum(axis=1) for f in (logits, less)]
    assert (entropies[1] > entropies[0]).all()


def test_exposure_is_refused_where_it_has_no_meaning():
    exposure = OutlierExposure(measurement.fixed(POINTS))
    with pytest.raises(ValueError, match="would oppose their labels"):
        OutlierExposure(measurement.minibatch(5))
    with pytest.raises(TypeError, match="measurement"):
        OutlierExposure(POINTS)
    with pytest.raises(TypeError, match="for likelihoods of class labels, not Gaussian"):
        parameter_space(NETWORK, X, LABELS, likelihood=Gaussian(), prior=weak_weights() + exposure)
    with pytest.raises(ValueError, match="needs a prior on the weights"):
        parameter_space(NETWORK, X, LABELS, likelihood=Categorical(3), prior=exposure)
    with pytest.raises(ValueError, match="needs a functional prior"):
        function_space(NETWORK, X, LABELS, likelihood=Categorical(3), prior=exposure)
    posterior = parameter_space(NETWORK, X, LABELS, likelihood=Categorical(3), prior=weak_weights() + exposure)
    posterior.check_sampler(sghmc())
    with pytest.raises(ValueError, match="only a weight prior"):
        posterior.check_sampler(fsghmc())
    with pytest.raises(ValueError, match="use a sampler"):
        variational.bbb().check(posterior)
    weighted = Functional(PROCESS, MEASUREMENTS["fixed"], weight=2.0)
    with pytest.raises(ValueError, match="a weight other than 1"):
        variational.fbnn().check(function_space(NETWORK, X, LABELS, likelihood=Categorical(3), prior=weighted))
