"""Seconds of one step of the full ResNet-18, for all four samplers: `python benchmarks/resnet18.py --out FOLDER`.

Batch 125, 40 measurement points redrawn at every step, random images of 28 x 28 pixels: their content does not change
the time. `fsgld-minibatch` and `fsghmc-minibatch` have their 40 points among the 125 images of the batch. The samplers
run in turns, and the result is the median of the repeats.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

from fsgmcmc import (
    Categorical,
    GaussianProcess,
    GaussianWeights,
    ResNet,
    fsghmc,
    fsgld,
    function_space,
    measurement,
    parameter_space,
    rbf,
    sghmc,
    sgld,
)
from fsgmcmc.random import fast_key

BATCH, POINTS, CLASSES = 125, 40, 10
PAIRS = (("fsgld", "sgld"), ("fsgld-minibatch", "sgld"), ("fsghmc", "sghmc"), ("fsghmc-minibatch", "sghmc"))


def steps(images: int, depth: int, width: int) -> dict[str, Callable[[int], Any]]:
    """For each sampler a function that takes one step, given its number."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(images, 28, 28, 1)).astype(np.float32), rng.integers(0, CLASSES, images)
    network, likelihood = ResNet(depth, width), Categorical(CLASSES)
    prior = GaussianProcess(rbf(28.0), mean=np.full(CLASSES, -6.0))
    apart, shared = (
        function_space(network, x, y, prior=prior, measurement=points, likelihood=likelihood, batch_size=BATCH)
        for points in (measurement.subset(x, POINTS), measurement.minibatch(POINTS))
    )
    weights = parameter_space(network, x, y, prior=GaussianWeights(), likelihood=likelihood, batch_size=BATCH)
    key = fast_key(jax.random.key(0))

    def stepper(target: Any, sampler: Any) -> Callable[[int], Any]:
        init = eqx.filter_jit(lambda target, w: sampler.init(key, w, target.potential))
        step = eqx.filter_jit(lambda target, state, key: sampler.step(key, state, target.potential))
        state = init(target, target.init(key))
        return lambda number: jax.block_until_ready(step(target, state, jax.random.fold_in(key, number)))

    return {
        "sgld": stepper(weights, sgld(1e-8)),
        "fsgld": stepper(apart, fsgld(1e-8)),
        "fsgld-minibatch": stepper(shared, fsgld(1e-8)),
        "sghmc": stepper(weights, sghmc(1e-6)),
        "fsghmc": stepper(apart, fsghmc(1e-6)),
        "fsghmc-minibatch": stepper(shared, fsghmc(1e-6)),
    }


def main() -> None:
    """Time the steps, print a table, write resnet18.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder for resnet18.json")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--depth", type=int, default=18)
    parser.add_argument("--width", type=int, default=64)
    arguments = parser.parse_args()
    programs = steps(arguments.images, arguments.depth, arguments.width)
    for program in programs.values():
        program(0)  # compiles
    seconds: dict[str, list[float]] = {name: [] for name in programs}
    for repeat in range(arguments.repeats):
        for name, program in programs.items():
            began = time.perf_counter()
            program(repeat)
            seconds[name].append(time.perf_counter() - began)
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    ratios = {f"{functional}/{parameter}": medians[functional] / medians[parameter] for functional, parameter in PAIRS}
    for name, value in (medians | ratios).items():
        print(f"{name:24} {value:.3g}")
    arguments.out.mkdir(parents=True, exist_ok=True)
    document = {"depth": arguments.depth, "width": arguments.width, "seconds_per_step": medians, "ratios": ratios}
    (arguments.out / "resnet18.json").write_text(json.dumps(document | {"all_seconds": seconds}, indent=1) + "\n")


if __name__ == "__main__":
    main()
