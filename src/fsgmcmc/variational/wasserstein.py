"""The 1-Wasserstein distance in its dual form, with a network for the Lipschitz function.

    W₁(a, b) = sup_{‖φ‖_Lip <= 1} E_a[φ] − E_b[φ]

φ is a network with two softplus layers; the constraint is a penalty on its slope at random points between draws of a
and of b, ρ E[max(‖∇φ‖ − 1, 0)²]. (With the two-sided penalty of Gulrajani et al., 2017, a critic that starts with the
wrong sign can stay at a slope of −1.)
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from fsgmcmc import _checks
from fsgmcmc.networks import MLP

CRITIC = MLP((200, 200), activation="softplus", initial="fan_in")
# ρ. The slope of the best critic is 1 + W₁ / 2ρ, so the estimate is too large by this factor.
PENALTY = 100.0


def critic_init(key: PRNGKeyArray, inputs: int) -> Any:
    """Parameters of a critic for vectors with `inputs` entries."""
    return CRITIC.init(key, inputs, 1)


def gap(critic: Any, a: Float[Array, "n d"], b: Float[Array, "n d"], context: Float[Array, " e"]) -> Float[Array, ""]:
    """E_a[φ] − E_b[φ]; the inputs of φ are a draw and the context."""
    return jnp.mean(_value(critic, a, context)) - jnp.mean(_value(critic, b, context))


def critic_loss(
    key: PRNGKeyArray, critic: Any, a: Float[Array, "n d"], b: Float[Array, "n d"], context: Float[Array, " e"]
) -> Float[Array, ""]:
    """The loss of the critic: −gap + ρ E[max(‖∇φ‖ − 1, 0)²], with the slope with respect to the draws only."""
    between = jax.random.uniform(key, (len(a), 1))
    places = between * a + (1 - between) * b
    slopes = jax.grad(lambda places: jnp.sum(_value(critic, places, context)))(places)
    lengths = jnp.sqrt(jnp.sum(jnp.square(slopes), axis=1) + 1e-12)
    return PENALTY * jnp.mean(jnp.square(jnp.maximum(lengths - 1, 0))) - gap(critic, a, b, context)


def _value(critic: Any, draws: Float[Array, "n d"], context: Float[Array, " e"]) -> Float[Array, " n"]:
    contexts = jnp.broadcast_to(context, (len(draws), len(context)))
    return CRITIC.apply(critic, jnp.concatenate([draws, contexts], axis=1))[:, 0]


Draw = Callable[[PRNGKeyArray, int], Float[Array, "n d"]]


def wasserstein(
    key: PRNGKeyArray | int, a: Draw, b: Draw, *, steps: int = 2000, batch: int = 256, learning_rate: float = 1e-3
) -> float:
    """An estimate of W₁ between two distributions, each given by a function `draw(key, n) -> (n, d)`.

    A critic is trained, then evaluated on new draws.

    Example:
        >>> normal = jax.random.normal
        >>> def shifted(key, n):
        ...     return 2.0 + normal(key, (n, 1))
        >>> def centred(key, n):
        ...     return normal(key, (n, 1))
        >>> 1.7 < wasserstein(0, shifted, centred, steps=300) < 2.3
        True
    """
    steps, batch = _checks.count(steps, "steps"), _checks.count(batch, "batch")
    _checks.positive(learning_rate, "learning_rate")
    return float(_train(_checks.as_key(key), a, b, steps, batch, learning_rate))


@eqx.filter_jit
def _train(key: PRNGKeyArray, a: Draw, b: Draw, steps: int, batch: int, learning_rate: Any) -> Float[Array, ""]:
    import optax

    init_key, step_key, evaluation_key = jax.random.split(key, 3)
    sizes = [jax.eval_shape(lambda draw=draw: draw(init_key, 2)).shape for draw in (a, b)]
    if sizes[0] != sizes[1] or len(sizes[0]) != 2:
        raise ValueError(
            f"a and b must return draws of the same shape (n, d); for n = 2 they return {sizes[0]} and {sizes[1]}"
        )
    adam = optax.adam(optax.cosine_decay_schedule(learning_rate, steps))
    context = jnp.zeros(0)

    def pair(key: PRNGKeyArray, count: int) -> tuple[Array, Array]:
        first, second = jax.random.split(key)
        return a(first, count), b(second, count)

    def step(t: Any, carry: tuple) -> tuple:
        critic, state = carry
        draw_key, place_key = jax.random.split(jax.random.fold_in(step_key, t))
        gradient = jax.grad(lambda critic: critic_loss(place_key, critic, *pair(draw_key, batch), context))(critic)
        update, state = adam.update(gradient, state)
        return optax.apply_updates(critic, update), state

    critic = critic_init(init_key, sizes[0][1])
    critic, _ = jax.lax.fori_loop(0, steps, step, (critic, adam.init(critic)))
    return gap(critic, *pair(evaluation_key, 16 * batch), context)
