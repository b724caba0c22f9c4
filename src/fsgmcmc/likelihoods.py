"""Likelihoods: p(y | f), with the parameters they may have of their own.

A likelihood offers

    targets(y)                       y checked and brought to its standard shape
    outputs(y)                       how many outputs the network needs
    init()                           its own parameters, () when it has none
    log_prob(params, f, y)           log p(y_i | f_i) for every row, outputs summed
    log_prior(params)                log density of its own parameters
    settle(params, f, y)             its parameters where f has been fitted with them held
    rows(indices)                    the same likelihood for some rows of the data
    predict(functions, params, ...)  the Prediction of function draws
"""

from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from fsgmcmc import _checks
from fsgmcmc.predictions import CategoricalPrediction, GaussianPrediction
from fsgmcmc.priors.dirichlet import CONCENTRATION, dirichlet_targets

# A sampled noise beyond so many standard deviations of y, and of so small a prior density in nats, is that of a chain
# that was thrown there.
WIDEST_NOISE, LEAST_LIKELY = 3.0, 8.0


@runtime_checkable
class Likelihood(Protocol):
    """The contract in the module's docstring, for type checkers."""

    def targets(self, y: Any) -> np.ndarray: ...  # noqa: D102
    def outputs(self, y: Any) -> int: ...  # noqa: D102
    def init(self) -> Any: ...  # noqa: D102
    def log_prob(self, params: Any, f: Array, y: Array) -> Array: ...  # noqa: D102
    def log_prior(self, params: Any) -> Array: ...  # noqa: D102
    def settle(self, params: Any, f: Array, y: Array) -> Any: ...  # noqa: D102
    def rows(self, indices: Array) -> "Likelihood": ...  # noqa: D102
    def predict(self, functions: np.ndarray, params: Any, noise: Any = None) -> Any: ...  # noqa: D102


