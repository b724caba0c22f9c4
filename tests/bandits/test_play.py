"""Laws of the game: what regret arithmetic says, what players learn, what the memory holds."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fsgmcmc import (
    MLP,
    Gaussian,
    GaussianProcess,
    function_space,
    mala,
    measurement,
    parameter_space,
    rbf,
    sgld,
    variational,
)
from fsgmcmc.bandits import (
    Fitted,
    Greedy,
    LinearGame,
    Mushroom,
    NeuralLinear,
    ReplayBuffer,
    Sampled,
    Uniform,
    play,
    random_rounds,
    with_replay_buffer,
)
from fsgmcmc.data import Mushrooms
from fsgmcmc.samplers import fsgld

pytestmark = pytest.mark.usefixtures("optimised")

GAME = LinearGame(jnp.asarray(np.random.default_rng(0).normal(size=(2, 5)), jnp.float32), noise=0.1)
POISONOUS = np.arange(20) % 4 == 0
MUSHROOMS = Mushrooms(np.eye(20, dtype=np.float32), tuple((0, str(i)) for i in range(20)), POISONOUS)


class Oracle(Uniform):
    """Knows which action is best from the code in the context."""

    def act(self, key, state, inputs, buffer):
        poisonous = jnp.asarray(POISONOUS)[jnp.argmax(inputs[0, :20])]
        return jnp.where(poisonous, 0, 1)


@pytest.mark.parametrize("p", [0.4, 0.6])
def test_the_oracle_has_no_regret_and_chance_has_what_arithmetic_says(p):
    """A random eater loses 2.5 a round on edible mushrooms and (40 p − 5) / 2 on poisonous ones; 5 standard errors."""
    environment = Mushroom.of(MUSHROOMS, p)
    assert play(0, environment, Oracle(), 500, progress=False).cumulative[0, -1] == 0
    chance = play(0, environment, Uniform(), 8000, games=2, capacity=10, progress=False).regret
    expected = 0.75 * 2.5 + 0.25 * (40 * p - 5) / 2
    assert abs(chance.mean() - expected) < 5 * chance.std() / np.sqrt(chance.size)
    assert not np.isclose(chance[0].sum(), chance[1].sum())


def test_only_hurtful_poison_is_told_apart_by_the_round():
    environment = Mushroom.of(MUSHROOMS, 1.0)
    rounds = jax.vmap(environment.draw)(jax.random.split(jax.random.key(0), 400))
    poisonous = POISONOUS[np.argmax(rounds.context, axis=1)]
    np.testing.assert_array_equal(np.asarray(rounds.rewards[:, 1]), np.where(poisonous, -35.0, 5.0))
    np.testing.assert_array_equal(np.asarray(rounds.oracle), np.where(poisonous, 0.0, 5.0))
    with pytest.raises(ValueError, match="p must lie between"):
        Mushroom.of(MUSHROOMS, 0.1)


OF_MINIBATCH = measurement.minibatch(20)


def posterior(functional, points=OF_MINIBATCH):
    x, y = random_rounds(GAME, jax.random.key(1), 200)
    options = {"likelihood": Gaussian(0.1), "batch_size": 32}
    if functional:
        built = function_space(MLP((20,)), x, y, prior=GaussianProcess(rbf(3.0)), measurement=points, **options)
    else:
        built = parameter_space(MLP((20,)), x, y, **options)
    return with_replay_buffer(built, points=20)


AGENTS = {
    "fsgld": lambda: Sampled(posterior(True), fsgld(1e-6), 16),
    "points drawn apart": lambda: Sampled(posterior(True, measurement.fixed(np.zeros((2, 7)))), fsgld(1e-6), 16),
    "sgld": lambda: Sampled(posterior(False), sgld(1e-6), 16),
    "bbb": lambda: Fitted(posterior(False), variational.bbb(), 1e-2, 16),
    "neural-linear": lambda: NeuralLinear(posterior(False), 0.0, 1e-2, 16, noise=0.1),
    "epsilon-greedy": lambda: Greedy(posterior(False), 0.02, 1e-2, 16),
}
OFTEN = [name if name == "fsgld" else pytest.param(name, marks=pytest.mark.slow) for name in AGENTS]


@pytest.mark.parametrize("name", OFTEN)
def test_the_regret_of_a_learner_grows_ever_more_slowly(name):
    """The second half costs less than a third of the first, and chance more than twice as much as both."""
    game = play(0, GAME, AGENTS[name](), 600, games=2, capacity=500, progress=False)
    halves = game.regret.reshape(2, 2, 300).sum(axis=2).mean(axis=0)
    chance = play(0, GAME, Uniform(), 600, games=2, capacity=10, progress=False).regret.sum(axis=1).mean()
    assert halves[1] < halves[0] / 3
    assert halves.sum() < chance / 2
    assert game.finite.all()
    assert game.optimal[:, -100:].mean() > 0.9


def test_regret_is_in_the_units_of_the_environment():
    plain, scaled = (
        play(0, GAME, Uniform(), 50, capacity=10, reward_scale=scale, progress=False).regret for scale in (1.0, 10.0)
    )
    np.testing.assert_array_equal(plain, scaled)


@pytest.mark.slow
def test_a_player_that_is_lost_is_told():
    with pytest.warns(UserWarning, match="1 of 1 agents became non-finite"):
        game = play(0, GAME, Sampled(posterior(False), sgld(1e3), 16), 20, capacity=50, progress=False)
    assert not game.finite[0]


@pytest.mark.slow
def test_games_are_the_same_again_and_however_many_there_are():
    agent = AGENTS["sgld"]()
    alone = play(5, GAME, agent, 30, capacity=500, progress=False)
    together = play(5, GAME, agent, 30, games=3, capacity=500, progress=False)
    np.testing.assert_array_equal(alone.regret[0], together.regret[0])


def test_the_buffer_keeps_the_last_and_draws_only_what_is_there():
    buffer = ReplayBuffer.empty(3, 1)
    for value in range(5):
        buffer = buffer.put(jnp.array([float(value)]), jnp.float32(10 * value))
        rows = np.asarray(buffer.draw(jax.random.key(value), 200))
        assert rows.max() == min(value, 2)
    assert sorted(np.asarray(buffer.rows.x)[:, 0].tolist()) == [2, 3, 4]
    np.testing.assert_array_equal(np.asarray(buffer.rows.y), 10 * np.asarray(buffer.rows.x))


@pytest.mark.parametrize("functional", [True, False])
def test_the_potential_counts_the_rows_that_are_there(functional):
    """With three places for the same row, put in five times, the misfit is that of three rows."""
    target = posterior(functional)
    buffer = ReplayBuffer.empty(3, 7)
    for _ in range(5):
        buffer = buffer.put(jnp.ones(7), jnp.float32(2.0))
    w = target.init(jax.random.key(0))
    seen = target.with_data(buffer.in_batches_of(32))
    batch = seen.data.batch(jax.random.key(1))
    assert len(batch.x) == 32
    value = target.network.apply(target.parameters(w).network, jnp.ones((1, 7)))
    exact = 3 * (0.5 * ((2.0 - value) / 0.1) ** 2 + np.log(0.1) + 0.5 * np.log(2 * np.pi))
    values = target.network.apply(target.parameters(w).network, batch.x)
    np.testing.assert_allclose(seen.misfit(batch, values, ()), exact[0, 0], rtol=1e-4)


def test_samplers_that_need_the_energy_are_refused():
    with pytest.raises(ValueError, match="the same potential"):
        Sampled(posterior(False), mala(0.1))


def test_players_that_do_not_match_their_posterior_are_refused():
    with pytest.raises(ValueError, match="only a weight prior"):
        Sampled(posterior(False), fsgld(1e-6))
    with pytest.raises(ValueError, match="step size"):
        Sampled(posterior(False), sgld())
    with pytest.raises(ValueError, match="parameter space"):
        Fitted(posterior(True), variational.bbb())
    with pytest.raises(ValueError, match="steps"):
        Greedy(posterior(False), steps=0)


def test_posteriors_that_a_buffer_cannot_feed_are_refused():
    x, y = random_rounds(GAME, jax.random.key(1), 20)
    with pytest.raises(ValueError, match="batch_size"):
        with_replay_buffer(parameter_space(MLP((5,)), x, y, likelihood=Gaussian(0.1)))
    with pytest.raises(ValueError, match="one noise"):
        with_replay_buffer(
            parameter_space(MLP((5,)), x, y, likelihood=Gaussian(), noise=np.full(20, 0.1), batch_size=5)
        )
    tiny = GaussianProcess(rbf(3.0), nugget=1e-6)
    with pytest.raises(ValueError, match="nugget"):
        with_replay_buffer(function_space(MLP((5,)), x, y, prior=tiny, likelihood=Gaussian(0.1), batch_size=5))
