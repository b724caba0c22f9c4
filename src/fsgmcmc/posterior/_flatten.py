"""Parameters as one vector w, and back."""

import math
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


@dataclass(frozen=True)
class Flattener:
    """The map between a pytree of float arrays and a float32 vector.

    Unlike the closure of `jax.flatten_util.ravel_pytree` it compares by content, so that programs compiled for
    one posterior serve every other of the same shape.
    """

    structure: Any
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[Any, ...]

    @classmethod
    def of(cls, tree: Any) -> "Flattener":
        """The map for trees like this one (arrays or shape descriptions)."""
        leaves, structure = jax.tree.flatten(tree)
        leaves = [leaf if hasattr(leaf, "shape") else jnp.asarray(leaf) for leaf in leaves]
        return cls(structure, tuple(leaf.shape for leaf in leaves), tuple(leaf.dtype for leaf in leaves))

    @property
    def size(self) -> int:
        """k, the length of the vector."""
        return sum(math.prod(shape) for shape in self.shapes)

    def flatten(self, tree: Any) -> Float[Array, " k"]:
        """The tree as a vector."""
        leaves = [jnp.ravel(leaf).astype(jnp.float32) for leaf in self.structure.flatten_up_to(tree)]
        return jnp.concatenate(leaves) if leaves else jnp.zeros(0, jnp.float32)

    def unflatten(self, vector: Any) -> Any:
        """The vector (..., k) as a tree of arrays (..., *shape); host arrays stay on the host."""
        stops = list(accumulate(math.prod(shape) for shape in self.shapes))
        leaves = [
            vector[..., start:stop].reshape(*np.shape(vector)[:-1], *shape).astype(dtype)
            for start, stop, shape, dtype in zip([0, *stops], stops, self.shapes, self.dtypes, strict=False)
        ]
        return jax.tree.unflatten(self.structure, leaves)
