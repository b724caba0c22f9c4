"""Indirect functional variational inference, IFBNN: a prior on the weights that is matched to a prior on functions.

The idea is from Wu et al. (2023); the implementation follows the description below, not the text of that paper. A
bridge p_b(w) = N(μ_b, diag σ_b²) is the prior on the weights. Three things are trained together:

    q       min  E_q[ −(N/n) Σ log p(y_i | f(x_i; w)) ] + KL[q(w) ‖ p_b(w)],   KL in closed form
    bridge  min  W₁( f(X_M; w) + γ ε with w ~ p_b,  the Gaussian process at X_M ) + c KL[q(w) ‖ p_b(w)]
    critic  max  the dual form of W₁, with a penalty on its slope

γ² is the nugget, which is also in the covariance of the Gaussian process. With c = 0 the bridge is matched to the
Gaussian process alone and is a prior; with c > 0 it also depends on the data through q. If the measurement points are
redrawn, they are inputs of the critic: the distance is then the mean over sets of points of the distance at each set.
"""

import math
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from fsgmcmc import _checks
from fsgmcmc.posterior import Position, Posterior
from fsgmcmc.priors.functional import FixedPrior
from fsgmcmc.random import normal
from fsgmcmc.variational.base import (
    Approximation,
    draw_positions,
    expected_misfit,
    network_values,
    own_entropy,
    single_functional,
)
from fsgmcmc.variational.mean_field import MeanField
from fsgmcmc.variational.wasserstein import critic_init, critic_loss, gap


class Trained(NamedTuple):
    """Everything that is trained."""

    q: MeanField
    bridge: MeanField
    critic: Any


class IFBNN(Approximation):
    """The method; `ifbnn` builds it."""

    functions: int = eqx.field(static=True)
    coupling: float = eqx.field(static=True)

    space: ClassVar[str] = "function"

    def __init__(self, draws_per_step: int, initial_log_std: float, functions: int, coupling: float) -> None:
        super().__init__(draws_per_step, initial_log_std)
        if not 0 <= coupling < float("inf"):
            raise ValueError(f"coupling must be zero or a positive number, got {coupling}")
        self.functions, self.coupling = _checks.count(functions, "functions", least=2), float(coupling)

    def check(self, posterior: Posterior) -> None:
        """Require one functional prior."""
        super().check(posterior)
        single_functional(posterior)

    def init(self, key: PRNGKeyArray, posterior: Posterior) -> Trained:
        """q around initial weights of the network, a bridge with the variance of initial weights, and a new critic."""
        q_key, critic_key = jax.random.split(key)
        prior = single_functional(posterior)
        q = super().init(q_key, posterior)
        params = posterior.parameters(q.mean).network
        spread = jax.tree.map(
            lambda leaf, variance: jnp.full_like(leaf, 0.5 * math.log(variance)),
            params,
            posterior.network.variance(params),
        )
        own = jax.tree.map(jnp.zeros_like, posterior.likelihood.init())
        bridge = MeanField(jnp.zeros_like(q.mean), posterior.flattener.flatten(Position(spread, own)))
        points = jax.eval_shape(lambda: prior.draw(critic_key, posterior.data)[0])
        context = 0 if isinstance(prior, FixedPrior) else points.size
        inputs = len(points) * posterior.outputs + context
        return Trained(q, bridge, critic_init(critic_key, inputs))

    def approximation(self, trained: Trained) -> MeanField:
        """q."""
        return trained.q

    def objective(self, key: PRNGKeyArray, posterior: Posterior, trained: Trained) -> tuple[Float[Array, ""], Trained]:
        """−ELBO with the bridge as the prior, and the gradients of all three."""
        batch_key, point_key, draw_key, bridge_key, process_key, nugget_key, place_key = jax.random.split(key, 7)
        prior = single_functional(posterior)
        points, factor = prior.draw(point_key, posterior.data)
        batch, of_network = posterior.data.batch(batch_key), posterior.network_mask()
        # The critic needs the points besides function values, unless they are always the same.
        context = jnp.zeros(0) if isinstance(prior, FixedPrior) else points.ravel()
        count, outputs = self.functions, posterior.outputs
        noise = normal(process_key, count * len(points) * outputs).reshape(count, len(points), outputs)
        target = jax.vmap(lambda noise: prior.unwhiten(factor, noise))(noise).reshape(count, -1)

        def divergence(q: MeanField, bridge: MeanField) -> Float[Array, ""]:
            each = q.divergence(bridge.mean, jnp.exp(-2 * bridge.log_std))
            return jnp.sum(jnp.where(of_network, each, 0.0))

        def bound(q: MeanField) -> Float[Array, ""]:
            draws = draw_positions(draw_key, posterior, q, self.draws_per_step)
            misfit = expected_misfit(posterior, batch, network_values(posterior, draws, batch.x), draws)
            return misfit + divergence(q, trained.bridge) - own_entropy(posterior, q)

        def mismatch(bridge: MeanField) -> tuple[Float[Array, ""], Float[Array, "functions d"]]:
            draws = draw_positions(bridge_key, posterior, bridge, count)
            values = prior.with_nugget(nugget_key, points, network_values(posterior, draws, points)).reshape(count, -1)
            distance = gap(trained.critic, values, target, context)
            return distance + self.coupling * divergence(trained.q, bridge), values

        loss, q_gradient = jax.value_and_grad(bound)(trained.q)
        (_, values), bridge_gradient = jax.value_and_grad(mismatch, has_aux=True)(trained.bridge)
        critic_gradient = jax.grad(lambda critic: critic_loss(place_key, critic, values, target, context))(
            trained.critic
        )
        return loss, Trained(q_gradient, bridge_gradient, critic_gradient)


def ifbnn(
    *, draws_per_step: int = 1, initial_log_std: float = -5.0, functions: int = 16, coupling: float = 0.0
) -> IFBNN:
    """IFBNN, for posteriors of `function_space` with one functional prior; weight priors are not used.

    Args:
        draws_per_step: Draws of w for the likelihood in each gradient.
        initial_log_std: log σ of q at the start.
        functions: Functions of the bridge and of the Gaussian process that the critic compares in each gradient.
        coupling: c, the weight of KL[q ‖ p_b] in the loss of the bridge.

    Example:
        >>> from fsgmcmc import MLP, Gaussian, GaussianProcess, function_space, linear, variational
        >>> x = jnp.linspace(-1, 1, 20)
        >>> prior = GaussianProcess(linear(4.0), nugget=1e-2)
        >>> line = function_space(MLP(()), x, 2 * x, prior=prior, likelihood=Gaussian(0.1))
        >>> samples = variational.fit(0, line, ifbnn(draws_per_step=4), steps=400, learning_rate=0.02)
        >>> round(samples.predict([[0.5]]).mean.item(), 1)
        1.0
    """
    return IFBNN(draws_per_step, initial_log_std, functions, coupling)
