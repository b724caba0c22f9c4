"""The posterior as a potential U(w) with a stochastic gradient.

    U(w) = −(N/n) Σ_{i in batch} log p(y_i | f(x_i; w)) + ½ Σ_c (F_c − m_c)ᵀ (K_c + δI)⁻¹ (F_c − m_c)
           + ½ Σ_j λ_j w_j²,        F = f(X_M; w)

The likelihood carries N/n, the priors no factor. What is sampled is exp(−U(w)) dw. In function space the middle
term is the prior and the last one is weak; in parameter space there is no middle term. The gradient in w is one
vector-Jacobian product of the network over the minibatch and the measurement points together.
"""

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Bool, Float, PRNGKeyArray, Shaped

from fsgmcmc import _checks
from fsgmcmc._ravel import Ravel
from fsgmcmc.likelihoods import Categorical, Gaussian, Likelihood
from fsgmcmc.measurement import Measurement, draw_rows, fixed, subset
from fsgmcmc.networks import Network, as_network
from fsgmcmc.priors.base import Prior, parts
from fsgmcmc.priors.functional import BoundPrior, FixedPrior, Functional
from fsgmcmc.priors.gaussian_process import GaussianProcess
from fsgmcmc.priors.weights import GaussianWeights, weak_weights
from fsgmcmc.streaming import HostRows

# Up to this many training points are all measured, in a fixed set; of more, so many are redrawn at every step.
LARGEST_FIXED_SET = 1000
REDRAWN_POINTS = 200
SETTLING_ROWS = 10_000
# Rows of host data that lie on the device during the warm-up.
RESIDENT_ROWS = 10_000
# Data beyond this are probably not standardised.
LARGEST_ORDINARY = 100.0


class Position(NamedTuple):
    """What the vector w holds: the network's parameters and the likelihood's own."""

    network: Any
    likelihood: Any


# Images (n, height, width, channels) as the key alters them.
Augmentation = Callable[[PRNGKeyArray, Array], Array]


class Batch(NamedTuple):
    """Some rows of the data, and the likelihood of these rows."""

    x: Float[Array, "n *features"]
    y: Shaped[Array, "n *outputs"]
    likelihood: Gaussian | Categorical


