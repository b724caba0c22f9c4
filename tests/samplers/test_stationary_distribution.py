"""Samplers sample the law they should, discretisation included.

False-alarm rates: every `assert_law` 1e-5 (see there); seeds are fixed, so a test that passes keeps passing.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

from fsgmcmc import (
    Energy,
    GaussianProcess,
    fsghmc,
    fsgld,
    functional_momentum,
    hamiltonian,
    hmc,
    mala,
    nuts,
    rbf,
    sample,
    sghmc,
    sgld,
)
from linear_gaussian import FEATURES, assert_law, linear_gaussian

pytestmark = pytest.mark.usefixtures("optimised")

CHAINS = 256


def function_values(model, sampler, *, draws=40, thinning=15, burn_in=300, chains=CHAINS, seed=0):
    """Function values at the measurement points, (chains, draws, points)."""
    samples = sample(
        seed,
        model.posterior,
        sampler,
        draws=draws,
        thinning=thinning,
        burn_in=burn_in,
        chains=chains,
        warm_up=None,
        collect=lambda position: model.basis.astype(np.float32) @ position.network["w"][:, 0],
        back_off=0,
    )
    return samples.collected


def assert_function_law(model, values, covariance):
    assert_law(values, model.basis @ model.mean, model.basis @ covariance @ model.basis.T)


def modes(precision, factor):
    """H⁻¹ with the variance of each mode of curvature λ multiplied by factor(λ)."""
    curvature, vectors = np.linalg.eigh(precision)
    return (vectors * (factor(curvature) / curvature)) @ vectors.T


@pytest.mark.parametrize(("space", "sampler"), [("function", fsgld), ("parameter", sgld)])
def test_langevin_has_the_variance_of_its_discretisation(space, sampler):
    model = linear_gaussian(space)
    step = 0.5 / np.linalg.eigvalsh(model.precision).max()
    values = function_values(model, sampler(step), thinning=20)
    assert_function_law(model, values, modes(model.precision, lambda c: 1 / (1 - step * c / 2)))


@pytest.mark.parametrize(("space", "sampler"), [("function", fsghmc), ("parameter", sghmc)])
@pytest.mark.parametrize("integrator", ["baoab", "obabo", "leapfrog"])
def test_hamiltonian_has_the_variance_of_its_discretisation(space, sampler, integrator):
    model = linear_gaussian(space)
    step = 0.8 / np.sqrt(np.linalg.eigvalsh(model.precision).max())
    bias = (lambda c: 1 / (1 - step**2 * c / 4)) if integrator != "baoab" else np.ones_like
    options = {"resample_every": 3} if integrator == "leapfrog" else {}
    values = function_values(model, sampler(step, integrator=integrator, **options))
    assert_function_law(model, values, modes(model.precision, bias))


def stationary_covariance(step, noise):
    """The covariance S = A S Aᵀ + Q of a linear recursion given as functions of (w, z) and of the noise."""
    identity = np.eye(2 * FEATURES)
    A = np.stack([step(*column.reshape(2, -1)) for column in identity], axis=1)
    B = np.stack([noise(column) for column in np.eye(FEATURES)], axis=1)
    return scipy.linalg.solve_discrete_lyapunov(A, B @ B.T)[:FEATURES, :FEATURES]


SLOW_INTEGRATORS = [pytest.param(name, marks=pytest.mark.slow) for name in ("obabo", "leapfrog")]


@pytest.mark.parametrize("integrator", ["baoab", *SLOW_INTEGRATORS])
def test_functional_momentum_has_the_variance_of_its_discretisation(integrator):
    """With a linear network E(z) = ½ zᵀ A z, so the integrator is a linear recursion with a known law."""
    model = linear_gaussian()
    process, points = GaussianProcess(rbf(2.0, 4.0), nugget=0.5), np.linspace(-1, 1, 4)[:, None]
    momentum = functional_momentum(model.posterior, process, points)
    A = np.asarray(jax.hessian(momentum.energy)(jnp.zeros(FEATURES)), float)
    H = model.precision
    h = 0.3 / np.sqrt(np.linalg.eigvalsh(H).max() * np.linalg.eigvalsh(A).max())
    friction = 0.2 / np.linalg.eigvalsh(A).max() / h

    def thermostat(z):
        return z - friction * h * A @ z

    def step(w, z):
        if integrator == "baoab":
            z = z - h * H @ w
            w = w + h / 2 * A @ z
            z = thermostat(z)
            return np.concatenate([w + h / 2 * A @ z, z])
        z = thermostat(z - h / 2 * H @ w) - h / 2 * H @ w
        return np.concatenate([w + h * A @ z, z])

    def noise(xi):
        kick = np.sqrt(2 * friction * h) * xi
        return np.concatenate([(h / 2 if integrator == "baoab" else h) * A @ kick, kick])

    covariance = stationary_covariance(step, noise)
    sampler = fsghmc(h, friction=friction, integrator=integrator, momentum=momentum)
    values = function_values(model, sampler, thinning=40, burn_in=1000)
    assert_function_law(model, values, covariance)
    # The recursion's own bias is small: the law is the posterior's to 15 %.
    ratio = scipy.linalg.eigvals(covariance @ H).real
    assert np.abs(ratio - 1).max() < 0.15


def test_metropolis_corrected_samplers_have_the_exact_law():
    model = linear_gaussian()
    scale = 1 / np.sqrt(np.linalg.eigvalsh(model.precision).max())
    exact = np.linalg.inv(model.precision)
    values = function_values(model, mala(0.5 * scale**2), thinning=20)
    assert_function_law(model, values, exact)
    values = function_values(model, hmc(1.1 * scale, length=5), thinning=5, burn_in=100)
    assert_function_law(model, values, exact)
    values = function_values(model, nuts(1.1 * scale), thinning=3, burn_in=50)
    assert_function_law(model, values, exact)


def test_hmc_with_functional_momentum_has_the_exact_law():
    model = linear_gaussian()
    process = GaussianProcess(rbf(2.0, 9.0), nugget=0.5)
    momentum = functional_momentum(model.posterior, process, np.linspace(-1, 1, 4)[:, None])
    scale = 1 / np.sqrt(np.linalg.eigvalsh(model.precision).max())
    values = function_values(model, hmc(0.8 * scale, length=4, momentum=momentum), thinning=15)
    assert_function_law(model, values, np.linalg.inv(model.precision))


DIMENSIONS = 2000


def standard_normal_variance(sampler, steps_between=60):
    """The pooled variance of 8000 independent standard normals over 20 draws: its standard error is below 0.5 %."""
    target = Energy(lambda w: 0.5 * jnp.sum(w * w), jnp.zeros(DIMENSIONS))
    burn_in = 20 * steps_between
    samples = sample(
        0, target, sampler, draws=20, thinning=steps_between, burn_in=burn_in, chains=4, warm_up=None, back_off=0
    )
    return float(np.mean(samples.positions.astype(float) ** 2))


@pytest.mark.parametrize("inner", [1, 2, 5, 10, 50])
@pytest.mark.parametrize("integrator", ["baoab", "obabo", "leapfrog"])
def test_resampled_momentum_leaves_the_standard_normal_unchanged(integrator, inner):
    """The tolerance of 2 % is four standard errors: false-alarm rate below 1e-4 each."""
    step = 0.2
    variance = standard_normal_variance(hamiltonian(step, integrator=integrator, resample_every=inner))
    expected = 1.0 if integrator == "baoab" else 1 / (1 - step**2 / 4)
    assert abs(variance / expected - 1) < 0.02


@pytest.mark.parametrize("inner", [2, 5, *(pytest.param(inner, marks=pytest.mark.slow) for inner in (10, 50))])
def test_euler_is_biased_by_inner_steps_over_one_less(inner):
    """The paper's literal update is biased at any step size, and is kept to show just that.

    An explicit Euler step multiplies (w, z) by ρ = sqrt(1 + h²) and turns it by θ = arctan h, so that after L steps
    from a fresh z the stationary variance is ρ^2L sin²Lθ / (1 − ρ^2L cos²Lθ), which is L / (L − 1) for small L h.
    """
    step = 0.5 / inner
    growth, angle = (1 + step**2) ** inner, inner * np.arctan(step)
    expected = growth * np.sin(angle) ** 2 / (1 - growth * np.cos(angle) ** 2)
    assert abs(expected / (inner / (inner - 1)) - 1) < 0.06
    variance = standard_normal_variance(
        hamiltonian(step, integrator="euler", resample_every=inner), steps_between=10 * inner
    )
    assert abs(variance / expected - 1) < 0.03


def test_refusals_give_their_reason():
    with pytest.raises(ValueError, match="never uses the gradient"):
        hamiltonian(0.1, integrator="euler", resample_every=1)
    model = linear_gaussian()
    momentum = functional_momentum(model.posterior, GaussianProcess(rbf()), model.points)
    for integrator in ("baoab", "obabo", "leapfrog", "euler"):
        with pytest.raises(ValueError, match="not its distribution"):
            fsghmc(0.1, integrator=integrator, momentum=momentum, resample_every=10)
