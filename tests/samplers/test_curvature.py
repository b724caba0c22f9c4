"""Curvature is measured right, and the warm-up turns it into stable steps and a frozen preconditioner."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fsgmcmc import Energy, WarmUp, fsghmc, fsgld, langevin, sample
from fsgmcmc.inference.warm_up import warm_up
from fsgmcmc.samplers.curvature import diagonal_preconditioner, measure
from linear_gaussian import FEATURES, linear_gaussian

pytestmark = pytest.mark.usefixtures("optimised")

DIAGONAL = np.array([400.0, 30.0, 5.0, 1.0, 0.1])


def diagonal_target():
    scales = jnp.asarray(DIAGONAL, jnp.float32)
    return Energy(lambda w: 0.5 * jnp.sum(scales * w * w), jnp.ones(len(DIAGONAL)))


def test_largest_curvature_is_the_largest_eigenvalue(key):
    model = linear_gaussian()
    curvature = measure(key, model.posterior, jnp.zeros(FEATURES))
    largest = np.linalg.eigvalsh(model.precision).max()
    assert float(curvature.largest) == pytest.approx(largest, rel=0.05)
    assert float(curvature.gradient_noise) < 1e-10


def test_gradient_noise_is_the_variance_of_minibatch_gradients(key):
    class Noisy(Energy):
        def potential(self, key, w):
            energy, gradient = super().potential(key, w)
            return energy, gradient + 3.0 * jax.random.normal(key, w.shape)

    target = Noisy(lambda w: 0.5 * jnp.sum(w * w), jnp.zeros(500))
    noise = float(measure(key, target, jnp.zeros(500)).gradient_noise)
    # 8 probes of 500 entries: standard error 9 sqrt(2 / 3500) = 0.22; five of them, false-alarm rate 6e-7.
    assert abs(noise - 9.0) < 1.1


def test_diagonal_preconditioner_inverts_a_diagonal_curvature(key):
    target = diagonal_target()
    preconditioner = np.asarray(diagonal_preconditioner(key, target, jnp.ones(len(DIAGONAL))))
    expected = 1 / (DIAGONAL + 0.01 * DIAGONAL.mean())
    np.testing.assert_allclose(preconditioner, expected / expected.mean(), rtol=1e-4)


@pytest.mark.parametrize(
    ("sampler", "step"),
    [
        (langevin(), 0.2 / 400),
        (langevin(step_times_curvature=0.1), 0.1 / 400),
        (fsghmc(), 0.7 / np.sqrt(400)),
        (fsghmc(step_times_frequency=1.0), 1.0 / np.sqrt(400)),
        (fsghmc(integrator="obabo"), 0.5 / np.sqrt(400)),
    ],
)
def test_steps_by_rule_fit_the_stiffest_direction(sampler, step, key):
    positions = jnp.ones((2, len(DIAGONAL)))
    adapted, _ = warm_up(key, diagonal_target(), sampler, positions, WarmUp(adam_steps=0, blocks=1, block_steps=5))
    assert float(adapted.step_size.initial) == pytest.approx(step, rel=0.05)
    assert adapted.preconditioner is None


def test_warm_up_keeps_a_given_step_and_adapts_a_preconditioner_once(key):
    positions = jnp.ones((2, len(DIAGONAL)))
    settings = WarmUp(adam_steps=10, precondition=True, blocks=1, block_steps=5)
    adapted, moved = warm_up(key, diagonal_target(), langevin(1e-4), positions, settings)
    assert float(adapted.step_size.initial) == np.float32(1e-4)
    ratio = np.asarray(adapted.preconditioner) * (DIAGONAL + 0.01 * DIAGONAL.mean())
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-3)
    assert not np.allclose(moved, positions)


def test_preconditioned_steps_by_rule_are_longer_where_the_curvature_is_small():
    """With the rule's own preconditioner the slowest direction mixes: its variance is right to 15 %.

    512 chains, standard error of a variance sqrt(2/512) = 6 % at one draw each; 30 draws bring it below 3 %.
    """
    target = diagonal_target()
    samples = sample(
        0,
        target,
        langevin(),
        draws=30,
        thinning=20,
        burn_in=400,
        chains=512,
        warm_up=WarmUp(adam_steps=0, precondition=True, blocks=1),
    )
    variances = np.mean(samples.positions.astype(float) ** 2, axis=(0, 1)) * DIAGONAL
    assert np.abs(variances[:4] - 1).max() < 0.15


@pytest.mark.parametrize("noise", [2.0, 0.05])
def test_adam_descends_and_the_noise_is_never_below_the_residuals_nor_below_its_start(noise, key):
    from fsgmcmc import MLP, Gaussian, parameter_space

    x = np.linspace(-1, 1, 10)
    y = np.sin(3 * x) + np.random.default_rng(0).standard_normal(10)
    posterior = parameter_space(MLP((2,)), x, y, likelihood=Gaussian(noise, sampled=True))
    start = posterior.init(key)[None]
    _, end = warm_up(key, posterior, fsgld(1e-4), start, WarmUp(adam_steps=200, blocks=0))
    assert posterior.energy(key, end[0]) < 0.9 * posterior.energy(key, start[0])
    network, own = posterior.parameters(end[0])
    residuals = y - np.asarray(posterior.network.apply(network, posterior.data.rows.x))[:, 0]
    left = np.sqrt(np.mean(residuals**2))
    assert 0.05 < left < 2
    assert float(jnp.exp(own["log_noise"])) == pytest.approx(max(noise, left), rel=1e-4)


def test_a_block_that_turns_non_finite_is_run_again_with_half_the_step(key):
    """The curvature is measured at the bottom of a quartic, where it is small."""
    target = Energy(lambda w: 0.25 * jnp.sum(w * w) + jnp.sum(w**4), jnp.full(3, 1e-3))
    settings = WarmUp(adam_steps=0, blocks=1, block_steps=20)
    adapted, positions = warm_up(key, target, langevin(), jnp.full((2, 3), 1e-3), settings)
    assert np.isfinite(positions).all()
    by_rule = 0.2 / float(measure(key, target, jnp.full(3, 1e-3)).largest)
    assert float(adapted.step_size(0)) < 0.6 * by_rule


def test_settings_are_checked():
    with pytest.raises(ValueError, match="adam_steps must be a whole number"):
        WarmUp(adam_steps=-1)
    with pytest.raises(ValueError, match="learning_rate must be positive"):
        WarmUp(learning_rate=0.0)


def test_a_step_that_cannot_be_stable_is_refused():
    with pytest.raises(ValueError, match="below 2"):
        fsghmc(step_times_frequency=2.0)
    with pytest.raises(ValueError, match="step_times_curvature must be above 0 and below 2"):
        langevin(step_times_curvature=2.0)
