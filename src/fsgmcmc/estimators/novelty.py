"""How far new points lie from the training data: above 1 they extrapolate.

    d(x, x')² = ½ (k(x, x) + k(x', x') − 2 k(x, x')) / v,    v = mean of k over the training rows
    novelty(x) = max(min_i d(x, x_i) / threshold, max_j e_j(x) / 0.05)

For a stationary kernel d² = 1 − ρ: 0 where the function must be the same, 1 where the values are independent. A linear
part of the kernel lets d grow without bound, as its uncertainty does. The threshold is the 99 % quantile of the
distances between training rows. e_j is how far x lies outside the range of feature j, in units of that range: a kernel
that has found no effect of a feature does not see a shift of it.
"""

from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fsgmcmc.priors import GaussianProcess
from fsgmcmc.priors.kernels import evaluate

# Training rows that represent all, and rows whose distances to them are computed at once.
REFERENCE_ROWS = 2000
ROWS_PER_CALL = 500
# Quantile of the distances between training rows beyond which a row is new.
QUANTILE = 0.99
# Share of a feature's range by which a row may lie outside it.
MARGIN = 0.05


@dataclass(frozen=True, eq=False)
class Novelty:
    """Distances to some training rows in the prior's metric, and the range of all of them."""

    process: GaussianProcess
    reference: Float[np.ndarray, "rows features"]
    threshold: float
    lowest: Float[np.ndarray, " features"]
    highest: Float[np.ndarray, " features"]

    @classmethod
    def of(cls, process: GaussianProcess, x: np.ndarray) -> "Novelty":
        """Of the training rows x, which are in random order; of many, the first represent all."""
        ends = x.min(axis=0), x.max(axis=0)
        unknown = cls(process, x[:REFERENCE_ROWS], 0.0, *ends)
        if len(x) == 1:
            return unknown
        return replace(
            unknown, threshold=float(np.quantile(unknown.distance(unknown.reference, itself=True), QUANTILE))
        )

    def score(self, x: Float[np.ndarray, "n features"]) -> Float[np.ndarray, " n"]:
        """The novelty of each row: above 1 it is new."""
        # At least the rounding error of float32.
        limit = max(self.threshold, float(np.finfo(np.float32).eps) ** 0.5)
        span = self.highest - self.lowest
        excess = np.maximum(np.maximum(self.lowest - x, x - self.highest), 0.0) / np.where(span > 0, span, 1.0)
        return np.maximum(self.distance(x) / limit, excess.max(axis=1) / MARGIN)

    def distance(self, x: Float[np.ndarray, "n features"], itself: bool = False) -> Float[np.ndarray, " n"]:
        """From each row of x to the nearest reference row; to the nearest other one where x is the reference."""
        # Whole blocks, so that one program serves any number of rows.
        even = np.concatenate([x, np.repeat(x[-1:], -len(x) % ROWS_PER_CALL, axis=0)])
        blocks = [
            np.asarray(_nearest(self.process, even[at : at + ROWS_PER_CALL], self.reference, at if itself else -1))
            for at in range(0, len(x), ROWS_PER_CALL)
        ]
        return np.concatenate(blocks)[: len(x)].astype(np.float64)


@jax.jit
def _nearest(process: GaussianProcess, x: Array, reference: Array, at: Any) -> Array:
    kernel = process.kernel if not isinstance(process.kernel, tuple) else process.kernel[0]
    own, known = evaluate(kernel, x), evaluate(kernel, reference)
    squared = 0.5 * (own[:, None] + known[None] - 2 * evaluate(kernel, x, reference)) / jnp.mean(known)
    same = (at >= 0) & (jnp.arange(len(x))[:, None] + at == jnp.arange(len(reference))[None])
    return jnp.sqrt(jnp.maximum(jnp.min(jnp.where(same, jnp.inf, squared), axis=1), 0.0))
