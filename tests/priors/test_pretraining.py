"""Pretraining finds the maximum of the marginal likelihood, and survives ordinary data."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fsgmcmc.priors import pretraining
from fsgmcmc.priors.gaussian_process import GaussianProcess, gaussian
from fsgmcmc.priors.kernels import kernel_by_name, linear, rbf
from fsgmcmc.priors.marginal_likelihood import log_normal
from fsgmcmc.priors.pretraining import pretrain


def paper_data(seed):
    """The one-dimensional extrapolation problem, noise sd 0.5."""
    rng = np.random.default_rng(seed)
    x = np.concatenate([rng.uniform(-0.75, -0.25, 10), rng.uniform(0.25, 0.75, 10)])
    f = np.sin(3 * np.pi * x) + 0.3 * np.cos(9 * np.pi * x) + 0.5 * np.sin(7 * np.pi * x)
    return x[:, None], f + 0.5 * rng.normal(size=20)


def gp_data(n, outputs=1, seed=0):
    """Draws of a process with lengthscales 0.5 and 2, variance 4, mean 10, and noise sd 0.3."""
    x = np.random.default_rng(seed).uniform(-3, 3, (n, 2))
    f = GaussianProcess(rbf([0.5, 2.0], 4.0), mean=10.0).sample(jax.random.key(seed), x, outputs=outputs)[0]
    return x, np.asarray(f, float) + 0.3 * np.random.default_rng(seed + 1).normal(size=f.shape)


@pytest.mark.parametrize("columns", [(), (3,)])
def test_closed_form_gradient_is_that_through_the_cholesky_factor(columns):
    rng = np.random.default_rng(0)
    root, residual = rng.normal(size=(8, 8)), rng.normal(size=(8, *columns))
    with jax.enable_x64(True):
        residual = jnp.asarray(residual)
        C = jnp.asarray(root @ root.T + np.eye(8))
        by_hand = jax.grad(log_normal, (0, 1))(residual, C)
        # The factor is a function of the lower triangle only; the closed form treats both triangles alike.
        automatic = jax.grad(lambda r, C: gaussian(r, (C + C.T) / 2)[0], (0, 1))(residual, C)
    for ours, theirs in zip(by_hand, automatic, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)


def test_hyperparameters_of_a_known_process_are_recovered():
    x, y = gp_data(200, outputs=2)
    first = GaussianProcess(kernel_by_name("rbf", 2))
    fit = pretrain(first, x, y)
    lengthscales, variance = fit.prior.kernel.kernel2.factor, fit.prior.kernel.kernel1.value
    np.testing.assert_allclose(np.log(lengthscales), np.log([0.5, 2.0]), atol=np.log(1.5))
    np.testing.assert_allclose(np.log([variance, fit.noise]), np.log([4.0, 0.3]), atol=np.log(1.8))
    np.testing.assert_allclose(fit.prior.mean, [10.0, 10.0], atol=2.0)
    # The evidence is that of the prior returned, it climbs, and it beats start and truth.
    np.testing.assert_allclose(fit.evidence, fit.prior.evidence(x, y, fit.noise), rtol=1e-9)
    assert (np.diff(fit.trace) >= 0).all()
    assert fit.trace[-1] == fit.evidence
    assert fit.evidence >= GaussianProcess(rbf([0.5, 2.0], 4.0), 10.0).evidence(x, y, 0.3)


@pytest.mark.parametrize("seed", range(6))
def test_twenty_noisy_points_give_a_sane_fit(seed):
    x, y = paper_data(seed)
    fit = pretrain(GaussianProcess(rbf()), x, y)
    assert 0.02 < fit.prior.kernel.kernel2.scale < 0.3
    assert 0.15 < fit.noise < 0.8
    thorough = pretrain(GaussianProcess(rbf()), x, y, starts=6, seed=1)
    assert fit.evidence > thorough.evidence - 0.01


def test_the_fit_follows_the_units_of_the_data():
    x, y = paper_data(3)
    fit, other = (pretrain(GaussianProcess(rbf()), a * x, b * y + 7, seed=2) for a, b in [(1.0, 1.0), (1e4, 1e-3)])
    scales = [np.log([f.prior.kernel.kernel2.scale, f.noise]) for f in (fit, other)]
    np.testing.assert_allclose(scales[1] - scales[0], np.log([1e4, 1e-3]), atol=0.01)


def test_many_rows_are_screened_and_still_beat_the_first_start_and_the_truth(monkeypatch):
    monkeypatch.setattr(pretraining, "SCREENING_ROWS", 50)
    x, y = gp_data(100)
    truth = GaussianProcess(rbf([0.5, 2.0], 4.0), 10.0)
    for first in (truth, GaussianProcess(kernel_by_name("rbf", 2))):
        fit = pretrain(first, x, y, noise=np.full(100, 0.3))
        assert fit.evidence >= truth.evidence(x, y, 0.3)
        assert fit.noise.shape == (100,)


def test_rows_beyond_the_most_are_left_out():
    x, y = gp_data(100)
    few, all_rows = (
        pretrain(GaussianProcess(rbf()), x, y, epochs=5, max_points=n, learn_mean=False) for n in (25, 100)
    )
    assert few.evidence > all_rows.evidence + 25
    assert few.prior.mean == 0.0


def test_copies_of_records_do_not_say_that_there_is_no_noise():
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, (60, 1))
    y = np.sin(2 * x[:, 0]) + 0.3 * rng.standard_normal(60)
    once, copied = (
        pretrain(GaussianProcess(rbf()), np.tile(x, (n, 1)), np.tile(y, n), noise=None, starts=1) for n in (1, 4)
    )
    assert copied.noise == pytest.approx(once.noise, rel=0.05)


def test_no_epochs_return_the_start():
    x, y = paper_data(0)
    fit = pretrain(GaussianProcess(rbf(0.2, 3.0), mean=0.5), x, y, epochs=0)
    assert len(fit.trace) == 0
    np.testing.assert_allclose(
        [fit.prior.kernel.kernel2.scale, fit.prior.kernel.kernel1.value, fit.prior.mean], [0.2, 3.0, 0.5]
    )
    np.testing.assert_allclose(fit.evidence, fit.prior.evidence(x, y, fit.noise), rtol=1e-9)


def test_kernels_and_noises_of_several_outputs_are_fitted_apart():
    x, y = gp_data(25, outputs=2)
    noise = np.full((25, 2), 0.3)
    joint = pretrain(GaussianProcess((rbf(), linear())), x, y, epochs=200, noise=noise)
    apart = [pretrain(GaussianProcess(k), x, y[:, c], epochs=200, noise=0.3) for c, k in enumerate([rbf(), linear()])]
    np.testing.assert_allclose(joint.evidence, sum(fit.evidence for fit in apart), atol=0.01)


def ordinary_troubles():
    x, y = gp_data(12)
    return {
        "one row": (x[:1], y[:1]),
        "duplicate rows": (np.repeat(x, 3, axis=0), np.repeat(y, 3)),
        "a constant column": (x * [1.0, 0.0], y),
        "all rows alike": (np.zeros((12, 2)), y),
        "a constant target": (x, np.full(12, 0.1)),
        "huge units": (1e8 * x, 1e8 * y),
    }


@pytest.mark.parametrize("trouble", ordinary_troubles())
@pytest.mark.filterwarnings("ignore:the fitted Gaussian process explains the data by noise alone")
def test_ordinary_troubles_give_finite_fits(trouble):
    x, y = ordinary_troubles()[trouble]
    fit = pretrain(GaussianProcess(kernel_by_name("linear + rbf", 2)), x, y, epochs=20, starts=2)
    leaves = [fit.evidence, fit.noise, fit.prior.mean, *jax.tree.leaves(fit.prior.kernel)]
    assert all(np.isfinite(leaf).all() and np.all(np.abs(leaf) < 1e25) for leaf in leaves)
    # The fitted numbers serve a float32 program too.
    assert np.isfinite(fit.prior.covariance(np.float32(x))).all()


@pytest.mark.parametrize("noise", [None, 1.0])
def test_a_fit_by_noise_alone_warns(noise):
    rng = np.random.default_rng(0)
    x, y = rng.uniform(-1, 1, (100, 1)), rng.normal(size=100)
    with pytest.warns(UserWarning, match="by noise alone: .*another kernel"):
        pretrain(GaussianProcess(rbf()), x, y / (y.std() * 1.2 if noise else 1), noise=noise)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"x": np.float64(1.0)}, "x must have rows and columns"),
        ({"y": np.ones(4)}, "x has 5 rows but y has 4"),
        ({"y": np.array([0.0, 1.0, np.nan, 2.0, 3.0])}, r"y has 1 value\(s\) that are not finite .* at \(2,\): nan"),
        ({"y": np.ones((5, 3))}, "kernel 2, values 3"),
        ({"noise": -1.0}, "noise must be positive"),
        ({"epochs": -1}, "epochs must be a whole number of at least 0, got -1"),
        ({"starts": 0}, "starts must be"),
    ],
)
def test_bad_input_is_named(arguments, message):
    data = {"x": np.arange(5.0)[:, None], "y": np.ones((5, 2)), **arguments}
    with pytest.raises(ValueError, match=message):
        pretrain(GaussianProcess((rbf(), rbf())), **data)
