"""The results of the UCI regression sweep: a file of its runs, tables in the form of the paper, a figure.

A record is one finished run: a dictionary with the keys of `COLUMNS`. Of two records of the same run the later one is
used. A diverged run is counted, but its scores are not used; nor are scores that are missing or not finite.
"""

import itertools
import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fsgmcmc.experiments.tables import (
    PAIRS,
    SIGNIFICANCE,
    Scores,
    colors,
    compare,
    leaders,
    mean_and_sd,
    number,
    ordered,
    plus_minus,
    present,
    table,
    write as write_files,
)
from fsgmcmc.experiments.uci import published
from fsgmcmc.methods import title_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS = (
    *("dataset", "method", "preset", "split", "rmse", "rmse_std", "nll", "nll_moment", "nll_std", "crps"),
    *("coverage_50", "coverage_90", "coverage_95", "width_90", "r_hat", "ess", "seconds", "diverged"),
)
MARKS = {published.MC_DROPOUT: ":", published.DEEP_ENSEMBLES: "--"}  # published values in the figure, line styles
PRESET_ORDER = ("tuned", "paper", "quick")

Record = dict[str, Any]

SCORES = (  # title, key, sign that makes lower better, published numbers, prefix of their columns
    ("RMSE, standardised units", "rmse_std", 1, published.PAPER_RMSE, "paper: "),
    ("RMSE, original units", "rmse", 1, published.RMSE, ""),
    ("Log-likelihood, original units", "nll", -1, published.LOG_LIKELIHOOD, ""),
)
SUMMARIES: tuple[tuple[str, str, Callable[[list[float]], Any], int], ...] = (  # title, key, summary, decimals
    ("Coverage of 90 % intervals, mean", "coverage_90", np.mean, 2),
    ("R-hat of f, median", "r_hat", np.median, 3),
    ("Seconds per run, mean, without the shared fit of the Gaussian process", "seconds", np.mean, 1),
)
INTRODUCTION = (
    "Mean ± standard deviation over splits. RMSE of the predictive mean; log-likelihood is the mean log density of the "
    f"held-out targets under the mixture over draws. {published.SOURCES}",
    "**Bold** is not significantly worse than the best of our methods in the row: the best, and every method that a "
    f"paired t-test over common splits does not distinguish from it (two-sided, p < {SIGNIFICANCE}). Several may be "
    "bold, or none if nothing can be tested. A method with a diverged run is not considered. Splits share training "
    "data, and p is not corrected for the number of tests, so p is only a guide.",
)
PRIOR_LEGEND = (
    "Mean paired difference, functional minus parameter prior, ± its standard error over common splits, both scores in "
    "standardised units: negative is in favor of the functional prior."
)


def write(records: list[Record], out: Path, note: str) -> None:
    """uci.json, uci.csv, uci.md and uci.png."""
    write_files(records, out, "uci", COLUMNS, markdown(records, note), figure)


def markdown(records: list[Record], note: str = "") -> str:
    """The document `uci.md`; the note, such as the command and the commit, follows the title."""
    blocks = ["# UCI regression", *([note] if note else []), *INTRODUCTION]
    for preset in ordered((record["preset"] for record in records), PRESET_ORDER):
        blocks += _preset_section(preset, _latest(records, preset))
    return "\n\n".join(blocks) + "\n"


