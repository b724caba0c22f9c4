"""A Gaussian process evaluated at measurement points.

    −log p(F) = ½ ω Σ_c ‖R_c (F_c − m_c)‖² + const,    R_cᵀ R_c = (K_c + δI)⁻¹,    F = f(X_M; w)

`Functional` has the process, the measurement points, the function of the parameters and the weight ω, which is 1 for
the density of the process; `bind` prepares it for a loop. Fixed sets are whitened once, in float64. Redrawn points are
factorised at every step in float32, for which a relative nugget of 1e-3 is large enough.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from fsgmcmc import _checks
from fsgmcmc.measurement import FixedSet, Measurement, Minibatch, PoolDraw, SetDraw
from fsgmcmc.priors.base import Prior
from fsgmcmc.priors.gaussian_process import GaussianProcess, in_float64
from fsgmcmc.random import normal

# The float32 Cholesky factorisation of a smooth kernel fails slightly below this relative nugget.
SMALLEST_REDRAWN_NUGGET = 1e-4
# The covariance of a pool up to this size is computed once and indexed; for larger pools it needs too much memory.
LARGEST_POOL = 2000


class Functional(Prior):
    """A Gaussian-process prior at measurement points, on the network or on another function of its parameters.

    Args:
        process: The prior of the function.
        measurement: The points at which it is evaluated.
        function: `function(params, x) -> (m, outputs)`; None: the network itself.
        weight: ω, a factor of the energy. The points of a gradient are a sample of a region: if it has m of them and
            the prior should count as much as at M points, the weight is M/m. 1 is the density at these points.

    Example:
        >>> from fsgmcmc import measurement, rbf
        >>> everywhere = Functional(GaussianProcess(rbf()), measurement.box(-4.0, 4.0, size=10), weight=5.0)
        >>> everywhere.bind().weight.item()
        5.0
    """

    process: GaussianProcess
    measurement: Measurement
    function: Callable[[Any, Array], Array] | None = eqx.field(static=True, default=None)
    weight: float = 1.0

    def __check_init__(self) -> None:
        if not isinstance(self.process, GaussianProcess):
            raise TypeError(f"process must be a GaussianProcess, such as GaussianProcess(rbf()), not {self.process!r}")
        if not isinstance(self.measurement, Measurement):
            raise TypeError("measurement is made by fsgmcmc.measurement, such as measurement.subset(x, 20)")
        _checks.positive_number(self.weight, "weight")

    def check_outputs(self, outputs: int) -> None:
        """Raise an error if the process has another number of outputs."""
        self.process.check_outputs(outputs)

    def bind(self) -> "BoundProcess":
        """The prior in the form that a potential evaluates."""
        # An array: other weights then need no new compilation.
        process, weight = _leaves_float32(self.process), jnp.float32(self.weight)
        if isinstance(self.measurement, FixedSet):
            whitening = self.process.whitening(self.measurement.points)
            points = jnp.asarray(self.measurement.points)
            return FixedPrior(self.function, process, weight, points, _float32(whitening))
        # Copied once, not at every call of a compiled program.
        on_device = jax.tree.map(jnp.asarray, self.measurement)
        if isinstance(self.measurement, SetDraw):
            whitenings = np.stack([self.process.whitening(points) for points in self.measurement.sets])
            return SetsPrior(self.function, process, weight, on_device, _float32(whitenings))
        if self.process.nugget < SMALLEST_REDRAWN_NUGGET:
            raise ValueError(
                f"a nugget of {self.process.nugget:g} is too small for measurement points redrawn in float32; "
                f"use at least {SMALLEST_REDRAWN_NUGGET:g} (1e-3 is a good value) or a fixed set of points"
            )
        if isinstance(self.measurement, Minibatch):
            return MinibatchPrior(self.function, process, weight, self.measurement.size)
        if isinstance(self.measurement, PoolDraw) and len(self.measurement.pool) <= LARGEST_POOL:
            covariance = in_float64(GaussianProcess.covariance, self.process, np.float64(self.measurement.pool))
            return PooledPrior(self.function, process, weight, on_device, _float32(covariance))
        return RedrawnPrior(self.function, process, weight, on_device)


class BoundPrior(eqx.Module):
    """A term on function values inside a potential: it draws points, and computes the energy of the values there."""

    function: Callable[[Any, Array], Array] | None = eqx.field(static=True)

    @property
    def is_fixed(self) -> bool:
        """Whether the points are the same at every step."""
        return False

    def draw(self, key: PRNGKeyArray, data: Any = None) -> tuple[Float[Array, "m *features"], Any]:
        """Measurement points, which may come from the posterior's data, and what `energy` needs of them."""
        raise NotImplementedError(f"{type(self).__name__} must define draw(key, data)")

    def measure(
        self, key: PRNGKeyArray, data: Any, rows: Float[Array, "n *features"]
    ) -> tuple[Float[Array, "m *features"], Any]:
        """`draw`, given the rows of the minibatch."""
        del rows
        return self.draw(key, data)

    def shared_rows(self, batch_size: int) -> Int[np.ndarray, " m"] | None:
        """The rows of a minibatch that are the measurement points; None if the points are drawn otherwise."""
        del batch_size
        return None

    def energy(self, factor: Any, values: Float[Array, "m c"]) -> Float[Array, ""]:
        """The negative log density of the values up to a constant; the first argument is from `draw`."""
        raise NotImplementedError(f"{type(self).__name__} must define energy(factor, values)")