class Posterior(eqx.Module):
    """U(w) for a network, a likelihood, priors and data; built by `function_space` or `parameter_space`.

    Everything that changes from one data set to the next is an array in it, everything else is static: the
    same program serves all posteriors of the same shape. Where the data stay on the host (`source`), x and y are one
    minibatch, and `sample` puts another in their place at every step.
    """

    network: Network = eqx.field(static=True)
    ravel: Ravel = eqx.field(static=True)
    rows: int = eqx.field(static=True)  # N, of which x may be a part
    batch_size: int | None = eqx.field(static=True)
    shares_points: bool = eqx.field(static=True)
    augment: Augmentation | None = eqx.field(static=True)
    source: HostRows | None = eqx.field(static=True)
    devices: Mesh | None = eqx.field(static=True)  # those that share the rows of a gradient
    likelihood: Gaussian | Categorical
    functional: tuple[BoundPrior, ...]
    precision: Float[Array, " k"]
    x: Float[Array, "rows *features"]
    y: Shaped[Array, "rows *outputs"]

    def init(self, key: PRNGKeyArray) -> Float[Array, " k"]:
        """A start: the network's own initialisation."""
        inputs, outputs = self.x.shape[-1], self.likelihood.outputs(self.y)
        return self.ravel.ravel(Position(self.network.init(key, inputs, outputs), self.likelihood.init()))

    def position(self, w: Any) -> Position:
        """The parameters in the vector w (..., k)."""
        return self.ravel.unravel(w)

    def settle(self, w: Float[Array, " k"]) -> Float[Array, " k"]:
        """w with the likelihood's own parameters brought to what the network leaves, over at most 10,000 rows."""
        params, own = self.position(w)
        x, y = self.x[:SETTLING_ROWS], self.y[:SETTLING_ROWS]
        return self.ravel.ravel(Position(params, self.likelihood.settle(own, self.network.apply(params, x), y)))

    def network_mask(self) -> Bool[Array, " k"]:
        """True for the network's parameters, false for the likelihood's own."""
        ones = jax.tree.map(jnp.ones_like, self.position(self.precision).network)
        return self.ravel.ravel(Position(ones, jax.tree.map(jnp.zeros_like, self.likelihood.init()))) != 0

    @property
    def size(self) -> int:
        """k, the number of sampled parameters."""
        return self.ravel.size

    @property
    def is_deterministic(self) -> bool:
        """Whether U is the same for every key: full batch and fixed measurement points."""
        whole = self.batch_size is None and self.source is None and self.augment is None
        return whole and all(isinstance(prior, FixedPrior) for prior in self.functional)

    @property
    def total(self) -> Any:
        """N, the rows that a minibatch stands for."""
        return self.rows

    @property
    def rows_per_step(self) -> int:
        """Rows of the likelihood in each gradient."""
        return self.batch_size or len(self.x)

    def fed(self, rows: tuple[Array, Array]) -> "Posterior":
        """With these rows as its minibatch."""
        return eqx.tree_at(lambda posterior: (posterior.x, posterior.y), self, rows)

    def resident(self, seed: int) -> "Posterior":
        """Of host data, a posterior with 10,000 rows on the device that stand for all."""
        assert self.source is not None
        x, y = self.source.rows(min(RESIDENT_ROWS, self.rows), seed)
        return replace(self, x=jnp.asarray(x), y=jnp.asarray(y), batch_size=len(self.x), source=None)

    def over(self, devices: Mesh) -> "Posterior":
        """With the rows of each gradient shared out to devices."""
        return replace(self, devices=devices)

    def potential(self, key: PRNGKeyArray, w: Float[Array, " k"]) -> tuple[Float[Array, ""], Float[Array, " k"]]:
        """Ũ(w) and its gradient; the key draws the minibatch and the measurement points."""
        outputs, output_energy = self._stages(key)
        params, own = self.position(w)
        values, pull_back = jax.vjp(outputs, params)
        energy, (cotangent, own_gradient) = jax.value_and_grad(output_energy)((values, own))
        gradient = self.ravel.ravel(Position(pull_back(cotangent)[0], own_gradient))
        return energy + self._weight_energy(w), gradient + self.precision * w

    def energy(self, key: PRNGKeyArray, w: Float[Array, " k"]) -> Float[Array, ""]:
        """Ũ(w) alone, in a form that can be differentiated in any way."""
        outputs, output_energy = self._stages(key)
        params, own = self.position(w)
        return output_energy((outputs(params), own)) + self._weight_energy(w)

    def misfit(self, batch: Batch, values: Float[Array, "n outputs"], own: Any) -> Float[Array, ""]:
        """−(N/n) Σ log p(y_i | f_i) − log p(own): Ũ without the priors of function and weights."""
        log_prob = jnp.sum(batch.likelihood.log_prob(own, values, batch.y))
        return -self.total / len(batch.x) * log_prob - batch.likelihood.log_prior(own)

    def curvature(self, key: PRNGKeyArray, w: Float[Array, " k"], v: Float[Array, " k"]) -> Float[Array, " k"]:
        """The Gauss-Newton matrix of Ũ times v: Jᵀ (∇²_f U) J v, with the network's own curvature left out."""
        outputs, output_energy = self._stages(key)
        (params, own), (params_v, own_v) = self.position(w), self.position(v)
        values, values_v = jax.jvp(outputs, (params,), (params_v,))
        _, pull_back = jax.vjp(outputs, params)
        _, (cotangent, own_product) = jax.jvp(jax.grad(output_energy), ((values, own),), ((values_v, own_v),))
        return self.ravel.ravel(Position(pull_back(cotangent)[0], own_product)) + self.precision * v

    def _weight_energy(self, w: Float[Array, " k"]) -> Float[Array, ""]:
        return 0.5 * jnp.sum(self.precision * w * w)

    def _stages(self, key: PRNGKeyArray) -> tuple[Callable, Callable]:
        """U as two stages: parameters to function values, and function values to energy."""
        batch_key, *prior_keys = jax.random.split(key, 1 + len(self.functional))
        batch = self.batch(batch_key)
        drawn = [prior.draw(prior_key) for prior, prior_key in zip(self.functional, prior_keys, strict=True)]
        on_network = [prior.function is None for prior in self.functional]

        def outputs(params: Any) -> tuple[Array, list[Array]]:
            extra = [] if self.shares_points else [d[0] for d, on in zip(drawn, on_network, strict=True) if on]
            values = self._values(params, jnp.concatenate([batch.x, *extra]))
            other = [
                prior.function(params, points)
                for prior, (points, _) in zip(self.functional, drawn, strict=True)
                if prior.function is not None
            ]
            return values, other

        def output_energy(stage: tuple[tuple[Array, list[Array]], Any]) -> Array:
            (values, other), own = stage
            batch_values, rest, other = values[: len(batch.x)], values[len(batch.x) :], list(other)
            energy = self.misfit(batch, batch_values, own)
            for prior, (points, factor), on in zip(self.functional, drawn, on_network, strict=True):
                if not on:
                    measured = other.pop(0)
                elif self.shares_points:
                    measured = batch_values
                else:
                    measured, rest = rest[: len(points)], rest[len(points) :]
                energy += prior.energy(factor, measured)
            return energy

        return outputs, output_energy

    def _values(self, params: Any, x: Float[Array, "n *features"]) -> Float[Array, "n outputs"]:
        if self.devices is None:
            return self.network.apply(params, x)
        # As many rows for each device: the last one is repeated where they do not come out even.
        even = jnp.concatenate([x, jnp.repeat(x[-1:], -len(x) % self.devices.size, axis=0)])
        shares = NamedSharding(self.devices, PartitionSpec(*self.devices.axis_names))
        return self.network.apply(params, jax.lax.with_sharding_constraint(even, shares))[: len(x)]

    def batch(self, key: PRNGKeyArray) -> Batch:
        """The rows that the key draws."""
        batch = Batch(self.x, self.y, self.likelihood)
        if self.batch_size is not None:
            rows = draw_rows(key, len(self.x), self.batch_size)
            batch = Batch(self.x[rows], self.y[rows], self.likelihood.rows(rows))
        if self.augment is None:
            return batch
        return batch._replace(x=self.augment(jax.random.fold_in(key, 1), batch.x))


