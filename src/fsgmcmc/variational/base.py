"""The contract of a variational method.

    trained = method.init(key, posterior)                        a pytree that contains q(w) = N(μ, diag σ²)
    loss, gradient = method.objective(key, posterior, trained)   a stochastic gradient; the loss is only reported
    q = method.approximation(trained)

w is the whole vector of the posterior: it includes the likelihood's own parameters (learned noise), and q has a mean
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
from fsgmcmc.posterior import Batch, Position, Posterior
from fsgmcmc.posterior._flatten import Flattener
from fsgmcmc.priors.functional import BoundProcess
from fsgmcmc.random import normal
from fsgmcmc.variational.mean_field import MeanField


class Approximation(eqx.Module):
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
        """Raise an error for a posterior of the wrong space, before anything is compiled."""
        if posterior.space != self.space:
            raise ValueError(
                f"this method is for {self.space} space, but the posterior is in {posterior.space} space: "
                f"build it with {self.space}_space"
            )
        for prior in posterior.functional:
            if not isinstance(prior, BoundProcess) or float(prior.weight) != 1:
                raise ValueError(
                    "variational methods have no OutlierExposure and no Functional with a weight other than 1: "
                    "use a sampler"
                )

    def init(self, key: PRNGKeyArray, posterior: Posterior) -> Any:
        """The initial value of everything that is trained."""
        mean = posterior.init(key)
        return MeanField(mean, jnp.full_like(mean, self.initial_log_std))

    def approximation(self, trained: Any) -> MeanField:
        """q, which is part of `trained`."""
        return trained

    def objective(self, key: PRNGKeyArray, posterior: Posterior, trained: Any) -> tuple[Float[Array, ""], Any]:
        """The loss, which is only reported, and the gradient that Adam uses."""
        raise NotImplementedError(f"{type(self).__name__} must define objective(key, posterior, trained)")


def single_functional(posterior: Posterior) -> Any:
    """The functional prior of a posterior that has one, on the network itself."""
    if len(posterior.functional) != 1 or posterior.functional[0].function is not None:
        raise ValueError("this method needs exactly one functional prior, on the network itself")
    return posterior.functional[0]


def draw_positions(key: PRNGKeyArray, posterior: Posterior, q: MeanField, count: int) -> Position:
    """Draws of q as parameters with leaves (count, …), differentiable with respect to q."""
    noise = posterior.parameters(normal(key, count * q.mean.size).reshape(count, -1))
    mean, std = (_cut(posterior.flattener, vector) for vector in (q.mean, q.std))
    return jax.tree.map(lambda mean, std, noise: mean + std * noise, mean, std, noise)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _cut(flattener: Flattener, vector: Float[Array, " k"]) -> Position:
    """The vector as a pytree. The default gradient of JAX would add one padded vector for each leaf, which is slow."""
    return flattener.unflatten(vector)


_cut.defvjp(
    lambda flattener, vector: (flattener.unflatten(vector), None),
    lambda flattener, _, cotangents: (flattener.flatten(cotangents),),
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
    if len(jax.tree.leaves(draws.network)[0]) == 1:  # a batched matrix product over one draw is slow
        return posterior.network.apply(jax.tree.map(lambda leaf: leaf[0], draws.network), x)[None]
    return jax.vmap(lambda params: posterior.network.apply(params, x))(draws.network)


def own_entropy(posterior: Posterior, q: MeanField) -> Float[Array, ""]:
    """The entropy of q in the likelihood's own parameters."""
    return jnp.sum(jnp.where(posterior.network_mask(), 0.0, q.entropy()))
