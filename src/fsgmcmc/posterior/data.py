"""Data: rows with their targets, weights and known noise, and how a gradient sees them.

    batch(key)        the rows of one gradient: x, y, weights and noise
    total             N, the rows that a batch stands for

`InMemory` has all rows on the device, `Streamed` leaves them on the host and holds one minibatch at a time, and
`fsgmcmc.bandits.ReplayBuffer` holds the rows that an agent has seen so far.
"""

import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, Shaped

from fsgmcmc.measurement import draw_rows
from fsgmcmc.posterior.streaming import Feeder, HostRows

# Rows of host data that lie on the device during the warm-up.
DEVICE_ROWS = 10_000

# Images (n, height, width, channels) as the key alters them.
Augmentation = Callable[[PRNGKeyArray, Array], Array]


class Batch(NamedTuple):
    """Rows of the data.

    Attributes:
        x: Inputs.
        y: Targets.
        weights: How often each row counts; None is once.
        noise: Standard deviation of each observation where it is known row by row; None otherwise.
    """

    x: Float[Array, "n *features"]
    y: Shaped[Array, "n *outputs"]
    weights: Float[Array, " n"] | None = None
    noise: Float[Array, "n *outputs"] | None = None

    def take(self, rows: Any) -> "Batch":
        """Some of the rows."""
        return jax.tree.map(lambda column: column[rows], self)


class Data(eqx.Module):
    """The base class of all forms of data.

    Attributes:
        rows: The rows on the device, as a `Batch`.
    """

    rows: Batch

    @property
    def total(self) -> Any:
        """N, the rows that a batch stands for: a number, or an array where it changes."""
        return len(self.rows.x)

    @property
    def rows_per_step(self) -> int:
        """Rows in each gradient."""
        return len(self.rows.x)

    @property
    def is_whole(self) -> bool:
        """Whether each gradient sees all rows, unchanged and in one order."""
        return False

    def batch(self, key: PRNGKeyArray) -> Batch:
        """The rows of one gradient."""
        raise NotImplementedError(f"{type(self).__name__} must define batch(key)")

    def padded(self, rows: int) -> "Data":
        """The same data in arrays of `rows` rows; the added ones have weight zero."""
        raise ValueError(f"{type(self).__name__} data cannot be padded to {rows} rows")

    def host_arrays(self) -> Any:
        """Arrays that stay on the host."""
        return ()

    def feeder(self, key: PRNGKeyArray, chains: int) -> contextlib.AbstractContextManager[Any]:
        """A `Feeder` of host minibatches, or a context of None."""
        del key, chains
        return contextlib.nullcontext()

    def with_batch(self, rows: Batch) -> "Data":
        """The data with these rows on the device."""
        return replace(self, rows=rows)

    def device_subset(self, key: PRNGKeyArray) -> "Data":
        """Data whose rows are all on the device: these, or a random part of host data."""
        del key
        return self


class InMemory(Data):
    """All rows on the device.

    Attributes:
        batch_size: Rows in each gradient; None uses all.
        augment: Alters the inputs of each minibatch at random.
        stands_for: N where the rows are a part of larger data; None is all there are.
    """

    batch_size: int | None = eqx.field(static=True, default=None)
    augment: Augmentation | None = eqx.field(static=True, default=None)
    stands_for: int | None = eqx.field(static=True, default=None)

    @property
    def total(self) -> int:
        """N, the rows that a batch stands for."""
        return len(self.rows.x) if self.stands_for is None else self.stands_for

    @property
    def rows_per_step(self) -> int:
        """Rows in each gradient."""
        return self.batch_size or len(self.rows.x)

    @property
    def is_whole(self) -> bool:
        """Whether there is neither a batch size nor an augmentation."""
        return self.batch_size is None and self.augment is None

    def batch(self, key: PRNGKeyArray) -> Batch:
        """`batch_size` different rows, each equally likely."""
        batch = self.rows
        if self.batch_size is not None:
            batch = batch.take(draw_rows(key, len(batch.x), self.batch_size))
        return _augmented(key, batch, self.augment)

    def padded(self, rows: int) -> "InMemory":
        """The last row repeated, with weight zero."""
        more = rows - len(self.rows.x)
        weights = jnp.ones(len(self.rows.x)) if self.rows.weights is None else self.rows.weights
        batch = jax.tree.map(lambda column: repeated_last(column, more), self.rows._replace(weights=None))
        return replace(self, rows=batch._replace(weights=jnp.pad(weights, (0, more))))


class Streamed(Data):
    """Rows that stay on the host; `rows` is one minibatch, which `sample` replaces at every step."""

    source: HostRows = eqx.field(static=True)
    augment: Augmentation | None = eqx.field(static=True, default=None)

    @classmethod
    def of(cls, batch: Batch, batch_size: int, augment: Augmentation | None) -> "Streamed":
        """Data of host arrays."""
        source = HostRows(batch)
        return cls(jax.tree.map(jnp.asarray, source.rows(batch_size, 0)), source, augment)

    @property
    def total(self) -> int:
        """N, the rows on the host."""
        return self.source.total

    def batch(self, key: PRNGKeyArray) -> Batch:
        """The minibatch that is on the device."""
        return _augmented(key, self.rows, self.augment)

    def host_arrays(self) -> Any:
        """All rows."""
        return self.source.batch

    def feeder(self, key: PRNGKeyArray, chains: int) -> Feeder:
        """Minibatches of all chains, gathered ahead."""
        return Feeder(self.source, self.rows_per_step, _seed(key), chains)

    def device_subset(self, key: PRNGKeyArray) -> InMemory:
        """10,000 rows that represent all."""
        rows = self.source.rows(min(DEVICE_ROWS, self.total), _seed(key))
        return InMemory(jax.tree.map(jnp.asarray, rows), self.rows_per_step, self.augment, stands_for=self.total)


def repeated_last(column: Array, more: int) -> Array:
    """The column with its last entry repeated."""
    return jnp.concatenate([column, jnp.repeat(column[-1:], more, axis=0)])


def _augmented(key: PRNGKeyArray, batch: Batch, augment: Augmentation | None) -> Batch:
    if augment is None:
        return batch
    # Not 0 or 1: these are the keys that `split` gives to `draw_rows`.
    return batch._replace(x=augment(jax.random.fold_in(key, 2), batch.x))


def _seed(key: PRNGKeyArray) -> int:
    return int(jax.random.bits(key))