def function_space(
    network: Any,
    x: Any,
    y: Any,
    *,
    prior: Prior,
    likelihood: Gaussian | Categorical,
    measurement: Measurement | None = None,
    batch_size: int | None = None,
    weight_prior: GaussianWeights | None = weak_weights(),  # noqa: B008 (immutable)
    augment: Augmentation | None = None,
    stream: bool = False,
) -> Posterior:
    """The posterior whose prior is a Gaussian process on the function the network computes.

    With a functional prior alone the law of the weights is improper: units that no measurement point feels are
    free to drift. A weak Gaussian on the weights is therefore part of the model unless `weight_prior=None`.

    Args:
        network: An `MLP`, an Equinox module or a `(params, apply)` pair.
        x: Inputs (rows, features).
        y: Targets (rows,) or (rows, outputs); labels for a categorical likelihood.
        prior: A `GaussianProcess`, a `Functional`, or a sum of priors.
        likelihood: `Gaussian` or `Categorical`.
        measurement: Where a bare `GaussianProcess` is evaluated. By default the training inputs: all of them up
            to 1000 rows, 200 redrawn at every step beyond.
        batch_size: Rows of the likelihood in each gradient; None uses all.
        weight_prior: The weak prior on the weights, or None.
        augment: Alters the inputs of each minibatch at random, such as `fsgmcmc.data.Shifted(2)`. What is sampled is
            then no posterior of the data alone.
        stream: Leave the data on the host. `sample` brings each step's minibatch to the device while it works on the
            steps before, and warms up on 10,000 rows that lie on the device. Measurement points lie there as well.

    Example:
        >>> from fsgmcmc import MLP, Gaussian, GaussianProcess, rbf
        >>> x = np.linspace(-1, 1, 20)
        >>> posterior = function_space(
        ...     MLP((10,)), x, np.sin(x), prior=GaussianProcess(rbf(0.5)), likelihood=Gaussian(0.1)
        ... )
        >>> posterior.size
        31
    """
    x, y, network = _data(x, y, likelihood, network)
    terms = parts(prior)
    unknown = [term for term in terms if not isinstance(term, GaussianProcess | Functional | GaussianWeights)]
    if unknown:
        raise TypeError(f"prior must be made of GaussianProcess, Functional and GaussianWeights, not {unknown[0]!r}")
    if not isinstance(weight_prior, GaussianWeights | None):
        raise TypeError(f"weight_prior must be GaussianWeights(scale) or None, not {weight_prior!r}")
    if weight_prior is not None and not any(isinstance(term, GaussianWeights) for term in terms):
        terms = (*terms, weight_prior)
    if measurement is not None and not isinstance(measurement, Measurement):
        raise TypeError("measurement is made by fsgmcmc.measurement, such as measurement.fixed(points)")
    if measurement is None:
        measurement = fixed(x) if len(x) <= LARGEST_FIXED_SET else subset(_pool(x, stream), REDRAWN_POINTS)
    functional = tuple(
        Functional(term, measurement) if isinstance(term, GaussianProcess) else term
        for term in terms
        if isinstance(term, GaussianProcess | Functional)
    )
    if not functional:
        raise ValueError("function_space needs a functional prior, such as GaussianProcess(rbf())")
    weights = tuple(term for term in terms if isinstance(term, GaussianWeights))
    return _build(network, x, y, likelihood, functional, weights, batch_size, augment, stream)


