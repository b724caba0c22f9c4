"""What every variational method is: something to train, and the gradient that trains it.

    trained = method.init(key, posterior)                        a pytree that holds q(w) = N(μ, diag σ²)
    loss, gradient = method.objective(key, posterior, trained)   one stochastic gradient; the loss is for the eye
    q = method.approximation(trained)

w is the posterior's whole vector: the likelihood's own parameters (a learned noise) are part of it, and q has a mean
and a standard deviation for them as well.
"""

from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from fsgmcmc import _checks
from fsgmcmc.posterior import Position, Posterior
from fsgmcmc.random import normal
from fsgmcmc.variational.mean_field import MeanField


class Method(eqx.Module):
    """The common part of the variational methods.

    Attributes:
        draws: Draws of w in each gradient.
        initial_log_std: log σ at the start, the same for every parameter.
        space: The kind of posterior the method is for, "function" or "parameter".
    """

    draws: int = eqx.field(static=True)
    initial_log_std: float = eqx.field(static=True)

    space: ClassVar[str]

    def __init__(self, draws: int, initial_log_std: float) -> None:
        self.draws = _checks.count(draws, "draws")
        self.initial_log_std = float(_checks.finite(initial_log_std, "initial_log_std"))

    def check(self, posterior: Posterior) -> None:
        """Refuse a posterior of the wrong kind before anything is compiled."""
        found = "function" if posterior.functional else "parameter"
        if found != self.space:
            raise ValueError(
                f"this method is for {self.space} space, but the posterior is one of {found} space: "
                f"build it with {self.space}_space"
            )

    def init(self, key: PRNGKeyArray, posterior: Posterior) -> Any:
        """What is trained, at its start."""
        mean = posterior.init(key)
        return MeanField(mean, jnp.full_like(mean, self.initial_log_std))

    def approximation(self, trained: Any) -> MeanField:
        """The q in what is trained."""
        return trained

    def objective(self, key: PRNGKeyArray, posterior: Posterior, trained: Any) -> tuple[Float[Array, ""], Any]:
        """A loss to look at, and the gradient that descends."""
        raise TypeError("objective belongs to the concrete methods")


def single_functional(posterior: Posterior) -> Any:
    """The functional prior of a posterior that has one, on the network itself."""
    if len(posterior.functional) != 1 or posterior.functional[0].function is not None:
        raise ValueError("this method takes one functional prior, on the network itself")
    return posterior.functional[0]


def draw_positions(key: PRNGKeyArray, posterior: Posterior, q: MeanField, count: int) -> Position:
    """Draws of q as parameters, leaves (count, …), which gradients pass through.

    Only the noise is cut into leaves draw by draw: the gradient of cutting is padding, which for many draws takes as
    long as the network.
    """
    noise = normal(key, count * q.mean.size).reshape(count, -1)
    mean, std, noises = (posterior.position(vector) for vector in (q.mean, q.std, noise))
    return jax.tree.map(lambda mean, std, noise: mean + std * noise, mean, std, noises)


def expected_misfit(key: PRNGKeyArray, posterior: Posterior, draws: Position) -> Float[Array, ""]:
    """The mean over draws of −(N/n) Σ log p(y_i | f(x_i; w)) − log p(own), one minibatch for all."""
    return jnp.mean(_over_draws(lambda position: posterior.misfit(key, position), draws))


def network_values(
    posterior: Posterior, draws: Position, x: Float[Array, "n *features"]
) -> Float[Array, "draws n outputs"]:
    """f(x; w) for every draw."""
    return _over_draws(lambda position: posterior.network.apply(position.network, x), draws)


def _over_draws(function: Callable[[Position], Array], draws: Position) -> Float[Array, "draws *value"]:
    if len(jax.tree.leaves(draws)[0]) == 1:  # batched matrix products of one are slow
        return function(jax.tree.map(lambda leaf: leaf[0], draws))[None]
    return jax.vmap(function)(draws)


def own_entropy(posterior: Posterior, q: MeanField) -> Float[Array, ""]:
    """The entropy of q in the likelihood's own parameters."""
    return jnp.sum(jnp.where(posterior.network_mask() == 0, q.entropy(), 0.0))
