"""What the UCI regression sweep found: a file of its runs, tables in the form of the paper, a figure.

A record is one finished run: a dictionary with the keys of `COLUMNS`. Of two records of the same run the later counts.
A diverged run is counted, but its scores are not used; neither are scores that are missing or not finite.
"""

import itertools
import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fsgmcmc.experiments import published
from fsgmcmc.experiments.tables import (
    METHODS,
    PAIRS,
    SIGNIFICANCE,
    Scores,
    compare,
    leaders,
    mean_and_sd,
    name_of,
    number,
    ordered,
    plus_minus,
    table,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS = (
    *("dataset", "method", "preset", "split", "rmse", "rmse_std", "nll", "nll_moment", "nll_std", "crps"),
    *("coverage_50", "coverage_90", "coverage_95", "width_90", "r_hat", "ess", "seconds", "diverged"),
)
MARKS = {published.MC_DROPOUT: ":", published.BEST_KNOWN: "--"}  # published values in the figure, line styles
OTHER_COLOURS = ("#da8bc3", "#64b5cd", "#ccb974", "#937860")
PRESETS = ("tuned", "paper", "quick")

Record = dict[str, Any]

SCORES = (  # title, key, sign that makes low good, numbers of others, what they are called
    ("RMSE, standardised units", "rmse_std", 1, published.PAPER_RMSE, "paper: "),
    ("RMSE, original units", "rmse", 1, published.RMSE, ""),
    ("Log-likelihood, original units", "nll", -1, published.LOG_LIKELIHOOD, ""),
)
SUMMARIES: tuple[tuple[str, str, Callable[[list[float]], Any], int], ...] = (  # title, key, summary, decimals
    ("Coverage of 90 % intervals, mean", "coverage_90", np.mean, 2),
    ("R-hat of f, median", "r_hat", np.median, 3),
    ("Seconds a run, mean, without the shared fit of the Gaussian process", "seconds", np.mean, 1),
)
INTRODUCTION = (
    "Mean ± standard deviation over splits. RMSE of the predictive mean; log-likelihood is the mean log density of the "
    f"held-out targets under the mixture over draws. {published.SOURCES}",
    "**Bold** is not significantly worse than the best of our methods in the row: the best, and every method that a "
    f"paired t-test over common splits does not tell from it (two-sided, p < {SIGNIFICANCE}). Several may be bold; "
    "none is where nothing can be tested, and a method with a diverged run is not considered. Splits share training "
    "data and p is not corrected for the number of tests, so read it as a guide.",
)
PRIOR_LEGEND = (
    "Mean paired difference, functional minus parameter prior, ± its standard error over common splits, both scores in "
    "standardised units: negative is in favour of the functional prior."
)


def markdown(records: list[Record], note: str = "") -> str:
    """The document `uci.md`; the note, such as the command and the commit, stands under the title."""
    blocks = ["# UCI regression", *([note] if note else []), *INTRODUCTION]
    for preset in ordered((record["preset"] for record in records), PRESETS):
        blocks += _preset_section(preset, _latest(records, preset))
    return "\n\n".join(blocks) + "\n"


def figure(records: list[Record], path: Path, preset: str | None = None) -> None:
    """`uci.png`: means with standard errors over splits, of one preset, by default the first there is of `PRESETS`.

    Published values are thin lines where the units are theirs. A mean far worse than most is a triangle at the edge.
    """
    from matplotlib.figure import Figure

    preset = preset or ordered((record["preset"] for record in records), PRESETS)[0]
    records = _latest(records, preset)
    methods, datasets = _methods(records), list(_cells(records, "nll"))
    spare = itertools.cycle(OTHER_COLOURS)
    colours = {method: METHODS[method][1] if method in METHODS else next(spare) for method in methods}
    width = max(5.2, 1.6 + 1.9 * len(datasets))
    fig = Figure(figsize=(width, 1.5 + 2 * max(1.4, 0.27 * len(methods))), layout="constrained")
    panels = fig.subplots(2, len(datasets), squeeze=False, sharey=True)
    legend = {name_of(m): panels[0, 0].plot([], [], "o", color=colour)[0] for m, colour in colours.items()}
    labels = ("standardised RMSE\n(lower is better)", "log-likelihood\n(higher is better)")
    for line, metric, sign, label in zip(panels, ("rmse_std", "nll"), (1, -1), labels, strict=True):
        for panel, (dataset, row) in zip(line, _cells(records, metric).items(), strict=True):
            _dots(panel, [(row.get(method, {}), colour) for method, colour in colours.items()], sign)
            panel.set_title(dataset if sign > 0 else "", fontsize=11)
            if sign < 0 and dataset in published.LOG_LIKELIHOOD:
                for name, dashes in MARKS.items():
                    at = published.LOG_LIKELIHOOD[dataset][name]
                    legend[name] = panel.axvline(at, color="#222222", lw=0.8, ls=dashes, zorder=0)
        line[0].set_yticks(range(len(methods)), [name_of(method) for method in methods], fontsize=9)
        line[0].set_ylabel(label, fontsize=9)
    panels[0, 0].set_ylim(len(methods) - 0.4, -0.6)
    fig.legend(legend.values(), legend, loc="outside lower center", ncols=int(width // 1.25), frameon=False, fontsize=9)
    fig.suptitle(f"UCI regression, preset {preset}: mean ± standard error over splits", fontsize=10)
    fig.savefig(path, dpi=150)


def _dots(panel: "Axes", row: list[tuple[Scores, str]], sign: int) -> None:
    """A dot and its error bar for every method that has scores."""
    means = sorted(mean_and_sd(scores)[0] for scores, _ in row if scores)
    # Three quarters of the methods decide what is drawn to scale.
    worst = 4 * means[3 * (len(means) - 1) // 4] - 3 * means[0] if len(means) > 3 else math.inf
    for place, (scores, colour) in enumerate(row):
        mean, spread = mean_and_sd(scores)
        if mean > worst:
            edge, at, side = panel.get_yaxis_transform(), 0.5 + 0.47 * sign, "right" if sign > 0 else "left"
            panel.plot(at, place, ">" if sign > 0 else "<", color=colour, ms=6, transform=edge)
            value, at = number(sign * mean, 2), at - 0.05 * sign
            panel.text(at, place, value, ha=side, va="center", fontsize=7, color="#222222", transform=edge)
        elif scores:
            error = 0.0 if math.isnan(spread) else spread / math.sqrt(len(scores))
            panel.errorbar(sign * mean, place, xerr=error, fmt="o", color=colour, ms=5, lw=1.5)
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
    methods = _methods(records)
    for title, metric, summary, digits in SUMMARIES:
        rows = []
        for dataset, row in _cells(records, metric).items():
            values = [list(row.get(method, {}).values()) for method in methods]
            rows.append([dataset, *(f"{summary(v):.{digits}f}" if v else "" for v in values)])
        sections += [f"### {title}", table(["", *map(name_of, methods)], rows)]
    return sections + _prior_section(records)


def _counts(records: list[Record]) -> str:
    """How many runs, and what diverged."""
    lost = Counter(f"{name_of(record['method'])} on {record['dataset']}" for record in records if _diverged(record))
    where = ", ".join(f"{name} {count}" for name, count in sorted(lost.items()))
    return f"Runs: {len(records)}. Diverged, and left out of every mean: {lost.total()}{f' ({where})' if lost else ''}."


def _score_table(records: list[Record], metric: str, sign: int, others: published.Table, prefix: str) -> str:
    cells, methods = _cells(records, metric), _methods(records)
    usual = max(len(scores) for row in cells.values() for scores in row.values())
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
            text = plus_minus(sign * mean, spread, digits) + (f" ({len(scores)})" if 0 < len(scores) < usual else "")
            rows[-1].append(f"**{text}**" if method in bold else text)
        for value in (others.get(dataset, {}).get(name, math.nan) for name in names):
            rows[-1].append(number(value, 2 if round(value, 2) == value else 3))
    splits = f"Splits: {usual}, or the number in brackets."
    return f"{splits}\n\n{table(['', *map(name_of, methods), *(prefix + name for name in names)], rows)}"


def _prior_section(records: list[Record]) -> list[str]:
    rmse, nll = _cells(records, "rmse_std"), _cells(records, "nll_std")
    rows = []
    for dataset, (functional, parameter) in itertools.product(rmse, PAIRS):
        if {functional, parameter} <= rmse[dataset].keys():
            tests = [compare(cells[dataset][functional], cells[dataset][parameter]) for cells in (rmse, nll)]
            splits = " / ".join(dict.fromkeys(str(test.splits) for test in tests))
            rows.append([dataset, f"{name_of(functional)} − {name_of(parameter)}", splits])
            for test in tests:
                p = "< 0.001" if test.p < 0.001 else number(test.p, 3)
                rows[-1] += [plus_minus(test.difference, test.error, 3), p, test.word]
    head = ["", "pair", "splits", "RMSE difference", "p", "RMSE", "NLL difference", "p", "NLL"]
    return ["### Functional against parameter prior", PRIOR_LEGEND, table(head, rows)] if rows else []


def _latest(records: list[Record], preset: str) -> list[Record]:
    return list({(r["dataset"], r["method"], r["split"]): r for r in records if r["preset"] == preset}.values())


def _cells(records: list[Record], metric: str) -> dict[str, dict[str, Scores]]:
    """Scores by data set and method; a method that ran and has none is there, empty."""
    datasets = ordered((record["dataset"] for record in records), tuple(published.PAPER_RMSE))
    cells: dict[str, dict[str, Scores]] = {dataset: {} for dataset in datasets}
    for record in records:
        scores = cells[record["dataset"]].setdefault(record["method"], {})
        value = record.get(metric)
        if value is not None and math.isfinite(value) and not _diverged(record):
            scores[record["split"]] = float(value)
    return cells


def _diverged(record: Record) -> bool:
    """A run that says so, or whose held-out density is zero somewhere."""
    return bool(record.get("diverged")) or math.isinf(record.get("nll") or 0.0)


def _methods(records: list[Record]) -> list[str]:
    return ordered((record["method"] for record in records), tuple(METHODS))
