"""Outlier exposure: the class probabilities are pulled towards equal ones at inputs that are not data.

    −log p(w) = −ω Σ_i 1/C Σ_c log softmax_c(f(x_i; w)) + const

It is ω times the cross-entropy from equal probabilities to those of the network, summed over the measurement points.
Hendrycks, Mazeika and Dietterich, "Deep anomaly detection with outlier exposure", ICLR 2019.
"""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from fsgmcmc import _checks
from fsgmcmc.measurement import FixedSet, Measurement, Minibatch
from fsgmcmc.priors.base import Prior
from fsgmcmc.priors.functional import BoundPrior


class OutlierExposure(Prior):
    """A penalty for certain predictions at inputs that are not data, such as `fsgmcmc.data.context_images`.

    It is a term of the prior in `parameter_space` and in `function_space`, for likelihoods of classes. It limits the
    logits of the network, not their variance: draws agree that these inputs have no class.

    Args:
        measurement: The inputs, such as `measurement.subset(images, 20)`.
        weight: ω, the weight of each input. In the energy a data row has weight 1.

    Example:
        >>> import numpy as np
        >>> from fsgmcmc import MLP, Categorical, measurement, parameter_space, weak_weights
        >>> x = np.linspace(-1, 1, 20)
        >>> beyond = OutlierExposure(measurement.fixed([-3.0, 3.0]), weight=5.0)
        >>> posterior = parameter_space(MLP((10,)), x, x > 0, likelihood=Categorical(2), prior=weak_weights() + beyond)
        >>> posterior.space
        'parameter'
    """

    measurement: Measurement
    weight: float = 1.0
    function: ClassVar[None] = None

    def __check_init__(self) -> None:
        if not isinstance(self.measurement, Measurement):
            raise TypeError("measurement is made by fsgmcmc.measurement, such as measurement.subset(images, 20)")
        if isinstance(self.measurement, Minibatch):
            raise ValueError("outlier exposure at the rows of the minibatch would oppose their labels: use subset")
        _checks.positive_number(self.weight, "weight")

    def check_outputs(self, outputs: int) -> None:
        """Raise an error if there are no classes."""
        if outputs < 2:
            raise ValueError("OutlierExposure is for class logits: it needs at least two outputs")

    def bind(self) -> "BoundExposure":
        """The term in the form that a potential evaluates."""
        return BoundExposure(None, jax.tree.map(jnp.asarray, self.measurement), jnp.float32(self.weight))


class BoundExposure(BoundPrior):
    """The points and the weight on the device."""

    measurement: Measurement
    weight: Float[Array, ""]

    @property
    def is_fixed(self) -> bool:
        """Whether the points are a fixed set."""
        return isinstance(self.measurement, FixedSet)

    def draw(self, key: PRNGKeyArray, data: Any = None) -> tuple[Float[Array, "m *features"], None]:
        """The points; `energy` needs nothing else."""
        del data
        return self.measurement.draw(key), None

    def energy(self, factor: None, values: Float[Array, "m c"]) -> Float[Array, ""]:
        """−ω Σ_i mean_c log softmax_c(values_i)."""
        del factor
        return -self.weight * jnp.sum(jnp.mean(jax.nn.log_softmax(values), axis=-1))
