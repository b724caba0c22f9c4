"""Images: one run of one method.

A network is trained on one data set and evaluated on its test images and on images of another, which are out of
distribution (OOD). A good method is less certain on the latter.
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
from fsgmcmc.errors import DivergenceError
from fsgmcmc.experiments.images.config import Settings
from fsgmcmc.experiments.images.problem import Problem, points_apart, posterior, prepare
from fsgmcmc.experiments.images.variants import VARIANTS
from fsgmcmc.inference.sample import sample
from fsgmcmc.measurement import minibatch
from fsgmcmc.methods import SAMPLERS, VARIATIONAL, Method
from fsgmcmc.predictions import CategoricalPrediction
from fsgmcmc.priors import GaussianWeights
from fsgmcmc.samplers import cyclical, step_decay
from fsgmcmc.samples import functions_at

# Part of the hash of records: raise it when a change of the code changes results for the same settings.
REVISION = 5
ENTROPY_BINS = 30


class Checkpoint(NamedTuple):
    """The checkpoint file of a run, and the seconds between two writes."""

    path: Path | None = None
    every: float = 60.0


NO_CHECKPOINT = Checkpoint()

Runner = Callable[[Problem, Settings, int, Checkpoint], tuple[CategoricalPrediction, dict[str, Any]]]


def _sampled(kind: Method, addition: str | None = None) -> Runner:
    def run(
        problem: Problem, settings: Settings, seed: int, checkpoint: Checkpoint
    ) -> tuple[CategoricalPrediction, dict[str, Any]]:
        measured = minibatch(settings.points) if kind.is_functional else None
        target = posterior(problem, settings, measured, addition=addition)
        if settings.step_size is not None:
            # Langevin steps scale as 1 / U, Hamiltonian steps as its square root.
            scale = math.sqrt(target.data.total) if kind.has_momentum else target.data.total
            step = step_decay(settings.step_size / scale, rate=0.99, every=settings.steps_of(20, target.data.total))
            sampler = kind.build(step)
        elif kind.has_momentum:
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
            collect=functions_at(target, problem.evaluated),
            checkpoint=checkpoint.path,
            checkpoint_seconds=checkpoint.every,
        )
        logits = samples.collected.reshape(-1, *samples.collected.shape[2:])
        rate = samples.info["iterations"] * settings.chains * target.data.rows_per_step / samples.info["seconds"]
        info = {"weights": target.size, "step_size": samples.info["step_size"], "images_per_second": rate}
        return CategoricalPrediction(logits), info

    return run


def _gaussian_process(
    problem: Problem, settings: Settings, seed: int, checkpoint: Checkpoint
) -> tuple[CategoricalPrediction, dict[str, Any]]:
    """The Dirichlet Gaussian process without a network."""
    del settings, checkpoint
    return problem.fit.classify(problem.evaluated, draws=50, seed=seed), {}


def _fitted(method: Method) -> Runner:
    def run(
        problem: Problem, settings: Settings, seed: int, checkpoint: Checkpoint
    ) -> tuple[CategoricalPrediction, dict[str, Any]]:
        if method.is_functional:
            target = posterior(problem, settings, points_apart(problem, settings))
        else:
            # With a wide prior, the divergence KL(q || p) over all weights would outweigh the data.
            target = posterior(problem, settings, None, GaussianWeights(math.sqrt(2), "fan_in"))
        steps = settings.gradients(target.data.total)
        options = {
            "draws_per_step": settings.fit_draws,
            "function_draws": settings.function_draws,
            "functions": settings.functions,
        }
        samples = variational.fit(
            seed,
            target,
            method.approximation(options),
            steps=steps,
            learning_rate=cyclical(settings.learning_rate, length=steps),
            draws=settings.draws,
            checkpoint=checkpoint.path,
            checkpoint_seconds=checkpoint.every,
        )
        logits = samples.functions(problem.evaluated)[0]
        rate = samples.info["iterations"] * target.data.rows_per_step / samples.info["seconds"]
        return CategoricalPrediction(logits), {"weights": target.size, "images_per_second": rate}

    return run


RUNNERS: dict[str, Runner] = {
    **{name: _sampled(kind) for name, kind in SAMPLERS.items()},
    **{name: _sampled(*variant) for name, variant in VARIANTS.items()},
    "gp": _gaussian_process,
    **{name: _fitted(method) for name, method in VARIATIONAL.items()},
}


def run(
    dataset: str,
    seed: int,
    method: str,
    settings: Settings,
    data: Path | None = None,
    checkpoint: Checkpoint = NO_CHECKPOINT,
) -> dict[str, Any]:
    """The record of one run; a diverged run has no scores.

    The record of a sampler has a dictionary `process`: the scores of the same draws with the uncertainty of the
    Gaussian process beyond the training images. If the checkpoint file exists, the run resumes from it and the record
    has no `seconds`.
    """
    resumed = checkpoint.path is not None and checkpoint.path.exists()
    problem = prepare(dataset, seed, settings, data)
    record: dict[str, Any] = {"dataset": dataset, "method": method, "preset": settings.preset, "seed": seed}
    # Keys of stored records do not change: "foreign" means out of distribution.
    parts = {"images": problem.x, "test_images": problem.test, "foreign_images": problem.ood}
    sizes = {name: len(part) for name, part in (parts | {"gp_images": problem.fit.x}).items()}
    record |= sizes | {"prior_seconds": problem.prior_seconds, "settings": fingerprint(settings)}
    began = time.monotonic()
    try:
        with warnings.catch_warnings(record=True, action="always", category=UserWarning) as caught:
            prediction, info = RUNNERS[method](problem, settings, number(dataset, seed, method), checkpoint)
        scores = score(prediction, problem.labels)
    except DivergenceError:
        info, scores = {}, {}
    missing = dict.fromkeys((*SCORES, "weights", "step_size", "images_per_second", "process_seconds"))
    closing = {
        "warnings": sorted({str(warning.message) for warning in caught}),
        "seconds": None if resumed else time.monotonic() - began,
        "diverged": not scores,
    }
    record |= missing | info | scores | closing
    if scores and (method in SAMPLERS or method in VARIANTS):
        began = time.monotonic()
        with_process = problem.with_process(prediction)
        record |= {"process_seconds": time.monotonic() - began, "process": score(with_process, problem.labels)}
    return record


SCORES = (
    *("error", "nll", "ece", "brier", "auroc_entropy", "auroc_mutual_information"),
    *("aupr_entropy", "aupr_mutual_information"),
)


def score(prediction: CategoricalPrediction, labels: np.ndarray) -> dict[str, Any]:
    """Scores of a prediction for the test images, followed by OOD images; the error is in per cent."""
    size = len(labels)
    known = CategoricalPrediction(prediction.logits[:, :size])
    ood = CategoricalPrediction(prediction.logits[:, size:])
    scores: dict[str, Any] = {
        "error": 100 * (1 - metrics.accuracy(known, labels)),
        "nll": metrics.nll(known, labels),
        "ece": metrics.ece(known, labels),
        "brier": metrics.brier(known, labels),
    }
    for name in ("entropy", "mutual_information"):
        pair = getattr(known, name), getattr(ood, name)
        scores |= {f"auroc_{name}": metrics.auroc(*pair), f"aupr_{name}": metrics.aupr(*pair)}
    rows, confidence, right = metrics.reliability(known, labels)
    full = rows > 0
    edges = entropy_edges()
    return scores | {
        "reliability": [rows[full].tolist(), confidence[full].tolist(), right[full].tolist()],
        "entropy_known": np.histogram(np.minimum(known.entropy, edges[-1]), edges)[0].tolist(),
        "entropy_foreign": np.histogram(np.minimum(ood.entropy, edges[-1]), edges)[0].tolist(),
    }


def entropy_edges() -> np.ndarray:
    """Edges of the histogram bins, in nats."""
    return np.linspace(0, math.log(CLASSES), ENTROPY_BINS + 1)


def number(dataset: str, seed: int, method: str) -> int:
    """The seed of a run's chains, a hash of its data set, seed and method."""
    return int.from_bytes(hashlib.sha256(f"{dataset}/{seed}/{method}".encode()).digest()[:4])


def fingerprint(settings: Settings) -> str:
    """A hash of the version and of the settings; it is in the name of the record's file."""
    return hashlib.sha256(repr((__version__, REVISION, sorted(asdict(settings).items()))).encode()).hexdigest()[:12]
