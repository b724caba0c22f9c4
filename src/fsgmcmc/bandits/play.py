"""The loop of a contextual bandit: act, observe, store and learn, in one compiled program."""

import warnings
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key, PRNGKeyArray

from fsgmcmc import _checks
from fsgmcmc._compile import jit_loop
from fsgmcmc._progress import Progress
from fsgmcmc.bandits.agents import Agent
from fsgmcmc.bandits.buffer import ReplayBuffer
from fsgmcmc.bandits.environments import Environment, inputs, with_action
from fsgmcmc.inference._devices import across_cores, chain_keys, map_chains
from fsgmcmc.random import generator_key

ROUNDS_PER_CALL = 250


class Game(NamedTuple):
    """The results of games: regret and expected regret of each round, and whether the agent stayed finite."""

    regret: Float[np.ndarray, "games rounds"]
    expected_regret: Float[np.ndarray, "games rounds"]
    finite: Bool[np.ndarray, " games"]

    @property
    def cumulative(self) -> Float[np.ndarray, "games rounds"]:
        """The sum of regrets up to each round."""
        return np.cumsum(self.regret, axis=1, dtype=np.float64)

    @property
    def optimal(self) -> Bool[np.ndarray, "games rounds"]:
        """Whether the action with the largest expected reward was taken."""
        return self.expected_regret == 0


def play(
    key: PRNGKeyArray | int,
    environment: Environment,
    agent: Agent,
    rounds: int,
    *,
    games: int = 1,
    capacity: int = 4096,
    reward_scale: float = 1.0,
    generator: str | None = None,
    progress: bool = True,
) -> Game:
    """Independent games of an agent; all rounds run in compiled programs.

    Args:
        key: A JAX key or an integer seed; it fixes the result.
        environment: The environment, such as `Mushroom.load(p=0.5)`.
        agent: The agent.
        rounds: Rounds of each game.
        games: Number of games, which run in parallel on the cores.
        capacity: Rounds that the replay buffer holds.
        reward_scale: Rewards in the replay buffer are divided by this number; regret is not.
        generator: As in `sample`.
        progress: Show a progress bar if there is a terminal.
    """
    rounds, games, capacity = (
        _checks.count(value, name) for value, name in ((rounds, "rounds"), (games, "games"), (capacity, "capacity"))
    )
    _checks.positive(reward_scale, "reward_scale")
    keys = chain_keys(generator_key(_checks.as_key(key), generator), games)
    # A new lambda is a new program: networks that differ only in their initial weights would share a cached one.
    start = eqx.filter_jit(lambda keys, environment, agent: _start(keys, environment, agent, capacity))
    states, buffers = start(keys, environment, agent)
    scale = jnp.float32(reward_scale)
    parts: list[tuple[np.ndarray, ...]] = []
    with Progress(progress, rounds) as bar:
        for first in range(0, rounds, ROUNDS_PER_CALL):
            count = min(ROUNDS_PER_CALL, rounds - first)
            span = jnp.int32(first), jnp.int32(count)
            (states, buffers), *regrets = across_cores(
                _rounds, (keys, states, buffers), environment, agent, span, scale
            )
            parts.append(tuple(np.asarray(regret)[:, :count] for regret in regrets))
            bar.show("playing", first + count, f"regret {sum(part[0].sum() for part in parts) / games:,.0f}")
    regret, expected = (np.concatenate(rounds, axis=1) for rounds in zip(*parts, strict=True))
    finite = _finite(states, games)
    if not finite.all():
        warnings.warn(f"{(~finite).sum()} of {games} agents became non-finite: lower the step size", stacklevel=2)
    return Game(regret, expected, finite)


def _finite(states: Any, games: int) -> Bool[np.ndarray, " games"]:
    finite = np.ones(games, bool)
    for leaf in jax.tree.leaves(states):
        finite &= np.isfinite(np.asarray(leaf)).reshape(games, -1).all(axis=1)
    return finite


def _start(
    keys: Key[Array, " games"], environment: Environment, agent: Agent, capacity: int
) -> tuple[Any, ReplayBuffer]:
    """The state of the agent and the replay buffer of each game before the first round."""

    def one(key: PRNGKeyArray) -> tuple[Any, ReplayBuffer]:
        start_key = jax.random.fold_in(key, np.uint32(2**32 - 1))
        return agent.init(start_key), ReplayBuffer.empty(capacity, inputs(environment))

    return jax.vmap(one)(keys)


@jit_loop
def _rounds(
    keys: Key[Array, " games"],
    states: Any,
    buffers: ReplayBuffer,
    environment: Environment,
    agent: Agent,
    span: tuple[Any, Any],
    reward_scale: Any,
) -> tuple[tuple[Any, ReplayBuffer], Float[Array, "games rounds"], Float[Array, "games rounds"]]:
    """The rounds of a span (first, count) of every game; unused entries of the results are zero."""
    first, count = span

    def game(key: PRNGKeyArray, state: Any, buffer: ReplayBuffer) -> tuple:
        def one(index: Any, carry: tuple) -> tuple:
            (state, buffer), regret, expected = carry
            draw_key, act_key, learn_key = jax.random.split(jax.random.fold_in(key, first + index), 3)
            offered = environment.draw(draw_key)
            choices = with_action(offered.context, environment.actions)
            action = agent.act(act_key, state, choices, buffer)
            reward = offered.rewards[action]
            buffer = buffer.put(choices[action], reward / reward_scale)
            state = agent.learn(learn_key, state, buffer)
            regret = regret.at[index].set(offered.oracle - reward)
            expected = expected.at[index].set(offered.expected.max() - offered.expected[action])
            return (state, buffer), regret, expected

        nothing = jnp.zeros(ROUNDS_PER_CALL), jnp.zeros(ROUNDS_PER_CALL)
        return jax.lax.fori_loop(0, count, one, ((state, buffer), *nothing))

    # Rounds are expensive: on a CPU the games run one after the other, as chains do.
    return map_chains(game, buffers.rows.x[0].size)(keys, states, buffers)