def parameter_space(
    network: Any,
    x: Any,
    y: Any,
    *,
    likelihood: Gaussian | Categorical,
    prior: GaussianWeights = GaussianWeights(),  # noqa: B008 (immutable)
    batch_size: int | None = None,
    augment: Augmentation | None = None,
    stream: bool = False,
) -> Posterior:
    """The ordinary posterior of a Bayesian neural network: a Gaussian prior on its weights.

    Arguments are those of `function_space`.
    """
    if not isinstance(prior, GaussianWeights):
        raise TypeError(f"parameter_space takes a GaussianWeights prior, not {type(prior).__name__}")
    x, y, network = _data(x, y, likelihood, network)
    return _build(network, x, y, likelihood, (), (prior,), batch_size, augment, stream)


def _pool(x: np.ndarray, stream: bool) -> np.ndarray:
    """Among which points are drawn: all, or where the data stay on the host some that need not."""
    if not stream or len(x) <= RESIDENT_ROWS:
        return x
    return x[np.random.default_rng(0).permutation(len(x))[:RESIDENT_ROWS]]


def _data(x: Any, y: Any, likelihood: Any, network: Any) -> tuple[np.ndarray, np.ndarray, Network]:
    if not isinstance(likelihood, Likelihood):
        raise TypeError(f"likelihood must be Gaussian(noise) or Categorical(classes), not {likelihood!r}")
    x, y = _checks.matrix(x, "x"), likelihood.targets(y)
    _checks.same_length(x, y)
    for name, values in (("x", x), ("y", y)):
        largest = np.abs(values).max()
        if largest > LARGEST_ORDINARY and not np.issubdtype(values.dtype, np.integer):
            warnings.warn(
                f"{name} reaches {largest:.3g}, where a network that starts around one may not get: standardise it",
                UserWarning,
                stacklevel=3,
            )
    return x, y, as_network(network)


