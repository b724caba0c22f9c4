"""The image experiment as a sweep: which runs, in what order, and what is written in the end."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fsgmcmc import _storage
from fsgmcmc.data import load_images
from fsgmcmc.experiments import images, images_problem, images_report, names, sweep, tables
from fsgmcmc.recipe import VARIATIONAL


@dataclass(frozen=True)
class Plan:
    """All runs of a sweep, in groups that share training images and their Gaussian process."""

    groups: tuple[tuple[sweep.Run, ...], ...]
    marks: frozenset[str]  # of the settings
    note: str


def plan(
    preset: str, datasets: str, seeds: int, methods: str, data: Path | None, out: Path, changes: dict[str, Any]
) -> Plan:
    """The sweep that options of the command line describe, seed by seed: cut short, it has some of every set."""
    if preset not in images_problem.PRESETS:
        raise ValueError(f"unknown preset {preset}; choose from {', '.join(images_problem.PRESETS)}")
    wanted = names.chosen(datasets, images_problem.FOREIGN, "data set")
    chosen = names.chosen(methods, images.METHODS, "method")
    variational = [method for method in chosen if method in VARIATIONAL]
    if changes.get("stream") and variational:
        raise ValueError(f"--stream is for samplers; {', '.join(variational)} cannot leave the images on the host")
    # Absolute, since workers may start elsewhere.
    data, runs = (None if data is None else data.resolve()), (out / "runs").resolve()
    parts, settings = [], {}
    for name in wanted:
        foreign = images_problem.FOREIGN[name]
        loaded = [load_images(*which, data) for which in ((name, "train"), (name, "test"), (foreign, "test"))]
        shapes = {one.x.shape[1:] for one in loaded}
        if len(shapes) > 1:
            raise ValueError(f"images of {name} and {foreign} differ in shape: {', '.join(map(str, sorted(shapes)))}")
        content = hashlib.sha256()
        for one in loaded:
            content.update(one.x.tobytes() + one.y.tobytes())
        settings[name] = images_problem.settings_for(preset, name, **changes, content=content.hexdigest()[:12])
        train, least = loaded[0], settings[name].batch_size
        if min(len(train.x), settings[name].images or len(train.x)) <= least:
            raise ValueError(f"{name} needs more than {least} training images, a minibatch of the preset {preset}")
        parts.append(f"{name}: {len(train.x):,} training images in {', '.join(train.files)}")

    def planned(dataset: str, seed: int, method: str) -> sweep.Run:
        label = f"{dataset}-{seed}-{method}-{images.fingerprint(settings[dataset])}"
        checkpoint = images.Checkpoint(runs / f"{label}.checkpoint")
        return sweep.Run(label, (dataset, seed, method, settings[dataset], data, checkpoint), checkpoint.path)

    groups = tuple(
        tuple(planned(dataset, seed, method) for method in chosen) for seed in range(seeds) for dataset in wanted
    )
    changed = "".join(f", {name} {value}" for name, value in changes.items() if value is not None)
    note = f"Preset `{preset}`{changed}. Found: {'; '.join(parts)}."
    return Plan(groups, frozenset(images.fingerprint(one) for one in settings.values()), note)


def execute(plan: Plan, out: Path, jobs: int) -> list[dict[str, Any]]:
    """Do what is not done yet, with progress; all records of these settings in `out`, from earlier sweeps too."""
    return sweep.complete(
        plan.groups,
        images.run,
        out / "runs",
        jobs,
        wanted=lambda record: record.get("settings") in plan.marks,
        title=lambda record: f"{record['dataset']} {record['seed']} {record['method']}",
    )


def write(records: list[dict[str, Any]], out: Path, note: str) -> None:
    """images.json, images.csv, images.md and images.png."""
    _storage.write_text(out / "images.json", json.dumps({"records": records}, indent=1) + "\n")
    tables.write_csv(records, images_report.COLUMNS, out / "images.csv")
    _storage.write_text(out / "images.md", images_report.markdown(records, note))
    images_report.figure(records, out / "images.png")