class Gaussian(eqx.Module):
    """Observations with Gaussian noise: y ~ N(f, σ²).

    Args:
        noise: Standard deviation σ in the units of y: one number, or (rows,) or (rows, outputs) when it is known
            datum by datum.
        sampled: Sample log σ together with the weights, log σ ~ N(log noise, spread²).
        spread: Standard deviation of that prior; 0.3 says σ is known to about a third.
        floor: What a sampled σ cannot fall below: it is sqrt(floor² + s²), and log s is sampled as above.

    Example:
        >>> print(Gaussian(noise=0.5).log_prob((), jnp.zeros((2, 1)), jnp.ones((2, 1))).round(2))
        [-2.23 -2.23]
    """

    noise: Float[Array, "..."]
    sampled: bool = eqx.field(static=True)
    spread: float = eqx.field(static=True)
    floor: Float[Array, ""]

    def __init__(self, noise: Any = 1.0, *, sampled: bool = False, spread: float = 0.3, floor: float = 0.0) -> None:
        _checks.positive(np.asarray(noise, np.float32), "noise")
        _checks.positive(spread, "spread")
        self.noise = jnp.asarray(noise, dtype=jnp.float32)
        self.sampled = bool(sampled)
        self.spread = float(spread)
        if not (np.ndim(floor) == 0 and 0 <= floor < np.inf):
            raise ValueError(f"floor must be zero or a positive number, got {floor}")
        self.floor = jnp.asarray(floor, dtype=jnp.float32)
        if self.sampled and self.noise.ndim:
            raise ValueError("noise given per row is known; it cannot be sampled as well")

    def targets(self, y: Any) -> np.ndarray:
        """Targets as a float matrix (rows, outputs)."""
        y = _checks.matrix(y, "y")
        if y.ndim != 2:
            raise ValueError(f"y must have shape (rows,) or (rows, outputs), got {y.shape}")
        if self.noise.ndim and self.noise.shape not in (y.shape[:1], y.shape):
            raise ValueError(f"noise has shape {self.noise.shape} but y has {len(y)} rows and {y.shape[1]} outputs")
        return y

    def outputs(self, y: Any) -> int:
        """One per column of y."""
        return y.shape[1]

    def init(self) -> Any:
        """log σ when it is sampled, nothing otherwise."""
        return {"log_noise": jnp.log(self.noise)} if self.sampled else ()

    def sigma(self, params: Any) -> Float[Array, "..."]:
        """σ, with the sampled parameters or as it was given."""
        if not self.sampled:
            return self.noise
        return jnp.sqrt(jnp.square(self.floor) + jnp.exp(2 * params["log_noise"]))

    def std(self, params: Any) -> Float[Array, "..."]:
        """Standard deviation of the noise."""
        return self.sigma(params)

    def without_tails(self) -> "Gaussian":
        """The likelihood under which rows far from the function pull at it in proportion: this one."""
        return self

    def settle(self, params: Any, f: Float[Array, "n outputs"], y: Float[Array, "n outputs"]) -> Any:
        """A sampled σ raised to the root mean square residual; never lowered, since a fit may follow the noise."""
        if not self.sampled:
            return params
        return params | {"log_noise": jnp.maximum(params["log_noise"], 0.5 * jnp.log(jnp.mean(jnp.square(y - f))))}

    def rows(self, indices: Int[Array, " batch"]) -> "Gaussian":
        """The likelihood of the rows `indices`: known noise follows its datum."""
        if not self.noise.ndim:
            return self
        return eqx.tree_at(lambda likelihood: likelihood.noise, self, self.noise[indices])

    def log_prob(self, params: Any, f: Float[Array, "n outputs"], y: Float[Array, "n outputs"]) -> Float[Array, " n"]:
        """−½ ((y − f)/σ)² − log σ − ½ log 2π, summed over outputs."""
        noise = self.sigma(params)
        noise = noise[:, None] if noise.ndim == 1 else noise
        density = -0.5 * jnp.square((y - f) / noise) - jnp.log(noise) - 0.5 * jnp.log(2 * jnp.pi)
        return jnp.sum(density, axis=1)

    def log_prior(self, params: Any) -> Float[Array, ""]:
        """−½ ((log σ − log noise) / spread)² when σ is sampled."""
        if not self.sampled:
            return jnp.float32(0)
        return -0.5 * jnp.square((params["log_noise"] - jnp.log(self.noise)) / self.spread)

    def is_wanted(self, params: Any, y: Float[Array, "n outputs"]) -> Bool[Array, ""]:
        """Whether data or prior could want this σ: within three times the spread of y or `noise`, or z² / 2 ≤ 8."""
        near = self.sigma(params) <= WIDEST_NOISE * jnp.maximum(jnp.std(y), self.noise)
        return near | (Gaussian.log_prior(self, params) >= -LEAST_LIKELY) if self.sampled else jnp.bool_(True)

    def predict(self, functions: np.ndarray, params: Any, noise: Any = None) -> GaussianPrediction:
        """Function draws (draws, rows, outputs) with the noise of each draw, or of each new row."""
        if noise is not None:
            _checks.positive(noise, "noise")
            noise = np.asarray(noise, dtype=float)
            if noise.shape not in ((), functions.shape[1:2], functions.shape[1:]):
                raise ValueError(f"noise has shape {noise.shape} but the prediction has {functions.shape[1:]}")
            noise = noise[:, None] if noise.ndim == 1 else noise
        elif self.sampled:
            noise = np.asarray(self.sigma(params), dtype=float)[:, None, None]
        elif not self.noise.ndim:
            noise = np.asarray(self.noise, dtype=float)
        return GaussianPrediction(functions, noise)


class Categorical(eqx.Module):
    """Class labels 0 … classes−1 through a softmax: p(y = c | f) ∝ exp f_c.

    Example:
        >>> print(Categorical(classes=2).log_prob((), jnp.zeros((1, 2)), jnp.array([1])).round(2))
        [-0.69]
    """

    classes: int = eqx.field(static=True)

    def __init__(self, classes: int) -> None:
        self.classes = _checks.count(classes, "classes", least=2)

    def targets(self, y: Any) -> np.ndarray:
        """Labels as an integer vector."""
        return _checks.labels(y, self.classes)

    def outputs(self, y: Any) -> int:
        """One logit per class."""
        del y
        return self.classes

    def init(self) -> Any:
        """A softmax has no parameters of its own."""
        return ()

    def settle(self, params: Any, f: Float[Array, "n classes"], y: Int[Array, " n"]) -> Any:
        """Nothing to settle."""
        del f, y
        return params

    def rows(self, indices: Int[Array, " batch"]) -> "Categorical":
        """The same for all rows."""
        del indices
        return self

    def log_prob(self, params: Any, f: Float[Array, "n classes"], y: Int[Array, " n"]) -> Float[Array, " n"]:
        """f_y − log Σ_c exp f_c."""
        del params
        return jnp.take_along_axis(jax.nn.log_softmax(f), y[:, None], axis=1)[:, 0]

    def log_prior(self, params: Any) -> Float[Array, ""]:
        """Nothing to be uncertain about."""
        del params
        return jnp.float32(0)

    def predict(self, functions: np.ndarray, params: Any, noise: Any = None) -> CategoricalPrediction:
        """Logit draws (draws, rows, classes)."""
        del params
        if noise is not None:
            raise ValueError("a categorical likelihood has no observation noise")
        return CategoricalPrediction(functions)


