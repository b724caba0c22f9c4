"""The contract of a target: what a sampler can sample, exp(−U(w)) dw for a vector w in R^k.

Required of a subclass:

    init(key)                   where a chain starts, (k,)
    potential(key, w)           Ũ(w) and its gradient; the key draws what is random, such as a minibatch

With defaults, so that a bare energy is an ordinary target:

    curvature(key, w, v)        the Hessian times v, by default the derivative of the gradient
    for_optimisation()          the target that Adam descends in the warm-up
    after_optimisation(w)       w after Adam, such as with noise fitted to the residuals
    energy_limit(start)         an energy that only a diverged chain exceeds
    is_plausible(w)             False where only a diverged chain comes
    is_deterministic            whether Ũ is the same for every key
    check_sampler(sampler)      refuse samplers that cannot sample this target
    parameters(w)               w as `sample(collect=…)` sees it
    samples(...)                the `Samples` of a finished run
    throughput(...)             the speed as the progress bar shows it

and for targets whose data stay on the host or are shared by devices:

    host_arrays(), feeder(key, chains), with_batch(rows), device_subset(key), shard_rows(devices)

A target is an `equinox.Module`: arrays are leaves, everything else is static.
"""

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Bool, Float, PRNGKeyArray

if TYPE_CHECKING:
    from fsgmcmc.samplers.base import Sampler
    from fsgmcmc.samples import Samples

Vector = Float[Array, " k"]


class Target(eqx.Module):
    """The base class of everything that can be sampled; a subclass defines `init` and `potential`."""

    def init(self, key: PRNGKeyArray) -> Vector:
        """Where a chain starts."""
        raise NotImplementedError(f"{type(self).__name__} must define init(key)")

    def potential(self, key: PRNGKeyArray, w: Vector) -> tuple[Float[Array, ""], Vector]:
        """Ũ(w) and its gradient."""
        raise NotImplementedError(f"{type(self).__name__} must define potential(key, w)")

    def curvature(self, key: PRNGKeyArray, w: Vector, v: Vector) -> Vector:
        """The Hessian of Ũ at w times v; a positive semi-definite approximation of it will do."""
        return jax.jvp(lambda w: self.potential(key, w)[1], (w,), (v,))[1]

    def for_optimisation(self) -> "Target":
        """The target that Adam descends in the warm-up."""
        return self

    def after_optimisation(self, w: Vector) -> Vector:
        """Where a chain starts after Adam has come to w."""
        return w

    def energy_limit(self, start: Float[Array, "*chains"]) -> Float[Array, "*chains"]:
        """The energy that only a diverged chain exceeds, for chains that started with energy `start`."""
        return jnp.full_like(start, jnp.inf)

    def is_plausible(self, w: Vector) -> Bool[Array, ""]:
        """False for positions that only a diverged chain reaches."""
        del w
        return jnp.bool_(True)

    @property
    def is_deterministic(self) -> bool:
        """Whether Ũ is the same for every key, as Metropolis-corrected samplers need it."""
        return True

    def check_sampler(self, sampler: "Sampler") -> None:
        """Raise an error where the sampler cannot sample this target."""
        if sampler.needs_deterministic and not self.is_deterministic:
            raise ValueError(
                "a Metropolis-corrected sampler needs the same potential at every step: "
                "leave batch_size out and use a fixed set of measurement points"
            )

    def parameters(self, w: Any) -> Any:
        """The parameters in w (…, k) as `sample(collect=…)` gets them."""
        return w

    def samples(self, positions: Any, energy: np.ndarray, collected: Any, info: dict[str, Any]) -> "Samples":
        """The draws of a finished run."""
        from fsgmcmc.samples import Samples

        return Samples(positions, energy, collected, info=info)

    def throughput(self, steps_per_second: float, chains: int) -> str:
        """The speed of all chains, for the progress bar."""
        del chains
        return f"{steps_per_second:,.0f} steps/s"

    def host_arrays(self) -> Any:
        """Arrays that are not leaves because they stay on the host; a checkpoint belongs to them too."""
        return ()

    def feeder(self, key: PRNGKeyArray, chains: int) -> contextlib.AbstractContextManager[Any]:
        """A `Feeder` of host minibatches, or a context of None where all data are on the device."""
        del key, chains
        return contextlib.nullcontext()

    def with_batch(self, rows: Any) -> "Target":
        """The target with these rows of a feeder as its minibatch."""
        del rows
        return self

    def device_subset(self, key: PRNGKeyArray) -> "Target":
        """The target with all of its data, or a random part of host data, on the device: for the warm-up."""
        del key
        return self

    def shard_rows(self, devices: Mesh) -> "Target":
        """The target with the rows of each gradient shared by devices."""
        del devices
        return self


class Energy(Target):
    """A bare target exp(−U(w)) from a function U of a vector and a start.

    Example:
        >>> target = Energy(lambda w: 0.5 * jnp.sum(w * w), jnp.zeros(3))
        >>> target.potential(jax.random.key(0), jnp.ones(3))[0].item()
        1.5
    """

    energy: Callable[[Vector], Float[Array, ""]] = eqx.field(static=True)
    start: Vector = eqx.field(converter=lambda start: jnp.asarray(start, jnp.float32))

    def init(self, key: PRNGKeyArray) -> Vector:
        """The given start."""
        del key
        return self.start

    def potential(self, key: PRNGKeyArray, w: Vector) -> tuple[Float[Array, ""], Vector]:
        """U and its gradient."""
        del key
        return jax.value_and_grad(self.energy)(w)