class BoundProcess(BoundPrior):
    """A Gaussian process inside a potential; `draw` also gives the factor that whitens values at the points."""

    process: GaussianProcess
    weight: Float[Array, ""]

    def factor(self, points: Float[Array, "m *features"]) -> Float[Array, "*c m m"]:
        """L, the Cholesky factor of the covariance at these points."""
        return jax.lax.linalg.cholesky(self.process.covariance(points), symmetrize_input=False)

    def whiten(self, factor: Float[Array, "*c m m"], residual: Float[Array, "m c"]) -> Float[Array, "m c"]:
        """R (F − m), with R = L⁻¹ and the Cholesky factor L of `draw`."""
        return _per_output(_solve, factor, residual)

    def energy(self, factor: Float[Array, "*c m m"], values: Float[Array, "m c"]) -> Float[Array, ""]:
        """−ω log p(values) up to a constant."""
        return 0.5 * self.weight * jnp.sum(jnp.square(self.whiten(factor, values - self.process.mean)))

    def unwhiten(self, factor: Float[Array, "*c m m"], noise: Float[Array, "m c"]) -> Float[Array, "m c"]:
        """Function values of the prior from independent normals: F = m + R⁻¹ η."""
        return self.process.mean + _per_output(jnp.matmul, factor, noise)

    def with_nugget(
        self, key: PRNGKeyArray, points: Float[Array, "m *features"], values: Float[Array, "*draws m c"]
    ) -> Float[Array, "*draws m c"]:
        """Function values with independent noise whose variance is the nugget: F + sqrt(δ) ε."""
        noise = normal(key, values.size).reshape(values.shape)
        return values + jnp.sqrt(self.process.nugget_variance(points)) * noise


class WhitenedPrior(BoundProcess):
    """The factor is R itself, which is applied as one matrix product."""

    def whiten(self, factor: Float[Array, "*c m m"], residual: Float[Array, "m c"]) -> Float[Array, "m c"]:
        """R (F − m) with R given."""
        return _per_output(jnp.matmul, factor, residual)

    def unwhiten(self, factor: Float[Array, "*c m m"], noise: Float[Array, "m c"]) -> Float[Array, "m c"]:
        """m + R⁻¹ η by a triangular solve."""
        return self.process.mean + _per_output(_solve, factor, noise)


