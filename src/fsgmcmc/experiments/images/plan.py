"""Images as a sweep: which runs, in which order."""

import hashlib
from pathlib import Path
from typing import Any

from fsgmcmc.data import load_images
from fsgmcmc.experiments import names
from fsgmcmc.experiments.images.config import DEFAULT_METHODS, OOD, PRESETS, settings_for
from fsgmcmc.experiments.images.run import RUNNERS, Checkpoint, fingerprint, run
from fsgmcmc.experiments.runner import Plan, Run
from fsgmcmc.methods import VARIATIONAL


def plan(
    preset: str,
    datasets: str,
    seeds: int,
    methods: str | None,
    data: Path | None,
    out: Path,
    changes: dict[str, Any],
) -> Plan:
    """The sweep for these command-line options, seed by seed: an interrupted sweep has runs of every data set.

    Without `methods` it has `DEFAULT_METHODS`; `changes` that are not None replace fields of the preset.
    """
    if preset not in PRESETS:
        raise ValueError(f"unknown preset {preset}; choose from {', '.join(PRESETS)}")
    requested = names.chosen(datasets, OOD, "data set")
    chosen = DEFAULT_METHODS if methods is None else names.chosen(methods, RUNNERS, "method")
    variational = [method for method in chosen if method in VARIATIONAL]
    if changes.get("stream") and variational:
        raise ValueError(f"--stream is for samplers; {', '.join(variational)} cannot keep the images on the host")
    # Absolute, because workers may have another working directory.
    data, runs = (None if data is None else data.resolve()), (out / "runs").resolve()
    parts, settings = [], {}
    for name in requested:
        ood = OOD[name]
        loaded = [load_images(*which, data) for which in ((name, "train"), (name, "test"), (ood, "test"))]
        shapes = {one.x.shape[1:] for one in loaded}
        if len(shapes) > 1:
            raise ValueError(f"images of {name} and {ood} differ in shape: {', '.join(map(str, sorted(shapes)))}")
        content = hashlib.sha256()
        for one in loaded:
            content.update(one.x.tobytes() + one.y.tobytes())
        settings[name] = settings_for(preset, name, **changes, content=content.hexdigest()[:12])
        train, least = loaded[0], settings[name].batch_size
        if min(len(train.x), settings[name].images or len(train.x)) <= least:
            raise ValueError(f"{name} needs more than {least} training images, a minibatch of the preset {preset}")
        parts.append(f"{name}: {len(train.x):,} training images in {', '.join(train.files)}")

    def planned(dataset: str, seed: int, method: str) -> Run:
        label = f"{dataset}-{seed}-{method}-{fingerprint(settings[dataset])}"
        checkpoint = Checkpoint(runs / f"{label}.checkpoint")
        return Run(label, (dataset, seed, method, settings[dataset], data, checkpoint), checkpoint.path)

    groups = tuple(
        tuple(planned(dataset, seed, method) for method in chosen) for seed in range(seeds) for dataset in requested
    )
    changed = "".join(f", {name} {value}" for name, value in changes.items() if value is not None)
    note = f"Preset `{preset}`{changed}. Found: {'; '.join(parts)}."
    current = frozenset(fingerprint(one) for one in settings.values())
    return Plan(
        run,
        groups,
        is_current=lambda record: record.get("settings") in current,
        title=lambda record: f"{record['dataset']} {record['seed']} {record['method']}",
        note=note,
    )
