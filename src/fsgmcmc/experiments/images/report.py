"""The results of the image sweep: a file of its runs, a table for every data set, a figure.

A record is one finished run: a dictionary with the keys of `COLUMNS`, its reliability diagram and its histograms of
entropy, and for a sampler the dictionary `process`: the scores of the same draws with the uncertainty of the
Gaussian process, which are a row of their own. A diverged run is counted, but has no scores.
"""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fsgmcmc.experiments.images import published
from fsgmcmc.experiments.images.config import OOD
from fsgmcmc.experiments.images.run import ENTROPY_BINS, SCORES, entropy_edges
from fsgmcmc.experiments.images.variants import PROCESS, ROWS, VARIANTS, color, title
from fsgmcmc.experiments.tables import (
    PAIRS,
    Scores,
    compare,
    mean_and_sd,
    number,
    ordered,
    plus_minus,
    table,
    write as write_files,
)
from fsgmcmc.metrics import RELIABILITY_BINS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS = (
    *("dataset", "method", "preset", "seed", "images", "test_images", "foreign_images", "gp_images", "weights"),
    *SCORES,
    *("step_size", "images_per_second", "prior_seconds", "process_seconds", "seconds", "diverged"),
)
# Title, key, decimals.
TABLE = (
    ("test error, %", "error", 2),
    ("NLL", "nll", 3),
    ("ECE", "ece", 3),
    ("Brier", "brier", 3),
    ("AUROC entropy", "auroc_entropy", 3),
    ("AUROC mutual information", "auroc_mutual_information", 3),
    ("AUPR entropy", "aupr_entropy", 3),
    ("AUPR mutual information", "aupr_mutual_information", 3),
    ("seconds", "seconds", 0),
)
# Bins of the reliability diagram with fewer images are not drawn: their accuracy is mostly noise.
FEWEST_IN_BIN = 10
INTRODUCTION = (
    "Mean ± standard deviation over seeds, each with its own chains and, if the preset uses a subset of them, its own "
    f"training images; all share the test images. NLL is in nats per image, ECE has {RELIABILITY_BINS} bins. AUROC and "
    "AUPR are for the detection of out-of-distribution (OOD) images by the entropy of the predictive probabilities or "
    "by the mutual information of label and function. *exact GP* is the Dirichlet Gaussian process without a network, "
    "conditioned only on the images that its kernel was fitted to.",
    "*+ process*: the same run; beyond the training images its logits become those of this process, conditioned on at "
    "most 1000 training images (docs/images.md). *+ context*: a further Gaussian process prior with equal class means "
    "at context images, which are made from random numbers and from training images. *+ exposure*: outlier exposure at "
    "the same context images. No OOD image was used for any of them.",
    "All chains of a preset have the same number of gradients. The posteriors of all samplers have the same weak "
    "Gaussian prior on the weights; functional posteriors also have the Gaussian process. In `quick` and `tuned` "
    "chains start where Adam ends, and one rule measures the step size for each posterior, so that some chains move "
    "further from their start than others; no chain has become independent of its start.",
    "The paper's numbers (Wu, Xuan and Lu, 2025) are for ResNet-18 with all training images on an accelerator. The "
    "presets `quick` and `tuned` use a small residual network, fewer training images and two cores: compare the "
    "methods with each other, not with the paper.",
)
# The functional and the parameter-space form of each sampler, alone and in each variant.
ROW_PAIRS = tuple(
    (functional + functional_suffix, parameter + parameter_suffix)
    for functional_suffix, parameter_suffix in (("", ""), (PROCESS, PROCESS), ("-context", "-exposure"))
    for functional, parameter in PAIRS
)
PAIR_LEGEND = (
    "Mean paired difference over seeds, functional minus parameter prior, ± its standard error, with a two-sided "
    "paired t-test, not corrected for the number of tests. A lower error and a higher AUROC are in favor of the "
    "functional prior."
)

Record = dict[str, Any]


