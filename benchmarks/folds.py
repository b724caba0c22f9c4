"""Five folds of several methods on several data sets: one file per fold, and one table."""

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fsgmcmc import metrics
from fsgmcmc.experiments.tables import leaders, mean_and_sd, plus_minus, table, write_csv
from fsgmcmc.predictions import Prediction

FOLDS = 5
Method = Callable[[np.ndarray, np.ndarray, np.ndarray, int], Prediction]


class Score(NamedTuple):
    """A column of the table: heading, digits, and whether the smallest value is the best and in bold."""

    heading: str
    digits: int
    smaller_is_better: bool


class Comparison(NamedTuple):
    """A comparison: names of data sets, methods, columns, and how a data set is split into folds (training, test)."""

    name: str
    datasets: tuple[str, ...]
    methods: dict[str, Method]
    scores: dict[str, Score]
    load: Callable[[str, Path | None], tuple[np.ndarray, np.ndarray]]
    splitter: Any
    title: str
    introduction: str

    def measure(self, name: str, method: str, data: Path | None, out: Path) -> None:
        """Run the missing folds of one method on one data set."""
        x, y = self.load(name, data)
        for fold, (train, test) in enumerate(self.splitter.split(x, y)):
            path = out / f"{name}-{method}-{fold}.json"
            if path.exists():
                continue
            began = time.monotonic()
            with warnings.catch_warnings(action="ignore"):
                prediction = self.methods[method](x[train], y[train], x[test], fold)
                scores = metrics.summary(prediction, y[test])
            record = {"dataset": name, "method": method, "fold": fold, **scores, "seconds": time.monotonic() - began}
            path.write_text(json.dumps(record))
            print(name, method, fold, *(f"{score} {record[score]:.3g}" for score in self.scores), flush=True)

    def report(self, out: Path) -> str:
        """One table of all records in the folder; bold as in the tables of the experiments."""
        records = [json.loads(path.read_text()) for path in sorted(out.glob("*-*-*.json"))]
        write_csv(records, ("dataset", "method", "fold", *self.scores), out / f"{self.name}.csv")
        rows = []
        for name in self.datasets:
            of_set = {m: [r for r in records if (r["dataset"], r["method"]) == (name, m)] for m in self.methods}
            columns = []
            for score, (_, digits, smaller_is_better) in self.scores.items():
                by_method = {m: {r["fold"]: r[score] for r in own} for m, own in of_set.items()}
                best = leaders(by_method) if smaller_is_better else set()
                cells = {m: plus_minus(*mean_and_sd(scores), digits) for m, scores in by_method.items()}
                columns.append([f"**{cell}**" if m in best else cell for m, cell in cells.items()])
            rows += [[name, m, *cells] for m, *cells in zip(self.methods, *columns, strict=True)]
        headings = [score.heading for score in self.scores.values()]
        return "\n\n".join([f"# {self.title}", self.introduction, table(["", "", *headings], rows)]) + "\n"

    def main(self) -> None:
        """Parse the command line, run, report."""
        parser = argparse.ArgumentParser(description=self.introduction)
        parser.add_argument("--data", type=Path, help="the folder that holds UCI_Datasets")
        parser.add_argument("--out", type=Path, default=Path("out") / self.name)
        parser.add_argument("--datasets", default=",".join(self.datasets))
        parser.add_argument("--methods", default=",".join(self.methods))
        arguments = parser.parse_args()
        arguments.out.mkdir(parents=True, exist_ok=True)
        for dataset in arguments.datasets.split(","):
            for method in arguments.methods.split(","):
                self.measure(dataset, method, arguments.data, arguments.out)
        text = self.report(arguments.out)
        (arguments.out / f"{self.name}.md").write_text(text)
        print(text)
