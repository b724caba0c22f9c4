"""The marginal likelihood as a function of the fitted numbers, as a vector z.

    −log N(y; m, C),    C = K(θ) + σ² I,    ∂/∂C = ½ (C⁻¹ − α αᵀ),    ∂/∂(y − m) = α,    α = C⁻¹ (y − m)

z has logarithms of positive numbers. Kernels that `_host` knows need no compilation; others are differentiated by JAX.
"""

from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from fsgmcmc.priors import _host
from fsgmcmc.priors._host import UnknownKernelError
from fsgmcmc.priors.gaussian_process import by_output, gaussian, observed

# Fields of kernels in units of x, and the field in units of y².
LENGTHS = ("scale", "factor", "period")
VARIANCE = "value"
# The least noise, in units of the sd of y.
NOISE_FLOOR = 1e-3
# How far a logarithm may lie outside the range of its starts.
REACH = np.log(1e4)
# The loss where the Cholesky factorisation fails.
FAILURE = 1e25


class Model(NamedTuple):
    """A kernel, the means and the noise, or whether each of their numbers is fitted."""

    kernel: Any
    mean: Any
    noise: Any


class FitSpace:
    """The fitted values as a vector z: logarithms of values with a positive start, the mean in units of the sd of y."""

    def __init__(self, first: Model, is_fitted: Model, unit: float) -> None:
        fitted, self.fixed = eqx.partition(first, is_fitted)
        self.is_fitted = is_fitted
        paths = jax.tree.leaves_with_path(fitted)
        if not paths:
            raise ValueError("nothing to fit: the kernel has no floats, and mean and noise are given")
        self.unit = unit
        self.structure = jax.tree.structure(fitted)
        self.names = [_name(path) for path, _ in paths]
        self.shapes = [np.shape(leaf) for _, leaf in paths]
        self.ends = np.cumsum([np.prod(shape, dtype=int) for shape in self.shapes])[:-1]
        self.logs = self.vector([bool(np.all(leaf > 0)) for _, leaf in paths]) & ~self.named("mean")
        self.units = np.where(self.named("mean"), unit, 1.0)
        values = self.vector([leaf for _, leaf in paths])
        self.first = np.where(self.logs, np.log(np.where(self.logs, values, 1.0)), values / self.units)
        with jax.enable_x64(True):
            self.unravel = ravel_pytree(jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), fitted))[1]

    def vector(self, values: list[Any]) -> np.ndarray:
        """One value for each leaf, broadcast to its shape, as a vector."""
        pairs = zip(values, self.shapes, strict=True)
        return np.concatenate([np.broadcast_to(value, shape).ravel() for value, shape in pairs])

    def named(self, *names: str) -> np.ndarray:
        """A mask of the entries that belong to fields of these names."""
        return self.vector([name in names for name in self.names])

    def model(self, z: np.ndarray) -> Model:
        """The model at z; its leaves are Python floats and NumPy arrays."""
        values = np.where(self.logs, np.exp(np.where(self.logs, z, 0.0)), z * self.units)
        parts = np.split(values, self.ends)
        pairs = zip(parts, self.shapes, strict=True)
        leaves = [part.reshape(shape) if shape else float(part[0]) for part, shape in pairs]
        return eqx.combine(jax.tree.unflatten(self.structure, leaves), self.fixed)

    def bounds(self, begins: np.ndarray) -> list[tuple[float, float]]:
        """A finite range for logarithms, around all starts; the noise has a floor."""
        reach = np.where(self.logs, REACH, np.inf)
        floor = np.where(self.named("noise"), np.log(NOISE_FLOOR * self.unit), -np.inf)
        lower = np.maximum(begins.min(axis=0) - reach, floor)
        return list(zip(lower, begins.max(axis=0) + reach, strict=True))

    def loss(self, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> tuple[float, np.ndarray]:
        """−log marginal likelihood of x and y, which are the first rows, and its gradient."""
        noise = self.fixed.noise
        fixed = self.fixed._replace(noise=noise[: len(x)] if np.ndim(noise) else noise)
        try:
            value, gradient = self._closed_form(x, y, z, fixed)
        except UnknownKernelError:
            with jax.enable_x64(True):
                found, gradient = map(np.asarray, _loss(z, self.unravel, self.logs, self.units, fixed, x, y))
            value = float(found)
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            return FAILURE, np.zeros_like(z)
        return value, gradient

    def _closed_form(self, x: np.ndarray, y: np.ndarray, z: np.ndarray, fixed: Model) -> tuple[float, np.ndarray]:
        """`loss` of a kernel that needs no compilation."""
        model = self.model(z)
        model = model if fixed.noise is None else model._replace(noise=fixed.noise)
        value, derivatives = _host.loss(model.kernel, model.mean, model.noise, x, y)
        leaves = jax.tree.leaves(eqx.filter(Model(*derivatives), self.is_fitted))
        units = np.where(self.logs, np.exp(np.where(self.logs, z, 0.0)), self.units)
        return value, units * np.concatenate([np.ravel(leaf) for leaf in leaves])


def _name(path: tuple[Any, ...]) -> str:
    name = getattr(path[-1], "name", "")
    return name if len(path) == 1 or name in (*LENGTHS, VARIANCE) else "other"


def _values(z: Any, logs: Any, units: Any) -> Array:
    return jnp.where(logs, jnp.exp(jnp.where(logs, z, 0.0)), z * units)


@partial(jax.jit, static_argnames="unravel")
def _loss(z: Any, unravel: Any, logs: Any, units: Any, fixed: Model, x: Any, y: Any) -> tuple[Array, Array]:
    def loss(z: Array) -> Array:
        model = eqx.combine(unravel(_values(z, logs, units)), fixed)
        return -by_output(log_normal, y - model.mean, observed(model.kernel, x, model.noise)).sum()

    return jax.value_and_grad(loss)(z)


@jax.custom_vjp
def log_normal(residual: Float[Array, "M *c"], covariance: Float[Array, "M M"]) -> Float[Array, ""]:
    """log N(r; 0, C) with its gradient in closed form; the gradient through the Cholesky factor takes twice as long."""
    return gaussian(residual, covariance)[0]


def _forward(residual: Array, covariance: Array) -> tuple[Array, tuple[Array, Array]]:
    value, factor, alpha = gaussian(residual, covariance)
    return value, (factor, alpha)


def _backward(saved: tuple[Array, Array], cotangent: Array) -> tuple[Array, Array]:
    factor, alpha = saved
    columns = alpha.reshape(len(factor), -1)
    inverse = jax.scipy.linalg.cho_solve((factor, True), jnp.eye(len(factor), dtype=factor.dtype))
    return -cotangent * alpha, 0.5 * cotangent * (columns @ columns.T - columns.shape[1] * inverse)


log_normal.defvjp(_forward, _backward)
