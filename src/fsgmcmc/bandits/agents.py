"""Players of a bandit.

    state = agent.init(key)
    action = agent.act(key, state, inputs, buffer)     inputs (actions, inputs): the context beside each action
    state = agent.learn(key, state, buffer)            after each round

`Sampled` and `Fitted` are Thompson sampling: the value of an action is that of one function drawn from the posterior.
The weights, or q, are carried from round to round. The others are what they are compared with.
"""

from typing import Any, NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from fsgmcmc import _checks
from fsgmcmc.bandits.buffer import Buffer, BufferPosterior
from fsgmcmc.networks import MLP
from fsgmcmc.samplers.base import Sampler
from fsgmcmc.sampling import check_match
from fsgmcmc.variational import Method
from fsgmcmc.variational.base import draw_positions

Inputs = Float[Array, "actions inputs"]
Action = Int[Array, ""]


@runtime_checkable
class Agent(Protocol):
    """What can play."""

    def init(self, key: PRNGKeyArray) -> Any:
        """What is known before the first round."""

    def act(self, key: PRNGKeyArray, state: Any, inputs: Inputs, buffer: Buffer) -> Action:
        """A choice."""

    def learn(self, key: PRNGKeyArray, state: Any, buffer: Buffer) -> Any:
        """What is known after a round."""


class Uniform(eqx.Module):
    """Any action, equally likely."""

    def init(self, key: PRNGKeyArray) -> Any:
        """Nothing."""
        del key
        return ()

    def act(self, key: PRNGKeyArray, state: Any, inputs: Inputs, buffer: Buffer) -> Action:
        """Chance decides."""
        del state, buffer
        return jax.random.randint(key, (), 0, len(inputs))

    def learn(self, key: PRNGKeyArray, state: Any, buffer: Buffer) -> Any:
        """Nothing."""
        del key, buffer
        return state


class Sampled(eqx.Module):
    """Thompson sampling with a chain that goes on from round to round: its position is the draw.

    Attributes:
        posterior: Of the rewards.
        sampler: With a step size.
        steps: Of the sampler after each round.
    """

    posterior: BufferPosterior
    sampler: Sampler
    steps: int = eqx.field(static=True, default=64)

    def __check_init__(self) -> None:
        check_match(self.posterior, self.sampler)
        if self.sampler.step_size.initial is None:
            raise ValueError("a player's sampler needs a step size, such as fsgld(1e-6)")
        _checks.count(self.steps, "steps")

    def init(self, key: PRNGKeyArray) -> Any:
        """The chain's start."""
        start_key, init_key = jax.random.split(key)
        return self.sampler.init(init_key, self.posterior.init(start_key), self.posterior.potential)

    def act(self, key: PRNGKeyArray, state: Any, inputs: Inputs, buffer: Buffer) -> Action:
        """The best action of the function where the chain is."""
        del key, buffer
        return jnp.argmax(values(self.posterior, state.position, inputs))

    def learn(self, key: PRNGKeyArray, state: Any, buffer: Buffer) -> Any:
        """The chain moves on, given all that is remembered."""
        target = self.posterior.seeing(buffer)

        def potential(key: PRNGKeyArray, w: Float[Array, " k"]) -> tuple[Float[Array, ""], Float[Array, " k"]]:
            # Nobody looks at the energy, and XLA computes what somebody looks at.
            return jnp.float32(0), target.potential(key, w)[1]

        def step(index: Any, state: Any) -> Any:
            return self.sampler.step(jax.random.fold_in(key, index), state, potential)

        return jax.lax.fori_loop(0, self.steps, step, state)


class AdamState(NamedTuple):
    """What is trained, Adam's moments and the number of steps taken."""

    trained: Any
    first: Any
    second: Any
    step: Int[Array, ""]

    @classmethod
    def start(cls, trained: Any) -> "AdamState":
        """Before the first step."""
        nothing = jax.tree.map(jnp.zeros_like, trained)
        return cls(trained, nothing, nothing, jnp.int32(0))


class Fitted(eqx.Module):
    """Thompson sampling with a variational method: a draw of q decides, and q is trained on.

    Attributes:
        posterior: Of the rewards.
        method: `bbb()`, `fbnn()` or `ifbnn()`.
        learning_rate: Adam's.
        steps: Of Adam after each round.
    """

    posterior: BufferPosterior
    method: Method
    learning_rate: float = 1e-3
    steps: int = eqx.field(static=True, default=64)

    def __check_init__(self) -> None:
        self.method.check(self.posterior)
        _checks.positive(self.learning_rate, "learning_rate")
        _checks.count(self.steps, "steps")

    def init(self, key: PRNGKeyArray) -> AdamState:
        """q at its start."""
        return AdamState.start(self.method.init(key, self.posterior))

    def act(self, key: PRNGKeyArray, state: AdamState, inputs: Inputs, buffer: Buffer) -> Action:
        """The best action of a function drawn from q."""
        del buffer
        drawn = draw_positions(key, self.posterior, self.method.approximation(state.trained), 1)
        params = jax.tree.map(lambda leaf: leaf[0], drawn.network)
        return jnp.argmax(self.posterior.network.apply(params, inputs)[:, 0])

    def learn(self, key: PRNGKeyArray, state: AdamState, buffer: Buffer) -> AdamState:
        """Steps of Adam on what is remembered."""
        target = self.posterior.seeing(buffer)

        def gradient(key: PRNGKeyArray, trained: Any) -> Any:
            return self.method.objective(key, target, trained)[1]

        return train(key, state, gradient, self.learning_rate, self.steps)


