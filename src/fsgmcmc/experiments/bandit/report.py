"""The results of Thompson sampling on mushrooms: a file of its games, tables, a figure."""

import math
from pathlib import Path
from typing import Any

import numpy as np

from fsgmcmc.experiments.tables import colors, compare, mean_and_sd, number, present, table, write as write_files
from fsgmcmc.methods import title_of

COLUMNS = (
    *("method", "p", "seed", "preset", "final_regret", "final_expected_regret", "fraction_optimal_last_1000"),
    *("seconds", "diverged"),
)
INTRODUCTION = (
    "Cumulative regret relative to the oracle, which eats edible mushrooms (+5) and leaves the others (0): mean ± "
    "standard error over seeds. A poisonous mushroom that is eaten costs 35 with probability p and is worth 5 "
    "otherwise. **Bold** is the lowest mean of a column. All methods of a seed have the same mushrooms and the same "
    "random rewards.",
    "The Gaussian process of the functional methods was fitted to rounds with random actions before the game, 1000 of "
    "them in the paper. The other methods use only the noise estimate of that fit (with the preset `tuned` the step "
    "sizes of all samplers are measured on such rounds). This is an advantage of the functional methods.",
)

Record = dict[str, Any]


def write(records: list[Record], out: Path, note: str) -> None:
    """bandit.json, bandit.csv, bandit.md and bandit.png."""
    write_files(records, out, "bandit", COLUMNS, markdown(records, note), figure)


def markdown(records: list[Record], note: str = "") -> str:
    """Tables of final regret and expected regret, and paired comparisons of functional and parameter priors."""
    patterns, methods = sorted({record["p"] for record in records}), present(records)
    lost = sum(record["diverged"] for record in records)
    facts = f"Games: {len(records)}, {len({record['seed'] for record in records})} seeds. Not finite at the end: {lost}"
    facts += ", which only the last column includes." if lost else "."
    blocks = ["# Mushroom bandit", *([note] if note else []), *INTRODUCTION, facts]
    blocks += ["## Final regret", _regret_table(records, methods, patterns, "final_regret")]
    blocks += ["## Final expected regret: the mean over random rewards, given the actions"]
    blocks += [_regret_table(records, methods, patterns, "final_expected_regret")]
    return "\n\n".join([*blocks, *_pairs(records, patterns)]) + "\n"


def _regret_table(records: list[Record], methods: list[str], patterns: list[float], score: str) -> str:
    """A row for each method, a column for each pattern."""
    means = {(m, p): mean_and_sd(_finals(records, m, p, score))[0] for m in methods for p in patterns}
    lowest = {p: min((means[m, p] for m in methods if not math.isnan(means[m, p])), default=None) for p in patterns}
    rows = []
    for method in methods:
        row = [title_of(method)]
        for p in patterns:
            finals = _finals(records, method, p, score)
            mean, spread = mean_and_sd(finals)
            text = whole(mean, spread / math.sqrt(max(len(finals), 1)))
            row.append(f"**{text}**" if mean == lowest[p] else text)
        own = [record for record in records if record["method"] == method]
        ended = [record for record in own if not record["diverged"]]
        for name, digits in (("fraction_optimal_last_1000", 3), ("seconds", 0)):
            row.append(number(float(np.mean([record[name] for record in ended])), digits) if ended else "")
        rows.append([*row, str(len(own)), str(len(own) - len(ended))])
    head = ["", *(f"p = {p:g}" for p in patterns), "share of best actions, last 1000 rounds", "seconds per game"]
    return table([*head, "games", "not finite"], rows)


def whole(value: float, spread: float) -> str:
    """The value without decimals: regrets are in the thousands."""
    if math.isnan(value):
        return ""
    text = f"{value:,.0f}" + ("" if math.isnan(spread) else f" ± {spread:,.0f}")
    return text.replace("-", "−")


def _pairs(records: list[Record], patterns: list[float]) -> list[str]:
    rows = []
    for p in patterns:
        for functional, other in (("fsgld", "sgld"), ("fsgld", "bbb"), ("fsghmc", "sghmc")):
            tests = [
                compare(*(_finals(records, method, p, score) for method in (functional, other)))
                for score in ("final_regret", "final_expected_regret")
            ]
            if tests[0].splits > 1:
                cells = [cell for test in tests for cell in (whole(test.difference, test.error), f"{test.p:.2g}")]
                rows.append([f"{p:g}", f"{title_of(functional)} − {title_of(other)}", *cells])
    legend = (
        "Mean paired difference of final regrets over seeds ± its standard error; negative is in favor of the first. "
        f"Of {2 * len(rows)} significances at 0.05, {0.1 * len(rows):.1f} are expected by chance alone."
    )
    head = ["p", "pair", "regret", "significance", "expected regret", "significance"]
    return ["## Pairs", legend, table(head, rows)] if rows else []


def figure(records: list[Record], path: Path) -> None:
    """`bandit.png`: cumulative regret, mean and range over seeds, a panel per pattern."""
    from matplotlib.figure import Figure

    patterns, methods = sorted({record["p"] for record in records}), present(records)
    fig = Figure(figsize=(3.6 * len(patterns) + 1.6, 3.6), layout="constrained")
    panels = fig.subplots(1, len(patterns), squeeze=False, sharey=True)[0]
    color_of = colors(methods)
    for panel, p in zip(panels, patterns, strict=True):
        for method in methods:
            own = [r for r in records if r["method"] == method and r["p"] == p and not r["diverged"]]
            if own:
                rounds, curves = own[0]["curve_rounds"], np.array([record["regret_curve"] for record in own])
                panel.plot(rounds, curves.mean(axis=0), color=color_of[method], lw=1.5, label=title_of(method))
                panel.fill_between(
                    rounds, curves.min(axis=0), curves.max(axis=0), color=color_of[method], alpha=0.2, lw=0
                )
        panel.set_title(f"p = {p:g}", fontsize=11)
        panel.set_xlabel("round", fontsize=9)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("cumulative regret", fontsize=9)
    learned = [max(r["regret_curve"]) for r in records if r["method"] != "uniform" and not r["diverged"]]
    if learned:  # the curve of uniform actions may leave the frame
        panels[0].set_ylim(0, 1.1 * max(learned))
    panels[0].yaxis.set_major_formatter("{x:,.0f}")
    lines = {line.get_label(): line for panel in panels for line in panel.get_lines()}
    fig.legend(lines.values(), lines.keys(), loc="outside right center", frameon=False, fontsize=9)
    fig.savefig(path, dpi=150)


def _finals(records: list[Record], method: str, p: float, score: str) -> dict[int, float]:
    """A score at the end of the games, by seed."""
    return {
        record["seed"]: record[score]
        for record in records
        if record["method"] == method and record["p"] == p and not record["diverged"]
    }