def write(records: list[Record], out: Path, note: str) -> None:
    """images.json, images.csv, images.md and images.png."""
    write_files(records, out, "images", COLUMNS, markdown(records, note), figure, rows_of(records))


def rows_of(records: list[Record]) -> list[Record]:
    """The rows of the tables: each record, and after it the same run with the process, if it has these scores."""
    rows = []
    for record in records:
        rows.append(record)
        if record.get("process"):
            seconds = None if record["seconds"] is None else record["seconds"] + record["process_seconds"]
            rows.append(record | record["process"] | {"method": record["method"] + PROCESS, "seconds": seconds})
    return rows


def present(records: list[Record]) -> list[str]:
    """The names of the records in the order of the tables."""
    return ordered((record["method"] for record in records), ROWS)


def markdown(records: list[Record], note: str = "") -> str:
    """The document `images.md`; the note, such as the command and the commit, follows the title."""
    lost = sum(record["diverged"] for record in records)
    blocks = ["# Images and out-of-distribution images", *([note] if note else []), *INTRODUCTION]
    blocks.append(f"Runs: {len(records)}. Diverged, and left out of every mean: {lost}.")
    if lost < len(records):
        blocks.append("![Entropy of test images and of out-of-distribution images, and reliability](images.png)")
    rows = rows_of(records)
    for dataset in ordered((record["dataset"] for record in records), tuple(OOD)):
        blocks += _section(dataset, [row for row in rows if row["dataset"] == dataset])
    blocks += [*_pairs(rows), *_warnings(records)]
    return "\n\n".join(blocks) + "\n"


def _section(dataset: str, records: list[Record]) -> list[str]:
    paper = published.PAPER_IMAGES[dataset]
    rows = []
    for method in present(records):
        cells = [plus_minus(*mean_and_sd(_scores(records, method, key)), digits) for _, key, digits in TABLE]
        error, auroc = paper.get(method, (math.nan, math.nan))
        steps = _scores(records, method, "step_size").values()
        step = f"{np.mean(list(steps)):.1e}" if steps else ""
        rows.append([title(method), *cells, step, number(error, 2), number(auroc, 3)])
    example = records[0]
    seeds = len({record["seed"] for record in records})
    test, ood = example["test_images"], example["foreign_images"]
    facts = (
        f"{seeds} seed{'s' * (seeds > 1)}; {example['images']:,} training images, {test:,} test images, {ood:,} "
        f"OOD images of {OOD[dataset]}, so that a random score has an AUPR of {ood / (test + ood):.2f}; "
        f"{example['gp_images']:,} training images of the GP. Seconds exclude the fit of the GP, "
        f"{np.mean([record['prior_seconds'] for record in records]):.0f} s, "
        "which all methods of a seed share."
    )
    head = ["", *(title for title, _, _ in TABLE), "mean step", "paper: error, %", "paper: AUROC entropy"]
    return [f"## {dataset}", facts, table(head, rows)]


def _pairs(records: list[Record]) -> list[str]:
    rows = []
    for dataset in ordered((record["dataset"] for record in records), tuple(OOD)):
        own = [record for record in records if record["dataset"] == dataset]
        for functional, parameter in ROW_PAIRS:
            row = [dataset, f"{title(functional)} − {title(parameter)}"]
            for key, digits in (("error", 2), ("nll", 3), ("auroc_entropy", 3)):
                test = compare(_scores(own, functional, key), _scores(own, parameter, key))
                row += [plus_minus(test.difference, test.error, digits), number(test.p, 3)]
            if test.splits:
                rows.append([*row[:2], str(test.splits), *row[2:]])
    head = ["", "pair", "seeds", "error, %", "p", "NLL", "p", "AUROC entropy", "p"]
    return ["## Functional against parameter prior", PAIR_LEGEND, table(head, rows)] if rows else []