class Greedy(eqx.Module):
    """The best action of a network fitted by Adam; any action instead, with probability `epsilon`.

    Attributes:
        posterior: Of the rewards, whose mode is sought.
        epsilon: How often chance decides.
        learning_rate: Adam's.
        steps: Of Adam after each round.
    """

    posterior: BufferPosterior
    epsilon: float = 0.0
    learning_rate: float = 1e-3
    steps: int = eqx.field(static=True, default=64)

    def __check_init__(self) -> None:
        if not 0 <= self.epsilon <= 1:
            raise ValueError(f"epsilon is a probability, got {self.epsilon}")
        _checks.positive(self.learning_rate, "learning_rate")
        _checks.count(self.steps, "steps")

    def init(self, key: PRNGKeyArray) -> AdamState:
        """The network's start."""
        return AdamState.start(self.posterior.init(key))

    def act(self, key: PRNGKeyArray, state: AdamState, inputs: Inputs, buffer: Buffer) -> Action:
        """The best action, but for chance."""
        del buffer
        chance_key, any_key = jax.random.split(key)
        best = jnp.argmax(values(self.posterior, state.trained, inputs))
        anything = jax.random.randint(any_key, (), 0, len(inputs))
        return jnp.where(jax.random.bernoulli(chance_key, self.epsilon), anything, best)

    def learn(self, key: PRNGKeyArray, state: AdamState, buffer: Buffer) -> AdamState:
        """Steps of Adam towards the mode."""
        target = self.posterior.seeing(buffer)
        return train(key, state, lambda key, w: target.potential(key, w)[1], self.learning_rate, self.steps)


class NeuralLinear(Greedy):
    """Thompson sampling in the last layer (Riquelme et al., 2018): features by Adam, their weights by exact regression.

        A = I / s² + Φᵀ Φ / σ²,    w ~ N(A⁻¹ Φᵀ y / σ², A⁻¹)

    Attributes:
        prior_scale: s.
        noise: σ.
    """

    prior_scale: float = 1.0
    noise: float = 1.0

    def __check_init__(self) -> None:
        if not isinstance(self.posterior.network, MLP) or self.posterior.network.skip:
            raise TypeError("neural-linear needs an MLP without skip, whose last hidden layer it takes for features")

    def act(self, key: PRNGKeyArray, state: AdamState, inputs: Inputs, buffer: Buffer) -> Action:
        """The best action under drawn weights of the last layer."""
        taken = jnp.arange(len(buffer.x)) < buffer.seen
        features = self._features(state.trained, buffer.x) * taken[:, None]
        precision = jnp.eye(features.shape[1]) / self.prior_scale**2 + features.T @ features / self.noise**2
        factor = jnp.linalg.cholesky(precision)
        mean = jax.scipy.linalg.cho_solve((factor, True), features.T @ (buffer.y[:, 0] * taken) / self.noise**2)
        noise = jax.random.normal(key, mean.shape)
        drawn = mean + jax.scipy.linalg.solve_triangular(factor.T, noise, lower=False)
        return jnp.argmax(self._features(state.trained, inputs) @ drawn)

    def _features(self, w: Float[Array, " k"], x: Float[Array, "n inputs"]) -> Float[Array, "n features"]:
        """The last hidden layer, and a one."""
        network = self.posterior.network
        assert isinstance(network, MLP)
        hidden = network.hidden_values(self.posterior.position(w).network, x)
        return jnp.concatenate([hidden, jnp.ones((len(x), 1))], axis=1)


def values(posterior: BufferPosterior, w: Float[Array, " k"], inputs: Inputs) -> Float[Array, " actions"]:
    """The rewards that the network of these weights expects."""
    return posterior.network.apply(posterior.position(w).network, inputs)[:, 0]


FIRST_DECAY, SECOND_DECAY, TINY = 0.9, 0.999, 1e-8


def train(key: PRNGKeyArray, state: AdamState, gradient: Any, learning_rate: Any, steps: int) -> AdamState:
    """Steps of Adam (Kingma and Ba, 2015).

        m ← m + (1 − β₁)(g − m),    v ← v + (1 − β₂)(g² − v),    θ ← θ − ε r m / (√v + δ s),
        s = √(1 − β₂ᵗ),    r = s / (1 − β₁ᵗ)

    With both corrections in the scalar r it divides each number once, optax three times: for a network of this size a
    tenth of the step.
    """

    def step(index: Any, state: AdamState) -> AdamState:
        g = gradient(jax.random.fold_in(key, index), state.trained)
        count = (state.step + 1).astype(jnp.float32)
        scale = jnp.sqrt(1 - SECOND_DECAY**count)
        rate = learning_rate * scale / (1 - FIRST_DECAY**count)
        first = jax.tree.map(lambda m, g: m + (1 - FIRST_DECAY) * (g - m), state.first, g)
        second = jax.tree.map(lambda v, g: v + (1 - SECOND_DECAY) * (g * g - v), state.second, g)
        trained = jax.tree.map(
            lambda leaf, m, v: leaf - rate * m / (jnp.sqrt(v) + TINY * scale), state.trained, first, second
        )
        return AdamState(trained, first, second, state.step + 1)

    return jax.lax.fori_loop(0, steps, step, state)
