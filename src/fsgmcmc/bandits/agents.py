"""Agents of a contextual bandit.

    state = agent.init(key)
    action = agent.act(key, state, inputs, buffer)     inputs (actions, inputs): the context with each action
    state = agent.learn(key, state, buffer)            after each round

`Sampled` and `Fitted` use Thompson sampling: the value of an action is that of one function drawn from the posterior.
The weights, or q, are kept from round to round. The other agents are baselines.
"""

from typing import Any, NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from fsgmcmc import _checks
from fsgmcmc.bandits.buffer import ReplayBuffer
from fsgmcmc.networks import MLP
from fsgmcmc.posterior import Posterior
from fsgmcmc.samplers.base import Sampler
from fsgmcmc.variational import Approximation
from fsgmcmc.variational.base import draw_positions

Inputs = Float[Array, "actions inputs"]
Action = Int[Array, ""]


@runtime_checkable
class Agent(Protocol):
    """The contract of an agent."""

    def init(self, key: PRNGKeyArray) -> Any:
        """The state before the first round."""

    def act(self, key: PRNGKeyArray, state: Any, inputs: Inputs, buffer: ReplayBuffer) -> Action:
        """The chosen action."""

    def learn(self, key: PRNGKeyArray, state: Any, buffer: ReplayBuffer) -> Any:
        """The state after a round."""


class Uniform(eqx.Module):
    """All actions have the same probability."""

    def init(self, key: PRNGKeyArray) -> Any:
        """An empty state."""
        del key
        return ()

    def act(self, key: PRNGKeyArray, state: Any, inputs: Inputs, buffer: ReplayBuffer) -> Action:
        """A random action."""
        del state, buffer
        return jax.random.randint(key, (), 0, len(inputs))

    def learn(self, key: PRNGKeyArray, state: Any, buffer: ReplayBuffer) -> Any:
        """The unchanged state."""
        del key, buffer
        return state


class Sampled(eqx.Module):
    """Thompson sampling with a chain that continues from round to round; its position is the draw.

    Attributes:
        posterior: The posterior of the rewards.
        sampler: A sampler with a step size.
        steps: Steps of the sampler after each round.
    """

    posterior: Posterior
    sampler: Sampler
    steps: int = eqx.field(static=True, default=64)

    def __check_init__(self) -> None:
        self.posterior.check_sampler(self.sampler)
        if self.sampler.step_size.initial is None:
            raise ValueError("the sampler of an agent needs a step size, such as fsgld(1e-6)")
        _checks.count(self.steps, "steps")

    def init(self, key: PRNGKeyArray) -> Any:
        """The chain before its first step."""
        start_key, init_key = jax.random.split(key)
        return self.sampler.init(init_key, self.posterior.init(start_key), self.posterior.potential)

    def act(self, key: PRNGKeyArray, state: Any, inputs: Inputs, buffer: ReplayBuffer) -> Action:
        """The best action under the function at the position of the chain."""
        del key, buffer
        return jnp.argmax(values(self.posterior, state.position, inputs))

    def learn(self, key: PRNGKeyArray, state: Any, buffer: ReplayBuffer) -> Any:
        """Further steps of the chain, with the data of the buffer."""
        target = _given(self.posterior, buffer)

        def potential(key: PRNGKeyArray, w: Float[Array, " k"]) -> tuple[Float[Array, ""], Float[Array, " k"]]:
            # Agents do not use the energy; with a constant it is not computed.
            return jnp.float32(0), target.potential(key, w)[1]

        def step(index: Any, state: Any) -> Any:
            return self.sampler.step(jax.random.fold_in(key, index), state, potential)

        return jax.lax.fori_loop(0, self.steps, step, state)


class TrainState(NamedTuple):
    """What is trained, and the moments of Adam."""

    trained: Any
    moments: Any

    @classmethod
    def start(cls, trained: Any) -> "TrainState":
        """The state before the first step."""
        import optax

        return cls(trained, optax.scale_by_adam().init(trained))


class Fitted(eqx.Module):
    """Thompson sampling with a variational method: each action uses a draw of q, and each round trains q further.

    Attributes:
        posterior: The posterior of the rewards.
        method: `bbb()`, `fbnn()` or `ifbnn()`.
        learning_rate: Learning rate of Adam.
        steps: Steps of Adam after each round.
    """

    posterior: Posterior
    method: Approximation
    learning_rate: float = 1e-3
    steps: int = eqx.field(static=True, default=64)

    def __check_init__(self) -> None:
        self.method.check(self.posterior)
        _checks.positive(self.learning_rate, "learning_rate")
        _checks.count(self.steps, "steps")

    def init(self, key: PRNGKeyArray) -> TrainState:
        """q before the first step."""
        return TrainState.start(self.method.init(key, self.posterior))

    def act(self, key: PRNGKeyArray, state: TrainState, inputs: Inputs, buffer: ReplayBuffer) -> Action:
        """The best action under a function drawn from q."""
        del buffer
        drawn = draw_positions(key, self.posterior, self.method.approximation(state.trained), 1)
        params = jax.tree.map(lambda leaf: leaf[0], drawn.network)
        return jnp.argmax(self.posterior.network.apply(params, inputs)[:, 0])

    def learn(self, key: PRNGKeyArray, state: TrainState, buffer: ReplayBuffer) -> TrainState:
        """Steps of Adam with the data of the buffer."""
        target = _given(self.posterior, buffer)

        def gradient(key: PRNGKeyArray, trained: Any) -> Any:
            return self.method.objective(key, target, trained)[1]

        return train(key, state, gradient, self.learning_rate, self.steps)


