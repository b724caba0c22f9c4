"""Environments: contexts, actions, rewards and the reward of an oracle, as pure functions of a key.

    context, rewards, oracle, expected = environment.draw(key)

`rewards` has the reward of every action in this round; the agent observes one of them. `expected` has their expected
values. `oracle` is the reward of an oracle that uses the true environment, but cannot predict random rewards. Regret is
oracle − reward received. Expected regret is max expected − expected of the action taken; it has no random rewards.
"""

from pathlib import Path
from typing import ClassVar, NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from fsgmcmc.data.mushroom import Mushrooms, load_mushrooms

EDIBLE_REWARD, POISON_REWARD = 5.0, -35.0
# The probability of harm at which eating poison has an expected reward of zero.
FAIR = EDIBLE_REWARD / (EDIBLE_REWARD - POISON_REWARD)


class Round(NamedTuple):
    """The context and the rewards of one round."""

    context: Float[Array, " features"]
    rewards: Float[Array, " actions"]
    oracle: Float[Array, ""]
    expected: Float[Array, " actions"]


@runtime_checkable
class Environment(Protocol):
    """The contract of an environment."""

    @property
    def features(self) -> int:
        """Columns of a context."""

    @property
    def actions(self) -> int:
        """Number of actions."""

    def draw(self, key: PRNGKeyArray) -> Round:
        """A random round."""


class Mushroom(eqx.Module):
    """Eat a mushroom or leave it.

    Eating an edible mushroom has reward 5. Eating a poisonous one has reward −35 with probability p and 5 otherwise.
    Leaving has reward 0. The oracle eats edible mushrooms and leaves the others.
    """

    contexts: Float[Array, "mushrooms features"]
    poisonous: Float[Array, " mushrooms"]
    p: Float[Array, ""]

    actions: ClassVar[int] = 2  # leave it, eat it

    @classmethod
    def of(cls, mushrooms: Mushrooms, p: float) -> "Mushroom":
        """The game with these mushrooms."""
        if not FAIR < p <= 1:
            raise ValueError(f"p must lie between {FAIR:g}, where eating poison has expected reward 0, and 1, got {p}")
        return cls(jnp.asarray(mushrooms.x), jnp.asarray(mushrooms.poisonous, jnp.float32), jnp.float32(p))

    @classmethod
    def load(cls, p: float, data: str | Path | None = None) -> "Mushroom":
        """The game with the 8124 mushrooms of the UCI set."""
        return cls.of(load_mushrooms(data), p)

    @property
    def features(self) -> int:
        """Columns of a context."""
        return self.contexts.shape[1]

    def draw(self, key: PRNGKeyArray) -> Round:
        """A random mushroom."""
        which_key, reward_key = jax.random.split(key)
        which = jax.random.randint(which_key, (), 0, len(self.contexts))
        poisonous = self.poisonous[which]
        hurt = poisonous * jax.random.bernoulli(reward_key, self.p)
        eaten = jnp.where(hurt > 0, POISON_REWARD, EDIBLE_REWARD)
        oracle = jnp.where(poisonous > 0, 0.0, EDIBLE_REWARD)
        on_average = jnp.where(poisonous > 0, self.p * POISON_REWARD + (1 - self.p) * EDIBLE_REWARD, EDIBLE_REWARD)
        left = jnp.zeros(())
        return Round(self.contexts[which], jnp.stack([left, eaten]), oracle, jnp.stack([left, on_average]))


class LinearGame(eqx.Module):
    """Rewards that are linear in a Gaussian context, reward_a = θ_aᵀ c + σ ε; the regret is known.

    Args:
        weights: θ, one row for each action.
        noise: σ.
    """

    weights: Float[Array, "actions features"]
    noise: float = eqx.field(static=True, default=0.1)

    @property
    def features(self) -> int:
        """Columns of a context."""
        return self.weights.shape[1]

    @property
    def actions(self) -> int:
        """Number of actions."""
        return self.weights.shape[0]

    def draw(self, key: PRNGKeyArray) -> Round:
        """A random context; the oracle takes the action with the largest mean and gets its noisy reward."""
        context_key, noise_key = jax.random.split(key)
        context = jax.random.normal(context_key, (self.features,))
        means = self.weights @ context
        rewards = means + self.noise * jax.random.normal(noise_key, (self.actions,))
        return Round(context, rewards, rewards[jnp.argmax(means)], means)


def with_action(context: Float[Array, " features"], actions: int) -> Float[Array, "actions inputs"]:
    """The inputs of a network that predicts rewards: the context and a one-hot code, one row for each action."""
    return jnp.concatenate([jnp.tile(context, (actions, 1)), jnp.eye(actions)], axis=1)


def inputs(environment: Environment) -> int:
    """Columns of `with_action`."""
    return environment.features + environment.actions


def random_rounds(
    environment: Environment, key: PRNGKeyArray, rounds: int
) -> tuple[Float[np.ndarray, "rounds inputs"], Float[np.ndarray, " rounds"]]:
    """Inputs and rewards of rounds with random actions, to fit a prior or to measure the curvature."""

    def one(key: PRNGKeyArray) -> tuple[Array, Array]:
        round_key, action_key = jax.random.split(key)
        offered = environment.draw(round_key)
        action = jax.random.randint(action_key, (), 0, environment.actions)
        return with_action(offered.context, environment.actions)[action], offered.rewards[action]

    x, y = jax.jit(jax.vmap(one))(jax.random.split(key, rounds))
    return np.asarray(x), np.asarray(y)
