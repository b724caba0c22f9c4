"""Thompson sampling on mushrooms: the game, and the posteriors of its rewards."""

import hashlib
import warnings
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from tinygp.kernels import ExpSquared

from fsgmcmc.bandits import Mushroom, ReplayBuffer, random_rounds, with_replay_buffer
from fsgmcmc.experiments.bandit.config import Settings
from fsgmcmc.likelihoods import Gaussian
from fsgmcmc.measurement import minibatch, subset
from fsgmcmc.networks import MLP
from fsgmcmc.posterior import Batch, Posterior
from fsgmcmc.posterior.build import function_space, parameter_space
from fsgmcmc.priors import GaussianProcess, GaussianWeights, Pretrained, pretrain
from fsgmcmc.priors.kernels import Expanded


@dataclass(frozen=True, eq=False)
class Problem:
    """The game, the Gaussian process, the posteriors, and a replay buffer full of random rounds of another game.

    `functional` has rows of the minibatch as measurement points, `measured` rows that are drawn independently of it.
    """

    environment: Mushroom
    fit: Pretrained
    functional: Posterior
    measured: Posterior
    weights: Posterior
    memory: ReplayBuffer


@lru_cache(maxsize=1)
def prepare(p: float, seed: int, settings: Settings, data: Path | None) -> Problem:
    """The game and the posteriors of its rewards; the Gaussian process is fitted to rounds that are not in the game."""
    environment = Mushroom.load(p, data)
    x, y = random_rounds(environment, jax.random.key(seed_of("rounds", p, seed)), settings.capacity)
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
    memory = ReplayBuffer(Batch(jnp.asarray(x), jnp.asarray(y[:, None])), jnp.int32(len(x)), settings.batch_size)
    functional, measured, weights = (
        with_replay_buffer(posterior, settings.points) for posterior in (functional, measured, weights)
    )
    return Problem(environment, fit, functional, measured, weights, memory)


def seed_of(what: str, p: float, seed: int) -> int:
    """The seed of a random part of a game, a hash of its name, pattern and number."""
    return int.from_bytes(hashlib.sha256(f"{what}/{p}/{seed}".encode()).digest()[:4])
