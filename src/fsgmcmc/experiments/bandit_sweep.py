"""The bandit experiment as a sweep: which games, and what is written in the end."""

import itertools
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fsgmcmc import _storage
from fsgmcmc.bandits.environments import FAIR
from fsgmcmc.experiments import bandit, names, sweep
from fsgmcmc.experiments.tables import METHODS, compare, mean_and_sd, name_of, number, ordered, table, write_csv

COLUMNS = (
    *("method", "p", "seed", "preset", "final_regret", "final_expected_regret", "fraction_optimal_last_1000"),
    *("seconds", "diverged"),
)
INTRODUCTION = (
    "Cumulative regret against the oracle, which eats edible mushrooms (+5) and leaves the others (0): mean ± standard "
    "error over seeds. A poisonous mushroom that is eaten costs 35 with probability p and is worth 5 otherwise. "
    "**Bold** is the lowest mean of a column. All methods of a seed meet the same mushrooms with the same luck.",
    "The Gaussian process of the functional methods was fitted to rounds with random actions before the game, 1000 of "
    "them in the paper. The others know nothing of these rounds but the noise that the fit found (with the preset "
    "`tuned` all samplers' steps are measured on such rounds): a head start that a fair reader should keep in mind.",
)

Record = dict[str, Any]


@dataclass(frozen=True)
class Plan:
    """All games, in groups that share their Gaussian process."""

    groups: tuple[tuple[sweep.Run, ...], ...]
    mark: str
    note: str


def plan(preset: str, patterns: str, seeds: int, methods: str, data: Path | None) -> Plan:
    """The games that options of the command line describe, seed by seed: cut short, there are some of every kind."""
    if preset not in bandit.PRESETS:
        raise ValueError(f"unknown preset {preset}; choose from {', '.join(bandit.PRESETS)}")
    settings = bandit.PRESETS[preset]
    chosen = names.chosen(methods, bandit.METHODS, "method")
    try:
        probabilities = list(dict.fromkeys(float(text) for text in names.listed(patterns)))
    except ValueError:
        raise ValueError(f"patterns are probabilities joined by commas, not {patterns!r}") from None
    if not probabilities or not all(FAIR < p <= 1 for p in probabilities):
        raise ValueError(f"patterns are probabilities above {FAIR:g} and up to 1, not {patterns!r}")
    # Absolute, since workers may start elsewhere.
    data = None if data is None else data.resolve()
    mark = bandit.fingerprint(settings, data)
    groups = tuple(
        tuple(sweep.Run(f"{p}-{seed}-{method}-{mark}", (p, seed, method, settings, data)) for method in chosen)
        for seed in range(seeds)
        for p in probabilities
    )
    return Plan(groups, mark, f"Preset `{preset}`: {settings.rounds:,} rounds, {settings.steps} steps after each.")


def execute(plan: Plan, out: Path, jobs: int) -> list[Record]:
    """Play what was not played yet, with progress; all records of these settings in `out`, from earlier sweeps too."""
    return sweep.complete(
        plan.groups,
        bandit.run,
        out / "runs",
        jobs,
        wanted=lambda record: record.get("settings") == plan.mark and record.keys() >= set(COLUMNS),
        title=lambda record: f"p = {record['p']}, seed {record['seed']}, {record['method']}",
    )


def write(records: list[Record], out: Path, note: str) -> None:
    """bandit.json, bandit.csv, bandit.md and bandit.png."""
    _storage.write_text(out / "bandit.json", json.dumps({"records": records}, indent=1) + "\n")
    write_csv(records, COLUMNS, out / "bandit.csv")
    _storage.write_text(out / "bandit.md", markdown(records, note))
    figure(records, out / "bandit.png")


