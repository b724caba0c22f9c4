"""The posterior as a potential U(w) with a stochastic gradient.

    U(w) = −(N/n) Σ_{i in batch} log p(y_i | f(x_i; w)) + ½ Σ_c (F_c − m_c)ᵀ (K_c + δI)⁻¹ (F_c − m_c)
           + ½ Σ_j λ_j w_j²,        F = f(X_M; w)

The likelihood carries N/n, the priors no factor. What is sampled is exp(−U(w)) dw. In function space the middle
term is the prior and the last one is weak; in parameter space there is no middle term. The gradient in w is one
vector-Jacobian product of the network over the minibatch and the measurement points together.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Bool, Float, PRNGKeyArray, Shaped

from fsgmcmc._ravel import Ravel
from fsgmcmc.likelihoods import Gaussian, Likelihood, Weighted
from fsgmcmc.measurement import draw_rows
from fsgmcmc.networks import Network, has_forward_mode
from fsgmcmc.priors.functional import BoundPrior, FixedPrior
from fsgmcmc.streaming import HostRows

SETTLING_ROWS = 10_000
# Rows of host data that lie on the device during the warm-up.
RESIDENT_ROWS = 10_000
# How far the energy of a chain may rise, in nats for each parameter, each row and each nat that it had: equilibrium is
# half a nat a parameter above the mode, minibatches scatter by about a nat a row. Steps that have become unstable
# where the function still is finite are orders of magnitude above.
LARGEST_RISE = 100.0


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
    likelihood: Likelihood


class Posterior(eqx.Module):
    """U(w) for a network, a likelihood, priors and data; built by `function_space` or `parameter_space` of `spaces.py`.

    Everything that changes from one data set to the next is an array in it, everything else is static: the
    same program serves all posteriors of the same shape. Where the data stay on the host (`source`), x and y are one
    minibatch, and `sample` puts another in their place at every step.
    """

    network: Network = eqx.field(static=True)
    ravel: Ravel = eqx.field(static=True)
    rows: int = eqx.field(static=True)  # N, of which x may be a part
    batch_size: int | None = eqx.field(static=True)
    shares_points: bool = eqx.field(static=True)  # measurement points begin with x
    augment: Augmentation | None = eqx.field(static=True)
    source: HostRows | None = eqx.field(static=True)
    devices: Mesh | None = eqx.field(static=True)  # those that share the rows of a gradient
    likelihood: Likelihood
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
        likelihood = self.likelihood.rows(jnp.arange(len(x)))
        return self.ravel.ravel(Position(params, likelihood.settle(own, self.network.apply(params, x), y)))

    def network_mask(self) -> Bool[Array, " k"]:
        """True for the network's parameters, false for the likelihood's own."""
        network, own = self.position(self.precision)
        return self.ravel.ravel(Position(jax.tree.map(jnp.ones_like, network), jax.tree.map(jnp.zeros_like, own))) != 0

    def eased(self) -> "Posterior":
        """With Gaussian noise in the place of one with heavy tails, which a descent from far away does not get past."""
        noise = self._noise
        if noise is None:
            return self
        eased = noise.without_tails()
        if isinstance(self.likelihood, Weighted):
            return replace(self, likelihood=Weighted(eased, self.likelihood.weights))
        return replace(self, likelihood=eased)

    @property
    def _noise(self) -> Gaussian | None:
        """The likelihood of one row where it has a noise."""
        likelihood = self.likelihood.likelihood if isinstance(self.likelihood, Weighted) else self.likelihood
        return likelihood if isinstance(likelihood, Gaussian) else None

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

    def highest_energy(self, start: Float[Array, "*chains"]) -> Float[Array, "*chains"]:
        """What the energy of a chain that began with `start` cannot exceed unless it has run away."""
        weight = jnp.max(self.likelihood.weights) if isinstance(self.likelihood, Weighted) else 1.0
        return start + LARGEST_RISE * (self.size + self.rows * weight + jnp.abs(start))

    def has_wanted_noise(self, w: Float[Array, " k"]) -> Bool[Array, ""]:
        """False where a sampled noise is larger than data or prior could want."""
        noise = self._noise
        return jnp.bool_(True) if noise is None else noise.is_wanted(self.position(w).likelihood, self.y)

    def padded(self, rows: int) -> "Posterior":
        """The same law in arrays of `rows` rows, so that data of other sizes share its programs.

        The rows that are added weigh nothing (the likelihood is `Weighted`), and fixed measurement points that are
        added meet zeros in the factor.
        """
        assert isinstance(self.likelihood, Weighted)
        assert self.shares_points or not any(isinstance(prior, FixedPrior) for prior in self.functional)
        more = rows - len(self.x)

        def repeated(array: Array) -> Array:
            return jnp.concatenate([array, jnp.repeat(array[-1:], more, axis=0)])

        def wider(prior: BoundPrior) -> BoundPrior:
            if not isinstance(prior, FixedPrior):
                return prior
            count, first = len(prior.points), len(self.x)
            # Behind the points that are rows.
            place = np.concatenate([np.arange(first), np.arange(first, count) + more])
            points = jnp.concatenate([repeated(prior.points[:first]), prior.points[first:]])
            whitening = jnp.zeros((*prior.whitening.shape[:-2], count + more, count + more), jnp.float32)
            whitening = whitening.at[..., place[:, None], place].set(prior.whitening)
            return replace(prior, points=points, whitening=whitening)

        likelihood = Weighted(self.likelihood.likelihood, jnp.pad(self.likelihood.weights, (0, more)))
        functional = tuple(wider(prior) for prior in self.functional)
        x, y = repeated(self.x), repeated(self.y)
        return replace(self, x=x, y=y, rows=rows, likelihood=likelihood, functional=functional)

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
        """The Gauss-Newton matrix of Ũ times v: Jᵀ (∇²_f U) J v, with the network's own curvature left out.

        ∇²_f U is negative for rows in the tails of `StudentT`: it tells of a step once most rows have been fitted.
        """
        outputs, output_energy = self._stages(key)
        (params, own), (params_v, own_v) = self.position(w), self.position(v)
        push_forward = jax.jvp if has_forward_mode(self.network) else _transposed_twice
        values, values_v = push_forward(outputs, (params,), (params_v,))
        _, pull_back = jax.vjp(outputs, params)
        _, (cotangent, own_product) = jax.jvp(jax.grad(output_energy), ((values, own),), ((values_v, own_v),))
        return self.ravel.ravel(Position(pull_back(cotangent)[0], own_product)) + self.precision * v

    def _weight_energy(self, w: Float[Array, " k"]) -> Float[Array, ""]:
        return 0.5 * jnp.sum(self.precision * w * w)

    def _stages(self, key: PRNGKeyArray) -> tuple[Callable, Callable]:
        """U as two stages: parameters to function values, and function values to energy."""
        batch_key, *prior_keys = jax.random.split(key, 1 + len(self.functional))
        batch = self.batch(batch_key)
        drawn = [prior.measure(own_key, batch.x) for prior, own_key in zip(self.functional, prior_keys, strict=True)]
        shared = [prior.shared_rows(len(batch.x)) for prior in self.functional]
        on_network = [prior.function is None for prior in self.functional]

        def outputs(params: Any) -> tuple[Array, list[Array]]:
            seen = len(batch.x) if self.shares_points else 0
            extra = [
                points[seen:]
                for (points, _), rows, on in zip(drawn, shared, on_network, strict=True)
                if on and rows is None
            ]
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
            for prior, (points, factor), rows, on in zip(self.functional, drawn, shared, on_network, strict=True):
                if not on:
                    measured = other.pop(0)
                elif self.shares_points:
                    measured = values
                elif rows is not None:
                    measured = batch_values[rows]
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
        # Not 0 or 1: these are the keys that `split` gives to `draw_rows`.
        return batch._replace(x=self.augment(jax.random.fold_in(key, 2), batch.x))


def _transposed_twice(function: Callable, primals: tuple, tangents: tuple) -> tuple[Any, Any]:
    """`jax.jvp` of a function that has only a reverse mode: J is the transpose of its transpose."""
    values, pull_back = jax.vjp(function, *primals)
    _, push_forward = jax.vjp(pull_back, jax.tree.map(jnp.zeros_like, values))
    return values, push_forward(tangents)[0]
