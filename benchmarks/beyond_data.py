"""Predictions beyond the data and within: our regressor compared with other libraries on public tables.

    python -m benchmarks.beyond_data --out out/beyond --data DIR --bde-python venv/bde/bin/python
    python -m benchmarks.beyond_data report --out out/beyond
    python -m benchmarks.beyond_data tables --data DIR

`beyond_tables.py` has the tables and their splits. Every method gets the same columns, text as 0 and 1, in the units of
the data; nothing is chosen by hand for a table:

- ours: `FunctionalBNNRegressor()`;
- gp: scikit-learn's `GaussianProcessRegressor` of standardised columns, Matérn 5/2 with a lengthscale for each feature
  plus white noise, three starts;
- ngboost: NGBoost, normal distribution;
- catboost: CatBoost with a learned variance and ten virtual ensembles;
- ensemble: five networks with two layers of 50 units that give mean and variance;
- bde: Bayesian deep ensembles of sklearn-contrib-bde, in an environment of their own (`bde_peer.py`).

Where a number of steps or rounds has to be chosen, held-out training rows select it. Two rows of our library are for
reference:

- network: `FunctionalBNNRegressor(extrapolation="network")`;
- process: the Gaussian processes that `FunctionalBNNRegressor(extrapolation="process")` follows, given the
  training rows, equally weighted, everywhere.

Each finished record is a line of records.jsonl; a second run skips those that are there and repeats those that failed.
"""

import argparse
import functools
import importlib.util
import subprocess
import time
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import jax
import numpy as np
from sklearn.gaussian_process.kernels import Matern

from benchmarks import beyond_report, peers_tabular
from benchmarks.beyond_tables import TABLES, Split, problem_of, split_of
from fsgmcmc import FunctionalBNNRegressor
from fsgmcmc.data import DataNotFoundError
from fsgmcmc.predictions import RegressionPrediction

LEVEL = 0.9
Method = Callable[[Split, int], RegressionPrediction]

# Ways to hold rows out, as `beyond_tables` describes them.
PARTS = ("feature", "direction", "category", "time")


def ours(split: Split, seed: int) -> RegressionPrediction:
    """Default arguments, except the seed."""
    return _fitted(split, seed, FunctionalBNNRegressor().extrapolation).predict_distribution(split.x_test)


def network(split: Split, seed: int) -> RegressionPrediction:
    """The network everywhere."""
    return _fitted(split, seed, "network").predict_distribution(split.x_test)


def process(split: Split, seed: int) -> RegressionPrediction:
    """The Gaussian processes everywhere."""
    return _fitted(split, seed, "process").process_distribution(split.x_test)


@functools.lru_cache(maxsize=2)
def _fitted(split: Split, seed: int, extrapolation: str) -> FunctionalBNNRegressor:
    """One fit for those of the three methods above that need the same one."""
    model = FunctionalBNNRegressor(extrapolation=extrapolation, random_state=seed).fit(split.x, split.y)
    if model.info_.get("interrupted"):
        # Ctrl-C ends a fit with the draws there are, which must not become a record.
        raise KeyboardInterrupt
    return model


def methods_with(bde_python: str | None) -> dict[str, Method]:
    """All methods by name; `bde_python` is the interpreter of the environment of bde."""

    def peer(predict: Callable[..., RegressionPrediction]) -> Method:
        return lambda split, seed: predict(split.x, split.y, split.x_test, seed)

    return {
        "ours": ours,
        "gp": peer(functools.partial(peers_tabular.gaussian_process, form=functools.partial(Matern, nu=2.5))),
        "ngboost": peer(peers_tabular.ngboost),
        "catboost": peer(peers_tabular.catboost),
        "ensemble": peer(peers_tabular.ensemble),
        "bde": peer(functools.partial(peers_tabular.bde, python=bde_python or "")),
        "network": network,
        "process": process,
    }


