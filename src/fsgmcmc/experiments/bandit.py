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

import jax
import jax.numpy as jnp
import numpy as np
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
from fsgmcmc.likelihoods import Gaussian
from fsgmcmc.measurement import minibatch, subset
from fsgmcmc.networks import MLP
from fsgmcmc.priors import GaussianProcess, GaussianWeights, Pretrained, pretrain
from fsgmcmc.priors.kernels import Expanded
from fsgmcmc.recipe import SAMPLERS, Kind
from fsgmcmc.samplers import step_decay
from fsgmcmc.samplers.curvature import measure
from fsgmcmc.spaces import function_space, parameter_space

PATTERNS = (0.4, 0.5, 0.6)
"""Probabilities that a poisonous mushroom hurts."""

# The unit in which networks see rewards.
REWARD_SCALE = 10.0
NUGGET = 1e-3
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
        step_size: Of the samplers, for the mean potential U / N of a full memory; None has it measured.
        decay: Factor of the step every thousand rounds.
        learning_rate: Adam's, of all methods that have one.
        weight_scale: Standard deviation of the weights' prior.
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
    weight_scale: float = 1.0
    function_draws: int = 20
    functions: int = 8


PRESETS = {
    "tuned": Settings("tuned"),
    "paper": Settings("paper", step_size=1e-2, decay=0.9),
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
    y = y / REWARD_SCALE
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        prior = GaussianProcess(1.0 * ExpSquared(scale=5.0, distance=Expanded()), nugget=NUGGET)
        fit = pretrain(prior, x, y, settings.gp_iterations, max_points=settings.gp_rows, seed=seed)
    network, likelihood = MLP(settings.hidden, "relu", initial="fan_in"), Gaussian(float(fit.noise))
    options: dict[str, Any] = {"likelihood": likelihood, "batch_size": settings.batch_size}
    functional, measured = (
        function_space(network, x, y, prior=fit.prior, measurement=measurement, **options)
        for measurement in (minibatch(settings.points), subset(x, settings.points))
    )
    weights = parameter_space(network, x, y, prior=GaussianWeights(settings.weight_scale), **options)
    nothing = Buffer.empty(settings.capacity, x.shape[1])
    memory = Buffer(jnp.asarray(x), jnp.asarray(y[:, None]), jnp.int32(len(x)))
    functional, measured, weights = (
        of_buffer(posterior, nothing, settings.points) for posterior in (functional, measured, weights)
    )
    return Problem(environment, fit, functional, measured, weights, memory)


Builder = Callable[[Problem, Settings], Agent]


def _sampled(kind: Kind) -> Builder:
    def build(problem: Problem, settings: Settings) -> Agent:
        target = problem.functional if kind.functional else problem.weights
        if settings.step_size is None:
            step = _measured_step(kind, target.seeing(problem.memory))
        else:
            # Langevin steps scale as 1 / U, Hamiltonian ones as its root.
            step = settings.step_size / settings.capacity ** (0.5 if kind.hamiltonian else 1.0)
        schedule = step_decay(step, rate=settings.decay, every=1000 * settings.steps)
        return Sampled(target, kind.build(schedule), settings.steps)

    return build


def _measured_step(kind: Kind, target: BufferPosterior) -> float:
    """What the sampler's own rule allows where the network starts, with a memory full of random rounds."""
    sampler = kind.build(None)
    start_key, key = jax.random.split(jax.random.key(0))
    w = target.init(start_key)
    curvature = jax.jit(lambda target, w: measure(key, target, w))(target, w)
    return float(sampler.stable_step(curvature, w.size))


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
    "epsilon-greedy": lambda problem, s: Greedy(problem.weights, 0.05, s.learning_rate, s.steps),
    "uniform": lambda problem, s: Uniform(),
}


def run(p: float, seed: int, method: str, settings: Settings, data: Path | None = None) -> dict[str, Any]:
    """One game: its record."""
    problem = prepare(p, seed, settings, data)
    agent = METHODS[method](problem, settings)
    began = time.monotonic()
    game = play(
        number(method, p, seed),
        problem.environment,
        agent,
        settings.rounds,
        capacity=settings.capacity,
        reward_scale=REWARD_SCALE,
        progress=False,
    )
    curve = game.cumulative[0]
    thinned = np.unique(np.linspace(0, settings.rounds - 1, CURVE_POINTS).round().astype(int))
    return {
        "method": method,
        "p": p,
        "seed": seed,
        "preset": settings.preset,
        "settings": fingerprint(settings),
        "final_regret": float(curve[-1]),
        "regret_curve": curve[thinned].tolist(),
        "curve_rounds": (thinned + 1).tolist(),
        "fraction_optimal_last_1000": float(game.optimal[0, -LAST_ROUNDS:].mean()),
        "seconds": time.monotonic() - began,
        "diverged": not game.finite[0],
    }


def number(what: str, p: float, seed: int) -> int:
    """The seed of what is drawn, from what it is."""
    return int.from_bytes(hashlib.sha256(f"{what}/{p}/{seed}".encode()).digest()[:4])


def fingerprint(settings: Settings) -> str:
    """What tells records of other settings, or of another version, apart."""
    return hashlib.sha256(repr((__version__, sorted(asdict(settings).items()))).encode()).hexdigest()[:12]