def _warnings(records: list[Record]) -> list[str]:
    lines = [
        f"- {record['dataset']}, seed {record['seed']}, {title(record['method'])}: {text}"
        for record in records
        for text in record.get("warnings", [])
    ]
    return ["## Warnings", "\n".join(lines)] if lines else []


def figure(records: list[Record], path: Path) -> None:
    """`images.png`: for each data set, entropy of test and OOD images, a panel per method, and reliability."""
    from matplotlib.figure import Figure

    records = [record for record in records if not record["diverged"]]
    datasets = ordered((record["dataset"] for record in records), tuple(OOD))
    if not datasets:
        path.unlink(missing_ok=True)  # of an earlier sweep
        return
    methods = present(records)
    fig = Figure(figsize=(2.4 * (len(methods) + 1) + 0.6, 2.5 * len(datasets) + 0.6), layout="constrained")
    panels = fig.subplots(len(datasets), len(methods) + 1, squeeze=False)
    for line, dataset in zip(panels, datasets, strict=True):
        own = [record for record in records if record["dataset"] == dataset]
        for panel, method in zip(line, methods, strict=False):
            _histogram(panel, [record for record in own if record["method"] == method], dataset)
            panel.set_title(title(method), fontsize=10)
        line[0].set_ylabel(f"{dataset}\nshare of images", fontsize=9)
        _reliability(line[-1], own, methods)
    for panel in panels[-1, :-1]:
        panel.set_xlabel("entropy, nats", fontsize=9)
    panels[-1, -1].set_xlabel("confidence", fontsize=9)
    panels[0, -1].set_title("reliability", fontsize=10)
    if panels[0, -1].get_legend_handles_labels()[0]:
        panels[0, -1].legend(frameon=False, fontsize=7)
    fig.savefig(path, dpi=150)


def _histogram(panel: "Axes", records: list[Record], dataset: str) -> None:
    for key, label, shade in (
        ("entropy_known", dataset, "#2f5597"),
        ("entropy_foreign", OOD[dataset], "#c8561b"),
    ):
        counts = np.sum([record[key] for record in records], axis=0) if records else np.zeros(ENTROPY_BINS)
        panel.stairs(counts / max(counts.sum(), 1), entropy_edges(), fill=True, alpha=0.5, color=shade, label=label)
    wider = [record["process"]["entropy_foreign"] for record in records if record.get("process")]
    if wider:
        counts = np.sum(wider, axis=0)
        panel.stairs(counts / max(counts.sum(), 1), entropy_edges(), color="#222222", label=f"{OOD[dataset]} + process")
    panel.set_yscale("log")
    panel.set_ylim(1e-4, 1)
    panel.legend(frameon=False, fontsize=7)
    _plain(panel)


def _reliability(panel: "Axes", records: list[Record], methods: list[str]) -> None:
    panel.plot([0, 1], [0, 1], color="#222222", lw=0.8, ls=":")
    for method in methods:
        bins = [np.array(record["reliability"]) for record in records if record["method"] == method]
        if not bins:
            continue
        rows, confidence, right = np.concatenate(bins, axis=1)
        place = np.ceil(RELIABILITY_BINS * confidence)
        points = [
            [np.average(values[place == p], weights=rows[place == p]) for values in (confidence, right)]
            for p in np.unique(place)
            if rows[place == p].sum() >= FEWEST_IN_BIN
        ]
        if not points:
            continue
        panel.plot(
            *np.transpose(points),
            "o--" if method in VARIANTS else "o-",
            ms=3,
            lw=1,
            color=color(method),
            label=title(method),
        )
    panel.set_ylabel("accuracy", fontsize=9)
    _plain(panel)


def _plain(panel: "Axes") -> None:
    panel.tick_params(labelsize=8)
    panel.spines[["top", "right"]].set_visible(False)


def _scores(records: list[Record], method: str, key: str) -> Scores:
    """Scores by seed, without missing ones."""
    return {
        record["seed"]: record[key]
        for record in records
        if record["method"] == method and not record["diverged"] and record[key] is not None
    }
