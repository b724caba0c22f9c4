"""Kernels in float64 on the host, against JAX and against differences."""

import jax
import numpy as np
import pytest

from fsgmcmc.priors import GaussianProcess, kernel_by_name
from fsgmcmc.priors._host import UnknownKernelError, evaluate, gram, loss
from fsgmcmc.priors.kernels import KERNELS, InUnits, evaluate as evaluate_by_jax

WORDS = (*KERNELS, "rbf * linear + periodic", "(matern52 + linear) * rbf")


def by_jax(kernel, *arrays):
    with jax.enable_x64(True):
        return np.asarray(evaluate_by_jax(kernel, *map(jax.numpy.asarray, arrays)))


def points(features, rows=25, seed=0):
    return np.random.default_rng(seed).normal(size=(rows, features))


@pytest.mark.parametrize("features", [1, 3])
@pytest.mark.parametrize("word", WORDS)
def test_values_are_those_of_jax(word, features):
    kernel, a, b = InUnits(kernel_by_name(word, features), 1.5, 0.7), points(features), points(features, 10, 1)
    np.testing.assert_allclose(evaluate(kernel, a, b), by_jax(kernel, a, b), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(evaluate(kernel, a), by_jax(kernel, a), rtol=1e-10)


@pytest.mark.parametrize("shape", [(), (25,), (25, 2)], ids=["one noise", "by row", "by row and output"])
@pytest.mark.parametrize("word", WORDS)
def test_derivatives_are_limits_of_differences(word, shape):
    """Along a random direction of all numbers at once, for two outputs."""
    rng = np.random.default_rng(0)
    x, y = points(3), rng.normal(size=(25, 2))
    kernel, mean, noise = kernel_by_name(word, 3), np.array([0.3, -0.2]), rng.uniform(0.3, 0.5, shape)
    leaves = jax.tree.leaves(kernel)
    is_fitted = [np.issubdtype(np.result_type(leaf), np.floating) for leaf in leaves]
    way = [rng.normal(size=np.shape(leaf)) if fit else 0 for leaf, fit in zip(leaves, is_fitted, strict=True)]
    of_mean, of_noise = rng.normal(size=2), rng.normal(size=np.shape(noise))

    def moved(t):
        shifted = [leaf + t * step for leaf, step in zip(leaves, way, strict=True)]
        return jax.tree.unflatten(jax.tree.structure(kernel), shifted), mean + t * of_mean, noise + t * of_noise

    _, (by_kernel, by_mean, by_noise) = loss(*moved(0.0), x, y)
    slope = sum(np.vdot(g, v) for g, v, fit in zip(jax.tree.leaves(by_kernel), way, is_fitted, strict=True) if fit)
    slope += np.vdot(by_mean, of_mean) + np.vdot(by_noise, of_noise)
    difference = (loss(*moved(1e-5), x, y)[0] - loss(*moved(-1e-5), x, y)[0]) / 2e-5
    assert slope == pytest.approx(difference, rel=1e-6)


@pytest.mark.parametrize("shape", [(), (25,), (25, 2)], ids=["one noise", "by row", "by row and output"])
def test_the_value_is_the_evidence(shape):
    x, y, noise = points(2), points(2, seed=3), np.random.default_rng(0).uniform(0.3, 0.5, shape)
    kernel = kernel_by_name("matern32 + linear", 2)
    assert -loss(kernel, 0.0, noise, x, y)[0] == pytest.approx(GaussianProcess(kernel).evidence(x, y, noise), rel=1e-12)


def test_an_unknown_kernel_is_left_to_jax():
    from tinygp.kernels import RationalQuadratic

    kernel, x = RationalQuadratic(alpha=1.5) + kernel_by_name("rbf", 1), points(1)
    np.testing.assert_allclose(evaluate(kernel, x, x), by_jax(kernel, x, x), rtol=1e-12)
    with pytest.raises(UnknownKernelError):
        gram(kernel, x)