def why_missing(method: str, bde_python: str | None) -> str | None:
    """Why a method cannot run here, or None."""
    if method in ("ngboost", "catboost") and importlib.util.find_spec(method) is None:
        return "it is not installed: pip install -c constraints-bench.txt -e '.[bench]'"
    if method == "bde":
        if bde_python is None:
            return "give the interpreter of its environment with --bde-python (benchmarks/bde_peer.py)"
        try:
            subprocess.run([bde_python, "-c", "import bde"], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            return f"{bde_python} cannot import bde"
    return None


def scores(prediction: RegressionPrediction, split: Split) -> dict[str, float]:
    """Means over the test rows inside the data and outside.

    NLL and CRPS are those of y / s, with s the standard deviation of the training targets: −log p(y) − log s and
    CRPS / s. `sd_ratio` is the mean predictive standard deviation outside, divided by that inside.
    """
    unit, y = float(np.std(split.y)), split.y_test
    of_rows = {
        "nll": -prediction.log_prob(y) - np.log(unit),
        "crps": prediction.crps(y)[:, 0] / unit,
        "coverage": prediction.covers(y, LEVEL)[:, 0],
    }
    sides = {"inside": slice(split.inside), "outside": slice(split.inside, None)}
    found = {f"{name}_{side}": np.mean(of_rows[name][rows]) for name in of_rows for side, rows in sides.items()}
    found["sd_ratio"] = np.mean(prediction.std[sides["outside"]]) / np.mean(prediction.std[sides["inside"]])
    return {name: float(value) for name, value in found.items()}


@dataclass(frozen=True)
class Task:
    """One part of a table and one seed, with the methods that are missing."""

    table: str
    part: str
    seed: int
    methods: tuple[str, ...]
    out: Path
    data: Path | None
    bde_python: str | None


def measure(task: Task, available: dict[str, Method] | None = None) -> None:
    """Run the methods of a task; each record is written as soon as it is there."""
    available = methods_with(task.bde_python) if available is None else available
    split = split_of(problem_of(TABLES[task.table], task.data), task.part, task.seed)
    place = {"table": task.table, "part": task.part, "seed": task.seed}
    sizes = {
        "features": split.x.shape[1],
        "rows": len(split.y),
        "rows_inside": split.inside,
        "rows_outside": len(split.y_test) - split.inside,
    }
    for method in task.methods:
        began = time.monotonic()
        try:
            with warnings.catch_warnings(action="ignore"):
                result: dict[str, Any] = scores(available[method](split, task.seed), split)
        except Exception as error:
            # A library that fails on one table is a result; the other methods go on.
            result = {"error": f"{type(error).__name__}: {error}"[:300]}
        record = {**place, "method": method, **sizes, **result, "seconds": round(time.monotonic() - began, 2)}
        beyond_report.append(task.out / beyond_report.RECORDS, record)
        print(progress_line(record), flush=True)
    _fitted.cache_clear()
    # Every table compiles its own programs; thousands of them exhaust the memory maps of a process.
    jax.clear_caches()


def progress_line(record: dict[str, Any]) -> str:
    """What a finished record says, in one line."""
    place = f"{record['table']} {record['part']} seed {record['seed']} {record['method']}"
    if "error" in record:
        return f"{place}: FAILED after {record['seconds']:.0f} s, {record['error']}"
    nll, coverage = (f"{record[f'{name}_inside']:.2f} {record[f'{name}_outside']:.2f}" for name in ("nll", "coverage"))
    return f"{place}: NLL {nll}, coverage {coverage} (inside, outside), {record['seconds']:.0f} s"


def tasks_of(
    tables: Iterable[str],
    methods: Iterable[str],
    seeds: int,
    out: Path,
    data: Path | None,
    bde_python: str | None,
    only: Iterable[str] = PARTS,
) -> list[Task]:
    """What is still to do; tables that cannot be read are left out with a printed reason."""
    done = {beyond_report.key(record) for record in beyond_report.read(out) if "error" not in record}
    tasks = []
    for table in tables:
        try:
            parts = [part for part in problem_of(TABLES[table], data).parts if part in only]
        except (ImportError, DataNotFoundError) as error:
            print(f"{table} is skipped: {error}", flush=True)
            continue
        for part, seed in ((part, seed) for part in parts for seed in range(seeds)):
            missing = tuple(method for method in methods if (table, part, method, seed) not in done)
            if missing:
                tasks.append(Task(table, part, seed, missing, out, data, bde_python))
    return tasks


def run(tasks: list[Task], jobs: int) -> None:
    """All tasks, in this process or in several."""
    if jobs == 1:
        for task in tasks:
            measure(task)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        for future in [pool.submit(measure, task) for task in tasks]:
            future.result()


def list_tables(tables: Iterable[str], data: Path | None) -> None:
    """Print rows, features and parts of the tables that can be read."""
    for name in tables:
        try:
            problem = problem_of(TABLES[name], data)
        except (ImportError, DataNotFoundError) as error:
            print(f"{name} is skipped: {error}")
            continue
        parts = ", ".join(f"{part} {held.mean():.0%}" for part, held in problem.parts.items())
        print(f"{name} ({TABLES[name].package}): {len(problem.y)} rows, {problem.x.shape[1]} features; {parts}")


def main() -> None:
    """Parse the command line, run, report."""
    names = tuple(methods_with(None))
    parser = argparse.ArgumentParser(description="Predictions beyond the data and within, on public tables.")
    parser.add_argument("command", nargs="?", choices=("run", "report", "tables"), default="run")
    parser.add_argument("--out", type=Path, default=Path("out/beyond"))
    parser.add_argument("--data", type=Path, help="the folder that holds UCI_Datasets; by default FSGMCMC_DATA")
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--methods", default=",".join(names))
    parser.add_argument("--parts", default=",".join(PARTS), help="which rows are held out outside")
    parser.add_argument("--seeds", type=int, default=1, help="random choices of the test rows inside")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--bde-python", help="interpreter of the environment of bde")
    given = parser.parse_args()
    tables, methods = given.tables.split(","), given.methods.split(",")
    for unknown in [*(set(tables) - set(TABLES)), *(set(methods) - set(names))]:
        parser.error(f"unknown table or method {unknown!r}; choose from {', '.join((*TABLES, *names))}")
    if given.command == "tables":
        list_tables(tables, given.data)
        return
    if given.command == "run":
        given.out.mkdir(parents=True, exist_ok=True)
        reasons = {method: why_missing(method, given.bde_python) for method in methods}
        for method, reason in reasons.items():
            if reason:
                print(f"{method} is skipped: {reason}", flush=True)
        usable = [method for method, reason in reasons.items() if reason is None]
        todo = tasks_of(tables, usable, given.seeds, given.out, given.data, given.bde_python, given.parts.split(","))
        run(todo, given.jobs)
    beyond_report.write(given.out, [method for method in names if method in methods], tables)
    print((given.out / "beyond-data.md").read_text())


if __name__ == "__main__":
    main()
