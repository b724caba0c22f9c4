"""Gaussian priors on the weights.

−log p(w) = ½ Σ_i w_i² / (s² v_i) + const,    v_i = 1,  1 / fan in,  or the initial variance
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from fsgmcmc import _checks
from fsgmcmc.networks import Network
from fsgmcmc.priors.base import Prior

SCALINGS = ("unit", "fan_in", "initial")
# Precision in units of 1 / (initial variance): large enough to bound weights that the functional prior does not
# determine, too small to compete with it.
WEAK_PRECISION = 0.1


class GaussianWeights(Prior):
    """Independent N(0, s² v_i) on every weight.

    Args:
        scale: s, the standard deviation before scaling.
        scaling: v_i: `"unit"` is 1, `"fan_in"` is 1 / fan in, `"initial"` the variance of the initial weights.

    Example:
        >>> GaussianWeights(2.0).scale
        2.0
    """

    scale: float = eqx.field(static=True)
    scaling: str = eqx.field(static=True)

    def __init__(self, scale: float = 1.0, scaling: str = "unit") -> None:
        _checks.positive(scale, "scale")
        if scaling not in SCALINGS:
            raise ValueError(f"unknown scaling {scaling!r}; choose from {', '.join(SCALINGS)}")
        self.scale = float(scale)
        self.scaling = scaling

    def precision(self, network: Network, params: Any) -> Any:
        """1 / (s² v_i) as a pytree of arrays like `params`."""
        if self.scaling == "unit":
            variance = jax.tree.map(lambda _: 1.0, params)
        elif self.scaling == "fan_in":
            variance = jax.tree.map(lambda fan_in: 1.0 / max(fan_in, 1), network.fan_in(params))
        else:
            variance = network.variance(params)

        def leaf_precision(leaf: Any, leaf_variance: float) -> Array:
            return jnp.full(np.shape(leaf), 1.0 / (self.scale**2 * leaf_variance), dtype=jnp.float32)

        return jax.tree.map(leaf_precision, params, variance)


def weak_weights() -> GaussianWeights:
    """The weak weight prior that makes a function-space posterior proper.

    Without it, weights that do not change the function at the measurement points diffuse; see `function_space`.
    """
    return GaussianWeights(WEAK_PRECISION**-0.5, scaling="initial")
