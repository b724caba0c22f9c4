"""Deterministic laws of the samplers: descent at temperature zero, conservation of energy, schedules."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from fsgmcmc import (
    MLP,
    Energy,
    Gaussian,
    GaussianProcess,
    cyclical,
    cyclical_temperature,
    fsghmc,
    fsgld,
    function_space,
    functional_momentum,
    langevin,
    polynomial,
    rbf,
    sample,
    step_decay,
)
from fsgmcmc.samplers.metropolis import leapfrog
from fsgmcmc.samplers.momentum import Momentum
from linear_gaussian import FEATURES, linear_gaussian

pytestmark = pytest.mark.usefixtures("optimised")


def test_langevin_at_temperature_zero_is_preconditioned_descent(key):
    model = linear_gaussian()
    preconditioner = np.linspace(0.5, 2.0, FEATURES, dtype=np.float32)
    sampler = langevin(0.01, temperature=0.0, preconditioner=preconditioner)
    start = jax.random.normal(key, (FEATURES,))
    state = sampler.init(key, start, model.posterior.potential)
    expected = start
    for step in range(5):
        state = sampler.step(jax.random.fold_in(key, step), state, model.posterior.potential)
        expected = expected - 0.01 * preconditioner * model.posterior.potential(key, expected)[1]
    np.testing.assert_allclose(state.position, expected, rtol=1e-6)
    assert int(state.step) == 5


def test_hamiltonian_at_temperature_zero_finds_the_mode(key):
    model = linear_gaussian()
    sampler = fsghmc(0.1, friction=3.0, temperature=0.0)
    state = sampler.init(key, jnp.ones(FEATURES), model.posterior.potential)
    state = jax.lax.fori_loop(
        0, 500, lambda t, s: sampler.step(jax.random.fold_in(key, t), s, model.posterior.potential), state
    )
    np.testing.assert_allclose(state.position, model.mean, atol=1e-4)


@pytest.mark.parametrize("functional", [False, True], ids=["induced", "gp"])
def test_leapfrog_conserves_energy_to_second_order_and_runs_backwards(functional, key):
    x = np.linspace(-1, 1, 8)
    posterior = function_space(MLP((6,)), x, np.sin(3 * x), prior=GaussianProcess(rbf(0.5)), likelihood=Gaussian(0.5))
    momentum = Momentum()
    if functional:
        momentum = functional_momentum(posterior, GaussianProcess(rbf(1.0), nugget=0.1), x)
    position_key, momentum_key = jax.random.split(key)
    w = posterior.init(position_key)
    z = 0.5 * jax.random.normal(momentum_key, w.shape)

    def log_density(w):
        return -posterior.energy(key, w)

    here = (w, *jax.value_and_grad(log_density)(w))

    def energy_error(h):
        length = round(0.04 / h)
        _, value, _, z_end = leapfrog(here, z, jnp.float32(h), length, log_density, momentum)
        return abs(float(-value + momentum.energy(z_end) + here[1] - momentum.energy(z)))

    coarse, fine = energy_error(0.004), energy_error(0.002)
    assert coarse > 1e-3, "too small an error to measure its order in float32"
    assert 3 < coarse / fine < 5

    *there, z_end = leapfrog(here, z, jnp.float32(0.002), 20, log_density, momentum)
    back, _, _, z_back = leapfrog(tuple(there), z_end, jnp.float32(-0.002), 20, log_density, momentum)
    np.testing.assert_allclose(back, w, atol=1e-4)
    np.testing.assert_allclose(z_back, z, atol=1e-3)


def test_velocity_is_the_gradient_of_the_momentum_energy(key):
    model = linear_gaussian()
    momentum = functional_momentum(model.posterior, GaussianProcess(rbf(2.0)), model.points, weight=0.5)
    z = jax.random.normal(key, (FEATURES,))
    covariance = np.asarray(GaussianProcess(rbf(2.0)).covariance(model.points), float)
    matrix = model.basis.T @ np.linalg.solve(covariance, model.basis) + 0.5 * np.eye(FEATURES)
    np.testing.assert_allclose(momentum.velocity(z), matrix @ np.asarray(z, float), rtol=2e-3)


def test_schedules_follow_their_formulas():
    steps = np.array([0, 1, 50, 100, 149, 1000])
    np.testing.assert_allclose(step_decay(0.1, rate=0.9, every=50)(steps), 0.1 * 0.9 ** (steps // 50), rtol=1e-6)
    a = 0.1 * 3.0**0.6
    np.testing.assert_allclose(polynomial(0.1, offset=3.0, power=0.6)(steps), a * (3.0 + steps) ** -0.6, rtol=1e-5)
    cosine = 0.05 * (1 + np.cos(np.pi * (steps % 100) / 100))
    np.testing.assert_allclose(cyclical(0.1, length=100)(steps), cosine, rtol=1e-5, atol=1e-8)
    phases = cyclical_temperature(length=100, exploration=0.8)
    np.testing.assert_array_equal(phases(np.array([0, 79, 80, 99, 100])), [0, 0, 1, 1, 0])


def test_optax_schedules_are_accepted():
    schedule = optax.exponential_decay(1e-3, 10, 0.5)
    assert float(fsgld(schedule).step_size(20)) == pytest.approx(2.5e-4)


def test_cyclical_draws_come_from_sampling_phases_only():
    target = Energy(lambda w: 0.5 * jnp.sum(w * w), jnp.zeros(2))
    sampler = langevin(cyclical(0.1, length=100), temperature=cyclical_temperature(length=100, exploration=0.8))
    samples = sample(0, target, sampler, draws=6, thinning=10, burn_in=0, chains=1, warm_up=None)
    # Each cycle of 100 steps has draws after 90 and 100 of them.
    assert samples.info["iterations"] == 300


def test_numbers_in_a_sampler_do_not_mean_another_compilation():
    """Step size, temperature and preconditioner are arrays: two samplers differ in values, not in structure."""
    first, second = fsgld(1e-3), fsgld(2e-3)
    statics = [eqx.partition(sampler, eqx.is_array)[1] for sampler in (first, second)]
    assert eqx.tree_equal(*statics)


@pytest.mark.slow
def test_functional_momentum_runs_with_its_default_friction():
    """Its friction step is explicit: stable only because C h follows the curvature of E(z)."""
    x = np.linspace(-1, 1, 12)
    posterior = function_space(MLP((20,)), x, np.sin(3 * x), prior=GaussianProcess(rbf(0.5)), likelihood=Gaussian(0.3))
    momentum = functional_momentum(posterior, GaussianProcess(rbf(0.5)), np.linspace(-1, 1, 10))
    assert float(momentum.largest_curvature) > 20
    samples = sample(0, posterior, fsghmc(momentum=momentum), draws=5, burn_in=200, chains=2, back_off=0)
    assert np.isfinite(samples.positions).all()
