"""Class labels as regression targets with known noise."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from fsgmcmc import _checks
from fsgmcmc.likelihoods.base import register
from fsgmcmc.likelihoods.categorical import Categorical
from fsgmcmc.likelihoods.gaussian import Gaussian
from fsgmcmc.priors.dirichlet import CONCENTRATION, dirichlet_targets


@register
class Dirichlet(Categorical):
    """Class labels as the regression targets of a Dirichlet Gaussian process: ỹ_c ~ N(f_c, σ̃_c²).

    Targets and noises are those of `dirichlet_targets`: α₀ is `concentration`, t `noise_scale`. A label carries more
    information here than under a softmax, whose gradient vanishes once a row is classified, and the kernel of
    `pretrain_classes` is fitted under the same likelihood. Probabilities are a softmax of the logits here too.

    Example:
        >>> labels = jnp.array([1, 1])
        >>> print(np.round(Dirichlet(classes=2).log_prob((), jnp.array([[-6.9, -0.3], [0.0, 0.0]]), labels)))
        [-2. -8.]
    """

    concentration: float = eqx.field(static=True)
    noise_scale: float = eqx.field(static=True)

    def __init__(self, classes: int, concentration: float = CONCENTRATION, noise_scale: float = 1.0) -> None:
        super().__init__(classes)
        _checks.positive(concentration, "concentration")
        _checks.positive(noise_scale, "noise_scale")
        self.concentration, self.noise_scale = float(concentration), float(noise_scale)

    def log_prob(self, params: Any, f: Float[Array, "n classes"], y: Int[Array, " n"]) -> Float[Array, " n"]:
        """−½ ((ỹ − f)/σ̃)² − log σ̃ − ½ log 2π, summed over classes."""
        labels = np.arange(self.classes)
        of_labels = dirichlet_targets(labels, self.classes, self.concentration, self.noise_scale)
        targets, noise = (jnp.asarray(each, jnp.float32)[y] for each in of_labels)
        return Gaussian(1.0).log_prob(params, f / noise, targets / noise) - jnp.sum(jnp.log(noise), axis=1)
