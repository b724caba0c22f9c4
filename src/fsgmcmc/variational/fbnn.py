"""Functional variational inference, FBNN (Sun et al., 2019): the prior is on the function, and so is the divergence.

    −ELBO(q) = E_q[ −(N/n) Σ_{i in batch} log p(y_i | f(x_i; w)) ] + κ KL[q(F̃) ‖ p(F̃)]
    F̃ = f(X; w) + γ ε,    X = batch ∪ measurement points,    p(F̃) = N(m, K + γ² I)

q(F̃) is known by draws only, and so is the gradient of its entropy:

    ∇_φ KL = E_q[ (∇_F log q(F̃) − ∇_F log p(F̃))ᵀ ∂F̃/∂φ ],    ∇_F log q by the spectral Stein estimator

γ² is the nugget of the prior. κ = 1 is the bound; κ = N/n is as published, where the mean log-likelihood of a batch
of n stands beside KL / n.
"""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from fsgmcmc import _checks
from fsgmcmc.posterior import Posterior
from fsgmcmc.priors.functional import SMALLEST_REDRAWN_NUGGET
from fsgmcmc.random import normal
from fsgmcmc.variational.base import Method, draw_positions, network_values, own_entropy, single_functional
from fsgmcmc.variational.mean_field import MeanField
from fsgmcmc.variational.stein import stein_score

WEIGHTINGS = ("bound", "published")
FEWEST_DRAWS = 4


class FBNN(Method):
    """The method; `fbnn` builds it."""

    weighting: str = eqx.field(static=True)
    spectrum: float = eqx.field(static=True)

    space: ClassVar[str] = "function"

    def __init__(self, draws: int, initial_log_std: float, weighting: str, spectrum: float) -> None:
        super().__init__(_checks.count(draws, "draws", least=FEWEST_DRAWS), initial_log_std)
        if weighting not in WEIGHTINGS:
            raise ValueError(f"unknown weighting {weighting!r}; choose from {', '.join(WEIGHTINGS)}")
        if not 0 < spectrum <= 1:
            raise ValueError(f"spectrum is a share above 0 and at most 1, got {spectrum}")
        self.weighting, self.spectrum = weighting, float(spectrum)

    def check(self, posterior: Posterior) -> None:
        """One functional prior, with a nugget that float32 can carry at points of every step."""
        super().check(posterior)
        nugget = float(single_functional(posterior).process.nugget)
        if not posterior.shares_points and nugget < np.float32(SMALLEST_REDRAWN_NUGGET):
            raise ValueError(
                f"a nugget of {nugget:g} is too small for the points of a batch in float32; "
                f"give the GaussianProcess a nugget of at least {SMALLEST_REDRAWN_NUGGET:g}"
            )

    def objective(
        self, key: PRNGKeyArray, posterior: Posterior, trained: MeanField
    ) -> tuple[Float[Array, ""], MeanField]:
        """The expected misfit, which can be known, and the gradient of −ELBO."""
        batch_key, point_key, draw_key, noise_key = jax.random.split(key, 4)
        x, y, likelihood = posterior.batch(batch_key)
        prior = single_functional(posterior)
        drawn, factor = prior.draw(point_key)
        points = x if posterior.shares_points else jnp.concatenate([x, drawn])
        scale = len(posterior.x) / len(x)

        def draw_misfit(values: Float[Array, "n c"], own: Any) -> Float[Array, ""]:
            return -scale * jnp.sum(likelihood.log_prob(own, values, y)) - likelihood.log_prior(own)

        def prior_score(values: Float[Array, "m c"]) -> Float[Array, "m c"]:
            if posterior.shares_points:
                return -jax.grad(lambda values: prior.energy(factor, values))(values)
            return prior.process.score(points, values)

        def loss(q: MeanField) -> tuple[Float[Array, ""], Float[Array, ""]]:
            draws = draw_positions(draw_key, posterior, q, self.draws)
            values = network_values(posterior, draws, points)
            misfit = jnp.mean(jax.vmap(draw_misfit)(values[:, : len(x)], draws.likelihood))
            noise = normal(noise_key, values.size).reshape(values.shape)
            noisy = values + jnp.sqrt(prior.process.nugget_variance(points)) * noise
            held = jax.lax.stop_gradient(noisy)
            score = stein_score(held.reshape(self.draws, -1), spectrum=self.spectrum).reshape(held.shape)
            slope = score - jax.vmap(prior_score)(held)
            divergence = jnp.sum(slope * noisy) / self.draws
            weight = scale if self.weighting == "published" else 1.0
            return misfit + weight * divergence - own_entropy(posterior, q), misfit

        (_, misfit), gradient = jax.value_and_grad(loss, has_aux=True)(trained)
        return misfit, gradient


def fbnn(*, draws: int = 100, initial_log_std: float = -5.0, weighting: str = "bound", spectrum: float = 0.99) -> FBNN:
    """FBNN, for posteriors of `function_space` with one functional prior; their weak weight prior is not used.

    The divergence is at the minibatch together with the measurement points. Where the posterior measures exactly its
    training inputs with full batches, these are all.

    Args:
        draws: Function draws in each gradient, from which the score of q is estimated.
        initial_log_std: log σ at the start.
        weighting: `"bound"` weighs the divergence as the evidence lower bound does; `"published"` N/n times as much.
        spectrum: Share of the spectrum that the Stein estimator uses.

    Example:
        >>> fbnn(draws=50).draws
        50
    """
    return FBNN(draws, initial_log_std, weighting, spectrum)
