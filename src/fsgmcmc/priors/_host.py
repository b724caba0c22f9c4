"""Standard kernels in float64 on the host, with gradients in closed form.

A fit evaluates the evidence of some hundred rows a thousand times, for kernels of many forms. NumPy needs no
compilation for each form, and the gradient is a few matrix products:

    ∂/∂log ℓ_j Σ_ab G_ab k(r²_ab) = −4 (Σ_a h_a u_aj² − Σ_ab u_aj H_ab u_bj),    u = x / ℓ,  H = G ∘ k'(r²),  h = H 1

Kernels that are not in `_NODES`, such as a user's own, are evaluated by JAX.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
import scipy  # submodules are loaded at first use
from jaxtyping import Float
from tinygp import kernels, transforms

from fsgmcmc.priors.kernels import Euclidean, InUnits, Periodic, check_points, evaluate as evaluate_by_jax

Points = Float[np.ndarray, "n d"]
# What every covariance of data has on its diagonal, relative to the mean there: it covers the rounding of float64.
JITTER = 1e-10
# From ∂/∂K to the gradient with respect to the numbers of a kernel, as a kernel, and to log s_j of inputs s_j u_j.
PullBack = Callable[[np.ndarray], tuple[Any, np.ndarray]]


class UnknownKernelError(Exception):
    """A kernel that only JAX can evaluate."""


def evaluate(kernel: Any, a: Points, b: Float[np.ndarray, "m d"] | None = None) -> np.ndarray:
    """As `fsgmcmc.priors.kernels.evaluate`, in float64.

    >>> from fsgmcmc.priors.kernels import linear
    >>> evaluate(linear(2.0), np.array([[1.0, 3.0]]), np.array([[2.0, 1.0]])).item()
    10.0
    """
    if isinstance(kernel, tuple):
        return np.stack([evaluate(each, a, b) for each in kernel])
    check_points(kernel, a)
    try:
        return _Diagonal(a)(kernel) if b is None else _Matrix(a, b)(kernel)
    except UnknownKernelError:
        with jax.enable_x64(True):
            return np.asarray(jax.jit(evaluate_by_jax)(kernel, a, b))


class _Matrix:
    """k(a, b), (A, B)."""

    def __init__(self, a: Points, b: Float[np.ndarray, "m d"]) -> None:
        self.a, self.b = a, b
        self.shape: tuple[int, ...] = (len(a), len(b))

    def __call__(self, kernel: Any) -> np.ndarray:
        return np.broadcast_to(_node(kernel, self)[0], self.shape)

    def scaled(self, scale: Any) -> "_Matrix":
        """The same of inputs times a factor."""
        return _Matrix(self.a * scale, self.b * scale)

    def squared_distance(self) -> np.ndarray:
        return scipy.spatial.distance.cdist(self.a, self.b, "sqeuclidean")

    def dot(self) -> np.ndarray:
        return self.a @ self.b.T

    def difference(self, feature: int) -> np.ndarray:
        return self.a[:, feature, None] - self.b[None, :, feature]


class _Diagonal(_Matrix):
    """k(a, a) of each row, (A,)."""

    def __init__(self, a: Points) -> None:
        super().__init__(a, a)
        self.shape = (len(a),)

    def scaled(self, scale: Any) -> "_Diagonal":
        return _Diagonal(self.a * scale)

    def squared_distance(self) -> np.ndarray:
        return np.zeros(len(self.a))

    def dot(self) -> np.ndarray:
        return np.square(self.a).sum(axis=1)

    def difference(self, feature: int) -> np.ndarray:
        return np.zeros(len(self.a))


def gram(kernel: Any, x: Points) -> tuple[np.ndarray, PullBack]:
    """K over the rows of x, and what takes a symmetric ∂/∂K back to the numbers of the kernel."""
    matrix = _Matrix(x, x)
    value, pull_back = _node(kernel, matrix)
    return np.broadcast_to(value, matrix.shape), pull_back


def loss(
    kernel: Any, mean: Any, noise: Any, x: Points, y: Float[np.ndarray, "n outputs"]
) -> tuple[float, tuple[Any, Any, Any]]:
    """−log N(y; m, K + σ² I) and its derivatives: in the form of the kernel, of m, and of σ.

    σ is one number, one for each row, or one for each row and output; outputs share a kernel. The loss is infinite
    where a covariance is singular.
    """
    if isinstance(kernel, tuple):
        raise UnknownKernelError  # a kernel for each output
    noise = np.asarray(noise, np.float64)
    check_points(kernel, x)
    K, pull_back = gram(kernel, x)
    count, diagonal = len(y), np.arange(len(y))
    jitter = JITTER * np.trace(K) / count
    residual = y - mean
    # Outputs with the same noise have the same covariance.
    alike = [(noise, residual)] if noise.ndim < 2 else list(zip(noise.T, np.hsplit(residual, y.shape[1]), strict=True))
    parts = [_log_normal(K, np.square(own) + jitter, columns) for own, columns in alike]
    if not np.isfinite([part.value for part in parts]).all():
        return np.inf, (kernel, np.zeros(np.shape(mean)), np.zeros(noise.shape))
    G = np.sum([part.G for part in parts], axis=0)
    diagonals = np.stack([part.G[diagonal, diagonal] for part in parts], axis=-1)
    of_noise = 2 * noise * (diagonals if noise.ndim == 2 else diagonals[:, 0] if noise.ndim else np.trace(G))
    G[diagonal, diagonal] += JITTER * np.trace(G) / count
    of_mean = np.concatenate([part.of_mean for part in parts])
    value = float(sum(part.value for part in parts))
    return value, (pull_back(G)[0], of_mean if np.ndim(mean) else of_mean.sum(), of_noise)


class _Part(NamedTuple):
    """−log N(r; 0, C) summed over the columns of r, its derivative G in C, and that in the mean of each column."""

    value: float
    G: np.ndarray
    of_mean: np.ndarray


def _log_normal(K: np.ndarray, variance: Any, residual: np.ndarray) -> _Part:
    (count, outputs), diagonal = residual.shape, np.arange(len(residual))
    C = np.array(K, order="F")
    C[diagonal, diagonal] += variance
    factor, failed = scipy.linalg.lapack.dpotrf(C, lower=1, overwrite_a=1)
    if failed or not np.isfinite(factor[-1, -1]):
        return _Part(np.inf, K, np.zeros(outputs))
    alpha = scipy.linalg.lapack.dpotrs(factor, residual, lower=1)[0]
    log_volume = np.log(factor[diagonal, diagonal]).sum() + 0.5 * count * np.log(2 * np.pi)
    value = 0.5 * np.vdot(residual, alpha) + outputs * log_volume
    # G = ½ (c C⁻¹ − α αᵀ); LAPACK gives the lower triangle of the inverse.
    inverse = scipy.linalg.lapack.dpotri(factor, lower=1, overwrite_c=1)[0]
    G = np.add(inverse, inverse.T, order="C")
    G[diagonal, diagonal] *= 0.5
    G *= 0.5 * outputs
    G -= 0.5 * alpha @ alpha.T
    return _Part(float(value), G, -alpha.sum(axis=0))


def _sum(kernel: kernels.Sum, at: _Matrix) -> tuple[np.ndarray, PullBack]:
    (first, pull_first), (second, pull_second) = (_node(each, at) for each in (kernel.kernel1, kernel.kernel2))

    def pull_back(G: np.ndarray) -> tuple[Any, np.ndarray]:
        (one, t), (two, s) = pull_first(G), pull_second(G)
        return kernels.Sum(one, two), t + s

    return first + second, pull_back


def _product(kernel: kernels.Product, at: _Matrix) -> tuple[np.ndarray, PullBack]:
    (first, pull_first), (second, pull_second) = (_node(each, at) for each in (kernel.kernel1, kernel.kernel2))

    def pull_back(G: np.ndarray) -> tuple[Any, np.ndarray]:
        (one, t), (two, s) = pull_first(G * second), pull_second(G * first)
        return kernels.Product(one, two), t + s

    return first * second, pull_back


def _constant(kernel: kernels.Constant, at: _Matrix) -> tuple[np.ndarray, PullBack]:
    nothing = np.zeros(at.a.shape[1])
    return np.asarray(kernel.value, np.float64), lambda G: (kernels.Constant(G.sum()), nothing)


def _stretched(kernel: transforms.Cholesky, at: _Matrix) -> tuple[np.ndarray, PullBack]:
    factor = np.asarray(kernel.factor)
    if factor.ndim > 1:
        raise UnknownKernelError
    value, pull_inner = _node(kernel.kernel, at.scaled(1 / factor))

    def pull_back(G: np.ndarray) -> tuple[Any, np.ndarray]:
        inner, t = pull_inner(G)
        return transforms.Cholesky((-t if factor.ndim else -t.sum()) / factor, inner), t

    return value, pull_back


def _in_units(kernel: InUnits, at: _Matrix) -> tuple[np.ndarray, PullBack]:
    value, _ = _node(kernel.kernel, at.scaled(np.asarray(kernel.scale)))

    def pull_back(G: np.ndarray) -> tuple[Any, np.ndarray]:
        raise UnknownKernelError  # its numbers are units, which nothing fits

    return value / np.square(kernel.target_scale), pull_back


def _stationary(profile: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]) -> Callable:
    """Of a function of r² that gives k and dk/dr²."""

    def node(kernel: Any, at: _Matrix) -> tuple[np.ndarray, PullBack]:
        scale = np.asarray(kernel.scale)
        if scale.ndim or not isinstance(kernel.distance, Euclidean):
            raise UnknownKernelError
        at = at.scaled(1 / scale)
        value, slope = profile(at.squared_distance())

        def pull_back(G: np.ndarray) -> tuple[Any, np.ndarray]:
            H, u = G * slope, at.a
            t = 4 * (H.sum(axis=1) @ np.square(u) - np.einsum("aj,aj->j", u, H @ u))
            return eqx.tree_at(lambda k: k.scale, kernel, -t.sum() / scale), t

        return value, pull_back

    return node


def _dot(kernel: kernels.DotProduct, at: _Matrix) -> tuple[np.ndarray, PullBack]:
    return at.dot(), lambda G: (kernel, 2 * np.einsum("aj,aj->j", at.a, G @ at.a))


def _periodic(kernel: Periodic, at: _Matrix) -> tuple[np.ndarray, PullBack]:
    features = range(at.a.shape[1])
    period, lengthscale = (np.asarray(each, np.float64) for each in (kernel.period, kernel.lengthscale))
    p, ell = (np.broadcast_to(each, len(features)) for each in (period, lengthscale))
    value = np.exp(-2 * sum(np.square(np.sin(np.pi * at.difference(j) / p[j]) / ell[j]) for j in features))

    def pull_back(G: np.ndarray) -> tuple[Any, np.ndarray]:
        H = G * value
        phases = [np.pi * at.difference(j) / p[j] for j in features]
        t = np.array([-2 / ell[j] ** 2 * np.vdot(H, phases[j] * np.sin(2 * phases[j])) for j in features])
        of_ell = np.array([4 / ell[j] ** 3 * np.vdot(H, np.square(np.sin(phases[j]))) for j in features])
        of_period = -t / p
        return Periodic(of_period if period.ndim else of_period.sum(), of_ell if lengthscale.ndim else of_ell.sum()), t

    return value, pull_back


def _rbf(squared: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    value = _exp_minus(0.5 * squared)
    return value, -0.5 * value


def _matern12(squared: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    r = np.sqrt(squared)
    value = _exp_minus(r)
    return value, np.divide(-0.5 * value, r, out=np.zeros_like(r), where=r > 0)


def _matern32(squared: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    r = np.sqrt(3 * squared)
    decay = _exp_minus(r)
    return (1 + r) * decay, -1.5 * decay


def _matern52(squared: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    r = np.sqrt(5 * squared)
    decay = _exp_minus(r)
    first = (1 + r) * decay
    return first + 5 / 3 * squared * decay, -5 / 6 * first


def _exp_minus(value: np.ndarray) -> np.ndarray:
    return np.exp(np.negative(value))


def _node(kernel: Any, at: _Matrix) -> tuple[np.ndarray, PullBack]:
    if type(kernel) not in _NODES:
        raise UnknownKernelError
    return _NODES[type(kernel)](kernel, at)


_NODES: dict[type, Callable[..., tuple[np.ndarray, PullBack]]] = {
    kernels.Sum: _sum,
    kernels.Product: _product,
    kernels.Constant: _constant,
    transforms.Cholesky: _stretched,
    InUnits: _in_units,
    kernels.DotProduct: _dot,
    Periodic: _periodic,
    kernels.ExpSquared: _stationary(_rbf),
    kernels.Exp: _stationary(_matern12),
    kernels.Matern32: _stationary(_matern32),
    kernels.Matern52: _stationary(_matern52),
}
