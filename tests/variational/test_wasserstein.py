"""The dual estimate of W₁ on Gaussians whose distance is known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fsgmcmc.variational import wasserstein


def normal(mean, scale):
    mean = jnp.asarray(mean)
    return lambda key, count: mean + scale * jax.random.normal(key, (count, len(mean)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("a", "b", "distance"),
    [
        (normal([0.0, 0.0, 0.0], 1.0), normal([2.0, -1.0, 2.0], 1.0), 3.0),  # a shift is its length
        (normal([0.0], 3.0), normal([0.0], 1.0), 2.0 * np.sqrt(2 / np.pi)),  # |s − s'| E|z| in one dimension
        pytest.param(normal([0.0, 0.0], 1.0), normal([0.0, 0.0], 1.0), 0.0, marks=pytest.mark.slow),
    ],
    ids=["shift", "scale", "same"],
)
def test_the_estimate_is_near_the_distance(a, b, distance):
    estimate = wasserstein(0, a, b, steps=1000, batch=128)
    assert estimate == pytest.approx(distance, rel=0.08, abs=0.08)


@pytest.mark.slow
def test_the_estimate_grows_with_the_shift():
    estimates = [wasserstein(0, normal([0.0], 1.0), normal([shift], 1.0), steps=200) for shift in (0.5, 1.0, 4.0)]
    assert estimates == sorted(estimates)


def test_nonsense_is_refused():
    with pytest.raises(ValueError, match="steps"):
        wasserstein(0, normal([0.0], 1.0), normal([0.0], 1.0), steps=0)
