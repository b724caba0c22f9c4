"""The spectral Stein gradient estimator: the score ∇ log q from draws of q alone (Shi, Sun and Zhu, 2018).

    k(x, x') = exp(−½ Σ_i (x_i − x'_i)² / ℓ_i²),    K u_j = λ_j u_j    over S draws x_s

    ψ_j(x) = (√S / λ_j) Σ_s u_js k(x, x_s)          the Nyström form of an eigenfunction of k under q
    β_j    = −(1/S) Σ_s ∇ψ_j(x_s)                   its coefficient in the score, by Stein's identity
    ∇ log q(x) ≈ Σ_j β_j ψ_j(x)

Widths ℓ_i are the median distance between draws in dimension i times √d. The largest eigenpairs are used, up to a given
share of the sum of eigenvalues.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

# A smaller width means that all draws are equal in this dimension.
SMALLEST_WIDTH = 1e-6
# Approximate number of pairs in the median if there are few draws; all pairs of a hundred take longer than the network.
PAIRS = 128


def stein_score(
    draws: Float[Array, "S d"],
    at: Float[Array, "n d"] | None = None,
    *,
    widths: Float[Array, " d"] | None = None,
    spectrum: float = 0.99,
    jitter: float = 1e-6,
) -> Float[Array, "*n d"]:
    """∇ log q at the rows of `at`, or at the draws themselves.

    Args:
        draws: S independent draws of q.
        at: Points at which the score is evaluated; None: the draws, which saves a kernel matrix.
        widths: ℓ, one number per dimension; None: `median_widths`.
        spectrum: Share of the sum of eigenvalues that the used eigenpairs have.
        jitter: Added to the diagonal of K.

    Example:
        >>> import jax
        >>> draws = jax.random.normal(jax.random.key(0), (500, 1))
        >>> [round(score) for score in stein_score(draws, jnp.array([[-1.0], [1.0]])).ravel().tolist()]
        [1, -1]
    """
    count = len(draws)
    widths = median_widths(draws) if widths is None else widths
    centre = jnp.mean(draws, axis=0)  # far from zero, differences would lose digits
    scaled = (draws - centre) / widths
    kernel = _rbf(scaled, scaled)
    values, vectors = jnp.linalg.eigh(kernel + jitter * jnp.eye(count, dtype=kernel.dtype))
    # Ascending order: an eigenpair is used unless the larger ones already have the share.
    above = jnp.cumsum(values[::-1])[::-1] - values
    inverse = jnp.where(above < spectrum * jnp.sum(values), 1 / jnp.maximum(values, jitter), 0.0)
    # Σ_s ∂k(x_s, x_t)/∂x_s for every t, in closed form.
    slopes = -(kernel @ scaled - jnp.sum(kernel, axis=1)[:, None] * scaled) / widths
    # At the draws ψ_j is √S u_j, and β_j = −√S/λ_j u_jᵀ (slopes / S).
    weights = -vectors @ (inverse[:, None] * (vectors.T @ slopes))
    if at is None:
        return weights
    return _rbf((at - centre) / widths, scaled) @ (vectors @ (inverse[:, None] * (vectors.T @ weights)))


def median_widths(draws: Float[Array, "S d"]) -> Float[Array, " d"]:
    """√d times the median distance between two draws in each dimension; 1 where all draws are equal.

    Each draw is paired with one random other draw, or with several if there are at most 64 draws.
    """
    count, dimensions = draws.shape
    order = np.random.default_rng(0).permutation(count)
    lags = range(1, 1 + max(1, min((count - 1) // 2, PAIRS // count)))
    distances = jnp.concatenate([jnp.abs(draws[order] - draws[np.roll(order, lag)]) for lag in lags])
    widths = jnp.sqrt(dimensions) * jnp.median(distances, axis=0)
    return jnp.where(widths < SMALLEST_WIDTH, 1.0, widths)


def _rbf(a: Float[Array, "n d"], b: Float[Array, "m d"]) -> Float[Array, "n m"]:
    squares = jnp.sum(a * a, axis=1)[:, None] + jnp.sum(b * b, axis=1) - 2 * a @ b.T
    return jnp.exp(-0.5 * jnp.maximum(squares, 0.0))
