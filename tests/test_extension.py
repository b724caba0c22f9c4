"""A likelihood and a sampler that are defined in this file alone work everywhere."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from jax.scipy.special import gammaln

import fsgmcmc as fs
from fsgmcmc import methods, metrics

pytestmark = pytest.mark.usefixtures("optimised")


@fs.likelihoods.register
class Poisson(fs.Likelihood):
    """Counts with a log link."""

    def log_prob(self, params, f, y):
        return jnp.sum(y * f - jnp.exp(f) - gammaln(y + 1), axis=1)

    def predict(self, functions, params, noise=None):
        return fs.DistributionPrediction(functions, scipy.stats.poisson(np.exp(functions)))

    def latent_targets(self, y):
        return np.log(y + 0.5)


class AveragedState(NamedTuple):
    position: jax.Array
    step: jax.Array
    energy: jax.Array
    noise: jax.Array


class AveragedLangevin(fs.Sampler):
    """w ← w − ε ∇U + sqrt(2ε) (η + η') / 2: variances on a Gaussian target are exact at every stable step."""

    def init(self, key, position, potential):
        energy_key, noise_key = jax.random.split(key)
        energy, _ = potential(energy_key, position)
        return AveragedState(position, jnp.int32(0), energy, jax.random.normal(noise_key, position.shape))

    def step(self, key, state, potential):
        gradient_key, noise_key = jax.random.split(key)
        energy, gradient = potential(gradient_key, state.position)
        noise, size = jax.random.normal(noise_key, state.position.shape), self.step_size(state.step)
        diffusion = jnp.sqrt(2 * size) * self.root * (state.noise + noise) / 2
        return AveragedState(state.position - size * self.root**2 * gradient + diffusion, state.step + 1, energy, noise)

    def stable_step(self, curvature, size):
        return 0.5 / curvature.largest


CONSTANT = fs.FunctionNetwork(
    lambda key, inputs, outputs: {"level": 0.1 * jax.random.normal(key, (1,))},
    lambda params, x: jnp.broadcast_to(params["level"], (len(x), 1)),
)
COUNTS = np.array([2, 3, 1, 4, 2])


def posterior_of_the_log_rate():
    """Mean and standard deviation of p(f | y) ∝ exp(f Σy − n exp f − f²/2), by quadrature."""
    f = np.linspace(-4, 4, 20_001)
    log_density = f * COUNTS.sum() - len(COUNTS) * np.exp(f) - f**2 / 2
    density = np.exp(log_density - log_density.max())
    mean = np.average(f, weights=density)
    return mean, np.sqrt(np.average((f - mean) ** 2, weights=density))


def constant_posteriors():
    x = np.zeros((5, 1))
    prior = fs.GaussianProcess(fs.rbf(1.0), nugget=1e-6)
    one_point = fs.measurement.fixed(np.zeros((1, 1)))
    yield fs.parameter_space(CONSTANT, x, COUNTS, likelihood=Poisson(), prior=fs.GaussianWeights(1.0))
    yield fs.function_space(
        CONSTANT, x, COUNTS, likelihood=Poisson(), prior=prior, measurement=one_point, weight_prior=None
    )


@pytest.mark.parametrize(
    "posterior",
    [
        pytest.param(each, id=name, marks=marks)
        for each, name, marks in zip(
            constant_posteriors(), ("parameter space", "function space"), (pytest.mark.slow, ()), strict=True
        )
    ],
)
def test_an_own_likelihood_has_its_posterior(posterior):
    """Four chains of 2,000 draws, ESS about 2,000 or more: 5 standard errors, a false alarm in a million."""
    samples = fs.sample(0, posterior, fs.hamiltonian(), draws=2000, thinning=4, burn_in=500, chains=4, progress=False)
    mean, std = posterior_of_the_log_rate()
    draws = samples.positions[..., 0]
    ess = float(fs.diagnostics.effective_sample_size(draws))
    assert ess > 1000
    assert draws.mean() == pytest.approx(mean, abs=5 * std / np.sqrt(ess))
    assert draws.std() == pytest.approx(std, rel=5 * np.sqrt(0.5 / ess))


def test_an_own_likelihood_predicts_scores_and_is_saved(tmp_path):
    posterior = next(constant_posteriors())
    samples = fs.sample(0, posterior, fs.sghmc(), draws=200, thinning=5, burn_in=200, chains=2, progress=False)
    prediction = samples.predict(np.zeros((3, 1)))
    log_rates = samples.positions.reshape(-1)
    mixture = scipy.stats.poisson(np.exp(log_rates))
    np.testing.assert_allclose(prediction.mean[:, 0], np.exp(log_rates).mean(), rtol=1e-5)
    assert metrics.nll(prediction, [0, 2, 9]) == pytest.approx(
        -np.mean([np.log(mixture.pmf(count).mean()) for count in (0, 2, 9)]), rel=1e-5
    )
    lower, upper = prediction.interval(0.9)
    assert mixture.cdf(lower[0, 0]).mean() >= 0.05 > mixture.cdf(lower[0, 0] - 1).mean()
    assert mixture.cdf(upper[0, 0]).mean() >= 0.95 > mixture.cdf(upper[0, 0] - 1).mean()
    samples.save(tmp_path / "counts.npz")
    loaded = fs.Samples.load(tmp_path / "counts.npz", network=CONSTANT)
    np.testing.assert_array_equal(loaded.predict(np.zeros((3, 1))).mean, prediction.mean)


def test_an_own_likelihood_works_in_the_estimator(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.uniform(-3, 3, (120, 1))
    rate = np.exp(1 + np.sin(x[:, 0]))
    settings = {"hidden": (20,), "chains": 2, "samples": 20, "burn_in": 600, "thinning": 10, "random_state": 0}
    model = fs.FunctionalBNNRegressor("rbf", likelihood=Poisson(), **settings).fit(x, rng.poisson(rate))
    assert np.sqrt(np.mean((model.predict(x) - rate) ** 2)) < 0.25 * rate.std()
    lower, upper = model.predict_interval(x, 0.9)
    # New counts: 120 rows, at least 90 % of each discrete interval.
    new = rng.poisson(rate)
    assert 0.82 <= np.mean((lower <= new) & (new <= upper)) <= 0.99
    fs.save_model(model, tmp_path / "model")
    loaded, _ = fs.load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(x), model.predict(x))


def test_an_own_likelihood_that_is_not_registered_says_how_to_save(tmp_path):
    class Unregistered(Poisson):
        pass

    posterior = fs.parameter_space(CONSTANT, np.zeros((5, 1)), COUNTS, likelihood=Unregistered())
    samples = fs.sample(0, posterior, fs.sgld(1e-3), draws=4, burn_in=0, chains=1, warm_up=None, progress=False)
    assert np.isfinite(samples.predict([[0.0]]).mean).all()
    with pytest.raises(ValueError, match="Unregistered is not registered: decorate"):
        samples.save(tmp_path / "draws.npz")


def test_an_own_sampler_has_its_stationary_distribution():
    """ελ up to 1, where plain Langevin doubles the variance. Pooled ESS above 5,000: ± 5 standard errors."""
    curvature = jnp.array([1.0, 2.0, 4.0])
    target = fs.Energy(lambda w: 0.5 * jnp.sum(curvature * w * w), jnp.zeros(3))
    samples = fs.sample(
        0, target, AveragedLangevin(0.25), draws=5000, thinning=10, burn_in=200, chains=4, warm_up=None, progress=False
    )
    scaled = np.square(samples.positions).mean(axis=(0, 1)) * np.asarray(curvature)
    np.testing.assert_allclose(scaled, 1.0, atol=5 * np.sqrt(2 / 5000))


def test_an_own_sampler_has_its_step_measured_and_resumes(tmp_path):
    x = np.linspace(-1, 1, 20)
    posterior = fs.function_space(
        fs.MLP((8,)), x, np.sin(3 * x), prior=fs.GaussianProcess(fs.rbf(0.5), nugget=1e-2), likelihood=fs.Gaussian(0.3)
    )
    run = {"thinning": 5, "burn_in": 50, "chains": 2, "warm_up": fs.WarmUp(adam_steps=50), "progress": False}
    whole = fs.sample(0, posterior, AveragedLangevin(None), draws=12, **run)
    for draws in (5, 12):
        cut = fs.sample(0, posterior, AveragedLangevin(None), draws=draws, checkpoint=tmp_path / "run.npz", **run)
    assert 0 < whole.info["step_size"] < np.inf
    np.testing.assert_array_equal(cut.positions, whole.positions)


class Laplace(fs.Likelihood):
    """A correct likelihood, which the cases below break one by one."""

    def log_prob(self, params, f, y):
        return jnp.sum(-jnp.abs(y - f), axis=1)

    def predict(self, functions, params, noise=None):
        return fs.DistributionPrediction(functions, scipy.stats.laplace(functions))


class Broadcast(Laplace):
    def log_prob(self, params, f, y):
        return -jnp.abs(y - f[:, 0])


class Column(Laplace):
    def log_prob(self, params, f, y):
        return -jnp.abs(y - f)


class OnTheHost(Laplace):
    def log_prob(self, params, f, y):
        return np.asarray(f)[:, 0]


class VectorPrior(Laplace):
    def init(self):
        return {"scale": 0.0}

    def log_prior(self, params):
        return params["scale"] * jnp.ones(2)


class IntegerStart(Laplace):
    def init(self):
        return {"scale": 1}


class NoDensity(fs.Likelihood):
    def predict(self, functions, params, noise=None):
        return None


class ManyOutputs(Laplace):
    def outputs(self, y):
        return 0


@pytest.mark.parametrize(
    ("likelihood", "message"),
    [
        (Broadcast(), r"log_prob of Broadcast must return one number per row"),
        (Column(), r"log_prob of Column must return one number per row.*\(3, 1\)"),
        (OnTheHost(), "cannot be computed with jax.numpy"),
        (VectorPrior(), r"log_prior one number.*\(2,\)"),
        (IntegerStart(), "init of IntegerStart must return a pytree of floats"),
        (NoDensity(), "NoDensity must define log_prob"),
        (ManyOutputs(), "the number of outputs of ManyOutputs"),
    ],
)
def test_a_likelihood_against_the_contract_is_refused_at_once(likelihood, message):
    x, y = np.zeros((20, 1)), np.arange(20.0)[:, None]
    with pytest.raises((TypeError, ValueError), match=message):
        fs.parameter_space(fs.MLP((3,)), x, y, likelihood=likelihood)


def test_a_float_is_a_parameter_of_a_likelihood():
    class Scaled(Laplace):
        def init(self):
            return {"log_scale": 0.0}

        def log_prior(self, params):
            return -0.5 * params["log_scale"] ** 2

    posterior = fs.parameter_space(fs.MLP((3,)), np.zeros((20, 1)), np.arange(20.0), likelihood=Scaled())
    assert posterior.parameters(posterior.init(jax.random.key(0))).likelihood["log_scale"] == 0


def test_an_estimator_checks_what_a_likelihood_predicts_before_it_fits():
    class Silent(Laplace):
        def predict(self, functions, params, noise=None):
            return None

    with pytest.raises(TypeError, match="predict of Silent must return a prediction with a mean"):
        fs.FunctionalBNNRegressor("rbf", likelihood=Silent()).fit(np.zeros((20, 1)), np.arange(20.0))


def test_noise_for_a_likelihood_without_noise_is_refused():
    posterior = fs.parameter_space(CONSTANT, np.zeros((5, 1)), COUNTS, likelihood=Poisson())
    samples = fs.sample(0, posterior, fs.sgld(1e-3), draws=4, burn_in=0, chains=1, warm_up=None, progress=False)
    with pytest.raises(ValueError, match="Poisson has no observation noise"):
        samples.predict([[0.0]], noise=0.1)


def test_only_classes_of_the_contract_are_registered():
    with pytest.raises(TypeError, match="register takes a subclass of Likelihood, not <class 'int'>"):
        fs.likelihoods.register(int)
    with pytest.raises(TypeError, match="register takes a subclass of Network"):
        fs.networks.register(Poisson)


def test_a_sampler_against_the_contract_is_refused_at_once():
    class NoEnergy(NamedTuple):
        position: jax.Array
        step: jax.Array

    class Lost(AveragedLangevin):
        def init(self, key, position, potential):
            return NoEnergy(position, jnp.int32(0))

    class Shortened(AveragedLangevin):
        def step(self, key, state, potential):
            return state.position

    class Unruly(fs.Sampler):
        def init(self, key, position, potential):
            return AveragedState(position, jnp.int32(0), jnp.float32(0), position)

        def step(self, key, state, potential):
            return state

    target = fs.Energy(lambda w: jnp.sum(w * w), jnp.zeros(2))
    for sampler, message in (
        (Lost(0.1), "the state of Lost lacks energy"),
        (Shortened(0.1), "step of Shortened returns .* not of the form of its state"),
        (Unruly(None), "Unruly has no rule for its step size: give a step_size"),
        (Unruly(0.1), "step of Unruly must count"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            fs.sample(0, target, sampler, draws=2, progress=False)


def test_a_target_against_the_contract_is_refused_at_once():
    class Own(fs.Target):
        begin: Any = eqx.field(static=True)
        result: Any = eqx.field(static=True)

        def init(self, key):
            return self.begin()

        def potential(self, key, w):
            return self.result(w)

    def normal(w):
        return 0.5 * w @ w, w

    for begin, result, message in (
        (lambda: jnp.zeros((3, 1)), normal, "init of Own must return a vector of floats"),
        (lambda: jnp.zeros(3, int), normal, "init of Own must return a vector of floats"),
        (lambda: [0.0, 0.0], normal, "init of Own must return a vector of floats"),
        (lambda: jnp.zeros(3), lambda w: 0.5 * w @ w, "potential of Own must return the energy and its gradient"),
        (lambda: jnp.zeros(3), lambda w: (0.5 * w @ w, w[:2]), r"not shapes \(\) and \(2,\)"),
        (lambda: jnp.zeros(3), lambda w: (0.5 * (w @ w)[None], w), r"not shapes \(1,\) and \(3,\)"),
    ):
        with pytest.raises(TypeError, match=message):
            fs.sample(0, Own(begin, result), fs.sgld(0.1), draws=2, progress=False)
    with pytest.raises(TypeError, match="potential of Energy"):
        fs.sample(0, fs.Energy(lambda w: w * w, [0.0, 1.0]), fs.sgld(0.1), draws=2, progress=False)
    draws = fs.sample(
        0, fs.Energy(lambda w: w @ w, [0, 1]), fs.sgld(0.1), draws=2, chains=1, warm_up=None, progress=False
    )
    assert draws.positions.shape == (1, 2, 2)


def test_a_method_of_ones_own_is_known_to_the_estimators():
    own = methods.Method("slow", "Slow", "sampling", "parameter", "sampler", "#555555", build=fs.sgld)
    with pytest.raises(ValueError, match="there is a method 'sgld' already"):
        methods.register(replace(own, name="sgld"))
    try:
        methods.register(own)
        model = fs.FunctionalBNNRegressor("rbf", "slow", samples=2, burn_in=20, thinning=1, chains=1, progress=False)
        assert model.fit(np.arange(20.0)[:, None], np.arange(20.0)).method_ == "slow"
    finally:
        for registry in (methods.METHODS, methods.SAMPLERS, methods.INFERENCE):
            registry.pop("slow", None)


def test_a_density_that_is_not_finite_is_named_instead_of_the_step():
    target = fs.Energy(lambda w: jnp.sum(w) * jnp.nan, jnp.zeros(2))
    for warm_up in (fs.WarmUp(adam_steps=5), None):
        with pytest.raises(ValueError, match="the potential is nan where a chain starts"):
            fs.sample(0, target, fs.sgld(0.1), draws=2, back_off=0, progress=False, warm_up=warm_up)


def test_a_network_against_the_contract_is_refused_at_once():
    @dataclass
    class Unfrozen(fs.networks.Network):
        def init(self, key, inputs, outputs):
            return jnp.zeros((inputs, outputs))

        def apply(self, params, x):
            return x @ params

    counted = fs.networks.FunctionNetwork(lambda key, i, o: {"n": jnp.int32(1), "w": jnp.ones((i, o))}, lambda p, x: x)
    empty = fs.networks.FunctionNetwork(lambda key, i, o: {}, lambda p, x: x)
    for network, message in (
        (Unfrozen(), "Unfrozen cannot be hashed .* frozen dataclass"),
        (counted, "must return a pytree of float arrays"),
        (empty, "returns no parameters"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            fs.parameter_space(network, np.ones((3, 1)), np.ones(3), likelihood=fs.Gaussian(0.1))
