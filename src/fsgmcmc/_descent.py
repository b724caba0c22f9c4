"""Adam, which brings chains to a good region before the sampler starts.

It runs in calls of about half a second. Between them somebody may watch, and what is watched is enough to go on from:
the key of chain c at step t is fold_in(fold_in(key, c), t), so that how the steps are cut into calls changes nothing.
"""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PRNGKeyArray

from fsgmcmc import _pace
from fsgmcmc._chains import chain_keys, over_cores, over_devices
from fsgmcmc._compile import jit_loop
from fsgmcmc.posterior import Posterior
from fsgmcmc.samplers.base import Target

# What the learning rate falls to along its cosine, as a fraction.
LAST_RATE = 0.05


class Descent(NamedTuple):
    """Adam on its way, leaves (chains, …): where the chains are, and its moments with the count of its steps."""

    positions: Float[Array, "*chains k"]
    moments: Any

    @classmethod
    def at(cls, positions: Float[Array, "chains k"]) -> "Descent":
        """Before the first step."""
        import optax

        return cls(positions, jax.vmap(optax.scale_by_adam().init)(positions))

    @property
    def steps(self) -> int:
        """Steps taken."""
        return int(self.moments.count[0])


# Hears of a descent on its way, and of its steps a second.
Watch = Callable[[Descent, float], None]


def descend(
    key: PRNGKeyArray, target: Target, descent: Descent, steps: int, learning_rate: float, watch: Watch
) -> Float[Array, "chains k"]:
    """Where the chains are after so many steps in all, of which the descent may have taken some.

    It ends early where a position is no longer finite.
    """
    keys = chain_keys(key, len(descent.positions))
    rate, total = jnp.float32(learning_rate), jnp.int32(steps)

    def call(descent: Descent, count: int) -> Descent:
        return jax.block_until_ready(over_cores(_descend, (keys, descent), target, rate, total, jnp.int32(count)))

    call(descent, 0)  # compiles, so that the time taken afterwards is that of the steps
    count = _pace.FIRST_DESCENT_STEPS
    while descent.steps < steps:
        count, began = min(count, steps - descent.steps), time.monotonic()
        descent = call(descent, count)
        if not bool(jnp.isfinite(descent.positions).all()):
            break
        elapsed = max(time.monotonic() - began, 1e-9)
        watch(descent, count / elapsed)
        count = _pace.paced(count, elapsed)
    return descent.positions


@jit_loop
def _descend(
    keys: Key[Array, " chains"], descents: Descent, target: Target, learning_rate: Any, total: Any, count: Any
) -> Descent:
    """The descents after `count` more of their `total` steps."""
    import optax

    adam = optax.scale_by_adam()

    def chain(target: Target, plan: tuple, chain_key: PRNGKeyArray, descent: Descent) -> Descent:
        learning_rate, total, count = plan
        moving = target.network_mask() if isinstance(target, Posterior) else 1.0

        def step(_: Any, descent: Descent) -> Descent:
            (w, moments), t = descent, descent.moments.count
            _, gradient = target.potential(jax.random.fold_in(chain_key, t), w)
            update, moments = adam.update(moving * gradient, moments)
            fall = 0.5 * (1 + jnp.cos(jnp.pi * t / total))
            return Descent(w - learning_rate * (LAST_RATE + (1 - LAST_RATE) * fall) * update, moments)

        return jax.lax.fori_loop(0, count, step, descent)

    return over_devices(chain, target, (learning_rate, total, count), keys, descents)
