"""Standard kernels by name, as tinygp kernels, which can be added and multiplied.

    r² = Σ_j (x_j − x'_j)² / ℓ_j²

    rbf        v exp(−r²/2)
    matern12   v exp(−r)
    matern32   v (1 + √3 r) exp(−√3 r)
    matern52   v (1 + √5 r + 5r²/3) exp(−√5 r)
    linear     v Σ_j x_j x'_j / ℓ_j²
    periodic   v exp(−2 Σ_j sin²(π (x_j − x'_j) / p_j) / ℓ_j²)

Points are the rows of (n, d) arrays. A vector ℓ, one lengthscale per feature, is automatic relevance determination.
"""

import ast
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import ArrayLike
from tinygp import kernels, transforms
from tinygp.kernels.distance import Distance

from fsgmcmc import _checks


@jax.custom_jvp
def _squared_distance(a: Array, b: Array) -> Array:
    return jnp.sum(jnp.square(a - b))


@_squared_distance.defjvp
def _squared_distance_jvp(points: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    # As dot products, the gradient over all pairs is a matrix product, which halves the time of fitting a vector
    # of lengthscales. The value uses differences, which avoid cancellation.
    (a, b), (da, db) = points, tangents
    return _squared_distance(a, b), 2 * (jnp.dot(a, da) + jnp.dot(b, db) - jnp.dot(a, db) - jnp.dot(b, da))


class Euclidean(Distance):
    """‖x − x'‖₂ (tinygp's Matérn kernels default to ‖x − x'‖₁); its gradient at coincident points is zero."""

    def squared_distance(self, X1: Float[Array, " d"], X2: Float[Array, " d"]) -> Float[Array, ""]:
        """‖x − x'‖²."""
        return _squared_distance(X1, X2)

    def distance(self, X1: Float[Array, " d"], X2: Float[Array, " d"]) -> Float[Array, ""]:
        """‖x − x'‖."""
        squared = self.squared_distance(X1, X2)
        # Equal points that were scaled by different instructions differ by rounding, at which 1 / r has no meaning.
        same = squared <= jnp.square(jnp.finfo(squared.dtype).eps) * (jnp.vdot(X1, X1) + jnp.vdot(X2, X2))
        return jnp.where(same, 0.0, jnp.sqrt(jnp.where(same, 1.0, squared)))


class Expanded(Euclidean):
    """‖x − x'‖₂ from ‖x‖² + ‖x'‖² − 2 x·x', a matrix product over many points: faster if there are many features.

    The error is about 1e-7 of the squared norms, which matters for close points. Use it for one-hot columns and similar
    inputs.

    >>> kernel = kernels.ExpSquared(scale=2.0, distance=Expanded())
    >>> round(kernel(np.eye(2), np.eye(2))[0, 1].item(), 4)
    0.7788
    """

    def squared_distance(self, X1: Float[Array, " d"], X2: Float[Array, " d"]) -> Float[Array, ""]:
        """‖x − x'‖²."""
        dot = partial(jnp.dot, precision="highest")  # by default accelerators use half as many digits
        return jnp.maximum(dot(X1, X1) + dot(X2, X2) - 2 * dot(X1, X2), 0.0)


class Periodic(kernels.Kernel):
    """The product over features of one-dimensional kernels; the sine of a Euclidean norm would not give a kernel."""

    period: Any
    lengthscale: Any

    def evaluate(self, X1: Float[Array, " d"], X2: Float[Array, " d"]) -> Float[Array, ""]:
        """exp(−2 Σ_j sin²(π (x_j − x'_j) / p_j) / ℓ_j²)."""
        return jnp.exp(-2 * jnp.sum(jnp.square(jnp.sin(jnp.pi * (X1 - X2) / self.period) / self.lengthscale)))


class InUnits(kernels.Kernel):
    """A kernel whose numbers are in the units of the data, for standardised inputs and targets."""

    kernel: kernels.Kernel
    scale: Any
    target_scale: Any

    def evaluate(self, X1: Float[Array, " d"], X2: Float[Array, " d"]) -> Float[Array, ""]:
        """k(s x̃, s x̃') / s_y²."""
        return self.kernel.evaluate(self.scale * X1, self.scale * X2) / jnp.square(self.target_scale)


def rbf(lengthscale: ArrayLike = 1.0, variance: float = 1.0) -> kernels.Kernel:
    """Very smooth functions: v exp(−r²/2).

    >>> kernel = rbf(0.5) + rbf([1.0, 2.0], variance=3.0)
    >>> kernel(np.zeros((1, 2)), np.zeros((1, 2))).item()
    4.0
    """
    return _stationary(kernels.ExpSquared, lengthscale, variance)


def matern12(lengthscale: ArrayLike = 1.0, variance: float = 1.0) -> kernels.Kernel:
    """Continuous, rough functions: v exp(−r).

    >>> round(matern12(2.0)(np.zeros((1, 2)), np.array([[6.0, 8.0]])).item(), 4)
    0.0067
    """
    return _stationary(kernels.Exp, lengthscale, variance)


def matern32(lengthscale: ArrayLike = 1.0, variance: float = 1.0) -> kernels.Kernel:
    """Functions with one derivative: v (1 + √3 r) exp(−√3 r).

    >>> round(matern32(2.0)(np.zeros((1, 1)), np.array([[2.0]])).item(), 4)
    0.4834
    """
    return _stationary(kernels.Matern32, lengthscale, variance)


def matern52(lengthscale: ArrayLike = 1.0, variance: float = 1.0) -> kernels.Kernel:
    """Functions with two derivatives: v (1 + √5 r + 5r²/3) exp(−√5 r).

    >>> round(matern52(2.0)(np.zeros((1, 1)), np.array([[2.0]])).item(), 4)
    0.524
    """
    return _stationary(kernels.Matern52, lengthscale, variance)


def linear(variance: float = 1.0, lengthscale: ArrayLike = 1.0) -> kernels.Kernel:
    """Linear functions through the origin: v Σ_j x_j x'_j / ℓ_j²; `linear() + 1.0` adds an unknown offset.

    >>> linear(2.0)(np.array([[1.0, 3.0]]), np.array([[2.0, 1.0]])).item()
    10.0
    """
    return _scaled(transforms.Cholesky(_positive(lengthscale, "lengthscale"), kernels.DotProduct()), variance)


def periodic(period: ArrayLike = 1.0, lengthscale: ArrayLike = 1.0, variance: float = 1.0) -> kernels.Kernel:
    """Functions that repeat in every feature: v exp(−2 Σ_j sin²(π (x_j − x'_j) / p_j) / ℓ_j²).

    The lengthscale has no unit. Wrap the kernel in `tinygp.transforms.Subspace` if it repeats in some features only.

    >>> round(periodic(period=3.0)(np.zeros((1, 1)), np.array([[3.0]])).item(), 4)
    1.0
    """
    return _scaled(Periodic(_positive(period, "period"), _positive(lengthscale, "lengthscale")), variance)


KERNELS: dict[str, Callable[..., kernels.Kernel]] = {
    kernel.__name__: kernel for kernel in (rbf, matern12, matern32, matern52, linear, periodic)
}


def kernel_by_name(name: str, features: int, ard: bool = True) -> kernels.Kernel:
    """The kernel with this name, or with names joined by + and * with parentheses; all hyperparameters are 1.

    With `ard` each of the `features` has its own lengthscale (and period).

    >>> kernel = kernel_by_name("linear + rbf * periodic", features=2)
    >>> kernel(np.ones((1, 2)), np.ones((1, 2))).item()
    3.0
    """
    features = _checks.count(features, "features")
    ones = np.ones(features) if ard and features > 1 else 1.0
    known = f"choose from {', '.join(KERNELS)}, joined by + and *"

    def build(node: ast.expr) -> kernels.Kernel:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            return build(node.left) + build(node.right)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            return build(node.left) * build(node.right)
        if not isinstance(node, ast.Name) or node.id.lower() not in KERNELS:
            raise ValueError(f"unknown kernel {ast.unparse(node)!r} in {name!r}; {known}")
        periods = {"period": ones} if node.id.lower() == "periodic" else {}
        return KERNELS[node.id.lower()](lengthscale=ones, **periods)

    try:
        expression = ast.parse(name.strip(), mode="eval").body
    except SyntaxError:
        raise ValueError(f"cannot read the kernel {name!r}; {known}") from None
    return build(expression)


def is_linear_in_part(name: str) -> bool:
    """Whether a summand of the name is `linear`: such a process is linear far from the data.

    >>> is_linear_in_part("rbf + Linear"), is_linear_in_part("linear * rbf")
    (True, False)
    """

    def search(node: ast.expr) -> bool:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            return search(node.left) or search(node.right)
        return isinstance(node, ast.Name) and node.id.lower() == "linear"

    return search(ast.parse(name.strip(), mode="eval").body)


def evaluate(
    kernel: kernels.Kernel | tuple[kernels.Kernel, ...],
    a: Float[Array, "A d"],
    b: Float[Array, "B d"] | None = None,
) -> Float[Array, "..."]:
    """k(a, b), (A, B), or without b the diagonal of k(a, a), (A,); a tuple of kernels adds a leading axis.

    The dtype of the computation is that of a, not that of the hyperparameters.

    >>> evaluate((rbf(), linear()), jnp.ones((3, 2))).shape
    (2, 3)
    """
    if isinstance(kernel, tuple):
        return jnp.stack([evaluate(each, a, b) for each in kernel])
    check_points(kernel, a)
    cast = jax.tree.map(lambda leaf: jnp.asarray(leaf, a.dtype) if is_hyperparameter(leaf) else leaf, kernel)
    return cast(a, b)


def check_points(kernel: kernels.Kernel, a: Any) -> None:
    """Raise an error for points (n, d) that the kernel is not for."""
    if a.ndim != 2:
        raise ValueError(
            f"points must be the rows of an (n, d) array, got shape {a.shape}; for one feature use x[:, None]"
        )
    features = a.shape[1]
    for node in jax.tree.leaves(kernel, is_leaf=_chooses_features):
        size = jnp.size(node.factor) if isinstance(node, transforms.Cholesky) else 1
        # tinygp would broadcast a single feature against many lengthscales without an error.
        if size not in (1, features, features**2):
            raise ValueError(f"the kernel has {size} lengthscales, but the points have {features} features")


def is_hyperparameter(leaf: Any) -> bool:
    """Whether a leaf of a kernel is a float or an array of floats; integers are not fitted."""
    return bool(jnp.issubdtype(jnp.result_type(leaf), jnp.floating))


def _chooses_features(node: Any) -> bool:
    return isinstance(node, transforms.Cholesky | transforms.Subspace | transforms.Transform)


def _stationary(kind: Callable[..., kernels.Kernel], lengthscale: ArrayLike, variance: float) -> kernels.Kernel:
    scale = _positive(lengthscale, "lengthscale")
    if np.ndim(scale) == 0:
        return _scaled(kind(scale=scale, distance=Euclidean()), variance)
    # An integer is not a hyperparameter: the fit changes the lengthscales, not a second, redundant scale.
    return _scaled(transforms.Cholesky(scale, kind(scale=1, distance=Euclidean())), variance)


def _scaled(kernel: kernels.Kernel, variance: float) -> kernels.Kernel:
    if np.ndim(variance):
        raise ValueError(f"variance must be one number, got {variance}; only lengthscale may have one per feature")
    return kernels.Product(kernels.Constant(_positive(variance, "variance")), kernel)


def _positive(value: Any, name: str) -> Any:
    """A Python float or a float64 vector, which works in float32 and float64 programs."""
    if isinstance(value, jax.core.Tracer):
        return value
    _checks.positive(value, name)
    array = np.asarray(value, dtype=np.float64)
    if array.ndim > 1:
        raise ValueError(f"{name} must be one number or one for each feature, got shape {array.shape}")
    return array if array.ndim else float(array)
