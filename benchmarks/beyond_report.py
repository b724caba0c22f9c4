"""The records of `beyond_data.py`: reading and writing them, the page, the CSV file and the figure.

A score of a method on a table is the mean over the parts of the table and the seeds. Means over tables therefore weigh
every table equally. All numbers are over the parts that every method has, so that no method profits from failing.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fsgmcmc.experiments.tables import number, table, write_csv

RECORDS = "records.jsonl"
NAME = "beyond-data"
OURS = "ours"
# Methods of our library that are shown for comparison and do not take part in the count of best methods.
REFERENCES = ("network", "process")
TITLES = {
    OURS: "ours, `FunctionalBNNRegressor()`",
    "gp": "Gaussian process, Matérn 5/2 (scikit-learn)",
    "ngboost": "NGBoost",
    "catboost": "CatBoost, virtual ensembles",
    "ensemble": "ensemble of five networks",
    "bde": "Bayesian deep ensembles (bde)",
    "network": "reference: our network alone",
    "process": "reference: our Gaussian processes alone",
}
STYLES = {
    OURS: ("black", "o"),
    "gp": ("#0072b2", "s"),
    "ngboost": ("#d55e00", "^"),
    "catboost": ("#e69f00", "v"),
    "ensemble": ("#009e73", "D"),
    "bde": ("#cc79a7", "P"),
    "network": ("#999999", "x"),
    "process": ("#999999", "+"),
}
COLUMNS = (
    "table",
    "part",
    "method",
    "seed",
    "features",
    "rows",
    "rows_inside",
    "rows_outside",
    "nll_inside",
    "nll_outside",
    "crps_inside",
    "crps_outside",
    "coverage_inside",
    "coverage_outside",
    "sd_ratio",
    "seconds",
    "error",
)
# Coverage of nominal 90 % intervals that the figure marks as acceptable.
BAND = (0.80, 0.97)
INTRODUCTION = """\
Each table is split several times: the highest 15 % of one feature, the highest 15 % along the first principal
component, one category or the last years are held out as a whole (outside the training rows), and an eighth of the
remaining rows at random (inside). NLL is in nats per row and CRPS in standard deviations, both of targets in standard
deviations of the training targets. Coverage is the share of rows in central 90 % intervals, which should be 0.90. The
ratio of sd is the mean predictive standard deviation outside, divided by that inside. Scores of a table are means over
its parts and seeds; the columns are means over tables, where nothing else is said. Differences are paired by table. The
two references are not in the count of tables with the lowest NLL, and have no seconds, as one of them can share a fit
with `ours`."""

Record = dict[str, Any]
Key = tuple[str, str, str, int]


def key(record: Record) -> Key:
    """Table, part, method and seed."""
    return record["table"], record["part"], record["method"], record["seed"]


def append(path: Path, record: Record) -> None:
    """Add a record as one line, after the end of a line that a killed run left unfinished."""
    written = path.read_bytes() if path.exists() else b""
    unfinished = bool(written) and not written.endswith(b"\n")
    with path.open("a", encoding="utf-8") as file:
        file.write("\n" * unfinished + json.dumps(record) + "\n")


def read(out: Path) -> list[Record]:
    """The last record of each key; lines that a killed run left unfinished are left out."""
    found: dict[Key, Record] = {}
    path = out / RECORDS
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            continue
        found[key(record)] = record
    return list(found.values())


def complete(records: Iterable[Record], methods: Sequence[str]) -> list[Record]:
    """The records of the parts and seeds that all methods have."""
    scored = [record for record in records if "error" not in record and record["method"] in methods]
    present = defaultdict(set)
    for record in scored:
        present[_place(record)].add(record["method"])
    return [record for record in scored if present[_place(record)] == set(methods)]


def by_table(records: Iterable[Record], method: str, score: str) -> dict[str, float]:
    """Mean score of a method on each table, over parts and seeds."""
    values = defaultdict(list)
    for record in records:
        if record["method"] == method:
            values[record["table"]].append(record[score])
    return {name: float(np.mean(scores)) for name, scores in values.items()}


def times_best(records: Sequence[Record], methods: Sequence[str], score: str) -> dict[str, int]:
    """Number of tables on which each method, references left out, has the lowest score."""
    rivals = {method: by_table(records, method, score) for method in methods if method not in REFERENCES}
    tables = set().union(*rivals.values())
    best = [min(rivals, key=lambda method: rivals[method][name]) for name in tables]
    return {method: best.count(method) for method in rivals}


def median_difference(records: Sequence[Record], method: str, score: str) -> float:
    """Median over tables of the score of a method minus that of ours."""
    theirs, own = by_table(records, method, score), by_table(records, OURS, score)
    differences = [theirs[name] - own[name] for name in theirs if name in own]
    return float(np.median(differences)) if differences and method != OURS else float("nan")


def summary(records: Sequence[Record], methods: Sequence[str]) -> str:
    """One row for each method."""
    best = {side: times_best(records, methods, f"nll_{side}") for side in ("inside", "outside")}

    def over_tables(method: str, score: str, reduce: Callable[..., Any] = np.mean, digits: int = 2) -> str:
        return number(float(reduce(list(by_table(records, method, score).values()))), digits)

    rows = []
    for method in methods:
        rows.append(
            [
                TITLES[method],
                over_tables(method, "coverage_outside"),
                over_tables(method, "coverage_outside", np.min),
                over_tables(method, "coverage_inside"),
                over_tables(method, "nll_outside"),
                number(median_difference(records, method, "nll_outside"), 2),
                str(best["outside"].get(method, "")),
                over_tables(method, "nll_inside"),
                number(median_difference(records, method, "nll_inside"), 2),
                str(best["inside"].get(method, "")),
                over_tables(method, "crps_outside"),
                over_tables(method, "crps_inside"),
                over_tables(method, "sd_ratio"),
                "" if method in REFERENCES else over_tables(method, "seconds", digits=0),
            ]
        )
    head = [
        "",
        "coverage outside",
        "lowest of a table",
        "coverage inside",
        "NLL outside",
        "median difference to ours",
        "tables with lowest",
        "NLL inside",
        "median difference to ours",
        "tables with lowest",
        "CRPS outside",
        "CRPS inside",
        "sd outside / inside",
        "seconds",
    ]
    return table(head, rows)


def details(records: Sequence[Record], methods: Sequence[str]) -> str:
    """NLL and coverage outside of each method, one row for each part of a table; bold is the lowest NLL."""
    cells: dict[tuple[str, str], dict[str, list[Record]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        cells[record["table"], record["part"]][record["method"]].append(record)
    rows = []
    for (name, part), own in cells.items():
        nll = {m: float(np.mean([r["nll_outside"] for r in own[m]])) for m in methods}
        coverage = {m: float(np.mean([r["coverage_outside"] for r in own[m]])) for m in methods}
        lowest = min((m for m in methods if m not in REFERENCES), key=nll.__getitem__, default=None)
        texts = [f"{number(nll[m], 2)} ({number(coverage[m], 2)})" for m in methods]
        first = own[methods[0]][0]
        sizes = f"{first['rows']} / {first['rows_inside']} / {first['rows_outside']}"
        bold = [f"**{text}**" if m == lowest else text for m, text in zip(methods, texts, strict=True)]
        rows.append([name, part, sizes, str(first["features"]), *bold])
    return table(["table", "part", "rows: training / inside / outside", "features", *methods], rows)


def figure(records: Sequence[Record], methods: Sequence[str], path: Path) -> None:
    """Coverage outside and the difference of NLL to ours, by table and method."""
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(record["table"] for record in records))
    fig = Figure(figsize=(max(7.0, 0.62 * len(names) + 2.5), 8.0), layout="constrained")
    top, bottom = fig.subplots(2, 1, sharex=True)
    for index, method in enumerate(methods):
        color, marker = STYLES[method]
        # Markers of one table stand next to each other, within 0.7 of the distance between two tables.
        shift = 0.7 * ((index + 0.5) / len(methods) - 0.5)
        places = np.arange(len(names)) + shift
        style = {"color": color, "marker": marker, "linestyle": "none", "markersize": 5.5}
        coverage, nll = (by_table(records, method, score) for score in ("coverage_outside", "nll_outside"))
        own = by_table(records, OURS, "nll_outside")
        top.plot(places, [coverage[name] for name in names], label=TITLES[method].replace("`", ""), **style)
        if method != OURS and own:
            bottom.plot(places, [nll[name] - own[name] for name in names], **style)
    top.axhspan(*BAND, color="#0072b2", alpha=0.10, linewidth=0)
    top.axhline(0.9, color="black", linewidth=0.8)
    top.set(ylim=(-0.03, 1.03), ylabel="coverage of 90 % intervals, outside")
    bottom.axhline(0.0, color="black", linewidth=0.8)
    bottom.set_yscale("symlog", linthresh=1.0)
    bottom.yaxis.set_major_formatter("{x:g}")
    bottom.margins(y=0.08)
    bottom.set(ylabel="NLL − NLL of ours, outside\n(above 0: ours is better)")
    bottom.set_xticks(range(len(names)), names, rotation=45, ha="right")
    for axes in (top, bottom):
        axes.set_xlim(-0.5, len(names) - 0.5)
        for boundary in range(1, len(names)):
            axes.axvline(boundary - 0.5, color="#dddddd", linewidth=0.6, zorder=0)
    fig.legend(*top.get_legend_handles_labels(), loc="outside upper center", ncols=3, frameon=False, fontsize=9)
    fig.savefig(path, dpi=150)


def page(records: Sequence[Record], methods: Sequence[str]) -> str:
    """The Markdown page of all records."""
    shown = complete(records, methods)
    names = dict.fromkeys(record["table"] for record in shown)
    places, finished = ({_place(record) for record in some} for some in (records, shown))
    lines = ["# Predictions beyond the data", INTRODUCTION]
    lines.append(f"Tables: {len(names)}. Splits: {len(finished)} of {len(places)}, those that all methods have.")
    if shown:
        lines += [summary(shown, methods), f"![coverage and NLL outside]({NAME}.png)"]
        lines += ["NLL outside (coverage outside):", details(shown, methods)]
    failed = [record for record in records if "error" in record]
    if failed:
        lines.append("\n".join(["Failed:", "", *(f"- {', '.join(map(str, key(r)))}: {r['error']}" for r in failed)]))
    return "\n\n".join(lines) + "\n"


def write(out: Path, methods: Sequence[str], tables: Sequence[str]) -> None:
    """The page, the CSV file and the figure, of those of the methods and tables that have records."""
    records = [record for record in read(out) if record["method"] in methods and record["table"] in tables]
    records.sort(key=lambda record: tables.index(record["table"]))
    present = [method for method in methods if any(record["method"] == method for record in records)]
    write_csv(records, COLUMNS, out / f"{NAME}.csv")
    (out / f"{NAME}.md").write_text(page(records, present), encoding="utf-8")
    if shown := complete(records, present):
        figure(shown, present, out / f"{NAME}.png")


def _place(record: Record) -> tuple[str, str, int]:
    return record["table"], record["part"], record["seed"]
