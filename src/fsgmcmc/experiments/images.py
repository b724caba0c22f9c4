"""Images and foreign images: one run of one method.

A network learns one set of images and is then shown another: is it less certain there?
"""

import hashlib
import math
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fsgmcmc import __version__, metrics, variational
from fsgmcmc.data.images import CLASSES
from fsgmcmc.experiments.images_problem import Problem, Settings, points_apart, posterior, prepare
from fsgmcmc.measurement import minibatch
from fsgmcmc.predictions import CategoricalPrediction
from fsgmcmc.priors import GaussianWeights
from fsgmcmc.recipe import SAMPLERS, Kind
from fsgmcmc.samplers import cyclical, step_decay
from fsgmcmc.samples import functions_at
from fsgmcmc.sampling import DivergenceError, sample
from fsgmcmc.warm_up import DivergedWarmUpError

# Of what a run does with its settings: to be raised with every change of that.
REVISION = 4
ENTROPY_BINS = 30


class Checkpoint(NamedTuple):
    """The file of an interrupted run, and how often it is written, in seconds."""

    path: Path | None = None
    every: float = 60.0


NO_CHECKPOINT = Checkpoint()

Runner = Callable[[Problem, Settings, int, Checkpoint], tuple[CategoricalPrediction, dict[str, Any]]]


def _sampled(kind: Kind) -> Runner:
    def run(
        problem: Problem, settings: Settings, seed: int, checkpoint: Checkpoint
    ) -> tuple[CategoricalPrediction, dict[str, Any]]:
        target = posterior(problem, settings, minibatch(settings.points) if kind.functional else None)
        if settings.step_size is not None:
            # Langevin steps scale as 1 / U, Hamiltonian ones as its root.
            scale = math.sqrt(target.rows) if kind.hamiltonian else target.rows
            step = step_decay(settings.step_size / scale, rate=0.99, every=settings.steps_of(20, target.rows))
            sampler = kind.build(step)
        elif kind.hamiltonian:
            sampler = kind.build(step_times_frequency=settings.step_times_frequency)
        else:
            sampler = kind.build(step_times_curvature=settings.step_times_curvature)
        samples = sample(
            seed,
            target,
            sampler,
            draws=settings.draws,
            thinning=settings.steps_of(settings.thinning, len(problem.x)),
            burn_in=settings.steps_of(settings.burn_in, len(problem.x)),
            chains=settings.chains,
            warm_up=settings.warm_up,
            collect=functions_at(target, problem.shown),
            checkpoint=checkpoint.path,
            checkpoint_seconds=checkpoint.every,
        )
        logits = samples.collected.reshape(-1, *samples.collected.shape[2:])
        rate = samples.info["iterations"] * settings.chains * target.rows_per_step / samples.info["seconds"]
        info = {"weights": target.size, "step_size": samples.info["step_size"], "images_per_second": rate}
        return CategoricalPrediction(logits), info

    return run


def _gaussian_process(
    problem: Problem, settings: Settings, seed: int, checkpoint: Checkpoint
) -> tuple[CategoricalPrediction, dict[str, Any]]:
    """The Dirichlet Gaussian process alone."""
    del settings, checkpoint
    return problem.fit.classify(problem.shown, draws=50, seed=seed), {}


def _fitted(method: Callable[[Settings], variational.Method], functional: bool) -> Runner:
    def run(
        problem: Problem, settings: Settings, seed: int, checkpoint: Checkpoint
    ) -> tuple[CategoricalPrediction, dict[str, Any]]:
        if functional:
            target = posterior(problem, settings, points_apart(problem, settings))
        else:
            # The divergence from a wide prior would outweigh the data: q(w) pays for every weight.
            target = posterior(problem, settings, None, GaussianWeights(math.sqrt(2), "fan_in"))
        steps = settings.gradients(target.rows)
        samples = variational.fit(
            seed,
            target,
            method(settings),
            steps=steps,
            learning_rate=cyclical(settings.learning_rate, length=steps),
            draws=settings.draws,
            checkpoint=checkpoint.path,
            checkpoint_seconds=checkpoint.every,
        )
        logits = samples.functions(problem.shown)[0]
        rate = samples.info["iterations"] * target.rows_per_step / samples.info["seconds"]
        return CategoricalPrediction(logits), {"weights": target.size, "images_per_second": rate}

    return run