def figure(records: list[Record], path: Path, preset: str | None = None) -> None:
    """`uci.png`: means with standard errors over splits, of one preset, by default the first of `PRESET_ORDER`.

    Published values are thin lines where they have the same units. A mean far worse than most is a triangle at the
    edge.
    """
    from matplotlib.figure import Figure

    preset = preset or ordered((record["preset"] for record in records), PRESET_ORDER)[0]
    records = _latest(records, preset)
    methods, datasets = present(records), list(_cells(records, "nll"))
    color_of = colors(methods)
    width = max(5.2, 1.6 + 1.9 * len(datasets))
    fig = Figure(figsize=(width, 1.5 + 2 * max(1.4, 0.27 * len(methods))), layout="constrained")
    panels = fig.subplots(2, len(datasets), squeeze=False, sharey=True)
    legend = {title_of(m): panels[0, 0].plot([], [], "o", color=color)[0] for m, color in color_of.items()}
    labels = ("standardised RMSE\n(lower is better)", "log-likelihood\n(higher is better)")
    for line, metric, sign, label in zip(panels, ("rmse_std", "nll"), (1, -1), labels, strict=True):
        for panel, (dataset, row) in zip(line, _cells(records, metric).items(), strict=True):
            _dots(panel, [(row.get(method, {}), color) for method, color in color_of.items()], sign)
            panel.set_title(dataset if sign > 0 else "", fontsize=11)
            if sign < 0 and dataset in published.LOG_LIKELIHOOD:
                for name, dashes in MARKS.items():
                    at = published.LOG_LIKELIHOOD[dataset][name]
                    legend[name] = panel.axvline(at, color="#222222", lw=0.8, ls=dashes, zorder=0)
        line[0].set_yticks(range(len(methods)), [title_of(method) for method in methods], fontsize=9)
        line[0].set_ylabel(label, fontsize=9)
    panels[0, 0].set_ylim(len(methods) - 0.4, -0.6)
    fig.legend(legend.values(), legend, loc="outside lower center", ncols=int(width // 1.25), frameon=False, fontsize=9)
    fig.suptitle(f"UCI regression, preset {preset}: mean ± standard error over splits", fontsize=10)
    fig.savefig(path, dpi=150)


def _dots(panel: "Axes", row: list[tuple[Scores, str]], sign: int) -> None:
    """A dot and its error bar for every method that has scores."""
    means = sorted(mean_and_sd(scores)[0] for scores, _ in row if scores)
    # The best three quarters of the methods set the scale of the axis.
    worst = 4 * means[3 * (len(means) - 1) // 4] - 3 * means[0] if len(means) > 3 else math.inf
    for place, (scores, color) in enumerate(row):
        mean, spread = mean_and_sd(scores)
        if mean > worst:
            edge, at, side = panel.get_yaxis_transform(), 0.5 + 0.47 * sign, "right" if sign > 0 else "left"
            panel.plot(at, place, ">" if sign > 0 else "<", color=color, ms=6, transform=edge)
            value, at = number(sign * mean, 2), at - 0.05 * sign
            panel.text(at, place, value, ha=side, va="center", fontsize=7, color="#222222", transform=edge)
        elif scores:
            error = 0.0 if math.isnan(spread) else spread / math.sqrt(len(scores))
            panel.errorbar(sign * mean, place, xerr=error, fmt="o", color=color, ms=5, lw=1.5)
    panel.locator_params(axis="x", nbins=4)
    panel.tick_params(axis="x", labelsize=8)
    panel.tick_params(axis="y", length=0)
    panel.grid(axis="x", color="#e5e5e5", lw=0.6)
    panel.set_axisbelow(True)
    panel.spines[["top", "right", "left"]].set_visible(False)


def _preset_section(preset: str, records: list[Record]) -> list[str]:
    sections = [f"## Preset `{preset}`", _counts(records)]
    for title, metric, sign, others, prefix in SCORES:
        sections += [f"### {title}", _score_table(records, metric, sign, others, prefix)]
    methods = present(records)
    for title, metric, summary, digits in SUMMARIES:
        rows = []
        for dataset, row in _cells(records, metric).items():
            values = [list(row.get(method, {}).values()) for method in methods]
            rows.append([dataset, *(f"{summary(v):.{digits}f}" if v else "" for v in values)])
        sections += [f"### {title}", table(["", *map(title_of, methods)], rows)]
    return sections + _prior_section(records)


def _counts(records: list[Record]) -> str:
    """The number of runs, and which diverged."""
    lost = Counter(f"{title_of(record['method'])} on {record['dataset']}" for record in records if _diverged(record))
    where = ", ".join(f"{name} {count}" for name, count in sorted(lost.items()))
    return f"Runs: {len(records)}. Diverged, and left out of every mean: {lost.total()}{f' ({where})' if lost else ''}."


def _score_table(records: list[Record], metric: str, sign: int, others: published.Table, prefix: str) -> str:
    cells, methods = _cells(records, metric), present(records)
    splits = max(len(scores) for row in cells.values() for scores in row.values())
    names = list(dict.fromkeys(name for dataset in cells for name in others.get(dataset, {})))
    rows = []
    for dataset, row in cells.items():
        lost = {record["method"] for record in records if record["dataset"] == dataset and _diverged(record)}
        bold = leaders({method: scores for method, scores in row.items() if method not in lost})
        digits = 3 if sign > 0 and any(mean_and_sd(scores)[0] < 0.1 for scores in row.values()) else 2
        rows.append([dataset])
        for method in methods:
            scores = row.get(method, {})
            mean, spread = mean_and_sd(scores)
            text = plus_minus(sign * mean, spread, digits) + (f" ({len(scores)})" if 0 < len(scores) < splits else "")
            rows[-1].append(f"**{text}**" if method in bold else text)
        for value in (others.get(dataset, {}).get(name, math.nan) for name in names):
            rows[-1].append(number(value, 2 if round(value, 2) == value else 3))
    note = f"Splits: {splits}, or the number in brackets."
    return f"{note}\n\n{table(['', *map(title_of, methods), *(prefix + name for name in names)], rows)}"


def _prior_section(records: list[Record]) -> list[str]:
    rmse, nll = _cells(records, "rmse_std"), _cells(records, "nll_std")
    rows = []
    for dataset, (functional, parameter) in itertools.product(rmse, PAIRS):
        if {functional, parameter} <= rmse[dataset].keys():
            tests = [compare(cells[dataset][functional], cells[dataset][parameter]) for cells in (rmse, nll)]
            splits = " / ".join(dict.fromkeys(str(test.splits) for test in tests))
            rows.append([dataset, f"{title_of(functional)} − {title_of(parameter)}", splits])
            for test in tests:
                p = "< 0.001" if test.p < 0.001 else number(test.p, 3)
                rows[-1] += [plus_minus(test.difference, test.error, 3), p, test.word]
    head = ["", "pair", "splits", "RMSE difference", "p", "RMSE", "NLL difference", "p", "NLL"]
    return ["### Functional against parameter prior", PRIOR_LEGEND, table(head, rows)] if rows else []


def _latest(records: list[Record], preset: str) -> list[Record]:
    return list({(r["dataset"], r["method"], r["split"]): r for r in records if r["preset"] == preset}.values())


def _cells(records: list[Record], metric: str) -> dict[str, dict[str, Scores]]:
    """Scores by data set and method; a method that ran without scores has an empty entry."""
    datasets = ordered((record["dataset"] for record in records), tuple(published.PAPER_RMSE))
    cells: dict[str, dict[str, Scores]] = {dataset: {} for dataset in datasets}
    for record in records:
        scores = cells[record["dataset"]].setdefault(record["method"], {})
        value = record.get(metric)
        if value is not None and math.isfinite(value) and not _diverged(record):
            scores[record["split"]] = float(value)
    return cells


def _diverged(record: Record) -> bool:
    """Whether the record is marked as diverged, or the density of a held-out target is zero."""
    return bool(record.get("diverged")) or math.isinf(record.get("nll") or 0.0)
