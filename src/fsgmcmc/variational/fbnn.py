"""Functional variational inference, FBNN (Sun et al., 2019): prior and divergence are on function values.

    −ELBO(q) = E_q[ −(N/n) Σ_{i in batch} log p(y_i | f(x_i; w)) ] + κ KL[q(F̃) ‖ p(F̃)]
    F̃ = f(X; w) + γ ε,    X = batch ∪ measurement points,    p(F̃) = N(m, K + γ² I)

q(F̃) has no closed form; its score is estimated from draws:

    ∇_φ KL = E_q[ (∇_F log q(F̃) − ∇_F log p(F̃))ᵀ ∂F̃/∂φ ],    ∇_F log q by the spectral Stein estimator

γ² is the nugget of the prior. κ = N/n is the published weight: the loss is the mean log-likelihood of a batch of n plus
KL / n, so that the divergence at some inputs represents the divergence at all of them. κ = 1 is correct if X contains
every training input at each step; otherwise the prior has as little as n/N of its weight. With full batches both are 1.
"""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from fsgmcmc import _checks
from fsgmcmc.posterior import Posterior
from fsgmcmc.priors.functional import SMALLEST_REDRAWN_NUGGET
from fsgmcmc.variational.base import (
    Approximation,
    draw_positions,
    expected_misfit,
    network_values,
    own_entropy,
    single_functional,
)
from fsgmcmc.variational.mean_field import MeanField
from fsgmcmc.variational.stein import stein_score

WEIGHTINGS = ("bound", "published")
FEWEST_DRAWS = 4


class FBNN(Approximation):
    """The method; `fbnn` builds it."""

    weighting: str = eqx.field(static=True)
    spectrum: float = eqx.field(static=True)

    space: ClassVar[str] = "function"

    def __init__(self, function_draws: int, initial_log_std: float, weighting: str, spectrum: float) -> None:
        super().__init__(_checks.count(function_draws, "function_draws", least=FEWEST_DRAWS), initial_log_std)
        if weighting not in WEIGHTINGS:
            raise ValueError(f"unknown weighting {weighting!r}; choose from {', '.join(WEIGHTINGS)}")
        if not 0 < spectrum < 1:
            raise ValueError(f"spectrum must be a share between 0 and 1, got {spectrum}")
        self.weighting, self.spectrum = weighting, float(spectrum)

    def check(self, posterior: Posterior) -> None:
        """Require one functional prior; if the points change at every step, its nugget must be large enough."""
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
        """The expected misfit and the gradient of −ELBO; the value of −ELBO has no closed form."""
        batch_key, point_key, draw_key, noise_key = jax.random.split(key, 4)
        batch = posterior.data.batch(batch_key)
        prior = single_functional(posterior)
        drawn, factor = prior.draw(point_key, posterior.data)
        points = drawn if posterior.shares_points else jnp.concatenate([batch.x, drawn])
        # A replay buffer may have fewer rows than the batch.
        weight = jnp.maximum(posterior.data.total / len(batch.x), 1.0) if self.weighting == "published" else 1.0

        def prior_score(values: Float[Array, "m c"]) -> Float[Array, "m c"]:
            if posterior.shares_points:
                return -jax.grad(lambda values: prior.energy(factor, values))(values)
            return prior.process.score(points, values)

        def loss(q: MeanField) -> tuple[Float[Array, ""], Float[Array, ""]]:
            draws = draw_positions(draw_key, posterior, q, self.draws_per_step)
            values = network_values(posterior, draws, points)
            misfit = expected_misfit(posterior, batch, values[:, : len(batch.x)], draws)
            noisy = prior.with_nugget(noise_key, points, values)
            constant = jax.lax.stop_gradient(noisy)
            score = stein_score(constant.reshape(len(constant), -1), spectrum=self.spectrum).reshape(constant.shape)
            slope = score - jax.vmap(prior_score)(constant)
            divergence = jnp.sum(slope * noisy) / len(constant)
            return misfit + weight * divergence - own_entropy(posterior, q), misfit

        (_, misfit), gradient = jax.value_and_grad(loss, has_aux=True)(trained)
        return misfit, gradient


def fbnn(
    *,
    function_draws: int = 100,
    initial_log_std: float = -5.0,
    weighting: str = "published",
    spectrum: float = 0.99,
) -> FBNN:
    """FBNN, for posteriors of `function_space` with one functional prior; weight priors are not used.

    The divergence is computed at the minibatch and at the measurement points. If the measurement points are exactly the
    training inputs and batches are full, it is computed at the training inputs only.

    Args:
        function_draws: Function draws in each gradient, from which the score of q is estimated.
        initial_log_std: log σ at the start.
        weighting: κ: `"published"` is N/n for a batch of n; `"bound"` is 1, for points with all training inputs.
        spectrum: Share of the spectrum that the Stein estimator uses.

    Example:
        >>> from fsgmcmc import MLP, Gaussian, GaussianProcess, function_space, linear, variational
        >>> x = jnp.linspace(-1, 1, 20)
        >>> prior = GaussianProcess(linear(4.0), nugget=1e-2)
        >>> line = function_space(MLP(()), x, 2 * x, prior=prior, likelihood=Gaussian(0.1))
        >>> samples = variational.fit(0, line, fbnn(function_draws=20), steps=400, learning_rate=0.02)
        >>> round(samples.predict([[0.5]]).mean.item(), 1)
        1.0
    """
    return FBNN(function_draws, initial_log_std, weighting, spectrum)
