"""The memory of a player, and a posterior of what is in it.

The last rounds are kept in a ring. Minibatches and measurement points are drawn from what has been filled so far, and
the likelihood counts as many rows as there are.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from fsgmcmc.likelihoods import Gaussian
from fsgmcmc.posterior import Batch, Posterior
from fsgmcmc.priors.functional import SMALLEST_REDRAWN_NUGGET, BoundPrior, MinibatchPrior


class Buffer(NamedTuple):
    """The last inputs and rewards, in a ring; `seen` were ever put in."""

    x: Float[Array, "capacity inputs"]
    y: Float[Array, "capacity 1"]
    seen: Int[Array, ""]

    @classmethod
    def empty(cls, capacity: int, inputs: int) -> "Buffer":
        """Room for so many rounds."""
        return cls(jnp.zeros((capacity, inputs)), jnp.zeros((capacity, 1)), jnp.int32(0))

    def put(self, x: Float[Array, " inputs"], y: Float[Array, ""]) -> "Buffer":
        """With one more round, in the place of the oldest where all are taken."""
        place = self.seen % len(self.x)
        return Buffer(self.x.at[place].set(x), self.y.at[place, 0].set(y), self.seen + 1)

    @property
    def filled(self) -> Int[Array, ""]:
        """Places that are taken; at least one, so that something can be drawn before the first round."""
        return jnp.clip(self.seen, 1, len(self.x))

    def rows(self, key: PRNGKeyArray, size: int) -> Int[Array, " size"]:
        """Places that are taken, drawn with replacement."""
        return jax.random.randint(key, (size,), 0, self.filled)


class BufferPrior(BoundPrior):
    """A Gaussian process measured at points of the buffer, drawn anew for each gradient."""

    size: int = eqx.field(static=True)
    buffer: Buffer

    def draw(self, key: PRNGKeyArray) -> tuple[Float[Array, "m inputs"], Float[Array, "*c m m"]]:
        """Points of the buffer, some perhaps twice, which the nugget bears, and the Cholesky factor there."""
        points = self.buffer.x[self.buffer.rows(key, self.size)]
        return points, self.factor(points)


class BufferPosterior(Posterior):
    """A posterior whose data are in a buffer; built by `of_buffer`, and shown a newer one by `seeing`."""

    buffer: Buffer

    @property
    def total(self) -> Any:
        """N, the places that are taken."""
        return self.buffer.filled

    def batch(self, key: PRNGKeyArray) -> Batch:
        """Rows of the buffer."""
        rows = self.buffer.rows(key, self.rows_per_step)
        return Batch(self.buffer.x[rows], self.buffer.y[rows], self.likelihood)

    def seeing(self, buffer: Buffer) -> "BufferPosterior":
        """The posterior of what is in this buffer."""
        functional = tuple(
            replace(prior, buffer=buffer) if isinstance(prior, BufferPrior) else prior for prior in self.functional
        )
        return replace(self, buffer=buffer, functional=functional)


def of_buffer(posterior: Posterior, points: int = 40) -> BufferPosterior:
    """The posterior with a buffer, empty so far, in the place of its data and measurement points.

    Args:
        posterior: One of `function_space` or `parameter_space` with a `batch_size`; its data only tell the shapes.
        points: Measurement points of each functional prior that does not measure the minibatch.
    """
    if posterior.source is not None or posterior.augment is not None:
        raise ValueError("rows of a buffer are neither streamed nor augmented: leave stream and augment out")
    if posterior.batch_size is None:
        raise ValueError("give the posterior a batch_size below its rows: that many are drawn from the buffer")
    if posterior.x.ndim != 2 or posterior.y.shape[1:] != (1,):
        raise ValueError("a buffer holds rows of features with one reward each")
    if not isinstance(posterior.likelihood, Gaussian) or posterior.likelihood.noise.ndim:
        raise ValueError("rewards of a buffer have one noise, Gaussian(noise) or StudentT(noise), and no weights")
    small = [p for p in posterior.functional if float(p.process.nugget) < np.float32(SMALLEST_REDRAWN_NUGGET)]
    if small:
        raise ValueError(f"points of a buffer need a nugget of at least {SMALLEST_REDRAWN_NUGGET:g}, such as 1e-3")
    buffer = Buffer.empty(1, posterior.x.shape[1])
    fields = {name: getattr(posterior, name) for name in Posterior.__dataclass_fields__}
    fields["functional"] = tuple(
        prior if isinstance(prior, MinibatchPrior) else BufferPrior(prior.function, prior.process, points, buffer)
        for prior in posterior.functional
    )
    return BufferPosterior(**fields, buffer=buffer)
