"""Minibatches from the host: for data that the device does not hold.

The rows of chain c at step t are a function of (seed, c, t), so that a run can be cut anywhere. While the device works
on some steps, a thread gathers the rows of the next ones and sends them over.
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
    """All data, on the host.

    Two of them are equal when their shapes are: compiled programs see only the rows that are fed to them.
    """

    x: np.ndarray
    y: np.ndarray

    @property
    def form(self) -> tuple:
        """Shapes and types."""
        return (self.x.shape, self.x.dtype, self.y.shape, self.y.dtype)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HostRows) and self.form == other.form

    def __hash__(self) -> int:
        return hash(self.form)

    def __repr__(self) -> str:
        return f"HostRows{self.form}"

    def rows(self, size: int, *seed: int) -> tuple[np.ndarray, np.ndarray]:
        """`size` different rows, each equally likely."""
        chosen = np.random.default_rng(seed).choice(len(self.x), size, replace=False)
        return self.x[chosen], self.y[chosen]


class Feeder:
    """Rows for the steps of all chains, gathered ahead; leaves (chains, steps, n, …).

    Args:
        source: All data.
        size: n, the rows of a step.
        seed: Of the choice of rows.
        chains: How many there are.
    """

    def __init__(self, source: HostRows, size: int, seed: int, chains: int) -> None:
        self.source, self.size, self.seed, self.chains = source, size, seed, chains
        bytes_per_step = chains * size * (source.x[:1].nbytes + source.y[:1].nbytes)
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
        """Begin with the steps from `first` on."""
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
        x, y = (np.stack([[batch[part] for batch in chain] for chain in batches]) for part in (0, 1))
        return jax.device_put((x, y))
