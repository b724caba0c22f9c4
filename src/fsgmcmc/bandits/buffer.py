"""The replay buffer of an agent: a ring buffer of rows, which are the data of its posterior.

Minibatches and measurement points are drawn from the rows in the buffer, and N is their number.
"""

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from fsgmcmc.likelihoods import Gaussian
from fsgmcmc.posterior import Batch, Data, InMemory, Posterior
from fsgmcmc.priors.functional import SMALLEST_REDRAWN_NUGGET, BoundProcess, MinibatchPrior


class ReplayBuffer(Data):
    """The latest inputs and rewards, in a ring buffer.

    Attributes:
        seen: Number of rows added so far, including those that were overwritten.
        batch_size: Rows in each gradient.
    """

    seen: Int[Array, ""]
    batch_size: int = eqx.field(static=True, default=1)

    @classmethod
    def empty(cls, capacity: int, inputs: int, batch_size: int = 1) -> "ReplayBuffer":
        """An empty buffer for `capacity` rows."""
        return cls(Batch(jnp.zeros((capacity, inputs)), jnp.zeros((capacity, 1))), jnp.int32(0), batch_size)

    def put(self, x: Float[Array, " inputs"], y: Float[Array, ""]) -> "ReplayBuffer":
        """The buffer with one more row, which replaces the oldest row if the buffer is full."""
        place = self.seen % len(self.rows.x)
        rows = Batch(self.rows.x.at[place].set(x), self.rows.y.at[place, 0].set(y))
        return replace(self, rows=rows, seen=self.seen + 1)

    def in_batches_of(self, batch_size: int) -> "ReplayBuffer":
        """The same rows with another batch size."""
        return replace(self, batch_size=batch_size)

    @property
    def total(self) -> Int[Array, ""]:
        """N, the number of rows in the buffer; at least one, so that a row can be drawn before the first round."""
        return jnp.clip(self.seen, 1, len(self.rows.x))

    @property
    def rows_per_step(self) -> int:
        """Rows in each gradient."""
        return self.batch_size

    def draw(self, key: PRNGKeyArray, size: int) -> Int[Array, " size"]:
        """Indices of rows in the buffer, drawn with replacement."""
        return jax.random.randint(key, (size,), 0, self.total)

    def batch(self, key: PRNGKeyArray) -> Batch:
        """`batch_size` rows, drawn with replacement."""
        return self.rows.take(self.draw(key, self.batch_size))


class BufferPrior(BoundProcess):
    """A Gaussian process at rows of the buffer, which are redrawn for each gradient."""

    size: int = eqx.field(static=True)

    def draw(self, key: PRNGKeyArray, data: Any = None) -> tuple[Float[Array, "m inputs"], Float[Array, "*c m m"]]:
        """Rows of the buffer, which may repeat (the nugget allows it), and the Cholesky factor there."""
        points = data.rows.x[data.draw(key, self.size)]
        return points, self.factor(points)


def with_replay_buffer(posterior: Posterior, points: int = 40) -> Posterior:
    """The posterior with an empty replay buffer, which replaces its data and its measurement points.

    Args:
        posterior: From `function_space` or `parameter_space`, with a `batch_size`; its data are used for shapes only.
        points: Measurement points of each functional prior whose points are not rows of the minibatch.
    """
    data = posterior.data
    if not isinstance(data, InMemory) or data.augment is not None:
        raise ValueError("a replay buffer cannot stream or augment its rows: leave stream and augment out")
    if data.batch_size is None:
        raise ValueError("a replay buffer needs minibatches: give the posterior a batch_size below its number of rows")
    if data.rows.x.ndim != 2 or data.rows.y.shape[1:] != (1,):
        raise ValueError("a replay buffer needs x of shape (rows, features) and one reward per row")
    if not isinstance(posterior.likelihood, Gaussian) or data.rows.noise is not None or data.rows.weights is not None:
        raise ValueError("a replay buffer needs one noise, Gaussian(noise) or StudentT(noise), and no weights")
    # Rewards are not classes, so there is no outlier exposure.
    processes = [prior for prior in posterior.functional if isinstance(prior, BoundProcess)]
    small = [p for p in processes if float(p.process.nugget) < np.float32(SMALLEST_REDRAWN_NUGGET)]
    if small:
        raise ValueError(f"a replay buffer needs a nugget of at least {SMALLEST_REDRAWN_NUGGET:g}, such as 1e-3")
    functional = tuple(
        prior if isinstance(prior, MinibatchPrior) else BufferPrior(prior.function, prior.process, prior.weight, points)
        for prior in processes
    )
    buffer = ReplayBuffer.empty(1, posterior.inputs, data.batch_size)
    return replace(posterior, data=buffer, functional=functional)
