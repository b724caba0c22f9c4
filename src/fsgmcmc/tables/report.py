"""One page that tells a person what was fitted, how good it is, and when not to trust it."""

import datetime
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fsgmcmc import __version__, _storage, recipe
from fsgmcmc.diagnostics import ESS_LIMIT, R_HAT_LIMIT
from fsgmcmc.predictions import CategoricalPrediction, GaussianPrediction
from fsgmcmc.tables import figures, verdicts
from fsgmcmc.tables._page import Mark, Page, Picture, count, number, percent, render
from fsgmcmc.tables.model import Held, TableModel

SHAPES = {
    "rbf": "smooth",
    "matern52": "fairly smooth",
    "matern32": "somewhat rough",
    "matern12": "rough",
    "linear": "straight-line",
    "periodic": "repeating",
    "+": "plus",
    "*": "times",
}
METHODS = {
    "fsghmc": "sampling with momentum, prior on functions (fSGHMC)",
    "fsgld": "sampling, prior on functions (fSGLD)",
    "sghmc": "sampling with momentum, prior on weights (SGHMC)",
    "sgld": "sampling, prior on weights (SGLD)",
    "fbnn": "variational approximation, prior on functions (fBNN)",
    "ifbnn": "variational approximation, prior on functions (IFBNN)",
    "bbb": "variational approximation, prior on weights (Bayes by Backprop)",
}
MOST_COLUMNS, MOST_NOTES, MOST_CONFUSED = 12, 6, 2


def write_report(model: TableModel, held: Held | None, folder: Path, source: str) -> Path:
    """Write `report.html` into a model folder, and its figures as `calibration.png` and `predictions.png`.

    Args:
        model: What was fitted.
        held: The check on rows that the fit has not seen; None where none was done.
        folder: The model's folder.
        source: The file that the rows came from.
    """
    folder, facts = Path(folder), None if held is None else verdicts.facts_of(model, held)
    pictures: dict[str, Picture] = {} if facts is None else _pictures(model, facts)
    for name in ("calibration", "predictions"):
        path = folder / f"{name}.png"
        if name in pictures:
            _storage.write_bytes(path, pictures[name].png)
        else:
            path.unlink(missing_ok=True)  # of an older model
    page = Page(
        title=f"Predicting {model.target}",
        subtitle=f"from {Path(source).name} · {datetime.date.today().isoformat()} · fsgmcmc {__version__}",
        headline=verdicts.headline(facts),
        marks=[verdicts.closeness(facts), verdicts.calibration(facts), _sampling_mark(model)],
        pictures=[pictures[name] for name in ("calibration", "predictions") if name in pictures],
        scores=[] if facts is None else verdicts.scores(facts),
        extrapolation=verdicts.extrapolation(model, facts),
        extrapolation_picture=pictures.get("novelty"),
        facts=_fitted(model, 0 if held is None else len(held.y)),
        notes=_first(model.notes, MOST_NOTES, "more notes are in model.json"),
        sampling=_sampling(model),
        usage=_usage(model, folder),
    )
    _storage.write_text(folder / "report.html", render(page))
    return folder / "report.html"


def _pictures(model: TableModel, facts: verdicts.Facts) -> dict[str, Picture]:
    held, y, law = facts.held, facts.held.y, facts.held.law
    band = f"Grey: where {percent(figures.CHANCE)} of models that are right would lie with this many rows."
    beyond = "Grey: farther from the training rows than usual."
    limit = model.estimator.novelty_.limit
    if isinstance(law, GaussianPrediction):
        names = ("error", "error", "outside its interval")
        height, width = np.sqrt(facts.loss), facts.doubt / 2
        drawn = figures.coverage_figure(law, y), figures.interval_figure(law, y, model.target)
        first = f"Do intervals hold what they promise? Below the dashed line they are too narrow. {band}"
        second = "What the model said of rows it never saw, and the truth. About one in ten should lie outside its bar."
        third = f"Held-out rows: how wide their intervals are, and how far off the prediction is. {beyond}"
    else:
        assert isinstance(law, CategoricalPrediction)
        names = ("how sure it was, %", "right", "wrong")
        height, width = 100 * facts.doubt, None
        classes = [str(label) for label in model.estimator.classes_]
        drawn = figures.reliability_figure(law, y), figures.confusion_figure(law, y, classes)
        first = f"Is it as often right as it is sure? Below the dashed line it is too sure. {band} Numbers are rows."
        second = f"Held-out rows by class; the diagonal is right. {_confused(law, y, classes)}"
        third = f"Held-out rows: how sure the model was. {beyond}"
    small = figures.novelty_figure(held.novelty, limit, height, facts.wrong, names, width)
    return {
        "calibration": Picture(drawn[0], first, figures.NARROW),
        "predictions": Picture(drawn[1], second, figures.WIDE),
        "novelty": Picture(small, third, figures.NARROW),
    }


def _confused(law: CategoricalPrediction, y: np.ndarray, classes: Sequence[str]) -> str:
    pairs, rows = np.unique(np.column_stack([y, law.labels])[law.labels != y], axis=0, return_counts=True)
    if not len(rows):
        return "None was taken for another."
    order = np.argsort(-rows, kind="stable")[:MOST_CONFUSED]
    told = [f"“{classes[pairs[at, 0]]}” taken for “{classes[pairs[at, 1]]}” ({count(int(rows[at]))})" for at in order]
    return f"Most often confused: {', '.join(told)}."


