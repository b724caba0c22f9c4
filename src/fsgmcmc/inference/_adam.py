"""Adam, which moves chains to a good region before the sampler starts.

It runs in calls of about half a second, between which its state is reported. A run resumes from such a state: the key
of chain c at step t is fold_in(fold_in(key, c), t), so that how the steps are cut into calls changes nothing.
"""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PRNGKeyArray

from fsgmcmc._compile import jit_loop
from fsgmcmc.inference import _chunking
from fsgmcmc.inference._devices import across_cores, across_devices, chain_keys
from fsgmcmc.posterior.target import Target

# What the learning rate falls to along its cosine, as a fraction.
LAST_RATE = 0.05


class AdamState(NamedTuple):
    """Positions of the chains and the moments of Adam with its step count, leaves (chains, …)."""

    positions: Float[Array, "*chains k"]
    moments: Any

    @classmethod
    def at(cls, positions: Float[Array, "chains k"]) -> "AdamState":
        """Before the first step."""
        import optax

        return cls(positions, jax.vmap(optax.scale_by_adam().init)(positions))

    @property
    def steps(self) -> int:
        """Steps taken."""
        return int(self.moments.count[0])


# Called with the state between two calls, and with steps per second.
Watch = Callable[[AdamState, float], None]


def run_adam(
    key: PRNGKeyArray, target: Target, state: AdamState, steps: int, learning_rate: float, watch: Watch
) -> Float[Array, "chains k"]:
    """Positions of the chains after `steps` steps in all, of which `state` may have taken some.

    It ends early where a position is no longer finite.
    """
    keys = chain_keys(key, len(state.positions))
    rate, total = jnp.float32(learning_rate), jnp.int32(steps)

    def call(state: AdamState, count: int) -> AdamState:
        return jax.block_until_ready(across_cores(_adam_steps, (keys, state), target, rate, total, jnp.int32(count)))

    call(state, 0)  # compiles, so that the time taken afterwards is that of the steps
    count = _chunking.FIRST_ADAM_STEPS
    while state.steps < steps:
        count, began = min(count, steps - state.steps), time.monotonic()
        state = call(state, count)
        if not bool(jnp.isfinite(state.positions).all()):
            break
        elapsed = max(time.monotonic() - began, 1e-9)
        watch(state, count / elapsed)
        count = _chunking.next_steps(count, elapsed)
    return state.positions


@jit_loop
def _adam_steps(
    keys: Key[Array, " chains"], states: AdamState, target: Target, learning_rate: Any, total: Any, count: Any
) -> AdamState:
    """The states after `count` more of their `total` steps."""
    import optax

    adam = optax.scale_by_adam()

    def chain(target: Target, plan: tuple, chain_key: PRNGKeyArray, state: AdamState) -> AdamState:
        learning_rate, total, count = plan

        def step(_: Any, state: AdamState) -> AdamState:
            (w, moments), t = state, state.moments.count
            _, gradient = target.potential(jax.random.fold_in(chain_key, t), w)
            update, moments = adam.update(gradient, moments)
            fall = 0.5 * (1 + jnp.cos(jnp.pi * t / total))
            return AdamState(w - learning_rate * (LAST_RATE + (1 - LAST_RATE) * fall) * update, moments)

        return jax.lax.fori_loop(0, count, step, state)

    return across_devices(chain, target, (learning_rate, total, count), keys, states)
