"""Draws of fitted numbers around their optimum, as uncertain as the data leave them.

    p(z) ∝ exp(−ℓ(z) − |z − ẑ|² / 2 s²),    u ~ N(0, (H + I/s²)⁻¹),    z = ẑ + t u

ℓ has its minimum at ẑ, with the Hessian H there; s says how far a number may be from its optimum where the data do not
determine it. It is Laplace's approximation, in which each draw moves along its direction until log p has fallen by as
much as the log density of the normal distribution has at u: t is 1 if p is normal, and smaller where p falls faster.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

# s, for logarithms: a factor of e.
WIDEST = 1.0
# Step of the differences of the gradient.
DIFFERENCE = 1e-3
# Halvings of the step in t, whose sum limits t to 2.
STEPS = 0.5 ** np.arange(7)

Vector = Float[np.ndarray, " k"]


def laplace_draws(
    loss: Callable[[Vector], tuple[float, Vector]], optimum: Vector, count: int, seed: int = 0
) -> Float[np.ndarray, "count k"]:
    """Draws of z in opposite pairs; `loss` gives ℓ and its gradient.

    Example:
        >>> precision = np.array([4.0, 1e4])
        >>> draws = laplace_draws(lambda z: (0.5 * z @ (precision * z), precision * z), np.zeros(2), 1000)
        >>> print(draws.std(axis=0).round(2))
        [0.44 0.01]
    """
    if not count:
        return np.empty((0, len(optimum)))
    directions = np.eye(len(optimum))
    slopes = [loss(optimum + DIFFERENCE * e)[1] - loss(optimum - DIFFERENCE * e)[1] for e in directions]
    hessian = np.array(slopes) / (2 * DIFFERENCE)
    values, vectors = np.linalg.eigh((hessian + hessian.T) / 2)
    # Rounding, and an optimum that is not quite one, can leave a negative curvature.
    scales = 1 / np.sqrt(np.maximum(values, 0.0) + WIDEST**-2)
    noise = np.random.default_rng(seed).standard_normal((-(-count // 2), len(optimum)))
    least, found = loss(optimum)[0], []
    for normal in (np.repeat(noise, 2, axis=0) * np.resize([[1.0], [-1.0]], (2 * len(noise), 1)))[:count]:
        u, fall, t = vectors @ (scales * normal), 0.5 * normal @ normal, 0.0
        for step in STEPS:
            further = (t + step) * u
            if loss(optimum + further)[0] + 0.5 * further @ further / WIDEST**2 < least + fall:
                t += step
        found.append(optimum + t * u)
    return np.reshape(found, (count, len(optimum)))
