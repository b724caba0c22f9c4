"""The game: act, observe, remember, learn, and again, in one compiled loop."""

import warnings
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key, PRNGKeyArray

from fsgmcmc import _checks
from fsgmcmc._chains import chain_keys, map_chains, over_cores
from fsgmcmc._compile import jit_loop
from fsgmcmc._progress import Progress
from fsgmcmc.bandits.agents import Agent
from fsgmcmc.bandits.buffer import Buffer
from fsgmcmc.bandits.environments import Environment, inputs, with_action
from fsgmcmc.random import generator_key

ROUNDS_PER_CALL = 250


class Game(NamedTuple):
    """How games went: regret of each round, with and without luck, and whether the player stayed finite."""

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
    """Independent games of an agent, all rounds of all games within compiled programs.

    Args:
        key: A JAX key or an integer seed; it fixes the result.
        environment: What is played, such as `Mushroom.load(p=0.5)`.
        agent: Who plays.
        rounds: Rounds of each game.
        games: Games, run together and spread over the cores.
        capacity: Rounds that are remembered.
        reward_scale: Rewards are remembered in this unit; regret is not.
        generator: As in `sample`.
        progress: Show a progress bar where there is a terminal.
    """
    rounds, games, capacity = (
        _checks.count(value, name) for value, name in ((rounds, "rounds"), (games, "games"), (capacity, "capacity"))
    )
    _checks.positive(reward_scale, "reward_scale")
    keys = chain_keys(generator_key(_checks.as_key(key), generator), games)
    # A program of its own: networks that differ only in where they start would share another.
    start = eqx.filter_jit(lambda keys, environment, agent: _start(keys, environment, agent, capacity))
    knowledge, buffers = start(keys, environment, agent)
    scale = jnp.float32(reward_scale)
    parts: list[tuple[np.ndarray, ...]] = []
    with Progress(progress, rounds) as bar:
        for first in range(0, rounds, ROUNDS_PER_CALL):
            count = min(ROUNDS_PER_CALL, rounds - first)
            span = jnp.int32(first), jnp.int32(count)
            (knowledge, buffers), *regrets = over_cores(
                _rounds, (keys, knowledge, buffers), environment, agent, span, scale
            )
            parts.append(tuple(np.asarray(regret)[:, :count] for regret in regrets))
            bar.show("playing", first + count, f"regret {sum(part[0].sum() for part in parts) / games:,.0f}")
    regret, expected = (np.concatenate(rounds, axis=1) for rounds in zip(*parts, strict=True))
    finite = _finite(knowledge, games)
    if not finite.all():
        warnings.warn(f"{(~finite).sum()} of {games} players became non-finite: lower the step", stacklevel=2)
    return Game(regret, expected, finite)


def _finite(knowledge: Any, games: int) -> Bool[np.ndarray, " games"]:
    finite = np.ones(games, bool)
    for leaf in jax.tree.leaves(knowledge):
        finite &= np.isfinite(np.asarray(leaf)).reshape(games, -1).all(axis=1)
    return finite


def _start(keys: Key[Array, " games"], environment: Environment, agent: Agent, capacity: int) -> tuple[Any, Buffer]:
    """What each game's player knows and remembers before the first round."""

    def one(key: PRNGKeyArray) -> tuple[Any, Buffer]:
        start_key = jax.random.fold_in(key, np.uint32(2**32 - 1))
        return agent.init(start_key), Buffer.empty(capacity, inputs(environment))

    return jax.vmap(one)(keys)


@jit_loop
def _rounds(
    keys: Key[Array, " games"],
    knowledge: Any,
    buffers: Buffer,
    environment: Environment,
    agent: Agent,
    span: tuple[Any, Any],
    reward_scale: Any,
) -> tuple[tuple[Any, Buffer], Float[Array, "games rounds"], Float[Array, "games rounds"]]:
    """The rounds of a span (first, count) of every game; the rest of the results is zero."""
    first, count = span

    def game(key: PRNGKeyArray, knowledge: Any, buffer: Buffer) -> tuple:
        def one(index: Any, carry: tuple) -> tuple:
            (knowledge, buffer), regret, expected = carry
            draw_key, act_key, learn_key = jax.random.split(jax.random.fold_in(key, first + index), 3)
            offered = environment.draw(draw_key)
            choices = with_action(offered.context, environment.actions)
            action = agent.act(act_key, knowledge, choices, buffer)
            reward = offered.rewards[action]
            buffer = buffer.put(choices[action], reward / reward_scale)
            knowledge = agent.learn(learn_key, knowledge, buffer)
            regret = regret.at[index].set(offered.oracle - reward)
            expected = expected.at[index].set(offered.expected.max() - offered.expected[action])
            return (knowledge, buffer), regret, expected

        nothing = jnp.zeros(ROUNDS_PER_CALL), jnp.zeros(ROUNDS_PER_CALL)
        return jax.lax.fori_loop(0, count, one, ((knowledge, buffer), *nothing))

    # Rounds of a network are heavy: on a CPU the games run one after the other, as chains do.
    return map_chains(game, buffers.x[0].size)(keys, knowledge, buffers)