class Greedy(eqx.Module):
    """The best action under a network fitted by Adam, or a random action with probability `epsilon`.

    Attributes:
        posterior: The posterior of the rewards; Adam searches its mode.
        epsilon: Probability of a random action.
        learning_rate: Learning rate of Adam.
        steps: Steps of Adam after each round.
    """

    posterior: Posterior
    epsilon: float = 0.0
    learning_rate: float = 1e-3
    steps: int = eqx.field(static=True, default=64)

    def __check_init__(self) -> None:
        if not 0 <= self.epsilon <= 1:
            raise ValueError(f"epsilon must be a probability from 0 to 1, got {self.epsilon}")
        _checks.positive(self.learning_rate, "learning_rate")
        _checks.count(self.steps, "steps")

    def init(self, key: PRNGKeyArray) -> TrainState:
        """The initial weights."""
        return TrainState.start(self.posterior.init(key))

    def act(self, key: PRNGKeyArray, state: TrainState, inputs: Inputs, buffer: ReplayBuffer) -> Action:
        """The best action, or a random action with probability `epsilon`."""
        del buffer
        explore_key, action_key = jax.random.split(key)
        best = jnp.argmax(values(self.posterior, state.trained, inputs))
        anything = jax.random.randint(action_key, (), 0, len(inputs))
        return jnp.where(jax.random.bernoulli(explore_key, self.epsilon), anything, best)

    def learn(self, key: PRNGKeyArray, state: TrainState, buffer: ReplayBuffer) -> TrainState:
        """Steps of Adam towards the mode."""
        target = _given(self.posterior, buffer)
        return train(key, state, lambda key, w: target.potential(key, w)[1], self.learning_rate, self.steps)


class NeuralLinear(Greedy):
    """Thompson sampling in the last layer (Riquelme et al., 2018): exact regression on features that Adam fits.

        A = I / s² + Φᵀ Φ / σ²,    w ~ N(A⁻¹ Φᵀ y / σ², A⁻¹)

    Attributes:
        prior_scale: s.
        noise: σ.
    """

    prior_scale: float = 1.0
    noise: float = 1.0

    def __check_init__(self) -> None:
        if not isinstance(self.posterior.network, MLP) or self.posterior.network.skip:
            raise TypeError("neural-linear needs an MLP without skip: its features are the last hidden layer")

    def act(self, key: PRNGKeyArray, state: TrainState, inputs: Inputs, buffer: ReplayBuffer) -> Action:
        """The best action under drawn weights of the last layer."""
        taken = jnp.arange(len(buffer.rows.x)) < buffer.seen
        features = self._features(state.trained, buffer.rows.x) * taken[:, None]
        precision = jnp.eye(features.shape[1]) / self.prior_scale**2 + features.T @ features / self.noise**2
        factor = jnp.linalg.cholesky(precision)
        mean = jax.scipy.linalg.cho_solve((factor, True), features.T @ (buffer.rows.y[:, 0] * taken) / self.noise**2)
        noise = jax.random.normal(key, mean.shape)
        drawn = mean + jax.scipy.linalg.solve_triangular(factor.T, noise, lower=False)
        return jnp.argmax(self._features(state.trained, inputs) @ drawn)

    def _features(self, w: Float[Array, " k"], x: Float[Array, "n inputs"]) -> Float[Array, "n features"]:
        """The last hidden layer and a constant feature."""
        network = self.posterior.network
        assert isinstance(network, MLP)
        hidden = network.hidden_values(self.posterior.parameters(w).network, x)
        return jnp.concatenate([hidden, jnp.ones((len(x), 1))], axis=1)


def _given(posterior: Posterior, buffer: ReplayBuffer) -> Posterior:
    """The posterior with the data of the buffer."""
    return posterior.with_data(buffer.in_batches_of(posterior.data.rows_per_step))


def values(posterior: Posterior, w: Float[Array, " k"], inputs: Inputs) -> Float[Array, " actions"]:
    """The rewards that the network with these weights predicts."""
    return posterior.network.apply(posterior.parameters(w).network, inputs)[:, 0]


def train(key: PRNGKeyArray, state: TrainState, gradient: Any, learning_rate: Any, steps: int) -> TrainState:
    """Steps of Adam."""
    import optax

    adam = optax.scale_by_adam()

    def step(index: Any, state: TrainState) -> TrainState:
        update, moments = adam.update(gradient(jax.random.fold_in(key, index), state.trained), state.moments)
        trained = jax.tree.map(lambda leaf, change: leaf - learning_rate * change, state.trained, update)
        return TrainState(trained, moments)

    return jax.lax.fori_loop(0, steps, step, state)
