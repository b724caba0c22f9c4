"""The UCI regressions as a sweep: which runs, in what order, and what is written in the end."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fsgmcmc import _storage
from fsgmcmc.data import UCI_NAMES, folder, load_uci
from fsgmcmc.experiments import names, sweep, tables, uci, uci_report
from fsgmcmc.experiments.uci_problem import PRESETS, Settings
from fsgmcmc.priors.kernels import kernel_by_name
from fsgmcmc.recipe import VARIATIONAL


@dataclass(frozen=True)
class Plan:
    """All runs of a sweep, in groups that share a training part and its Gaussian process."""

    settings: Settings
    groups: tuple[tuple[sweep.Run, ...], ...]
    note: str


def plan(
    preset: str, datasets: str, splits: str, methods: str, data: Path | None, changes: dict[str, Any] | None = None
) -> Plan:
    """The sweep that options of the command line describe, split by split: cut short, it has some of every set."""
    changed = {name: value for name, value in (changes or {}).items() if value is not None}
    if preset not in PRESETS:
        raise ValueError(f"unknown preset {preset}; choose from {', '.join(PRESETS)}")
    settings = replace(PRESETS[preset], **changed)
    if settings.kernel != "auto":
        kernel_by_name(settings.kernel, 1)
    # Absolute, since workers may start elsewhere.
    data = folder(data).resolve()
    wanted = list(UCI_NAMES) if datasets == "all" else names.listed(datasets)
    if not wanted:
        raise ValueError(f"datasets are names joined by commas, not {datasets!r}")
    chosen = names.chosen(methods, uci.METHODS, "method")
    deaf = [
        method for method in chosen if method in VARIATIONAL and {"draws", "points", "heavy_tails"} & changed.keys()
    ]
    if deaf:
        raise ValueError(
            f"--samples, --points and --gaussian are for samplers; {', '.join(deaf)} would not change with them"
        )
    tables = [load_uci(name, data) for name in wanted]
    pairs = [(split, table.name) for table in tables for split in _splits(splits, len(table.splits), table.name)]
    groups = [
        tuple(
            sweep.Run(
                f"{name}-{split}-{method}-{uci.fingerprint(settings, method)}", (name, split, method, settings, data)
            )
            for method in chosen
        )
        for split, name in sorted(pairs, key=lambda pair: pair[0])
    ]
    note = f"Preset `{preset}`" + "".join(f", {name} {value}" for name, value in changed.items()) + "."
    return Plan(settings, tuple(groups), note)


def execute(plan: Plan, out: Path, jobs: int) -> list[dict[str, Any]]:
    """Do what is not done yet, with progress; all records of these settings in `out`, from earlier sweeps too."""
    return sweep.complete(
        plan.groups,
        uci.run,
        out / "runs",
        jobs,
        wanted=lambda record: record.get("settings") == uci.fingerprint(plan.settings, record.get("method", "")),
        title=lambda record: f"{record['dataset']} {record['split']} {record['method']}",
    )


def write(records: list[dict[str, Any]], out: Path, note: str) -> None:
    """uci.json, uci.csv, uci.md and uci.png."""
    _storage.write_text(out / "uci.json", json.dumps({"records": records}, indent=1) + "\n")
    tables.write_csv(records, uci_report.COLUMNS, out / "uci.csv")
    _storage.write_text(out / "uci.md", uci_report.markdown(records, note))
    uci_report.figure(records, out / "uci.png")


def _splits(text: str, available: int, dataset: str) -> list[int]:
    try:
        numbers = [int(part) for part in names.listed(text)]
    except ValueError:
        raise ValueError(f"splits are a number of them or numbers joined by commas, not {text!r}") from None
    chosen = list(range(min(numbers[0], available))) if len(numbers) == 1 and "," not in text else numbers
    bad = [number for number in chosen if not 0 <= number < available]
    if available == 0:
        raise ValueError(f"{dataset} has no splits: add index_train_0.txt and index_test_0.txt to its folder")
    if bad or not chosen:
        raise ValueError(f"{dataset} has splits 0 to {available - 1}; {text!r} does not name any or names others")
    return chosen
