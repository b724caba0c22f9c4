"""Minibatches from the host, for data that do not fit on the device.

The rows of chain c at step t are a function of (seed, c, t), so that a run can be cut anywhere. While the device works
on some steps, a thread gathers the rows of the next ones and sends them to the device.
"""

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import jax
import numpy as np

# Memory that the rows of one call may take on the device; those of the next are there at the same time.
FEED_BYTES = 64 << 20
MOST_STEPS = 64


@dataclass(frozen=True, eq=False)
class HostRows:
    """All data, on the host, as a pytree of arrays with rows along their first axis.

    Two of them are equal when their shapes are: compiled programs get only minibatches of them.
    """

    batch: Any

    @property
    def form(self) -> tuple:
        """Structure, shapes and types."""
        columns, structure = jax.tree.flatten(self.batch)
        return (structure, *((column.shape, column.dtype) for column in columns))

    @property
    def total(self) -> int:
        """How many rows there are."""
        return len(jax.tree.leaves(self.batch)[0])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HostRows) and self.form == other.form

    def __hash__(self) -> int:
        return hash(self.form)

    def __repr__(self) -> str:
        return f"HostRows{self.form}"

    def rows(self, size: int, *seed: int) -> Any:
        """`size` different rows, each equally likely."""
        chosen = np.random.default_rng(seed).choice(self.total, size, replace=False)
        return jax.tree.map(lambda column: column[chosen], self.batch)


class Feeder:
    """Rows for the steps of all chains, gathered ahead; leaves (chains, steps, n, …).

    Args:
        source: All data.
        size: n, the rows of a step.
        seed: Seed of the choice of rows.
        chains: How many there are.
    """

    def __init__(self, source: HostRows, size: int, seed: int, chains: int) -> None:
        self.source, self.size, self.seed, self.chains = source, size, seed, chains
        bytes_per_step = chains * size * sum(column[:1].nbytes for column in jax.tree.leaves(source.batch))
        self.steps = int(np.clip(FEED_BYTES // bytes_per_step, 1, MOST_STEPS))
        self._thread = ThreadPoolExecutor(1)
        self._ahead: dict[int, Future] = {}

    def __enter__(self) -> "Feeder":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.shutdown(cancel_futures=True)

    def prepare(self, first: int) -> None:
        """Start to gather the rows of the steps from `first` on."""
        self._ahead = {first: self._thread.submit(self._gather, first)}

    def take(self, first: int) -> Any:
        """The rows of the steps from `first` on."""
        if first not in self._ahead:
            self.prepare(first)
        return self._ahead.pop(first).result()

    def _gather(self, first: int) -> Any:
        batches = [
            [self.source.rows(self.size, self.seed, chain, step) for step in range(first, first + self.steps)]
            for chain in range(self.chains)
        ]
        chains = [jax.tree.map(lambda *columns: np.stack(columns), *steps) for steps in batches]
        return jax.device_put(jax.tree.map(lambda *columns: np.stack(columns), *chains))
