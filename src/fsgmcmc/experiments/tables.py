"""Shared by the reports of several experiments: numbers as text, paired comparisons, colors and files."""

import csv
import itertools
import json
import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from fsgmcmc import _storage
from fsgmcmc.methods import METHODS, SAMPLERS

PAIRS = tuple((f"f{name}", name) for name in SAMPLERS if f"f{name}" in SAMPLERS)
"""The functional and the parameter-space form of each sampler."""

# For methods that are not in the registry.
OTHER_COLORS = ("#da8bc3", "#64b5cd", "#ccb974", "#937860")

SIGNIFICANCE = 0.05

Scores = dict[int, float]  # by split or seed


@dataclass(frozen=True)
class Comparison:
    """First − second over common splits: number of splits, mean, standard error, two-sided p; NaN if undefined."""

    splits: int
    difference: float
    error: float
    p: float

    @property
    def word(self) -> str:
        """The effect of the first method on a score that should be low."""
        if not self.p < SIGNIFICANCE:
            return "not tested" if math.isnan(self.p) else "no difference"
        return "helps" if self.difference < 0 else "hurts"


def compare(first: Scores, second: Scores) -> Comparison:
    """The paired t-test of two methods.

    >>> compare({0: 1.0, 1: 2.0, 2: 3.0, 3: 9.0}, {0: 2.0, 1: 3.1, 2: 3.9}).word
    'helps'
    """
    common = sorted(first.keys() & second.keys())
    a, b = (np.array([scores[split] for split in common]) for scores in (first, second))
    if len(common) < 2:
        return Comparison(len(common), float(a[0] - b[0]) if common else math.nan, math.nan, math.nan)
    error = float(np.std(a - b, ddof=1) / math.sqrt(len(common)))
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # all differences are equal
        p = 1.0 if np.array_equal(a, b) else float(stats.ttest_rel(a, b).pvalue)
    return Comparison(len(common), float(np.mean(a - b)), error, p)


def leaders(row: Mapping[str, Scores]) -> set[str]:
    """The method with the lowest mean and those not significantly worse; empty if nothing can be tested."""
    rivals = {method: scores for method, scores in row.items() if len(scores) > 1}
    if not rivals:
        return set()
    shared = set.intersection(*(set(scores) for scores in rivals.values()))
    best = min(rivals, key=lambda method: np.mean([rivals[method][split] for split in shared or rivals[method]]))
    tests = {method: compare(rivals[method], rivals[best]) for method in rivals if method != best}
    tested = {method: test.word for method, test in tests.items() if test.splits > 1}
    return {best, *(method for method, word in tested.items() if word != "hurts")} if tested else set()


def mean_and_sd(scores: Scores) -> tuple[float, float]:
    """Mean and standard deviation over splits or seeds; NaN where there are too few scores."""
    values = list(scores.values())
    return float(np.mean(values)) if values else math.nan, float(np.std(values, ddof=1)) if values[1:] else math.nan


def ordered(names: Iterable[str], known: tuple[str, ...]) -> list[str]:
    """Each name once: known names in their order, then the others alphabetically."""
    present = set(names)
    return [name for name in known if name in present] + sorted(present - set(known))


def number(value: float, digits: int) -> str:
    """The value with this number of decimals and a typographic minus sign; empty for NaN."""
    text = f"{value:.{digits}f}" if abs(value) < 1000 else f"{value:.2g}"
    return "" if math.isnan(value) else text.replace("-", "−")


def plus_minus(value: float, spread: float, digits: int) -> str:
    """`value ± spread`, without the spread if it is NaN."""
    return number(value, digits) + ("" if math.isnan(spread) else f" ± {number(spread, digits)}")


def table(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines)


def write_csv(records: list[dict[str, Any]], columns: Sequence[str], path: Path) -> None:
    """One row per record; missing values are empty."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(records)


def write(
    records: list[dict[str, Any]],
    out: Path,
    name: str,
    columns: Sequence[str],
    markdown: str,
    figure: Callable[[list[dict[str, Any]], Path], None],
    rows: list[dict[str, Any]] | None = None,
) -> None:
    """Write the results of an experiment: name.json, name.csv, name.md and name.png.

    The rows of the CSV file are the records, unless `rows` are given.
    """
    _storage.write_text(out / f"{name}.json", json.dumps({"records": records}, indent=1) + "\n")
    write_csv(records if rows is None else rows, columns, out / f"{name}.csv")
    _storage.write_text(out / f"{name}.md", markdown)
    figure(records, out / f"{name}.png")


def present(records: list[dict[str, Any]]) -> list[str]:
    """The methods of the records in the order of the registry."""
    return ordered((record["method"] for record in records), tuple(METHODS))


def colors(methods: Iterable[str]) -> dict[str, str]:
    """The color of each method in figures."""
    others = itertools.cycle(OTHER_COLORS)
    return {method: METHODS[method].color if method in METHODS else next(others) for method in methods}
