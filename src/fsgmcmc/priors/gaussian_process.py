"""Gaussian processes on functions, independent for each output c.

    f_c ~ GP(m_c, k_c),    F_c = f_c(X) ~ N(m_c, C_c),    C_c = K_c + δ_c I,    δ_c = nugget × mean diag K_c

    log p(F) = Σ_c −½ (F_c − m_c)ᵀ α_c − ½ log det C_c − ½ M log 2π,    α_c = C_c⁻¹ (F_c − m_c)
    ∇_F log p(F) = −α

`gram`, `covariance`, `log_prob` and `score` are JAX functions in the dtype of the points. Computations that are done
once (whitening, draws, exact regression, evidence) use float64 on the host.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy  # submodules are loaded at first use
from jaxtyping import Array, Float, PRNGKeyArray
from numpy.typing import ArrayLike
from tinygp.kernels import Kernel

from fsgmcmc import _checks
from fsgmcmc.priors import _host
from fsgmcmc.priors._host import JITTER
from fsgmcmc.priors.base import Prior
from fsgmcmc.priors.kernels import evaluate

if TYPE_CHECKING:
    from fsgmcmc.predictions import MomentPrediction

Points: TypeAlias = Float[Array | np.ndarray, "M *features"]
Values: TypeAlias = Float[Array | np.ndarray, "M outputs"]
Covariance: TypeAlias = Float[Array, "*outputs M M"]
Kernels: TypeAlias = Kernel | tuple[Kernel, ...]


def _number(value: Any) -> Any:
    """A Python float or a NumPy array, which works in float32 and float64 programs; JAX arrays are unchanged."""
    if isinstance(value, jax.Array):
        return value
    array = np.asarray(value, dtype=np.float64)
    return array if array.ndim else float(array)


def _kernels(value: Any) -> Kernels:
    for kernel in value if isinstance(value, tuple | list) and value else (value,):
        if not isinstance(kernel, Kernel):
            raise ValueError(
                f"kernel must be a tinygp kernel or a tuple of them, got {kernel!r}: build one with "
                'fsgmcmc.priors.kernels, such as rbf(0.5) or kernel_by_name("rbf", features=1)'
            )
    return tuple(value) if isinstance(value, list) else value


class GaussianProcess(Prior):
    """A Gaussian process for each output of a function.

    Args:
        kernel: A tinygp kernel that all outputs share, or a tuple with one for each output.
        mean: The constant mean, one number or one for each output.
        nugget: A number that is added to the diagonal of a covariance, in units of the mean of that diagonal.
        embedding: A function from points (n, …) to inputs of the kernel (n, d). By default points are flattened.

    >>> from fsgmcmc.priors.kernels import rbf
    >>> prior = GaussianProcess(rbf(lengthscale=0.5))
    >>> x = np.array([[0.0], [0.5]])
    >>> print(np.round(np.asarray(prior.covariance(x), np.float64), 3))
    [[1.001 0.607]
     [0.607 1.001]]
    >>> prediction = prior.condition(x, y=[1.0, -1.0], noise=0.1).predict([[0.0]])
    >>> round(prediction.mean.item(), 2), round(prediction.std.item(), 2)
    (0.98, 0.14)
    """

    kernel: Kernels = eqx.field(converter=_kernels)
    mean: Any = eqx.field(default=0.0, converter=_number)
    nugget: Any = eqx.field(default=1e-3, converter=_number)
    embedding: Callable[[Array], Array] | None = eqx.field(default=None, static=True)

    def __check_init__(self) -> None:
        if isinstance(self.nugget, float) and not 0 <= self.nugget < np.inf:
            raise ValueError(f"nugget must be zero or a positive number, got {self.nugget}")
        if np.ndim(self.mean) > 1 or (isinstance(self.mean, float | np.ndarray) and not np.isfinite(self.mean).all()):
            raise ValueError(f"mean must be a finite number or one for each output, got {self.mean}")
        self.check_outputs()

    def gram(self, x: Points) -> Covariance:
        """K without the nugget: (M, M), with a leading axis of outputs if each has its own kernel."""
        x = self.embed(x)
        return evaluate(self.kernel, x, x)

    def covariance(self, x: Points) -> Covariance:
        """C = K + δI, shaped like `gram`."""
        return add_diagonal(self.gram(x), self.nugget)

    def nugget_variance(self, x: Points) -> Float[Array, "*outputs"]:
        """δ, which `covariance` adds to the diagonal."""
        return self.nugget * jnp.mean(evaluate(self.kernel, self.embed(x)), axis=-1)

    def embed(self, x: Points) -> Float[Array, "M d"]:
        """The inputs of the kernel: the `embedding` of the points, or the flattened points."""
        x = jnp.asarray(x, dtype=jnp.result_type(x, jnp.float32))
        return x.reshape(len(x), -1) if self.embedding is None else self.embedding(x)

    def log_prob(self, x: Points, f: Values) -> Float[Array, ""]:
        """Σ_c log N(f_c; m_c, C_c) for function values f, (M, outputs)."""
        return self._gaussian(x, f)[0].sum()

    def score(self, x: Points, f: Values) -> Float[Array, "M outputs"]:
        """The gradient of `log_prob` with respect to f, −C⁻¹ (f − m)."""
        return -self._gaussian(x, f)[2]

    def whitening(self, x: ArrayLike) -> Float[np.ndarray, "*outputs M M"]:
        """W = L⁻¹ with L Lᵀ = C, so that ‖W (f − m)‖² = (f − m)ᵀ C⁻¹ (f − m).

        >>> from fsgmcmc.priors.kernels import matern32
        >>> prior, x = GaussianProcess(matern32()), np.linspace(0, 1, 5)[:, None]
        >>> W = prior.whitening(x)
        >>> bool(np.allclose(W @ prior.covariance(x) @ W.T, np.eye(5), atol=1e-4))
        True
        """
        factors = self._factors(x)
        unit = np.eye(factors.shape[-1])
        inverses = [scipy.linalg.solve_triangular(L, unit, lower=True) for L in factors.reshape(-1, *unit.shape)]
        return np.reshape(inverses, factors.shape)

    def sample(
        self, key: PRNGKeyArray, x: ArrayLike, draws: int = 1, outputs: int | None = None
    ) -> Float[Array, "draws M outputs"]:
        """Functions drawn from N(m, C) at x; `outputs` defaults to the number of kernels or means, or 1.

        >>> from fsgmcmc.priors.kernels import rbf
        >>> GaussianProcess(rbf()).sample(jax.random.key(0), np.zeros((5, 2)), draws=3).shape
        (3, 5, 1)
        """
        outputs = self.check_outputs(outputs) or 1
        factors = self._factors(x)
        noise = jax.random.normal(key, (draws, outputs, factors.shape[-1], 1), dtype=jnp.float32)
        functions = (factors @ np.asarray(noise))[..., 0].swapaxes(1, 2) + np.asarray(self.mean)
        return jnp.asarray(functions, dtype=jnp.float32)

    def condition(self, x: ArrayLike, y: ArrayLike, noise: ArrayLike) -> "GaussianProcessPosterior":
        """Exact regression on y = f(x) + noise × N(0, 1), with y (N,) or (N, outputs).

        `noise` is a standard deviation: one number, one for each row, or one for each row and output.
        """
        x, y, noise = check_data(x, y, noise)
        self.check_outputs(y.shape[1])
        x = in_float64(GaussianProcess.embed, self, x)
        size, residuals = len(y), (y - np.asarray(self.mean)).T
        covariance = in_float64(add_diagonal, _host.evaluate(self.kernel, x, x), JITTER, np.square(noise))
        factors = cholesky(covariance, "raise the noise").reshape(-1, size, size)
        pairs = zip(np.broadcast_to(factors, (len(residuals), size, size)), residuals, strict=True)
        weights = np.stack([scipy.linalg.cho_solve((L, True), residual) for L, residual in pairs], axis=1)
        return GaussianProcessPosterior(self, x, noise, factors, weights)

    def evidence(self, x: ArrayLike, y: ArrayLike, noise: ArrayLike) -> float:
        """The log marginal likelihood Σ_c log N(y_c; m_c, K_c + noise² I); arguments as in `condition`.

        >>> from fsgmcmc.priors.kernels import rbf
        >>> round(GaussianProcess(rbf()).evidence([[0.0]], [0.0], noise=1.0), 4)
        -1.2655
        """
        x, y, noise = check_data(x, y, noise)
        self.check_outputs(y.shape[1])
        return float(
            in_float64(
                _evidence, self.kernel, y - np.asarray(self.mean), in_float64(GaussianProcess.embed, self, x), noise
            )
        )

    def check_outputs(self, values: int | None = None) -> int | None:
        """The number of outputs of kernel, mean and `values`, which must agree; None if it is not determined."""
        kernel = len(self.kernel) if isinstance(self.kernel, tuple) else None
        mean = len(self.mean) if np.ndim(self.mean) else None
        known = {name: n for name, n in (("kernel", kernel), ("mean", mean), ("values", values)) if n is not None}
        if len(set(known.values())) > 1:
            raise ValueError(f"the numbers of outputs differ: {', '.join(f'{name} {n}' for name, n in known.items())}")
        return next(iter(known.values()), None)

    def _gaussian(self, x: Points, f: Values) -> tuple[Array, Array, Array]:
        self.check_outputs(jnp.shape(f)[1])
        C = self.covariance(x)
        return by_output(gaussian, jnp.asarray(f, C.dtype) - jnp.asarray(self.mean, C.dtype), C)

    def _factors(self, x: ArrayLike) -> np.ndarray:
        points = _checks.matrix(x, "x", np.float64)
        return cholesky(in_float64(GaussianProcess.covariance, self, points), "raise the nugget")


@dataclass(frozen=True, eq=False)
class GaussianProcessPosterior:
    """A Gaussian process conditioned on data with embedded points; `GaussianProcess.condition` builds it."""

    process: GaussianProcess
    x: Float[np.ndarray, "N d"]
    noise: np.ndarray
    factors: Float[np.ndarray, "distinct N N"]
    weights: Float[np.ndarray, "N outputs"]

    def predict(self, x_new: ArrayLike, noise: ArrayLike | None = None) -> "MomentPrediction":
        """Mean k_*ᵀ α + m, `epistemic` sd sqrt(k_** − ‖L⁻¹ k_*‖²) and noise sd `aleatoric`, each (M, outputs).

        `noise` at the new points is one number, one for each point, or one for each point and output. By default it is
        the noise of the data, if that is one number.

        >>> from fsgmcmc.priors.kernels import rbf
        >>> posterior = GaussianProcess(rbf()).condition([[0.0]], [1.0], noise=0.5)
        >>> prediction = posterior.predict([[0.0], [9.0]])
        >>> print(prediction.epistemic.round(3).ravel(), prediction.aleatoric.ravel())
        [0.447 1.   ] [0.5 0.5]
        """
        from fsgmcmc.predictions import MomentPrediction

        if noise is None and self.noise.ndim:
            raise ValueError("the data have a noise for each row: give the noise of the new points, predict(x, noise)")
        x_new = in_float64(GaussianProcess.embed, self.process, _checks.matrix(x_new, "x_new", np.float64))
        shape = len(x_new), self.weights.shape[1]
        aleatoric = self.noise if noise is None else check_noise(noise, shape)
        k = _host.evaluate(self.process.kernel, self.x, x_new)
        mean = np.einsum("cnm,nc->mc", np.broadcast_to(k, (shape[1], *k.shape[-2:])), self.weights)
        pairs = zip(self.factors, np.broadcast_to(k, (len(self.factors), *k.shape[-2:])), strict=True)
        explained = [np.square(scipy.linalg.solve_triangular(L, k, lower=True)).sum(axis=0) for L, k in pairs]
        # Rounding can leave −1e-16 where the data determine the function.
        variance = np.maximum(_host.evaluate(self.process.kernel, x_new) - np.stack(explained), 0.0)
        return MomentPrediction(
            mean + np.asarray(self.process.mean),
            np.broadcast_to(np.sqrt(variance).T, shape),
            np.broadcast_to(aleatoric[:, None] if aleatoric.ndim == 1 else aleatoric, shape),
        )

    def leave_one_out(self) -> tuple[np.ndarray, np.ndarray]:
        """Error α_i / [C⁻¹]_ii and variance 1 / [C⁻¹]_ii of each target given all others, both (N, outputs).

        >>> from fsgmcmc.priors.kernels import rbf
        >>> error, variance = GaussianProcess(rbf()).condition([[0.0], [9.0]], [1.0, 2.0], noise=0.5).leave_one_out()
        >>> print(error.ravel(), variance.ravel())
        [1. 2.] [1.25 1.25]
        """
        unit = np.eye(len(self.x))
        inverse = [np.square(scipy.linalg.solve_triangular(L, unit, lower=True)).sum(axis=0) for L in self.factors]
        variance = np.broadcast_to(1 / np.stack(inverse, axis=1), self.weights.shape)
        return self.weights * variance, variance


def add_diagonal(covariance: Covariance, relative: Any, variance: Any = 0.0) -> Float[Array, "*noisy M M"]:
    """K + (relative × mean diag K + variance) I; `variance` is one number, (M,) or (M, outputs), which adds an axis."""
    size = covariance.shape[-1]
    scale = jnp.trace(covariance, axis1=-2, axis2=-1)[..., None] / size
    diagonal = relative * scale + jnp.transpose(jnp.asarray(variance, covariance.dtype))
    return covariance + diagonal[..., None] * jnp.eye(size, dtype=covariance.dtype)


def observed(kernel: Kernels, x: Float[Array, "N d"], noise: Any) -> Covariance:
    """The covariance of noisy data, K + noise² I."""
    return add_diagonal(evaluate(kernel, x, x), JITTER, jnp.square(noise))


def gaussian(
    residual: Float[Array, "M *c"], covariance: Float[Array, "M M"]
) -> tuple[Float[Array, ""], Float[Array, "M M"], Float[Array, "M *c"]]:
    """Density log N(r; 0, C) summed over the columns of r, factor L of C = L Lᵀ, and α = C⁻¹ r."""
    factor = jnp.linalg.cholesky(covariance, symmetrize_input=False)
    alpha = jax.scipy.linalg.cho_solve((factor, True), residual)
    log_volume = jnp.log(jnp.diagonal(factor)).sum() + 0.5 * len(factor) * jnp.log(2 * jnp.pi)
    return -0.5 * jnp.vdot(residual, alpha) - residual.size // len(factor) * log_volume, factor, alpha


def by_output(function: Callable[..., Any], residual: Float[Array, "M outputs"], covariance: Covariance) -> Any:
    """`function(residual, covariance)`, separately for each output (last axis of the result) if covariances differ."""
    if covariance.ndim == 2:
        return function(residual, covariance)
    return jax.vmap(function, in_axes=(1, 0), out_axes=-1)(residual, covariance)


def _evidence(kernel: Kernels, residual: Array, x: Array, noise: Array) -> Array:
    return by_output(gaussian, residual, observed(kernel, x, noise))[0].sum()


def in_float64(function: Callable[..., Array], *arguments: Any) -> np.ndarray:
    """`function` compiled and run in float64; its arguments are NumPy arrays, floats and pytrees of them."""
    with jax.enable_x64(True):
        return np.asarray(jax.jit(function)(*arguments))


def cholesky(covariance: Float[np.ndarray, "*outputs M M"], remedy: str) -> Float[np.ndarray, "*outputs M M"]:
    """The lower factor in float64, or an error with the `remedy`."""
    try:
        factor = np.linalg.cholesky(covariance)
        pivots = np.square(np.diagonal(factor, axis1=-2, axis2=-1))
        # Rounding can turn a pivot that should be zero into a tiny positive one.
        if pivots.min() > covariance.shape[-1] * np.finfo(np.float64).eps * pivots.max():
            return factor
    except np.linalg.LinAlgError:
        pass
    raise ValueError(f"the covariance of the points is zero or singular (duplicate or very close points?): {remedy}")


def check_noise(noise: ArrayLike, shape: tuple[int, int]) -> np.ndarray:
    """`noise` as positive float64 standard deviations of shape (), (rows,) or (rows, outputs)."""
    _checks.positive(noise, "noise")
    array = np.asarray(noise, dtype=np.float64)
    if array.shape not in ((), shape[:1], shape):
        raise ValueError(f"noise has shape {array.shape}: give one number, or shape {shape[:1]} or {shape}")
    return array


def check_data(x: ArrayLike, y: ArrayLike, noise: ArrayLike) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points (N, d), targets (N, outputs) and noise as float64 arrays with consistent shapes."""
    x, y = _checks.matrix(x, "x", np.float64), _checks.matrix(y, "y", np.float64)
    _checks.same_length(x, y)
    return x, y, check_noise(noise, (y.shape[0], y.shape[1]))
