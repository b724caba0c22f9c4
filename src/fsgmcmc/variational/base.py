"""What every variational method is: something to train, and the gradient that trains it.

    trained = method.init(key, posterior)                        a pytree that holds q(w) = N(μ, diag σ²)
    loss, gradient = method.objective(key, posterior, trained)   one stochastic gradient; the loss is for the eye
    q = method.approximation(trained)

w is the posterior's whole vector: the likelihood's own parameters (a learned noise) are part of it, and q has a mean
and a standard deviation for them as well.
"""

from functools import partial
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from fsgmcmc import _checks
from fsgmcmc._ravel import Ravel
from fsgmcmc.posterior import Batch, Position, Posterior
from fsgmcmc.random import normal
from fsgmcmc.variational.mean_field import MeanField


class Method(eqx.Module):
    """The common part of the variational methods.

    Attributes:
        draws_per_step: Draws of w in each gradient.
        initial_log_std: log σ at the start, the same for every parameter.
        space: The kind of posterior the method is for, "function" or "parameter".
    """

    draws_per_step: int = eqx.field(static=True)
    initial_log_std: float = eqx.field(static=True)

    space: ClassVar[str]

    def __init__(self, draws_per_step: int, initial_log_std: float) -> None:
        self.draws_per_step = _checks.count(draws_per_step, "draws_per_step")
        if np.ndim(initial_log_std) or not np.isfinite(initial_log_std):
            raise ValueError(f"initial_log_std must be one finite number, got {initial_log_std!r}")
        self.initial_log_std = float(initial_log_std)

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
    """Draws of q as parameters, leaves (count, …), which gradients pass through."""
    noise = posterior.position(normal(key, count * q.mean.size).reshape(count, -1))
    mean, std = (_cut(posterior.ravel, vector) for vector in (q.mean, q.std))
    return jax.tree.map(lambda mean, std, noise: mean + std * noise, mean, std, noise)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _cut(ravel: Ravel, vector: Float[Array, " k"]) -> Position:
    """The vector in leaves. JAX would add up one padded vector for each of them in the gradient."""
    return ravel.unravel(vector)


_cut.defvjp(
    lambda ravel, vector: (ravel.unravel(vector), None),
    lambda ravel, _, cotangents: (ravel.ravel(cotangents),),
)


def expected_misfit(
    posterior: Posterior, batch: Batch, values: Float[Array, "draws n outputs"], draws: Position
) -> Float[Array, ""]:
    """The mean over draws of −(N/n) Σ log p(y_i | f_i) − log p(own), with the values of each draw at the batch."""
    return jnp.mean(jax.vmap(lambda f, own: posterior.misfit(batch, f, own))(values, draws.likelihood))


def network_values(
    posterior: Posterior, draws: Position, x: Float[Array, "n *features"]
) -> Float[Array, "draws n outputs"]:
    """f(x; w) for every draw."""
    if len(jax.tree.leaves(draws.network)[0]) == 1:  # batched matrix products of one are slow
        return posterior.network.apply(jax.tree.map(lambda leaf: leaf[0], draws.network), x)[None]
    return jax.vmap(lambda params: posterior.network.apply(params, x))(draws.network)


def own_entropy(posterior: Posterior, q: MeanField) -> Float[Array, ""]:
    """The entropy of q in the likelihood's own parameters."""
    return jnp.sum(jnp.where(posterior.network_mask(), 0.0, q.entropy()))
