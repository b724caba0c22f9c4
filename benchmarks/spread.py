"""How wide the default regressor is beyond the rows, beside its Gaussian processes.

    python -m benchmarks.spread --data DIR --out docs/results/spread.md

`FunctionalBNNRegressor()` is fitted to a table. Then rows are moved by r standard deviations in every feature, each up
or down at random, and the standard deviation of the function there is divided by that of the Gaussian processes given
the rows, equally weighted, as `beyond_data.process` has them:

    ratio(r) = median over rows of sd[f̃(x + r s)] / sd[g(x + r s)],    s in {−1, 1}^d

The processes are what the prior says of the function where there are no rows: the ratio should be near 1 for large r.
"""

import argparse
import time
from pathlib import Path

import numpy as np

from benchmarks.beyond_tables import TABLES, problem_of
from fsgmcmc import FunctionalBNNRegressor

DEFAULT_TABLES = ("diabetes", "boston", "concrete", "energy", "wine")
REACHES = (0, 1, 2, 4)
ROWS = 200


def moved(x: np.ndarray, reach: float, seed: int = 0) -> np.ndarray:
    """Some of the rows, moved by `reach` standard deviations in every feature, up or down."""
    rng = np.random.default_rng(seed)
    rows = x[rng.permutation(len(x))[:ROWS]]
    return rows + reach * x.std(axis=0) * rng.choice([-1.0, 1.0], rows.shape)


def ratios(model: FunctionalBNNRegressor, x: np.ndarray) -> list[float]:
    """`ratio(r)` for each reach."""
    found = []
    for reach in REACHES:
        points = moved(x, reach)
        network, process = model.predict_distribution(points), model.process_distribution(points)
        found.append(float(np.median(network.epistemic / process.epistemic)))
    return found


def main() -> None:
    """Fit the tables in turn, and print and write the ratios."""
    parser = argparse.ArgumentParser(description="Standard deviation beyond the rows, relative to the processes.")
    parser.add_argument("--data", type=Path, help="the folder that holds UCI_Datasets")
    parser.add_argument("--tables", default=",".join(DEFAULT_TABLES), help="names joined by commas")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="a Markdown file for the table")
    options = parser.parse_args()
    lines = [f"| table | method | {' | '.join(f'{r} sd' for r in REACHES)} | seconds |", "|---" * 7 + "|"]
    print(*lines, sep="\n", flush=True)
    for name in options.tables.split(","):
        problem, began = problem_of(TABLES[name], options.data), time.monotonic()
        model = FunctionalBNNRegressor(random_state=options.seed).fit(problem.x, problem.y)
        numbers = " | ".join(f"{ratio:.2f}" for ratio in ratios(model, problem.x))
        lines.append(f"| {name} | {model.method_} | {numbers} | {time.monotonic() - began:.0f} |")
        print(lines[-1], flush=True)
    if options.out is not None:
        options.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