def markdown(records: list[Record], note: str = "") -> str:
    """Tables of final regrets, with and without luck, and the paired comparison of functional with parameter priors."""
    patterns, methods = sorted({record["p"] for record in records}), _methods(records)
    lost = sum(record["diverged"] for record in records)
    facts = f"Games: {len(records)}, {len({record['seed'] for record in records})} seeds. Not finite in the end: {lost}"
    facts += ", left out of all but the column that counts them." if lost else "."
    blocks = ["# Mushroom bandit", *([note] if note else []), *INTRODUCTION, facts]
    blocks += ["## Final regret", _regret_table(records, methods, patterns, "final_regret")]
    blocks += ["## Final expected regret: what the actions lose on average, whatever the luck was"]
    blocks += [_regret_table(records, methods, patterns, "final_expected_regret")]
    return "\n\n".join([*blocks, *_pairs(records, patterns)]) + "\n"


def _regret_table(records: list[Record], methods: list[str], patterns: list[float], score: str) -> str:
    """A row for each method, a column for each pattern."""
    means = {(m, p): mean_and_sd(_finals(records, m, p, score))[0] for m in methods for p in patterns}
    lowest = {p: min((means[m, p] for m in methods if not math.isnan(means[m, p])), default=None) for p in patterns}
    rows = []
    for method in methods:
        row = [name_of(method)]
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
    head = ["", *(f"p = {p:g}" for p in patterns), "share of best actions, last 1000 rounds", "seconds a game"]
    return table([*head, "games", "not finite"], rows)


def whole(value: float, spread: float) -> str:
    """Without decimals; regrets are sums of thousands."""
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
                rows.append([f"{p:g}", f"{name_of(functional)} − {name_of(other)}", *cells])
    legend = (
        "Mean paired difference of final regrets over seeds ± its standard error; negative is in favour of the first. "
        f"Of {2 * len(rows)} significances at 0.05, {0.1 * len(rows):.1f} are expected by chance alone."
    )
    head = ["p", "pair", "regret", "significance", "expected regret", "significance"]
    return ["## Pairs", legend, table(head, rows)] if rows else []


def figure(records: list[Record], path: Path) -> None:
    """`bandit.png`: cumulative regret, mean and range over seeds, a panel per pattern."""
    from matplotlib.figure import Figure

    patterns, methods = sorted({record["p"] for record in records}), _methods(records)
    fig = Figure(figsize=(3.6 * len(patterns) + 1.6, 3.6), layout="constrained")
    panels = fig.subplots(1, len(patterns), squeeze=False, sharey=True)[0]
    spare = itertools.cycle(("#da8bc3", "#64b5cd", "#ccb974", "#937860"))
    colours = {method: METHODS[method][1] if method in METHODS else next(spare) for method in methods}
    for panel, p in zip(panels, patterns, strict=True):
        for method in methods:
            own = [r for r in records if r["method"] == method and r["p"] == p and not r["diverged"]]
            if own:
                rounds, curves = own[0]["curve_rounds"], np.array([record["regret_curve"] for record in own])
                panel.plot(rounds, curves.mean(axis=0), color=colours[method], lw=1.5, label=name_of(method))
                panel.fill_between(
                    rounds, curves.min(axis=0), curves.max(axis=0), color=colours[method], alpha=0.2, lw=0
                )
        panel.set_title(f"p = {p:g}", fontsize=11)
        panel.set_xlabel("round", fontsize=9)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("cumulative regret", fontsize=9)
    learned = [max(r["regret_curve"]) for r in records if r["method"] != "uniform" and not r["diverged"]]
    if learned:  # the line of chance may leave the frame
        panels[0].set_ylim(0, 1.1 * max(learned))
    panels[0].yaxis.set_major_formatter("{x:,.0f}")
    lines = {line.get_label(): line for panel in panels for line in panel.get_lines()}
    fig.legend(lines.values(), lines.keys(), loc="outside right center", frameon=False, fontsize=9)
    fig.savefig(path, dpi=150)


def _finals(records: list[Record], method: str, p: float, score: str) -> dict[int, float]:
    """A score at the end of games, by seed."""
    return {
        record["seed"]: record[score]
        for record in records
        if record["method"] == method and record["p"] == p and not record["diverged"]
    }


def _methods(records: list[Record]) -> list[str]:
    return ordered((record["method"] for record in records), tuple(METHODS))
