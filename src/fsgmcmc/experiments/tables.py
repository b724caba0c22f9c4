"""What the tables of several experiments share: names of methods, numbers as text, and paired comparisons."""

import csv
import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

METHODS = {  # in the order of every table: title and colour
    "sgld": ("SGLD", "#9db8dc"),
    "fsgld": ("fSGLD", "#2f5597"),
    "sghmc": ("SGHMC", "#f2b382"),
    "fsghmc": ("fSGHMC", "#c8561b"),
    "bbb": ("BBB", "#a9d3a0"),
    "fbnn": ("FBNN", "#3c8d4f"),
    "ifbnn": ("IFBNN", "#8172b3"),
    "gp": ("exact GP", "#222222"),
    "map-ensemble": ("MAP ensemble", "#8c8c8c"),
}
PAIRS = (("fsgld", "sgld"), ("fsghmc", "sghmc"))
"""The functional and the parameter-space form of each sampler."""

SIGNIFICANCE = 0.05

Scores = dict[int, float]  # by split or seed


@dataclass(frozen=True)
class Comparison:
    """First − second over common splits: how many, mean, its standard error, two-sided p; NaN if not defined."""

    splits: int
    difference: float
    error: float
    p: float

    @property
    def word(self) -> str:
        """What the first does to a score that should be low."""
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
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # differences that are all the same
        p = 1.0 if np.array_equal(a, b) else float(stats.ttest_rel(a, b).pvalue)
    return Comparison(len(common), float(np.mean(a - b)), error, p)


def leaders(row: Mapping[str, Scores]) -> set[str]:
    """The best method, with the lowest mean, and those not significantly worse; nobody if nothing can be tested."""
    rivals = {method: scores for method, scores in row.items() if len(scores) > 1}
    if not rivals:
        return set()
    shared = set.intersection(*(set(scores) for scores in rivals.values()))
    best = min(rivals, key=lambda method: np.mean([rivals[method][split] for split in shared or rivals[method]]))
    tests = {method: compare(rivals[method], rivals[best]) for method in rivals if method != best}
    tested = {method: test.word for method, test in tests.items() if test.splits > 1}
    return {best, *(method for method, word in tested.items() if word != "hurts")} if tested else set()


def mean_and_sd(scores: Scores) -> tuple[float, float]:
    """Over splits or seeds; NaN for what the number of scores does not allow."""
    values = list(scores.values())
    return float(np.mean(values)) if values else math.nan, float(np.std(values, ddof=1)) if values[1:] else math.nan


def name_of(method: str) -> str:
    """What a method is called in tables."""
    return METHODS[method][0] if method in METHODS else method


def ordered(names: Iterable[str], known: tuple[str, ...]) -> list[str]:
    """Without repetition: known names in their order, then the others by alphabet."""
    present = set(names)
    return [name for name in known if name in present] + sorted(present - set(known))


def number(value: float, digits: int) -> str:
    """With so many decimals and a true minus sign; nothing for NaN."""
    text = f"{value:.{digits}f}" if abs(value) < 1000 else f"{value:.2g}"
    return "" if math.isnan(value) else text.replace("-", "−")


def plus_minus(value: float, spread: float, digits: int) -> str:
    """`value ± spread`, the spread left out where it is NaN."""
    return number(value, digits) + ("" if math.isnan(spread) else f" ± {number(spread, digits)}")


def table(head: list[str], rows: list[list[str]]) -> str:
    """As Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines)


def write_csv(records: list[dict[str, Any]], columns: Sequence[str], path: Path) -> None:
    """One row per record; what is missing is empty."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(records)