METHODS: dict[str, Runner] = {
    **{name: _sampled(kind) for name, kind in SAMPLERS.items()},
    "gp": _gaussian_process,
    "bbb": _fitted(lambda s: variational.bbb(draws_per_step=s.fit_draws), functional=False),
    "fbnn": _fitted(lambda s: variational.fbnn(draws_per_step=s.function_draws), functional=True),
    "ifbnn": _fitted(lambda s: variational.ifbnn(draws_per_step=s.fit_draws, functions=s.functions), functional=True),
}


def run(
    dataset: str,
    seed: int,
    method: str,
    settings: Settings,
    data: Path | None = None,
    checkpoint: Checkpoint = NO_CHECKPOINT,
) -> dict[str, Any]:
    """One run: its record, with scores missing where it diverged.

    From the file of the checkpoint an interrupted run goes on; its `seconds` are not known.
    """
    resumed = checkpoint.path is not None and checkpoint.path.exists()
    problem = prepare(dataset, seed, settings, data)
    record: dict[str, Any] = {"dataset": dataset, "method": method, "preset": settings.preset, "seed": seed}
    parts = {"images": problem.x, "test_images": problem.test, "foreign_images": problem.foreign}
    sizes = {name: len(part) for name, part in (parts | {"gp_images": problem.fit.x}).items()}
    record |= sizes | {"prior_seconds": problem.prior_seconds, "settings": fingerprint(settings)}
    began = time.monotonic()
    try:
        with warnings.catch_warnings(record=True, action="always", category=UserWarning) as heard:
            prediction, info = METHODS[method](problem, settings, number(dataset, seed, method), checkpoint)
        scores = score(prediction, problem.labels)
    except (DivergenceError, DivergedWarmUpError, variational.DivergedFitError):
        info, scores = {}, {}
    nothing = dict.fromkeys((*SCORES, "weights", "step_size", "images_per_second"))
    ending = {
        "warnings": sorted({str(warning.message) for warning in heard}),
        "seconds": None if resumed else time.monotonic() - began,
        "diverged": not scores,
    }
    return record | nothing | info | scores | ending


SCORES = (
    *("error", "nll", "ece", "brier", "auroc_entropy", "auroc_mutual_information"),
    *("aupr_entropy", "aupr_mutual_information"),
)


def score(prediction: CategoricalPrediction, labels: np.ndarray) -> dict[str, Any]:
    """Scores of a prediction whose first rows are the test images and whose others are foreign; error in per cent."""
    size = len(labels)
    known = CategoricalPrediction(prediction.logits[:, :size])
    foreign = CategoricalPrediction(prediction.logits[:, size:])
    scores: dict[str, Any] = {
        "error": 100 * (1 - metrics.accuracy(known, labels)),
        "nll": metrics.nll(known, labels),
        "ece": metrics.ece(known, labels),
        "brier": metrics.brier(known, labels),
    }
    for name in ("entropy", "mutual_information"):
        pair = getattr(known, name), getattr(foreign, name)
        scores |= {f"auroc_{name}": metrics.auroc(*pair), f"aupr_{name}": metrics.aupr(*pair)}
    rows, confidence, right = metrics.reliability(known, labels)
    full = rows > 0
    edges = entropy_edges()
    return scores | {
        "reliability": [rows[full].tolist(), confidence[full].tolist(), right[full].tolist()],
        "entropy_known": np.histogram(np.minimum(known.entropy, edges[-1]), edges)[0].tolist(),
        "entropy_foreign": np.histogram(np.minimum(foreign.entropy, edges[-1]), edges)[0].tolist(),
    }


def entropy_edges() -> np.ndarray:
    """Borders of the bins of the histograms, in nats."""
    return np.linspace(0, math.log(CLASSES), ENTROPY_BINS + 1)


def number(dataset: str, seed: int, method: str) -> int:
    """The seed of a run's chains, from what it is."""
    return int.from_bytes(hashlib.sha256(f"{dataset}/{seed}/{method}".encode()).digest()[:4])


def fingerprint(settings: Settings) -> str:
    """What tells records of other settings, or of another version, apart."""
    return hashlib.sha256(repr((__version__, REVISION, sorted(asdict(settings).items()))).encode()).hexdigest()[:12]
