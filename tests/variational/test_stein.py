"""The spectral Stein estimator against scores that are known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fsgmcmc.variational.stein import median_widths, stein_score

MEAN = jnp.array([1.0, -2.0])
FACTOR = jnp.array([[1.0, 0.0], [0.8, 0.6]])


def gaussian(key, count):
    return MEAN + jax.random.normal(key, (count, 2)) @ FACTOR.T


def gaussian_score(x):
    return -(x - MEAN) @ jnp.linalg.inv(FACTOR @ FACTOR.T)


def mixture(key, count):
    side, noise = jax.random.split(key)
    signs = jnp.where(jax.random.bernoulli(side, 0.5, (count, 1)), 1.0, -1.0)
    return 1.5 * signs + jax.random.normal(noise, (count, 1))


def mixture_score(x):
    def log_density(x):
        return jnp.logaddexp(-0.5 * (x - 1.5) ** 2, -0.5 * (x + 1.5) ** 2)

    return jax.vmap(jax.grad(log_density))(x[:, 0])[:, None]


jitted_score = jax.jit(stein_score)


def relative_error(draw, score, count, *, fresh=False, repeats=5):
    """‖estimate − score‖ / ‖score‖, root mean square over repeats."""
    squares = []
    for key in jax.random.split(jax.random.key(count), repeats):
        draws = draw(key, count)
        at = draw(jax.random.fold_in(key, 1), 200) if fresh else draws
        error = jitted_score(draws, at if fresh else None) - score(at)
        squares.append(jnp.sum(error**2) / jnp.sum(score(at) ** 2))
    return float(np.sqrt(np.mean(squares)))


@pytest.mark.parametrize("fresh", [False, True], ids=["at the draws", "elsewhere"])
@pytest.mark.parametrize(("draw", "score"), [(gaussian, gaussian_score), (mixture, mixture_score)])
def test_the_error_falls_with_the_number_of_draws(draw, score, fresh):
    few, some, many = (relative_error(draw, score, count, fresh=fresh) for count in (20, 80, 320))
    assert few > some > many
    assert many < 0.4


def test_the_scores_at_the_draws_are_those_of_the_general_form():
    draws = gaussian(jax.random.key(0), 50)
    np.testing.assert_allclose(stein_score(draws), stein_score(draws, draws), rtol=2e-2, atol=2e-2)


def test_a_dimension_without_spread_has_width_one_and_no_score():
    draws = gaussian(jax.random.key(0), 60).at[:, 1].set(3.0)
    assert median_widths(draws)[1] == 1.0
    score = stein_score(draws)
    assert np.isfinite(score).all()
    np.testing.assert_allclose(score[:, 1], 0.0, atol=1e-4)


def test_widths_are_medians_of_distances_times_the_root_of_the_dimension():
    draws = jnp.array([3.0, 0.1]) * jax.random.normal(jax.random.key(0), (4000, 2))
    # The distance of two standard normals is √2 |z|, whose median is 0.954.
    np.testing.assert_allclose(median_widths(draws), np.sqrt(2) * 0.954 * np.array([3.0, 0.1]), rtol=0.1)


def test_the_share_of_the_spectrum_decides_how_smooth_the_score_is():
    draws = gaussian(jax.random.key(0), 100)
    coarse = stein_score(draws, spectrum=0.2)
    assert jnp.linalg.matrix_rank(coarse, tol=1e-3) == 1, "one eigenpair holds a fifth"
    assert jnp.linalg.norm(coarse) < jnp.linalg.norm(stein_score(draws, spectrum=0.9999))


def test_the_order_of_the_draws_does_not_matter():
    draws = jnp.sort(jax.random.normal(jax.random.key(0), (200, 1)), axis=0)
    np.testing.assert_allclose(stein_score(draws, jnp.array([[-1.0], [1.0]])).ravel(), [1.0, -1.0], atol=0.4)


def test_it_is_invariant_to_a_shift_and_covariant_to_a_scale():
    draws = gaussian(jax.random.key(0), 100)
    scores = stein_score(draws)
    np.testing.assert_allclose(stein_score(draws + 1000.0), scores, rtol=1e-2, atol=1e-2)
    np.testing.assert_allclose(stein_score(10 * draws), scores / 10, rtol=1e-2, atol=1e-2)
