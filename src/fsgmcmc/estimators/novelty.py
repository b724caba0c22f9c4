"""How far new points lie from the training data, as the prior sees it.

    d(x, x')² = ½ (k(x, x) + k(x', x') − 2 k(x, x')) / v,    v = mean of k over the training rows

For a stationary kernel d² = 1 − ρ: 0 where the function must be the same, 1 where the values are
independent. A linear part of the kernel lets d grow without bound, as its uncertainty does.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fsgmcmc.priors import GaussianProcess
from fsgmcmc.priors.kernels import evaluate

# Training rows that stand for all, and rows whose distances to them are computed at once.
REFERENCE_ROWS = 2000
ROWS_PER_CALL = 500
# Quantile of the distances between training rows beyond which a row is new.
QUANTILE = 0.99


@dataclass(frozen=True, eq=False)
class Novelty:
    """Distances to some training rows in the prior's metric."""

    process: GaussianProcess
    reference: Float[np.ndarray, "rows features"]
    threshold: float

    @classmethod
    def of(cls, process: GaussianProcess, x: np.ndarray) -> "Novelty":
        """Of the training rows x, which are in random order; of many, the first stand for all."""
        reference = x[:REFERENCE_ROWS]
        distances = cls(process, reference, np.nan).distance(reference, itself=True)
        return cls(process, reference, float(np.quantile(distances, QUANTILE)) if len(x) > 1 else 0.0)

    def distance(self, x: Float[np.ndarray, "n features"], itself: bool = False) -> Float[np.ndarray, " n"]:
        """From each row of x to the nearest reference row; to the nearest other one where x is the reference."""
        # Whole blocks, so that one program serves any number of rows.
        even = np.concatenate([x, np.repeat(x[-1:], -len(x) % ROWS_PER_CALL, axis=0)])
        blocks = [
            np.asarray(_nearest(self.process, even[at : at + ROWS_PER_CALL], self.reference, at if itself else -1))
            for at in range(0, len(x), ROWS_PER_CALL)
        ]
        return np.concatenate(blocks)[: len(x)].astype(np.float64)

    @property
    def limit(self) -> float:
        """Beyond which a row is new: the threshold, or the rounding error of float32."""
        return max(self.threshold, float(np.finfo(np.float32).eps) ** 0.5)

    def is_new(self, x: Float[np.ndarray, "n features"]) -> np.ndarray:
        """Which rows lie farther from the training rows than these from each other."""
        return self.distance(x) > self.limit


@jax.jit
def _nearest(process: GaussianProcess, x: Array, reference: Array, at: Any) -> Array:
    kernel = process.kernel if not isinstance(process.kernel, tuple) else process.kernel[0]
    own, known = evaluate(kernel, x), evaluate(kernel, reference)
    squared = 0.5 * (own[:, None] + known[None] - 2 * evaluate(kernel, x, reference)) / jnp.mean(known)
    same = (at >= 0) & (jnp.arange(len(x))[:, None] + at == jnp.arange(len(reference))[None])
    return jnp.sqrt(jnp.maximum(jnp.min(jnp.where(same, jnp.inf, squared), axis=1), 0.0))
