"""`function_space` and `parameter_space`: build a posterior from a network, data, a likelihood and priors."""

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fsgmcmc import _checks
from fsgmcmc.likelihoods.base import LIKELIHOODS, Likelihood
from fsgmcmc.measurement import Measurement, Minibatch, fixed, subset
from fsgmcmc.networks import Network, as_network
from fsgmcmc.posterior._flatten import Flattener
from fsgmcmc.posterior.data import DEVICE_ROWS, Augmentation, Batch, InMemory, Streamed
from fsgmcmc.posterior.potential import Position, Posterior
from fsgmcmc.priors.base import Prior, parts
from fsgmcmc.priors.exposure import OutlierExposure
from fsgmcmc.priors.functional import FixedPrior, Functional
from fsgmcmc.priors.gaussian_process import GaussianProcess
from fsgmcmc.priors.weights import GaussianWeights, weak_weights

# Up to this many training points are all measured, in a fixed set; of more, so many are redrawn at every step.
LARGEST_FIXED_SET = 1000
REDRAWN_POINTS = 200
# Data beyond this are probably not standardised.
LARGEST_ORDINARY = 100.0

# Priors that are evaluated at measurement points.
Measured = Functional | OutlierExposure


def function_space(
    network: Any,
    x: Any,
    y: Any,
    *,
    prior: Prior,
    likelihood: Likelihood,
    measurement: Measurement | None = None,
    batch_size: int | None = None,
    weight_prior: GaussianWeights | None = weak_weights(),  # noqa: B008 (immutable)
    weights: Any = None,
    noise: Any = None,
    augment: Augmentation | None = None,
    stream: bool = False,
) -> Posterior:
    """The posterior whose prior is a Gaussian process on the function the network computes.

    With a functional prior alone the distribution of the weights is improper: units that are constant at all
    measurement points can drift. A weak Gaussian on the weights is therefore part of the model unless
    `weight_prior=None`.

    Args:
        network: An `MLP` or another `Network`, an Equinox module or a `(params, apply)` pair.
        x: Inputs (rows, features).
        y: Targets (rows,) or (rows, outputs); labels for a categorical likelihood.
        prior: A `GaussianProcess`, a `Functional`, or a sum of priors, which may have `OutlierExposure`.
        likelihood: `Gaussian`, `StudentT`, `Categorical`, `Dirichlet`, or a `Likelihood` of your own.
        measurement: Where a bare `GaussianProcess` is evaluated. By default the training inputs: all of them up
            to 1000 rows, 200 redrawn at every step beyond.
        batch_size: Rows of the likelihood in each gradient; None uses all.
        weight_prior: The weak prior on the weights, or None.
        weights: How often each row counts, (rows,): a weight of 2 is a row seen twice.
        noise: Standard deviation of each observation, (rows,) or (rows, outputs), where it is known row by row; the
            likelihood's own scale is then not used.
        augment: Alters the inputs of each minibatch at random, such as `fsgmcmc.data.Shifted(2)`. The result is then
            not the posterior of the data alone.
        stream: Leave the data on the host. `sample` copies the minibatch of each step to the device while it works on
            the steps before, and warms up on 10,000 rows on the device. Measurement points are on the device as well.

    Example:
        >>> from fsgmcmc import MLP, Gaussian, GaussianProcess, rbf
        >>> x = np.linspace(-1, 1, 20)
        >>> posterior = function_space(
        ...     MLP((10,)), x, np.sin(x), prior=GaussianProcess(rbf(0.5)), likelihood=Gaussian(0.1)
        ... )
        >>> posterior.size
        31
    """
    batch, likelihood, network = _checked(x, y, weights, noise, likelihood, network)
    terms = parts(prior)
    unknown = [term for term in terms if not isinstance(term, GaussianProcess | GaussianWeights | Measured)]
    if unknown:
        raise TypeError(
            "prior must be made of GaussianProcess, Functional, GaussianWeights and OutlierExposure, "
            f"not {unknown[0]!r}"
        )
    if not isinstance(weight_prior, GaussianWeights | None):
        raise TypeError(f"weight_prior must be GaussianWeights(scale) or None, not {weight_prior!r}")
    if weight_prior is not None and not any(isinstance(term, GaussianWeights) for term in terms):
        terms = (*terms, weight_prior)
    if measurement is not None and not isinstance(measurement, Measurement):
        raise TypeError("measurement is made by fsgmcmc.measurement, such as measurement.fixed(points)")
    if measurement is not None and not any(isinstance(term, GaussianProcess) for term in terms):
        raise ValueError("measurement is for a bare GaussianProcess: the terms of this prior have points of their own")
    if measurement is None:
        few = len(batch.x) <= LARGEST_FIXED_SET
        measurement = fixed(batch.x) if few else subset(_pool(batch.x, stream), REDRAWN_POINTS)
    functional = tuple(
        Functional(term, measurement) if isinstance(term, GaussianProcess) else term
        for term in terms
        if isinstance(term, GaussianProcess | Measured)
    )
    if not any(isinstance(term, Functional) for term in functional):
        raise ValueError("function_space needs a functional prior, such as GaussianProcess(rbf())")
    weight_priors = tuple(term for term in terms if isinstance(term, GaussianWeights))
    return _build(network, batch, likelihood, functional, weight_priors, batch_size, augment, stream)


