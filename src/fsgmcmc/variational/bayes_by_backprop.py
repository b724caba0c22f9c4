"""Bayes by Backprop (Blundell et al., 2015): a mean-field Gaussian is fitted to the posterior of the weights.

    −ELBO(q) = E_q[ −(N/n) Σ_{i in batch} log p(y_i | f(x_i; w)) ] + KL[q(w) ‖ p(w)],    w = μ + σ ε

For a Gaussian prior the divergence has a closed form. For a scale mixture it is estimated by the mean of
log q(w) − log p(w) over the draws of the step.
"""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from fsgmcmc import _checks
from fsgmcmc.posterior import Position, Posterior
from fsgmcmc.variational.base import Approximation, draw_positions, expected_misfit, network_values, own_entropy
from fsgmcmc.variational.mean_field import MeanField


class ScaleMixture(eqx.Module):
    """A prior for each weight, a mixture of a wide and a narrow normal: π N(0, s₁²) + (1 − π) N(0, s₂²).

    Example:
        >>> round(ScaleMixture(0.5, 1.0, 0.1).log_prob(jnp.zeros(1)).item(), 2)
        0.79
    """

    weight: float = eqx.field(static=True)
    wide: float = eqx.field(static=True)
    narrow: float = eqx.field(static=True)

    def __init__(self, weight: float = 0.5, wide: float = 1.0, narrow: float = 0.0025) -> None:
        if not 0 < weight < 1:
            raise ValueError(f"weight must be a probability between 0 and 1, got {weight}")
        _checks.positive(wide, "wide")
        _checks.positive(narrow, "narrow")
        self.weight, self.wide, self.narrow = float(weight), float(wide), float(narrow)

    def log_prob(self, w: Float[Array, "*k"]) -> Float[Array, "*k"]:
        """The log density of every component."""
        normal = jax.scipy.stats.norm.logpdf
        return jnp.logaddexp(
            jnp.log(self.weight) + normal(w, scale=self.wide), jnp.log1p(-self.weight) + normal(w, scale=self.narrow)
        )


class BayesByBackprop(Approximation):
    """The method; `bbb` builds it."""

    mixture: ScaleMixture | None

    space: ClassVar[str] = "parameter"

    def __init__(self, draws_per_step: int, initial_log_std: float, mixture: ScaleMixture | None) -> None:
        super().__init__(draws_per_step, initial_log_std)
        if not isinstance(mixture, ScaleMixture | None):
            raise TypeError(f"mixture must be a ScaleMixture or None, not {mixture!r}")
        self.mixture = mixture

    def objective(
        self, key: PRNGKeyArray, posterior: Posterior, trained: MeanField
    ) -> tuple[Float[Array, ""], MeanField]:
        """−ELBO and its gradient."""
        batch_key, draw_key = jax.random.split(key)
        batch = posterior.data.batch(batch_key)

        def loss(q: MeanField) -> Float[Array, ""]:
            draws = draw_positions(draw_key, posterior, q, self.draws_per_step)
            misfit = expected_misfit(posterior, batch, network_values(posterior, draws, batch.x), draws)
            return misfit + jnp.sum(self._divergence(posterior, q, draws)) - own_entropy(posterior, q)

        return jax.value_and_grad(loss)(trained)

    def _divergence(self, posterior: Posterior, q: MeanField, draws: Position) -> Float[Array, " k"]:
        """KL[q ‖ p] of every weight, zero for the likelihood's own parameters."""
        of_network = posterior.network_mask()
        if self.mixture is None:
            return jnp.where(of_network, q.divergence(0.0, jnp.where(of_network, posterior.precision, 1.0)), 0.0)
        w = jax.vmap(posterior.flattener.flatten)(draws)
        sampled = jnp.mean(q.log_prob(w) - self.mixture.log_prob(w), axis=0)
        return jnp.where(of_network, sampled, 0.0)


def bbb(
    *, draws_per_step: int = 1, initial_log_std: float = -5.0, mixture: ScaleMixture | None = None
) -> BayesByBackprop:
    """Bayes by Backprop, for posteriors of `parameter_space`.

    Args:
        draws_per_step: Draws of w in each gradient.
        initial_log_std: log σ at the start.
        mixture: A scale mixture that replaces the posterior's Gaussian prior on the weights.

    Example:
        >>> from fsgmcmc import MLP, Gaussian, parameter_space, variational
        >>> x = jnp.linspace(-1, 1, 20)
        >>> line = parameter_space(MLP(()), x, 2 * x, likelihood=Gaussian(0.1))
        >>> samples = variational.fit(0, line, bbb(draws_per_step=4), steps=400, learning_rate=0.02)
        >>> round(samples.predict([[0.5]]).mean.item(), 1)
        1.0
    """
    return BayesByBackprop(draws_per_step, initial_log_std, mixture)