class Dirichlet(Categorical):
    """Class labels through the regression targets that a Dirichlet Gaussian process is fitted to: ỹ_c ~ N(f_c, σ̃_c²).

    Targets and noises are those of `dirichlet_targets`: α₀ is `concentration`, t `noise_scale`. It says more of a label
    than a softmax does, which has little to add once a row is told apart, and it is what the kernel of
    `pretrain_classes` was fitted under. Probabilities are a softmax of the logits here too.

    Example:
        >>> labels = jnp.array([1, 1])
        >>> print(np.round(Dirichlet(classes=2).log_prob((), jnp.array([[-6.9, -0.3], [0.0, 0.0]]), labels)))
        [-2. -8.]
    """

    concentration: float = eqx.field(static=True)
    noise_scale: float = eqx.field(static=True)

    def __init__(self, classes: int, concentration: float = CONCENTRATION, noise_scale: float = 1.0) -> None:
        super().__init__(classes)
        _checks.positive(concentration, "concentration")
        _checks.positive(noise_scale, "noise_scale")
        self.concentration, self.noise_scale = float(concentration), float(noise_scale)

    def log_prob(self, params: Any, f: Float[Array, "n classes"], y: Int[Array, " n"]) -> Float[Array, " n"]:
        """−½ ((ỹ − f)/σ̃)² − log σ̃ − ½ log 2π, summed over classes."""
        labels = np.arange(self.classes)
        of_labels = dirichlet_targets(labels, self.classes, self.concentration, self.noise_scale)
        targets, noise = (jnp.asarray(each, jnp.float32)[y] for each in of_labels)
        return Gaussian(1.0).log_prob(params, f / noise, targets / noise) - jnp.sum(jnp.log(noise), axis=1)


class Weighted(eqx.Module):
    """Rows that count as so many: w_i log p(y_i | f_i), so that a weight of 2 is a row seen twice.

    Example:
        >>> twice = Weighted(Gaussian(1.0), [2.0])
        >>> round(twice.log_prob((), jnp.zeros((1, 1)), jnp.zeros((1, 1))).item(), 2)
        -1.84
    """

    likelihood: Gaussian | Categorical
    weights: Float[Array, " rows"]

    def __init__(self, likelihood: Gaussian | Categorical, weights: Any) -> None:
        if not isinstance(weights, jax.core.Tracer):
            given = np.asarray(weights, float)
            if not (np.isfinite(given).all() and (given >= 0).all() and given.any()):
                raise ValueError("weights must be finite, not negative, and not all zero")
        self.likelihood, self.weights = likelihood, jnp.asarray(weights, jnp.float32)

    def targets(self, y: Any) -> np.ndarray:
        """As of the likelihood, one for each weight."""
        targets = self.likelihood.targets(y)
        _checks.same_length(targets, np.asarray(self.weights), "y", "weights")
        return targets

    def outputs(self, y: Any) -> int:
        """As of the likelihood."""
        return self.likelihood.outputs(y)

    def init(self) -> Any:
        """As of the likelihood."""
        return self.likelihood.init()

    def log_prob(self, params: Any, f: Float[Array, "n outputs"], y: Array) -> Float[Array, " n"]:
        """w_i log p(y_i | f_i)."""
        return self.weights * self.likelihood.log_prob(params, f, y)

    def log_prior(self, params: Any) -> Float[Array, ""]:
        """As of the likelihood."""
        return self.likelihood.log_prior(params)

    def settle(self, params: Any, f: Float[Array, "n outputs"], y: Array) -> Any:
        """With residuals that count as their rows do."""
        if isinstance(self.likelihood, Categorical):
            return params
        root = jnp.sqrt(self.weights / jnp.mean(self.weights))[:, None]
        return self.likelihood.settle(params, y + root * (f - y), y)

    def rows(self, indices: Int[Array, " batch"]) -> "Weighted":
        """The rows with their weights."""
        return Weighted(self.likelihood.rows(indices), self.weights[indices])

    def predict(self, functions: np.ndarray, params: Any, noise: Any = None) -> Any:
        """As of the likelihood: a new row counts once."""
        return self.likelihood.predict(functions, params, noise)
