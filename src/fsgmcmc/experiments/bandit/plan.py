"""Thompson sampling on mushrooms as a sweep: which games, in which order."""

from pathlib import Path

from fsgmcmc.bandits.environments import FAIR
from fsgmcmc.experiments import names
from fsgmcmc.experiments.bandit.agents import AGENTS
from fsgmcmc.experiments.bandit.config import DEFAULT_METHODS, PRESETS
from fsgmcmc.experiments.bandit.report import COLUMNS
from fsgmcmc.experiments.bandit.run import fingerprint, run
from fsgmcmc.experiments.runner import Plan, Run


def plan(preset: str, patterns: str, seeds: int, methods: str | None, data: Path | None) -> Plan:
    """The games for these command-line options, seed by seed: an interrupted sweep has games of every pattern.

    Without `methods` it has `DEFAULT_METHODS`.
    """
    if preset not in PRESETS:
        raise ValueError(f"unknown preset {preset}; choose from {', '.join(PRESETS)}")
    settings = PRESETS[preset]
    chosen = DEFAULT_METHODS if methods is None else names.chosen(methods, AGENTS, "method")
    try:
        probabilities = list(dict.fromkeys(float(text) for text in names.listed(patterns)))
    except ValueError:
        raise ValueError(f"--patterns must be probabilities joined by commas, not {patterns!r}") from None
    if not probabilities or not all(FAIR < p <= 1 for p in probabilities):
        raise ValueError(f"--patterns must be probabilities above {FAIR:g} and up to 1, not {patterns!r}")
    # Absolute, because workers may have another working directory.
    data = None if data is None else data.resolve()
    current = fingerprint(settings, data)
    groups = tuple(
        tuple(Run(f"{p}-{seed}-{method}-{current}", (p, seed, method, settings, data)) for method in chosen)
        for seed in range(seeds)
        for p in probabilities
    )
    return Plan(
        run,
        groups,
        is_current=lambda record: record.get("settings") == current and record.keys() >= set(COLUMNS),
        title=lambda record: f"p = {record['p']}, seed {record['seed']}, {record['method']}",
        note=f"Preset `{preset}`: {settings.rounds:,} rounds, {settings.steps} steps after each.",
    )
