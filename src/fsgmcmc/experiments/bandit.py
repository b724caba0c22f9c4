"""Thompson sampling on mushrooms: settings by preset, and one game of one method.

`paper` keeps the settings as they were printed. `tuned` has the step size of every sampler measured. `quick` is a look.
"""

import hashlib
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from tinygp.kernels import ExpSquared

from fsgmcmc import __version__, variational
from fsgmcmc.bandits import (
    Agent,
    Buffer,
    BufferPosterior,
    Fitted,
    Greedy,
    Mushroom,
    NeuralLinear,
    Sampled,
    Uniform,
    of_buffer,
    play,
    random_rounds,
)
from fsgmcmc.data import load_mushrooms
from fsgmcmc.likelihoods import Gaussian
from fsgmcmc.measurement import minibatch, subset
from fsgmcmc.networks import MLP
from fsgmcmc.priors import GaussianProcess, GaussianWeights, Pretrained, pretrain
from fsgmcmc.priors.kernels import Expanded
from fsgmcmc.recipe import SAMPLERS, Kind
from fsgmcmc.samplers import step_decay
from fsgmcmc.samplers.curvature import measure
from fsgmcmc.samplers.schedules import Schedule
from fsgmcmc.spaces import function_space, parameter_space

PATTERNS = (0.4, 0.5, 0.6)
"""Probabilities that a poisonous mushroom hurts."""

# Of what a game does with its settings: to be raised with every change of that.
REVISION = 3
# Remembered rounds of the smaller memory at which steps are measured.
FEW_ROWS = 64
CURVE_POINTS = 200
LAST_ROUNDS = 1000


@dataclass(frozen=True)
class Settings:
    """Everything that a preset fixes.

    Attributes:
        rounds: Of a game.
        hidden: Units of the relu network.
        capacity: Rounds that are remembered.
        batch_size: Remembered rounds of each gradient.
        steps: Gradient steps after each round.
        points: Measurement points, drawn from the memory for each gradient; samplers take them from the minibatch.
        gp_rows: Rounds with random actions that the Gaussian process is fitted to.
        gp_iterations: Of that fit.
        step_size: Of the samplers, for the mean potential U / N of a full memory; None has it measured, for a memory
            of 64 rounds and for a full one.
        decay: Factor of the step every thousand rounds.
        learning_rate: Adam's, of all methods that have one.
        weight_scaling: Of the weights' prior in parameter space, as in `GaussianWeights`.
        reward_scale: The unit in which networks see rewards.
        nugget: Of the Gaussian process.
        epsilon: How often chance decides for epsilon-greedy.
        function_draws: Draws of the function in each gradient of `fbnn`.
        functions: Functions that the critic of `ifbnn` compares.
    """

    preset: str
    rounds: int = 10_000
    hidden: tuple[int, ...] = (100, 100)
    capacity: int = 4096
    batch_size: int = 64
    steps: int = 64
    points: int = 40
    gp_rows: int = 1000
    gp_iterations: int = 100
    step_size: float | None = None
    decay: float = 1.0
    learning_rate: float = 1e-3
    weight_scaling: str = "fan_in"
    reward_scale: float = 10.0
    nugget: float = 1e-3
    epsilon: float = 0.05
    function_draws: int = 20
    functions: int = 8


PRESETS = {
    "tuned": Settings("tuned"),
    "paper": Settings("paper", step_size=1e-2, decay=0.9, weight_scaling="unit"),
    "quick": Settings("quick", rounds=1000, steps=16, gp_rows=200, gp_iterations=30),
}


@dataclass(frozen=True, eq=False)
class Problem:
    """The game, what its players know before it begins, and a memory full of random rounds of another game.

    `functional` measures rows of the minibatch, `measured` rows of the memory that are drawn apart.
    """

    environment: Mushroom
    fit: Pretrained
    functional: BufferPosterior
    measured: BufferPosterior
    weights: BufferPosterior
    memory: Buffer


@lru_cache(maxsize=1)
def prepare(p: float, seed: int, settings: Settings, data: Path | None) -> Problem:
    """The game and the posteriors of its rewards; the Gaussian process sees rounds that are not of the game."""
    environment = Mushroom.load(p, data)
    x, y = random_rounds(environment, jax.random.key(number("rounds", p, seed)), settings.capacity)
    y = y / settings.reward_scale
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        prior = GaussianProcess(1.0 * ExpSquared(scale=5.0, distance=Expanded()), nugget=settings.nugget)
        fit = pretrain(prior, x, y, settings.gp_iterations, max_points=settings.gp_rows, seed=seed)
    network, likelihood = MLP(settings.hidden, "relu", initial="fan_in"), Gaussian(float(fit.noise))
    options: dict[str, Any] = {"likelihood": likelihood, "batch_size": settings.batch_size}
    functional, measured = (
        function_space(network, x, y, prior=fit.prior, measurement=measurement, **options)
        for measurement in (minibatch(settings.points), subset(x, settings.points))
    )
    weights = parameter_space(network, x, y, prior=GaussianWeights(1.0, settings.weight_scaling), **options)
    memory = Buffer(jnp.asarray(x), jnp.asarray(y[:, None]), jnp.int32(len(x)))
    functional, measured, weights = (
        of_buffer(posterior, settings.points) for posterior in (functional, measured, weights)
    )
    return Problem(environment, fit, functional, measured, weights, memory)


Builder = Callable[[Problem, Settings], Agent]


