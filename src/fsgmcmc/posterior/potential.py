"""The posterior as a potential U(w) with a stochastic gradient.

    U(w) = −(N/n) Σ_{i in batch} log p(y_i | f(x_i; w)) + ½ Σ_c (F_c − m_c)ᵀ (K_c + δI)⁻¹ (F_c − m_c)
           + ½ Σ_j λ_j w_j²,        F = f(X_M; w)

The likelihood carries N/n, the priors no factor. What is sampled is exp(−U(w)) dw. In function space the middle
term is the prior and the last one is weak; in parameter space there is no middle term. The gradient in w is one
vector-Jacobian product of the network over the minibatch and the measurement points together.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from fsgmcmc.likelihoods.base import Likelihood
from fsgmcmc.networks.base import Network
from fsgmcmc.posterior._flatten import Flattener
from fsgmcmc.posterior.data import Batch, Data, repeated_last
from fsgmcmc.posterior.target import Target
from fsgmcmc.priors.functional import BoundPrior, BoundProcess, FixedPrior

if TYPE_CHECKING:
    import contextlib

    from fsgmcmc.samplers.base import Sampler
    from fsgmcmc.samples import Samples

# Rows whose residuals give the noise after Adam.
NOISE_ROWS = 10_000
# How far the energy of a chain may rise, in nats for each parameter, each row and each nat that it had: equilibrium is
# half a nat a parameter above the mode, minibatches scatter by about a nat a row. Unstable steps, even where the
# function is still finite, are orders of magnitude above.
LARGEST_RISE = 100.0


class Position(NamedTuple):
    """What the vector w holds: the network's parameters and the likelihood's own."""

    network: Any
    likelihood: Any


class Posterior(Target):
    """U(w) for a network, a likelihood, priors and data; built by `function_space` or `parameter_space`.

    Everything that changes from one data set to the next is an array in it, everything else is static: the
    same program serves all posteriors of the same shape.

    Attributes:
        network: f.
        flattener: The map between w and parameters.
        shares_points: Whether the measurement points begin with the training inputs, so that f is evaluated once.
        devices: Devices that share the rows of each gradient, or None.
        likelihood: p(y | f).
        functional: Terms on functions of the parameters: Gaussian-process priors, outlier exposure.
        precision: λ, the precision of the Gaussian prior on each weight.
        data: The rows.
    """

    network: Network = eqx.field(static=True)
    flattener: Flattener = eqx.field(static=True)
    shares_points: bool = eqx.field(static=True)
    devices: Mesh | None = eqx.field(static=True)
    likelihood: Likelihood
    functional: tuple[BoundPrior, ...]
    precision: Float[Array, " k"]
    data: Data

    def init(self, key: PRNGKeyArray) -> Float[Array, " k"]:
        """The network's own initialisation."""
        return self.flattener.flatten(
            Position(self.network.init(key, self.inputs, self.outputs), self.likelihood.init())
        )

    @property
    def size(self) -> int:
        """k, the number of sampled parameters."""
        return self.flattener.size

    @property
    def inputs(self) -> int:
        """Features of a row, channels of an image."""
        return self.data.rows.x.shape[-1]

    @property
    def outputs(self) -> int:
        """Outputs of the network."""
        return self.likelihood.outputs(self.data.rows.y)

    @property
    def space(self) -> str:
        """Where the prior is: "function" or "parameter"."""
        return "function" if any(isinstance(p, BoundProcess) for p in self.functional) else "parameter"

    @property
    def is_deterministic(self) -> bool:
        """Whether U is the same for every key: full batch and fixed measurement points."""
        return self.data.is_whole and all(prior.is_fixed for prior in self.functional)

    def parameters(self, w: Any) -> Position:
        """The parameters in the vector w (..., k)."""
        return self.flattener.unflatten(w)

    def check_sampler(self, sampler: "Sampler") -> None:
        """Raise an error where the sampler is for the other space, needs full batches or has another shape."""
        if sampler.preconditioner is not None and sampler.preconditioner.shape != (self.size,):
            raise ValueError(f"the preconditioner has shape {sampler.preconditioner.shape}, not ({self.size},)")
        if sampler.space == "function" and self.space != "function":
            raise ValueError(
                "this sampler is for function space, but the posterior has only a weight prior: use sgld or sghmc"
            )
        if sampler.space == "parameter" and self.space != "parameter":
            raise ValueError(
                "this sampler is for parameter space, but the posterior has a functional prior: use fsgld or fsghmc"
            )
        super().check_sampler(sampler)

    def network_mask(self) -> Bool[Array, " k"]:
        """True for the network's parameters, false for the likelihood's own."""
        network, own = self.parameters(self.precision)
        ones, zeros = jax.tree.map(jnp.ones_like, network), jax.tree.map(jnp.zeros_like, own)
        return self.flattener.flatten(Position(ones, zeros)) != 0

    def for_optimisation(self) -> Target:
        """With Gaussian noise in the place of a heavy-tailed one, and the likelihood's own parameters held.

        Far from the data heavy tails ignore most rows, and a joint mode would shrink the noise.
        """
        return _NetworkOnly(replace(self, likelihood=self.likelihood.with_gaussian_noise()))

    def after_optimisation(self, w: Float[Array, " k"]) -> Float[Array, " k"]:
        """w with noise that fits the residuals of at most 10,000 rows."""
        params, own = self.parameters(w)
        rows = self.data.rows.take(slice(NOISE_ROWS))
        fitted = self.likelihood.fit_noise(own, self.network.apply(params, rows.x), rows.y, rows.weights)
        return self.flattener.flatten(Position(params, fitted))

    def energy_limit(self, start: Float[Array, "*chains"]) -> Float[Array, "*chains"]:
        """The energy that only a diverged chain exceeds."""
        weights = self.data.rows.weights
        weight = 1.0 if weights is None else jnp.max(weights)
        return start + LARGEST_RISE * (self.size + self.data.total * weight + jnp.abs(start))

    def is_plausible(self, w: Float[Array, " k"]) -> Bool[Array, ""]:
        """False for noise that neither data nor prior support."""
        return self.likelihood.is_plausible(self.parameters(w).likelihood, self.data.rows.y)

    def samples(self, positions: Any, energy: np.ndarray, collected: Any, info: dict[str, Any]) -> "Samples":
        """Draws of the parameters, with what it takes to predict from them."""
        from fsgmcmc.samples import Samples

        return Samples(
            positions,
            energy,
            collected,
            network=self.network,
            likelihood=self.likelihood,
            flattener=self.flattener,
            inputs=self.inputs,
            outputs=self.outputs,
            info=info,
        )

    def throughput(self, steps_per_second: float, chains: int) -> str:
        """Steps a second, and for images how many of them all chains process."""
        if self.data.rows.x.ndim == 2:
            return super().throughput(steps_per_second, chains)
        images = steps_per_second * chains * self.data.rows_per_step
        return f"{steps_per_second:,.1f} steps/s, {images:,.0f} images/s"

    def host_arrays(self) -> Any:
        """Rows that stay on the host."""
        return self.data.host_arrays()

    def feeder(self, key: PRNGKeyArray, chains: int) -> "contextlib.AbstractContextManager[Any]":
        """Minibatches of host data."""
        return self.data.feeder(key, chains)

    def with_batch(self, rows: Batch) -> "Posterior":
        """With these rows as its minibatch."""
        return self.with_data(self.data.with_batch(rows))

    def device_subset(self, key: PRNGKeyArray) -> "Posterior":
        """With all of its data on the device, of host data a random part that stands for all."""
        return self.with_data(self.data.device_subset(key))

    def shard_rows(self, devices: Mesh) -> "Posterior":
        """With the rows of each gradient shared by devices."""
        return replace(self, devices=devices)

    def with_data(self, data: Data) -> "Posterior":
        """The same model of other data."""
        return replace(self, data=data)

    def padded(self, rows: int) -> "Posterior":
        """The same distribution in arrays of `rows` rows, so that data of other sizes share its programs.

        Added rows have weight zero. Fixed measurement points that begin with the rows have added points too, which meet
        zeros in the factor.
        """
        first = len(self.data.rows.x)
        more = rows - first

        def wider(prior: BoundPrior) -> BoundPrior:
            if not (self.shares_points and isinstance(prior, FixedPrior)):
                return prior
            count = len(prior.points)
            # Behind the points that are rows.
            place = np.concatenate([np.arange(first), np.arange(first, count) + more])
            points = jnp.concatenate([repeated_last(prior.points[:first], more), prior.points[first:]])
            whitening = jnp.zeros((*prior.whitening.shape[:-2], count + more, count + more), jnp.float32)
            whitening = whitening.at[..., place[:, None], place].set(prior.whitening)
            return replace(prior, points=points, whitening=whitening)

        return replace(self, data=self.data.padded(rows), functional=tuple(wider(prior) for prior in self.functional))

    def potential(self, key: PRNGKeyArray, w: Float[Array, " k"]) -> tuple[Float[Array, ""], Float[Array, " k"]]:
        """Ũ(w) and its gradient; the key draws the minibatch and the measurement points."""
        outputs, output_energy = self._stages(key)
        params, own = self.parameters(w)
        values, pull_back = jax.vjp(outputs, params)
        energy, (cotangent, own_gradient) = jax.value_and_grad(output_energy)((values, own))
        gradient = self.flattener.flatten(Position(pull_back(cotangent)[0], own_gradient))
        return energy + self._weight_energy(w), gradient + self.precision * w

    def energy(self, key: PRNGKeyArray, w: Float[Array, " k"]) -> Float[Array, ""]:
        """Ũ(w) alone, in a form that can be differentiated in any way."""
        outputs, output_energy = self._stages(key)
        params, own = self.parameters(w)
        return output_energy((outputs(params), own)) + self._weight_energy(w)

    def misfit(self, batch: Batch, values: Float[Array, "n outputs"], own: Any) -> Float[Array, ""]:
        """−(N/n) Σ ω_i log p(y_i | f_i) − log p(own): Ũ without the priors of function and weights."""
        likelihood = self.likelihood if batch.noise is None else self.likelihood.with_noise(batch.noise)
        log_prob = likelihood.log_prob(own, values, batch.y)
        log_prob = jnp.sum(log_prob if batch.weights is None else batch.weights * log_prob)
        return -self.data.total / len(batch.x) * log_prob - likelihood.log_prior(own)

    def curvature(self, key: PRNGKeyArray, w: Float[Array, " k"], v: Float[Array, " k"]) -> Float[Array, " k"]:
        """The Gauss-Newton matrix of Ũ times v: Jᵀ (∇²_f U) J v, with the network's own curvature left out.

        ∇²_f U is negative for rows in the tails of `StudentT`: use it once most rows have been fitted.
        """
        outputs, output_energy = self._stages(key)
        (params, own), (params_v, own_v) = self.parameters(w), self.parameters(v)
        push_forward = _transposed_twice if self.network.reverse_only else jax.jvp
        values, values_v = push_forward(outputs, (params,), (params_v,))
        _, pull_back = jax.vjp(outputs, params)
        _, (cotangent, own_product) = jax.jvp(jax.grad(output_energy), ((values, own),), ((values_v, own_v),))
        return self.flattener.flatten(Position(pull_back(cotangent)[0], own_product)) + self.precision * v

    def _weight_energy(self, w: Float[Array, " k"]) -> Float[Array, ""]:
        return 0.5 * jnp.sum(self.precision * w * w)

    def _stages(self, key: PRNGKeyArray) -> tuple[Callable, Callable]:
        """U as two stages: parameters to function values, and function values to energy."""
        batch_key, *prior_keys = jax.random.split(key, 1 + len(self.functional))
        batch = self.data.batch(batch_key)
        drawn = [
            prior.measure(own_key, self.data, batch.x)
            for prior, own_key in zip(self.functional, prior_keys, strict=True)
        ]
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


class _NetworkOnly(Target):
    """A posterior of the network's parameters, with the likelihood's own held where they are."""

    posterior: Posterior

    def init(self, key: PRNGKeyArray) -> Float[Array, " k"]:
        return self.posterior.init(key)

    def potential(self, key: PRNGKeyArray, w: Float[Array, " k"]) -> tuple[Float[Array, ""], Float[Array, " k"]]:
        energy, gradient = self.posterior.potential(key, w)
        return energy, self.posterior.network_mask() * gradient


def _transposed_twice(function: Callable, primals: tuple, tangents: tuple) -> tuple[Any, Any]:
    """`jax.jvp` of a function that has only a reverse mode: J is the transpose of its transpose."""
    values, pull_back = jax.vjp(function, *primals)
    _, push_forward = jax.vjp(pull_back, jax.tree.map(jnp.zeros_like, values))
    return values, push_forward(tangents)[0]