def _build(
    network: Network,
    x: np.ndarray,
    y: np.ndarray,
    likelihood: Gaussian | Categorical,
    functional: tuple[Functional, ...],
    weights: tuple[GaussianWeights, ...],
    batch_size: int | None,
    augment: Augmentation | None,
    stream: bool,
) -> Posterior:
    if batch_size is not None:
        batch_size = _checks.count(batch_size, "batch_size")
        batch_size = None if batch_size >= len(x) else batch_size
    if augment is not None:
        _check_augmentation(augment, x)
    rows, source = len(x), None
    if not isinstance(stream, bool):
        raise TypeError(f"stream is True or False, not {stream!r}")
    if stream:
        if batch_size is None:
            raise ValueError(f"stream=True needs a batch_size below the {rows} rows")
        if isinstance(likelihood, Gaussian) and likelihood.noise.ndim:
            raise ValueError("a noise for each row cannot be streamed: leave stream out")
        source = HostRows(x, y)
        (x, y), batch_size = source.rows(batch_size, 0), None
    outputs = likelihood.outputs(y)
    params = jax.eval_shape(lambda key: network.init(key, x.shape[-1], outputs), jax.random.key(0))
    _check_outputs(network, params, x, outputs)
    for term in functional:
        _check_points(term, params, x, outputs)
    own = likelihood.init()
    ravel = Ravel.of(Position(params, own))

    @jax.jit  # one program instead of one for every leaf
    def precision() -> Float[Array, " k"]:
        free = jax.tree.map(jnp.zeros_like, own)
        each = [ravel.ravel(Position(prior.precision(network, params), free)) for prior in weights]
        return sum(each, start=jnp.zeros(ravel.size, jnp.float32))

    bound = tuple(term.bind() for term in functional)
    shares_points = (
        batch_size is None
        and source is None
        and augment is None
        and len(bound) == 1
        and isinstance(bound[0], FixedPrior)
        and bound[0].function is None
        and np.array_equal(bound[0].points, x)
    )
    return Posterior(
        network=network,
        ravel=ravel,
        rows=rows,
        batch_size=batch_size,
        shares_points=shares_points,
        augment=augment,
        source=source,
        devices=None,
        likelihood=likelihood,
        functional=bound,
        precision=precision(),
        x=jnp.asarray(x),
        y=jnp.asarray(y),
    )


def _check_outputs(network: Network, params: Any, x: np.ndarray, outputs: int) -> None:
    try:
        shape = jax.eval_shape(network.apply, params, jax.ShapeDtypeStruct(x[:2].shape, np.float32)).shape
    except TypeError as error:
        raise ValueError(f"the network cannot be applied to inputs of shape {x.shape}: {error}") from error
    if shape != (len(x[:2]), outputs):
        raise ValueError(
            f"the network gives values of shape {shape} for {len(x[:2])} rows; "
            f"the likelihood needs ({len(x[:2])}, {outputs})"
        )


def _check_augmentation(augment: Any, x: np.ndarray) -> None:
    if not callable(augment):
        raise TypeError(
            f"augment is a function of a key and of inputs, such as fsgmcmc.data.Shifted(2), not {augment!r}"
        )
    form = jax.ShapeDtypeStruct(x[:2].shape, np.float32)
    try:
        shape = jax.eval_shape(augment, jax.random.key(0), form).shape
    except (TypeError, ValueError, IndexError) as error:
        raise ValueError(f"augment cannot be applied to inputs of shape {x.shape}: {error}") from None
    if shape != form.shape:
        raise ValueError(f"augment changes the shape of inputs from {form.shape} to {shape}")


def _check_points(prior: Functional, params: Any, x: np.ndarray, outputs: int) -> None:
    points = jax.eval_shape(prior.measurement.draw, jax.random.key(0))
    if prior.function is not None:
        shape = jax.eval_shape(prior.function, params, points).shape
        if len(shape) != 2:
            raise ValueError(f"the function of a functional prior must give (points, outputs), got shape {shape}")
        outputs = shape[1]
    elif points.shape[1:] != x.shape[1:]:
        raise ValueError(f"measurement points have {points.shape[1:]} features but x has {x.shape[1:]}")
    prior.process.check_outputs(outputs)