def _sampled(kind: Kind) -> Builder:
    def build(problem: Problem, settings: Settings) -> Agent:
        target = problem.functional if kind.functional else problem.weights
        schedule: Schedule
        if settings.step_size is None:
            schedule = _measured_steps(kind, target, problem.memory, settings.steps)
        else:
            # Langevin steps scale as 1 / U, Hamiltonian ones as its root.
            step = settings.step_size / settings.capacity ** (0.5 if kind.hamiltonian else 1.0)
            schedule = step_decay(step, rate=settings.decay, every=1000 * settings.steps)
        return Sampled(target, kind.build(schedule), settings.steps)

    return build


class Filling(Schedule):
    """Steps for a memory that fills: the largest curvature grows as the rows do, λ = a + b N, and ε ∝ λ^(−1/power).

    Attributes:
        initial: The step of a full memory.
        ratio: That of the first rounds over it.
        power: 1 for Langevin dynamics, 2 for Hamiltonian ones.
    """

    ratio: Float[Array, ""]
    power: int = eqx.field(static=True)
    steps: int = eqx.field(static=True)
    capacity: int = eqx.field(static=True)

    def __init__(self, full: float, few: float, power: int, steps: int, capacity: int) -> None:
        super().__init__(full)
        self.ratio, self.power, self.steps, self.capacity = jnp.float32(few / full), power, steps, capacity

    def factor(self, step: Any) -> Any:
        """The step over that of a full memory."""
        rows = step // self.steps + 1
        filled = jnp.clip((rows - FEW_ROWS) / max(self.capacity - FEW_ROWS, 1), 0.0, 1.0)
        return ((1 - filled) * self.ratio**-self.power + filled) ** (-1 / self.power)


def _measured_steps(kind: Kind, target: BufferPosterior, memory: Buffer, steps: int) -> Filling:
    """What the sampler's own rule allows where the network starts, with memories of random rounds."""
    sampler = kind.build(None)
    start_key, key = jax.random.split(jax.random.key(0))
    w = target.init(start_key)
    curvature = jax.jit(lambda target, w: measure(key, target, w))
    few, full = (
        float(sampler.stable_step(curvature(target.seeing(memory._replace(seen=jnp.int32(rows))), w), w.size))
        for rows in (FEW_ROWS, len(memory.x))
    )
    return Filling(full, few, 2 if kind.hamiltonian else 1, steps, len(memory.x))


def _fitted(method: Callable[[Settings], variational.Method], functional: bool) -> Builder:
    def build(problem: Problem, settings: Settings) -> Agent:
        target = problem.measured if functional else problem.weights
        return Fitted(target, method(settings), settings.learning_rate, settings.steps)

    return build


METHODS: dict[str, Builder] = {
    **{name: _sampled(kind) for name, kind in SAMPLERS.items()},
    "bbb": _fitted(lambda s: variational.bbb(draws_per_step=1), functional=False),
    "fbnn": _fitted(lambda s: variational.fbnn(draws_per_step=s.function_draws), functional=True),
    "ifbnn": _fitted(lambda s: variational.ifbnn(functions=s.functions), functional=True),
    "neural-linear": lambda problem, s: NeuralLinear(
        problem.weights, 0.0, s.learning_rate, s.steps, noise=float(problem.fit.noise)
    ),
    "greedy": lambda problem, s: Greedy(problem.weights, 0.0, s.learning_rate, s.steps),
    "epsilon-greedy": lambda problem, s: Greedy(problem.weights, s.epsilon, s.learning_rate, s.steps),
    "uniform": lambda problem, s: Uniform(),
}


def run(p: float, seed: int, method: str, settings: Settings, data: Path | None = None) -> dict[str, Any]:
    """One game: its record."""
    problem = prepare(p, seed, settings, data)
    agent = METHODS[method](problem, settings)
    began = time.monotonic()
    game = play(
        number("game", p, seed),  # the same mushrooms and the same luck for all methods
        problem.environment,
        agent,
        settings.rounds,
        capacity=settings.capacity,
        reward_scale=settings.reward_scale,
        progress=False,
    )
    curve = game.cumulative[0]
    thinned = np.unique(np.linspace(0, settings.rounds - 1, CURVE_POINTS).round().astype(int))
    return {
        "method": method,
        "p": p,
        "seed": seed,
        "preset": settings.preset,
        "settings": fingerprint(settings, data),
        "final_regret": float(curve[-1]),
        "final_expected_regret": float(game.expected_regret[0].sum(dtype=np.float64)),
        "regret_curve": curve[thinned].tolist(),
        "curve_rounds": (thinned + 1).tolist(),
        "fraction_optimal_last_1000": float(game.optimal[0, -LAST_ROUNDS:].mean()),
        "seconds": time.monotonic() - began,
        "diverged": not game.finite[0],
    }


def number(what: str, p: float, seed: int) -> int:
    """The seed of what is drawn, from what it is."""
    return int.from_bytes(hashlib.sha256(f"{what}/{p}/{seed}".encode()).digest()[:4])


def fingerprint(settings: Settings, data: Path | None) -> str:
    """What tells records of other settings, other mushrooms or another version apart."""
    mushrooms = load_mushrooms(data)
    mark = hashlib.sha256(repr((__version__, REVISION, sorted(asdict(settings).items()))).encode())
    mark.update(mushrooms.x.tobytes() + mushrooms.poisonous.tobytes())
    return mark.hexdigest()[:12]