def parameter_space(
    network: Any,
    x: Any,
    y: Any,
    *,
    likelihood: Likelihood,
    prior: Prior = GaussianWeights(),  # noqa: B008 (immutable)
    batch_size: int | None = None,
    weights: Any = None,
    noise: Any = None,
    augment: Augmentation | None = None,
    stream: bool = False,
) -> Posterior:
    """The ordinary posterior of a Bayesian neural network: a Gaussian prior on its weights.

    Args:
        network: As in `function_space`, like all other arguments.
        x: Inputs (rows, features).
        y: Targets (rows,) or (rows, outputs); labels for a categorical likelihood.
        likelihood: A `Likelihood`.
        prior: A Gaussian on the weights, `GaussianWeights`, or a sum of it and of `OutlierExposure`.
        batch_size: Rows of the likelihood in each gradient; None uses all.
        weights: How often each row counts.
        noise: Standard deviation of each observation, where it is known row by row.
        augment: Alters the inputs of each minibatch at random.
        stream: Leave the data on the host.
    """
    terms = parts(prior)
    unknown = [term for term in terms if not isinstance(term, GaussianWeights | OutlierExposure)]
    if unknown:
        raise TypeError(
            f"parameter_space takes a prior of GaussianWeights and OutlierExposure, not {type(unknown[0]).__name__}"
        )
    exposure = tuple(term for term in terms if isinstance(term, OutlierExposure))
    weight_priors = tuple(term for term in terms if isinstance(term, GaussianWeights))
    if not weight_priors:
        raise ValueError("parameter_space needs a prior on the weights, such as GaussianWeights()")
    batch, likelihood, network = _checked(x, y, weights, noise, likelihood, network)
    return _build(network, batch, likelihood, exposure, weight_priors, batch_size, augment, stream)


def _pool(x: Any, stream: bool) -> Any:
    """The points that are drawn from: all rows, or a part where the data stay on the host."""
    if not stream or len(x) <= DEVICE_ROWS:
        return x
    return x[np.random.default_rng(0).permutation(len(x))[:DEVICE_ROWS]]


def _checked(
    x: Any, y: Any, weights: Any, noise: Any, likelihood: Any, network: Any
) -> tuple[Batch, Likelihood, Network]:
    """All rows on the host, the likelihood, and the network."""
    if not isinstance(likelihood, Likelihood):
        known = ", ".join(LIKELIHOODS.classes)
        raise TypeError(f"likelihood must be one of {known} or your own subclass of Likelihood, not {likelihood!r}")
    x, y = _checks.matrix(x, "x"), likelihood.targets(y)
    _checks.same_length(x, y)
    for name, values in (("x", x), ("y", y)):
        largest = np.abs(values).max()
        if largest > LARGEST_ORDINARY and not np.issubdtype(values.dtype, np.integer):
            warnings.warn(
                f"{name} reaches {largest:.3g}, far from the initial scale of a network: standardise it",
                UserWarning,
                stacklevel=3,
            )
    if weights is not None:
        weights = _checks.finite(weights, "weights")
        if weights.shape != (len(x),) or (weights < 0).any() or not weights.any():
            raise ValueError(f"weights must be {len(x)} numbers, not negative and not all zero")
    if noise is not None:
        noise = _checks.finite(noise, "noise")
        _checks.positive(noise, "noise")
        if noise.shape not in (y.shape[:1], y.shape):
            raise ValueError(f"noise has shape {noise.shape} but y has {len(y)} rows and {y.shape[1:]} outputs")
        likelihood = likelihood.for_row_noise()
    return Batch(x, y, weights, noise), likelihood, as_network(network)