def _fitted(model: TableModel, rows: int) -> list[tuple[str, str]]:
    estimator = model.estimator
    chains, draws = estimator.energy_.shape
    names = [column.name for column in model.columns.used]
    kind = "a number" if model.is_regression else f"one of {len(estimator.classes_)} classes"
    facts = [
        ("Predicted", f"{model.target}, {kind}"),
        ("Rows", f"{estimator.n_rows_:,} different rows fitted, {f'{rows:,}' if rows else 'none'} held out"),
        ("Columns used", f"{len(names):,}: {', '.join(_first(names, MOST_COLUMNS, 'more'))}"),
        ("Assumed shape", _shape(model)),
        ("Method", METHODS.get(estimator.method, estimator.method)),
        ("Draws", f"{count(chains, 'chain')} of {draws:,}" if estimator.method in recipe.SAMPLERS else f"{draws:,}"),
    ]
    if model.is_regression:
        outliers = ", with room for outliers" if estimator.noise_law_ == "student" else ""
        facts.append(("Noise", f"{number(estimator.noise_)}, the scatter that no column explains{outliers}"))
    if model.id_column is not None:
        facts.append(("Row names", f"{model.id_column}, not predicted from"))
    return facts


def _shape(model: TableModel) -> str:
    kernel = model.estimator.kernel_
    if not isinstance(kernel, str):
        return "a kernel of your own"
    words = re.sub(r"\w+|[+*]", lambda word: SHAPES.get(word[0].lower(), word[0]), kernel)
    return f"{words} ({kernel}){', chosen by the data' if model.estimator.kernel == 'auto' else ''}"


def _first(texts: Sequence[str], most: int, rest: str) -> list[str]:
    return [*texts[:most], *([f"and {len(texts) - most:,} {rest}"] if len(texts) > most else [])]


def _sampling_mark(model: TableModel) -> Mark:
    question, found = "Did the sampling work?", model.diagnostics
    who = "The chains agree" if len(model.estimator.energy_) > 1 else "The two halves of the chain agree"
    # Of the typical row, not of the worst: where chains disagree on this, all predictions depend on chance.
    disagree = "r_hat" in found and not found.get("r_hat_median", found["r_hat"]) <= R_HAT_LIMIT
    if disagree and model.estimator.method in recipe.SAMPLERS:
        return Mark(question, "bad", "No", "The chains disagree: another run may predict otherwise. See below.")
    if model.estimator.info_.get("interrupted"):
        return Mark(question, "caution", "Stopped early", "The fit was interrupted before it had all of its draws.")
    if model.estimator.method not in recipe.SAMPLERS:
        return Mark(question, "unknown", "Does not apply", "An approximation was fitted, which has no chains.")
    if "r_hat" not in found:
        return Mark(question, "unknown", "Too few draws to tell", "Keep at least four draws of each chain.")
    if found["warnings"]:
        return Mark(question, "caution", "Not fully", f"{who} on most rows. See what to do below.")
    return Mark(question, "good", "Yes", f"{who}, and there are enough independent draws.")


def _sampling(model: TableModel) -> list[str]:
    """A paragraph, then what to do."""
    estimator, found = model.estimator, model.diagnostics
    chains, draws = estimator.energy_.shape
    sampled = estimator.method in recipe.SAMPLERS
    todo = _advice(model) if sampled else []  # diagnostics of independent draws from an approximation mean nothing
    if estimator.info_.get("interrupted"):
        had = f"{draws:,} of {estimator.samples:,} draws of each chain" if sampled else "what it had reached"
        todo.insert(0, f"The fit was interrupted and kept {had}. The same command with --resume goes on.")
    if not sampled:
        said = "An approximation was fitted instead of sampling. Whether it is good, only a check on other rows tells."
        return [said, *todo]
    if "r_hat" not in found:
        return [f"{count(chains, 'chain')} of {count(draws, 'draw')} cannot be compared.", *todo]
    alike = "Chains that start apart" if chains > 1 else "Both halves of a chain"
    said = (
        f"{alike} should end alike. At the worst row their disagreement, R-hat, is "
        f"{number(found['r_hat'])} (1 is none; up to {R_HAT_LIMIT} is fine), and the {chains * draws:,} draws are "
        f"worth {number(found['ess'])} independent ones ({ESS_LIMIT:.0f} are enough)."
    )
    return [said, *(todo or ["Nothing needs to be done."])]


def _advice(model: TableModel) -> list[str]:
    """The warnings of the diagnostics in words that a person can act upon; one that is not known, as it is."""
    estimator = model.estimator
    longer = f"Fit again with more draws (--samples {4 * estimator.samples})."
    known = {
        "R-hat": ("The chains do not agree on every row yet.", longer),
        "effective sample size": ("Draws resemble each other, so intervals are rough.", longer),
        "energy": (
            "The chains had not settled when draws were kept.",
            f"Fit again with a longer start (--burn-in {max(3 * estimator.burn_in, 1000)}).",
        ),
        "squared weights": ("The network's weights kept growing.", "Try another kernel, or fewer hidden units."),
        "too few draws": ("Whether chains agree cannot be told.", "Fit again with 25 draws of each (--samples 25)."),
    }
    reasons: dict[str, list[str]] = {}
    for warning in model.diagnostics["warnings"]:
        reason, remedy = next((told for sign, told in known.items() if sign in warning), (warning, ""))
        reasons.setdefault(remedy, []).append(reason)
    return [" ".join([*why, remedy]).strip() for remedy, why in reasons.items()]


def _usage(model: TableModel, folder: Path) -> list[tuple[str, str]]:
    name = shlex.quote(folder.resolve().name)
    what = "mean, std and the 90 % interval" if model.is_regression else "the label and the probability of each class"
    return [
        (
            f"fsgmcmc predict {name} new.csv --out predictions.csv",
            f"For each row {what}, and whether it extrapolates. The target need not be in new.csv.",
        ),
        (
            f"fsgmcmc evaluate {name} known.csv",
            "Scores on other rows whose target is known: a check whenever new ones come in.",
        ),
    ]
