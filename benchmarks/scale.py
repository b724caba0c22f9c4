"""The cost of a functional SGLD iteration and its memory as the problem grows: a figure and a table.

    python benchmarks/scale.py --out docs/results

Four sweeps, each with everything else fixed: parameters, rows of data (batch 128), measurement points (fixed and
redrawn), chains.
"""

import argparse
import json
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from speed import LANGEVIN_STEP, Program, machine, measure, sampler_program

from fsgmcmc import MLP, Gaussian, GaussianProcess, fsgld, function_space, measurement, rbf
from fsgmcmc.posterior import Posterior

# Multiples of four: matrix products of an odd width take up to twice as long.
WIDTHS = {1_000: 28, 10_000: 96, 100_000: 312, 1_000_000: 996, 10_000_000: 3156}
ROWS = (100, 1_000, 10_000, 100_000, 1_000_000)
POINTS = (10, 30, 100, 300, 1000)
CHAINS = (1, 4, 16, 64)


def posterior(width: int = 50, rows: int = 1000, points: Callable[[np.ndarray], Any] | None = None) -> Posterior:
    """A network of two layers on random data in five dimensions, batch 128."""
    x = np.random.default_rng(0).standard_normal((rows, 5)).astype(np.float32)
    measured = measurement.fixed(x[:40]) if points is None else points(x)
    return function_space(
        MLP((width, width), initial="fan_in"),
        x,
        np.sin(x[:, 0]),
        prior=GaussianProcess(rbf(2.0)),
        likelihood=Gaussian(0.5),
        measurement=measured,
        batch_size=128,
    )


def sweeps() -> Iterator[tuple[str, int, Program]]:
    """Name and value of each sweep and its program; only one posterior at a time is in memory."""
    sampler = fsgld(LANGEVIN_STEP)
    for parameters, width in WIDTHS.items():
        yield "parameters", parameters, sampler_program("fsgld", "scale", posterior(width), sampler)
    for rows in ROWS:
        yield "rows of data", rows, sampler_program("fsgld", "scale", posterior(rows=rows), sampler)
    for points in POINTS:
        fixed = posterior(points=lambda x, points=points: measurement.fixed(x[:points]))
        yield "fixed points", points, sampler_program("fsgld", "scale", fixed, sampler)
        redrawn = posterior(rows=2001, points=lambda x, points=points: measurement.subset(x, points))
        yield "redrawn points", points, sampler_program("fsgld", "scale", redrawn, sampler)
    for chains in CHAINS:
        yield "chains", chains, sampler_program("fsgld", "scale", posterior(), sampler, chains)


def figure(records: list[dict[str, Any]], path: Path) -> None:
    """A panel per sweep; the dotted line is proportional cost."""
    from matplotlib.figure import Figure

    names = ["parameters", "rows of data", "points", "chains"]
    fig = Figure(figsize=(13, 3.4), layout="constrained")
    for axes, name in zip(fig.subplots(1, len(names)), names, strict=True):
        for sweep in sorted({record["sweep"] for record in records if record["sweep"].endswith(name)}):
            chosen = [record for record in records if record["sweep"] == sweep]
            sizes = np.array([record["size"] for record in chosen])
            cost = np.array([record["microseconds"] for record in chosen])
            axes.loglog(sizes, cost, "o-", label=sweep)
            axes.loglog(sizes, cost[-1] * sizes / sizes[-1], ":", color="grey", lw=1)
        axes.set_xlabel(name)
        axes.legend(frameon=False)
        axes.spines[["top", "right"]].set_visible(False)
    fig.axes[0].set_ylabel("µs per iteration, all chains")
    fig.savefig(path, dpi=120)


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for scale.json and scale.png")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    records = []
    for sweep, size, program in sweeps():
        named = Program("fsgld", "scale", program.run)
        (record,) = measure([named], options.repeats)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        microseconds = record["microseconds_per_iteration"]
        records.append({"sweep": sweep, "size": size, "microseconds": microseconds, "peak_memory_mib": memory})
        print(f"{sweep:>15} {size:>9,} {microseconds:>12,.0f} µs   peak memory {memory:,.0f} MiB", flush=True)
    options.out.mkdir(parents=True, exist_ok=True)
    document = {"records": records, "machine": machine()}
    (options.out / "scale.json").write_text(json.dumps(document, indent=2) + "\n")
    figure(records, options.out / "scale.png")


if __name__ == "__main__":
    main()
