"""Kernels are the textbook formulas in Euclidean distance, and compose."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads
from sklearn.gaussian_process import kernels as sk

from fsgmcmc.priors import kernels

A, B = np.random.default_rng(0).normal(size=(2, 6, 3))
ARD = [0.5, 1.0, 3.0]


def values(kernel, a=A, b=B):
    with jax.enable_x64(True):
        return np.asarray(kernels.evaluate(kernel, jnp.asarray(a), jnp.asarray(b)))


@pytest.mark.parametrize("lengthscale", [0.7, ARD], ids=["shared", "ard"])
@pytest.mark.parametrize(
    ("kernel", "reference"),
    [
        (kernels.rbf, sk.RBF),
        (kernels.matern12, lambda ls: sk.Matern(ls, nu=0.5)),
        (kernels.matern32, lambda ls: sk.Matern(ls, nu=1.5)),
        (kernels.matern52, lambda ls: sk.Matern(ls, nu=2.5)),
    ],
)
def test_stationary_kernels_are_those_of_scikit_learn(kernel, reference, lengthscale):
    expected = 2.5 * reference(lengthscale)(A, B)
    np.testing.assert_allclose(values(kernel(lengthscale, 2.5)), expected, rtol=1e-12)


def test_the_expanded_distance_is_that_of_the_difference():
    expanded = kernels.kernels.ExpSquared(scale=0.7, distance=kernels.Expanded())
    np.testing.assert_allclose(values(expanded), values(kernels.rbf(0.7)), rtol=1e-12)
    columns = np.random.default_rng(0).integers(0, 119, (40, 22))
    one_hot = jnp.eye(119)[columns].sum(axis=1)
    near, far = (kernels.evaluate(kernel, one_hot, one_hot) for kernel in (expanded, kernels.rbf(0.7)))
    np.testing.assert_allclose(near, far, rtol=1e-5)
    rough = kernels.kernels.Matern32(scale=0.7, distance=kernels.Expanded())
    slope = jax.grad(lambda x: rough(x, x).sum())(jnp.ones((2, 3)))
    np.testing.assert_array_equal(slope, 0.0)


def test_linear_is_a_scaled_dot_product():
    np.testing.assert_allclose(values(kernels.linear(2.0, ARD)), 2 * (A / ARD) @ (B / ARD).T, rtol=1e-12)


def test_periodic_is_the_product_of_one_dimensional_kernels():
    columns = [sk.ExpSineSquared(ls, 1.7)(A[:, [j]], B[:, [j]]) for j, ls in enumerate(ARD)]
    np.testing.assert_allclose(values(kernels.periodic(1.7, ARD, 3.0)), 3 * np.prod(columns, axis=0), rtol=1e-12)
    np.testing.assert_allclose(values(kernels.periodic(1.7), A, B), values(kernels.periodic(1.7), A + 1.7, B))


def test_expressions_are_sums_and_products_with_the_usual_precedence():
    one = {name: values(kernels.kernel_by_name(name, 3)) for name in kernels.KERNELS}
    expected = one["linear"] + one["rbf"] * (one["periodic"] + one["matern32"])
    np.testing.assert_allclose(values(kernels.kernel_by_name("linear + RBF*(periodic + matern32)", 3)), expected)


@pytest.mark.parametrize("expression", ["gauss", "rbf - linear", "rbf()", "2 * rbf", "rbf +", "", "rbf; linear"])
def test_other_expressions_are_refused_with_the_known_names(expression):
    with pytest.raises(ValueError, match=", ".join(kernels.KERNELS)):
        kernels.kernel_by_name(expression, 3)


@pytest.mark.parametrize("name", list(kernels.KERNELS))
def test_gradients_are_exact_and_finite_at_coincident_points(name):
    kernel = kernels.kernel_by_name(name, 3, ard=True) + kernels.kernel_by_name(name, 3, ard=False)

    @jax.jit
    def total(x, kernel):
        return jnp.vdot(A @ A.T, kernels.evaluate(kernel, x, x))

    with jax.enable_x64(True):
        floats = jax.tree.map(lambda leaf: jnp.asarray(leaf, float), kernel)
        check_grads(total, (jnp.asarray(A), floats), order=1, rtol=1e-5)
        coincident = jnp.asarray(A[[0, 0, 1, 1, 1, 2]])
        gradients = jax.grad(total, (0, 1))(coincident, floats)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradients))


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf, [1.0, 0.0]])
def test_hyperparameters_must_be_positive(bad):
    with pytest.raises(ValueError, match="lengthscale must be positive"):
        kernels.rbf(bad)
    if np.ndim(bad) == 0:
        with pytest.raises(ValueError, match=f"variance must be positive and finite, got {bad}"):
            kernels.linear(bad)


def test_lengthscales_and_points_must_agree():
    with pytest.raises(ValueError, match="3 lengthscales, but the points have 1 features"):
        kernels.evaluate(kernels.rbf() + kernels.matern32(ARD), jnp.ones((4, 1)))