class FixedPrior(WhitenedPrior):
    """The same points at every step."""

    points: Float[Array, "m *features"]
    whitening: Float[Array, "*c m m"]

    @property
    def is_fixed(self) -> bool:
        """The points never change."""
        return True

    def draw(self, key: PRNGKeyArray, data: Any = None) -> tuple[Float[Array, "m *features"], Float[Array, "*c m m"]]:
        """The fixed points."""
        del key, data
        return self.points, self.whitening


class SetsPrior(WhitenedPrior):
    """One of several fixed sets at every step, each with its own R."""

    measurement: SetDraw
    whitening: Float[Array, "sets *c m m"]

    def draw(self, key: PRNGKeyArray, data: Any = None) -> tuple[Float[Array, "m *features"], Float[Array, "*c m m"]]:
        """The points of a set, and its R."""
        del data
        index = self.measurement.index(key)
        return jnp.asarray(self.measurement.sets)[index], self.whitening[index]


class PooledPrior(BoundProcess):
    """Points of a small pool: the covariance of the pool is stored, and the block of the drawn points is factorised."""

    measurement: PoolDraw
    covariance: Float[Array, "*c p p"]

    def draw(self, key: PRNGKeyArray, data: Any = None) -> tuple[Float[Array, "m *features"], Float[Array, "*c m m"]]:
        """Random points of the pool and the Cholesky factor of their covariance."""
        del data
        rows = self.measurement.indices(key)
        block = self.covariance[..., rows[:, None], rows[None, :]]
        return jnp.asarray(self.measurement.pool)[rows], jax.lax.linalg.cholesky(block, symmetrize_input=False)


class RedrawnPrior(BoundProcess):
    """Points from a continuum or a large pool: covariance and factor are computed at every step."""

    measurement: Measurement

    def draw(self, key: PRNGKeyArray, data: Any = None) -> tuple[Float[Array, "m *features"], Float[Array, "*c m m"]]:
        """New points and the Cholesky factor of their covariance."""
        del data
        points = self.measurement.draw(key)
        return points, self.factor(points)


class MinibatchPrior(BoundProcess):
    """Rows of the minibatch, which the posterior passes to `measure`."""

    size: int = eqx.field(static=True)

    def measure(
        self, key: PRNGKeyArray, data: Any, rows: Float[Array, "n *features"]
    ) -> tuple[Float[Array, "m *features"], Float[Array, "*c m m"]]:
        """Some of these rows and the Cholesky factor of their covariance."""
        del key, data
        points = rows[self.shared_rows(len(rows))]
        return points, self.factor(points)

    def shared_rows(self, batch_size: int) -> Int[np.ndarray, " m"]:
        """Evenly spaced rows, because adjacent rows of a minibatch may be adjacent in the data."""
        return np.arange(self.size) * batch_size // self.size

    def draw(self, key: PRNGKeyArray, data: Any = None) -> tuple[Float[Array, "m *features"], Float[Array, "*c m m"]]:
        """Not possible: the points are rows of a minibatch."""
        raise ValueError("measurement.minibatch is for samplers: give measurement.subset(x, size) instead")


def _per_output(
    function: Callable[[Array, Array], Array], factor: Float[Array, "*c m m"], values: Float[Array, "m c"]
) -> Float[Array, "m c"]:
    """function(factor, values), separately for each output if each has its own factor."""
    if factor.ndim == 2:
        return function(factor, values)
    return jax.vmap(function, (0, 1), 1)(factor, values)


def _solve(lower: Float[Array, "m m"], values: Float[Array, "m *c"]) -> Float[Array, "m *c"]:
    return jax.scipy.linalg.solve_triangular(lower, values, lower=True)


def _float32(matrix: np.ndarray) -> Float[Array, "*c m m"]:
    return jnp.asarray(matrix, dtype=jnp.float32)


def _leaves_float32(process: GaussianProcess) -> GaussianProcess:
    # Arrays, not Python floats: other hyperparameters then need no new compilation.
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype=jnp.float32), process)
