"""Which context images make a classifier uncertain about images of a kind that it has not seen.

    python -m benchmarks.context_kinds --data DIR --out context-kinds.md

No out-of-distribution (OOD) test set is used. LeNet is trained on 3000 training images with context images of some
kinds. 1000 other training images are its test images, and the context kinds themselves are the pretended OOD images:
each set of kinds is trained without one of them, and the score is the AUROC of the entropy for the kind left out. The
second table has the same runs without context images, with what the conditioned Gaussian process adds to their logits.
"""

import argparse
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from fsgmcmc import metrics
from fsgmcmc.data import context_images, load_images
from fsgmcmc.data.context import KINDS
from fsgmcmc.data.images import CLASSES
from fsgmcmc.experiments.images.config import PRESETS, Settings
from fsgmcmc.experiments.images.problem import Problem, problem_of
from fsgmcmc.experiments.images.run import NO_CHECKPOINT, RUNNERS
from fsgmcmc.likelihoods import Categorical
from fsgmcmc.predictions import CategoricalPrediction

IMAGES, HELD_OUT, OF_EACH_KIND = 3000, 1000, 300
SETTINGS = replace(
    PRESETS["quick"],
    network="lenet",
    images=IMAGES,
    adam_steps=500,
    learning_rate=2e-3,
    burn_in=50,
    draws=10,
    thinning=10,
)
SETS = {
    "noise, shuffle, invert": ("noise", "shuffle", "invert"),
    "noise, shapes, shuffle, strokes": ("noise", "shapes", "shuffle", "strokes"),
    "all five": tuple(KINDS),
}
# Context images to train with and to test on have different seeds.
TRAINING, TESTING = 0, 1


def held_out_problem(dataset: str, data: Path, seed: int = 0) -> tuple[Problem, np.ndarray]:
    """Held-out training images in place of test images, every context kind in place of OOD images; and the bytes."""
    images = load_images(dataset, "train", data).some(IMAGES + HELD_OUT, seed)
    train, test = (replace(images, x=images.x[part], y=images.y[part]) for part in (slice(IMAGES), slice(IMAGES, None)))
    pretended = np.concatenate([context_images(train.x, OF_EACH_KIND, TESTING, (kind,)) for kind in KINDS])
    return problem_of(train, test, pretended, SETTINGS, seed), train.x


def aurocs(prediction: CategoricalPrediction, score: str) -> dict[str, float]:
    """The AUROC of the score of held-out images against the images of each kind."""
    values = getattr(prediction, score)
    own, others = values[:HELD_OUT], np.split(values[HELD_OUT:], len(KINDS))
    return {kind: metrics.auroc(own, other) for kind, other in zip(KINDS, others, strict=True)}


def held_out(prediction: CategoricalPrediction, labels: np.ndarray) -> str:
    """Error in per cent and NLL in nats on held-out images."""
    own = CategoricalPrediction(prediction.logits[:, :HELD_OUT])
    return f"{100 * (1 - metrics.accuracy(own, labels)):.1f} / {metrics.nll(own, labels):.3f}"


def predicted(method: str, problem: Problem, settings: Settings) -> CategoricalPrediction:
    """The prediction of one run."""
    return RUNNERS[method](problem, settings, 0, NO_CHECKPOINT)[0]


def with_spread_alone(prediction: CategoricalPrediction, problem: Problem) -> CategoricalPrediction:
    """As `Problem.with_process`, but the mean of each draw stays that of the network."""
    spread = problem.extrapolation.blend(problem.evaluated, prediction.logits).spread
    return Categorical(CLASSES).predict_spread(prediction.logits, spread, ())


def study(dataset: str, data: Path, methods: list[str], weights: list[float]) -> tuple[list[str], list[str]]:
    """The rows of both tables."""
    problem, pixels = held_out_problem(dataset, data)
    contexts, processes = [], []
    plain = predicted("fsghmc", problem, SETTINGS)
    added = {
        "network": plain,
        "+ process": problem.with_process(plain),
        "+ process, mean of the network": with_spread_alone(plain, problem),
    }
    for name, prediction in added.items():
        for score in ("entropy", "mutual_information"):
            cells = " | ".join(f"{value:.3f}" for value in aurocs(prediction, score).values())
            processes.append(f"| {dataset} | {name} | {score} | {held_out(prediction, problem.labels)} | {cells} |")
            print(processes[-1], flush=True)
    cache: dict[tuple, CategoricalPrediction] = {}
    for weight, method, (name, kinds) in ((w, m, s) for w in weights for m in methods for s in SETS.items()):
        scores, cells = {}, []
        for left_out in kinds:
            rest, began = tuple(kind for kind in kinds if kind != left_out), time.monotonic()
            if (weight, method, rest) not in cache:
                pool = context_images(pixels, SETTINGS.context_images, TRAINING, rest)
                trained = replace(problem, context=problem.scale(pool))
                cache[weight, method, rest] = predicted(method, trained, replace(SETTINGS, context_weight=weight))
            prediction = cache[weight, method, rest]
            scores[left_out] = aurocs(prediction, "entropy")[left_out]
            cells.append(held_out(prediction, problem.labels))
            print(dataset, weight, method, name, left_out, scores[left_out], cells[-1], time.monotonic() - began)
        row = " | ".join(f"{scores[kind]:.3f}" if kind in scores else "" for kind in KINDS)
        values = np.array([[float(part) for part in cell.split(" / ")] for cell in cells]).mean(axis=0)
        mean = np.mean(list(scores.values()))
        contexts.append(
            f"| {dataset} | {method} | {weight:g} | {name} | {values[0]:.1f} / {values[1]:.3f} | {row} | {mean:.3f} |"
        )
        print(contexts[-1], flush=True)
    return contexts, processes


def main() -> None:
    """Run the study, and print and write its tables."""
    parser = argparse.ArgumentParser(description="AUROC of the entropy for context kinds left out of the training.")
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds the image sets")
    parser.add_argument("--datasets", default="mnist,fashion", help="names joined by commas")
    parser.add_argument("--methods", default="fsghmc-context", help="fsghmc-context, sghmc-exposure, or both")
    parser.add_argument("--weights", default="40", help="weights joined by commas")
    parser.add_argument("--out", type=Path, help="a Markdown file for the tables")
    options = parser.parse_args()
    kinds = " | ".join(KINDS)
    contexts = [
        f"| data | method | weight | kinds | error, % / NLL | {kinds} | mean |",
        "|---" * (6 + len(KINDS)) + "|",
    ]
    processes = [f"| data | logits | score | error, % / NLL | {kinds} |", "|---" * (4 + len(KINDS)) + "|"]
    for dataset in options.datasets.split(","):
        weights = [float(weight) for weight in options.weights.split(",")]
        rows = study(dataset, options.data, options.methods.split(","), weights)
        contexts, processes = contexts + rows[0], processes + rows[1]
    if options.out is not None:
        options.out.write_text("\n".join([*contexts, "", *processes]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