def _build(
    network: Network,
    rows: Batch,
    likelihood: Likelihood,
    functional: tuple[Measured, ...],
    weight_priors: tuple[GaussianWeights, ...],
    batch_size: int | None,
    augment: Augmentation | None,
    stream: bool,
) -> Posterior:
    x, total = rows.x, len(rows.x)
    if batch_size is not None:
        batch_size = _checks.count(batch_size, "batch_size")
        batch_size = None if batch_size >= total else batch_size
    if augment is not None:
        _check_augmentation(augment, x)
    if not isinstance(stream, bool):
        raise TypeError(f"stream is True or False, not {stream!r}")
    for term in functional:
        if isinstance(term.measurement, Minibatch) and (batch_size or 0) < term.measurement.size:
            raise ValueError(
                f"measurement.minibatch({term.measurement.size}) needs a batch_size of at least as many rows, "
                f"and below the {total} of the data"
            )
    data: InMemory | Streamed
    if stream:
        if batch_size is None:
            raise ValueError(f"stream=True needs a batch_size below the {total} rows")
        data = Streamed.of(rows, batch_size, augment)
    else:
        data = InMemory(jax.tree.map(jnp.asarray, rows), batch_size, augment)
    outputs = _checks.count(likelihood.outputs(rows.y), f"the number of outputs of {type(likelihood).__name__}")
    own = jax.tree.map(jnp.asarray, likelihood.init())
    _check_likelihood(likelihood, own, rows.y, outputs)
    params = jax.eval_shape(lambda key: network.init(key, x.shape[-1], outputs), jax.random.key(0))
    _check_outputs(network, params, x, outputs)
    if any(isinstance(term, OutlierExposure) for term in functional) and not np.issubdtype(rows.y.dtype, np.integer):
        raise TypeError(f"OutlierExposure is for likelihoods of class labels, not {type(likelihood).__name__}")
    for term in functional:
        _check_points(term, params, x, outputs)
    flattener = Flattener.of(Position(params, own))

    @jax.jit  # one program instead of one for every leaf
    def precision() -> Float[Array, " k"]:
        free = jax.tree.map(jnp.zeros_like, own)
        each = [flattener.flatten(Position(prior.precision(network, params), free)) for prior in weight_priors]
        return sum(each, start=jnp.zeros(flattener.size, jnp.float32))

    bound = tuple(term.bind() for term in functional)
    shares_points = (
        data.is_whole
        and len(bound) == 1
        and isinstance(bound[0], FixedPrior)
        and bound[0].function is None
        and np.array_equal(bound[0].points[: len(x)], x)
    )
    return Posterior(
        network=network,
        flattener=flattener,
        shares_points=shares_points,
        devices=None,
        likelihood=likelihood,
        functional=bound,
        precision=precision(),
        data=data,
    )


def _check_likelihood(likelihood: Likelihood, own: Any, y: Any, outputs: int) -> None:
    """Its densities must have the shapes of the contract: other shapes would broadcast to a wrong sum."""
    name, rows = type(likelihood).__name__, y[:3]
    for method in ("log_prob", "predict"):
        if getattr(type(likelihood), method) is getattr(Likelihood, method):
            raise TypeError(f"{name} must define {method}; docs/own-likelihood.md has the contract")
    if any(not jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in jax.tree.leaves(own)):
        raise TypeError(f"init of {name} must return a pytree of floats: sampled parameters are real numbers")
    values = jax.ShapeDtypeStruct((len(rows), outputs), np.float32)
    try:
        density = jax.eval_shape(likelihood.log_prob, own, values, jnp.asarray(rows))
        prior = jax.eval_shape(likelihood.log_prior, own)
        shapes = density.shape, prior.shape
    except (TypeError, ValueError, AttributeError) as error:
        raise TypeError(f"log_prob or log_prior of {name} cannot be computed with jax.numpy: {error}") from error
    if shapes != ((len(rows),), ()):
        raise ValueError(
            f"log_prob of {name} must return one number per row and log_prior one number: for {len(rows)} rows they "
            f"have shapes {shapes[0]} and {shapes[1]} instead of ({len(rows)},) and ()"
        )


def _check_outputs(network: Network, params: Any, x: Any, outputs: int) -> None:
    name, leaves = type(network).__name__, jax.tree.leaves(params)
    if not leaves:
        raise ValueError(f"init of {name} returns no parameters: there is nothing to sample")
    if any(not jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in leaves):
        raise TypeError(f"init of {name} must return a pytree of float arrays: keep integers and flags in its fields")
    try:
        shape = jax.eval_shape(network.apply, params, jax.ShapeDtypeStruct(x[:2].shape, np.float32)).shape
    except (TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"the network cannot be applied to inputs of shape {x.shape}: {error}") from error
    if shape != (len(x[:2]), outputs):
        raise ValueError(
            f"the network gives values of shape {shape} for {len(x[:2])} rows; "
            f"the likelihood needs ({len(x[:2])}, {outputs})"
        )


def _check_augmentation(augment: Any, x: Any) -> None:
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


def _check_points(prior: Measured, params: Any, x: Any, outputs: int) -> None:
    if isinstance(prior.measurement, Minibatch):
        points = jax.ShapeDtypeStruct((prior.measurement.size, *x.shape[1:]), np.float32)
    else:
        points = jax.eval_shape(prior.measurement.draw, jax.random.key(0))
    if prior.function is not None:
        shape = jax.eval_shape(prior.function, params, points).shape
        if len(shape) != 2:
            raise ValueError(f"the function of a functional prior must give (points, outputs), got shape {shape}")
        outputs = shape[1]
    elif points.shape[1:] != x.shape[1:]:
        raise ValueError(f"measurement points have {points.shape[1:]} features but x has {x.shape[1:]}")
    prior.check_outputs(outputs)
