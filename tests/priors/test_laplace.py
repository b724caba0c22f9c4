"""Draws around an optimum: normal where the loss is quadratic, on its contours elsewhere, wide where it is flat."""

import numpy as np
import pytest

from fsgmcmc.priors import GaussianProcess, pretrain, pretrain_classes, rbf, select_kernel
from fsgmcmc.priors.laplace import WIDEST, laplace_draws


def test_draws_of_a_quadratic_loss_are_normal():
    """The covariance is (H + I/s²)⁻¹; the relative error of 20,000 draws is below 0.05 in every entry."""
    H = np.array([[40.0, 12.0], [12.0, 9.0]])
    centre = np.array([1.0, -2.0])
    draws = laplace_draws(lambda z: (0.5 * (z - centre) @ H @ (z - centre), H @ (z - centre)), centre, 20_000)
    expected = np.linalg.inv(H + np.eye(2) / WIDEST**2)
    np.testing.assert_allclose(np.cov(draws.T), expected, rtol=0.05)
    np.testing.assert_allclose(draws.mean(axis=0), centre, atol=1e-12)  # opposite pairs


def test_draws_of_another_loss_have_the_density_of_the_normal_draws():
    def loss(z):
        return 5 * (np.exp(z[0]) - z[0]), 5 * (np.exp(z) - 1)

    draws = laplace_draws(loss, np.zeros(1), 400)[:, 0]
    fall = 5 * (np.exp(draws) - draws - 1) + 0.5 * draws**2 / WIDEST**2
    normal = np.random.default_rng(0).standard_normal((200, 1)).ravel()
    np.testing.assert_allclose(fall, np.repeat(0.5 * normal**2, 2), rtol=0.05, atol=1e-3)
    # The loss rises faster upwards.
    assert draws.max() < -draws.min()


def test_draws_are_wide_where_the_loss_is_flat_or_concave():
    draws = laplace_draws(lambda z: (-1e-3 * z @ z, -2e-3 * z), np.zeros(3), 4000)
    np.testing.assert_allclose(draws.std(axis=0), WIDEST, rtol=0.05)
    assert laplace_draws(lambda z: (0.0, 0 * z), np.zeros(3), 0).shape == (0, 3)
    assert laplace_draws(lambda z: (0.0, 0 * z), np.zeros(3), 3).shape == (3, 3)


@pytest.fixture(scope="module")
def wave():
    x = np.random.default_rng(0).uniform(-3, 3, (200, 1))
    return x, np.sin(2 * x) + 0.2 * np.random.default_rng(1).standard_normal(x.shape)


def lengthscales(fit):
    return np.array([process.kernel.kernel2.scale for process, _ in fit.draws]).ravel()


def test_draws_of_a_fit_are_as_uncertain_as_the_rows_leave_them(wave):
    x, y = wave
    few, many = (pretrain(rbf(), x[:rows], y[:rows], draws=100) for rows in (20, 200))
    for fit in (few, many):
        assert len(fit.draws) == 100
        evidence = [process.evidence(x[:20], y[:20], noise=noise) for process, noise in fit.draws]
        assert np.isfinite(evidence).all()
    noises = [np.std(np.log([noise for _, noise in fit.draws])) for fit in (few, many)]
    # With known residuals the sd of log σ̂ is 1/sqrt(2 n), .05 for 200 rows.
    assert noises[1] == pytest.approx(0.05, rel=0.3)
    assert noises[0] > 2 * noises[1]
    assert np.std(np.log(lengthscales(few))) > 1.5 * np.std(np.log(lengthscales(many)))


def test_a_known_noise_and_the_optimum_do_not_depend_on_draws(wave):
    x, y = wave
    plain, drawn = (pretrain(rbf(), x[:40], y[:40], noise=0.2, draws=draws) for draws in (0, 4))
    assert plain.draws == ()
    assert plain.evidence == drawn.evidence
    assert [noise for _, noise in drawn.draws] == [0.2] * 4
    again = pretrain(rbf(), x[:40], y[:40], noise=0.2, draws=4)
    np.testing.assert_array_equal(lengthscales(drawn), lengthscales(again))
    with pytest.raises(ValueError, match="draws"):
        pretrain(rbf(), x, y, draws=-1)


def test_selection_and_classes_have_draws_too(wave):
    x, y = wave
    chosen = select_kernel(x, y, grammar=("rbf", "linear"), draws=2)
    assert [len(tried.draws) for tried in chosen.tried] == [2, 2]
    classes = pretrain_classes(GaussianProcess(rbf()), x[:60], y[:60, 0] > 0, 2, epochs=20, draws=2)
    assert len(classes.draws) == 2
    assert all(np.shape(process.mean) == (2,) for process in classes.draws)
