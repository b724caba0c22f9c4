"""UCI regression as a sweep: which runs, in which order."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from fsgmcmc.data import UCI_NAMES, folder, load_uci
from fsgmcmc.experiments import names
from fsgmcmc.experiments.runner import Plan, Run
from fsgmcmc.experiments.uci.config import DEFAULT_METHODS, PRESETS
from fsgmcmc.experiments.uci.run import RUNNERS, fingerprint, run
from fsgmcmc.methods import VARIATIONAL
from fsgmcmc.priors.kernels import kernel_by_name


def plan(
    preset: str,
    datasets: str,
    splits: str,
    methods: str | None,
    data: Path | None,
    changes: dict[str, Any] | None = None,
) -> Plan:
    """The sweep for these command-line options, split by split: an interrupted sweep has runs of every data set.

    Without `methods` it has `DEFAULT_METHODS`; `changes` that are not None replace fields of the preset.
    """
    changed = {name: value for name, value in (changes or {}).items() if value is not None}
    if preset not in PRESETS:
        raise ValueError(f"unknown preset {preset}; choose from {', '.join(PRESETS)}")
    settings = replace(PRESETS[preset], **changed)
    if settings.kernel != "auto":
        kernel_by_name(settings.kernel, 1)
    # Absolute, because workers may have another working directory.
    data = folder(data).resolve()
    requested = list(UCI_NAMES) if datasets == "all" else names.listed(datasets)
    if not requested:
        raise ValueError(f"--datasets must be names joined by commas, not {datasets!r}")
    chosen = DEFAULT_METHODS if methods is None else names.chosen(methods, RUNNERS, "method")
    unaffected = [
        method for method in chosen if method in VARIATIONAL and {"draws", "points", "heavy_tails"} & changed.keys()
    ]
    if unaffected:
        raise ValueError(
            f"--samples, --points and --gaussian are for samplers; {', '.join(unaffected)} would not change with them"
        )
    tables = [load_uci(name, data) for name in requested]
    pairs = [(split, table.name) for table in tables for split in _splits(splits, len(table.splits), table.name)]
    groups = [
        tuple(
            Run(f"{name}-{split}-{method}-{fingerprint(settings, method)}", (name, split, method, settings, data))
            for method in chosen
        )
        for split, name in sorted(pairs, key=lambda pair: pair[0])
    ]
    note = f"Preset `{preset}`" + "".join(f", {name} {value}" for name, value in changed.items()) + "."
    return Plan(
        run,
        tuple(groups),
        is_current=lambda record: record.get("settings") == fingerprint(settings, record.get("method", "")),
        title=lambda record: f"{record['dataset']} {record['split']} {record['method']}",
        note=note,
    )


def _splits(text: str, available: int, dataset: str) -> list[int]:
    try:
        numbers = [int(part) for part in names.listed(text)]
    except ValueError:
        raise ValueError(f"--splits must be a count or split numbers joined by commas, not {text!r}") from None
    chosen = list(range(min(numbers[0], available))) if len(numbers) == 1 and "," not in text else numbers
    bad = [number for number in chosen if not 0 <= number < available]
    if available == 0:
        raise ValueError(f"{dataset} has no splits: add index_train_0.txt and index_test_0.txt to its folder")
    if bad or not chosen:
        raise ValueError(f"{dataset} has splits 0 to {available - 1}; --splits {text!r} has none of them or others")
    return chosen
