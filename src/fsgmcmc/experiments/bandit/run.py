"""Thompson sampling on mushrooms: one game of one method."""

import hashlib
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from fsgmcmc import __version__
from fsgmcmc.bandits import play
from fsgmcmc.data import load_mushrooms
from fsgmcmc.experiments.bandit.agents import AGENTS
from fsgmcmc.experiments.bandit.config import Settings
from fsgmcmc.experiments.bandit.problem import prepare, seed_of

# Part of the hash of records: raise it when a change of the code changes results for the same settings.
REVISION = 3
CURVE_POINTS = 200
LAST_ROUNDS = 1000


def run(p: float, seed: int, method: str, settings: Settings, data: Path | None = None) -> dict[str, Any]:
    """The record of one game."""
    problem = prepare(p, seed, settings, data)
    agent = AGENTS[method](problem, settings)
    began = time.monotonic()
    game = play(
        seed_of("game", p, seed),  # all methods play with the same mushrooms and the same random rewards
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


def fingerprint(settings: Settings, data: Path | None) -> str:
    """A hash of the version, the settings and the mushrooms; it is in the name of the record's file."""
    mushrooms = load_mushrooms(data)
    mark = hashlib.sha256(repr((__version__, REVISION, sorted(asdict(settings).items()))).encode())
    mark.update(mushrooms.x.tobytes() + mushrooms.poisonous.tobytes())
    return mark.hexdigest()[:12]
