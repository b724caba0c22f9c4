"""Class labels through a softmax."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from fsgmcmc import _checks
from fsgmcmc.likelihoods.base import Likelihood, register
from fsgmcmc.predictions.classification import CategoricalPrediction


@register
class Categorical(Likelihood):
    """Class labels 0 … classes−1 through a softmax: p(y = c | f) ∝ exp f_c.

    Example:
        >>> print(Categorical(classes=2).log_prob((), jnp.zeros((1, 2)), jnp.array([1])).round(2))
        [-0.69]
    """

    classes: int = eqx.field(static=True)

    def __init__(self, classes: int) -> None:
        self.classes = _checks.count(classes, "classes", least=2)

    def targets(self, y: Any) -> np.ndarray:
        """Labels as an integer vector."""
        return _checks.labels(y, self.classes)

    def outputs(self, y: Any) -> int:
        """One logit per class."""
        del y
        return self.classes

    def log_prob(self, params: Any, f: Float[Array, "n classes"], y: Int[Array, " n"]) -> Float[Array, " n"]:
        """f_y − log Σ_c exp f_c."""
        del params
        return jnp.take_along_axis(jax.nn.log_softmax(f), y[:, None], axis=1)[:, 0]

    def predict(self, functions: np.ndarray, params: Any, noise: Any = None) -> CategoricalPrediction:
        """Logit draws (draws, rows, classes)."""
        del params
        if noise is not None:
            raise ValueError("a categorical likelihood has no observation noise")
        return CategoricalPrediction(functions)
