"""One HTML page: what was fitted, how accurate it is, and when not to trust it."""

import datetime
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fsgmcmc import __version__, _storage, methods
from fsgmcmc.diagnostics import ESS_LIMIT, R_HAT_LIMIT
from fsgmcmc.likelihoods import StudentT
from fsgmcmc.predictions import CategoricalPrediction, GaussianPrediction
from fsgmcmc.tabular import checks, figures
from fsgmcmc.tabular._page import Mark, Page, Picture, count, number, percent, render
from fsgmcmc.tabular.model import FEW_DRAWS, HoldoutResult, TableModel

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
MOST_COLUMNS, MOST_NOTES, MOST_CONFUSED = 12, 6, 2


def write_report(model: TableModel, holdout: HoldoutResult | None, folder: Path, source: str) -> Path:
    """Write `report.html` into a model folder, and its figures as `calibration.png` and `predictions.png`.

    Args:
        model: The fitted model.
        holdout: Predictions of held-out rows; None if no rows were held out.
        folder: The model's folder.
        source: The file of the table.
    """
    folder, facts = Path(folder), None if holdout is None else checks.facts_of(model, holdout)
    pictures: dict[str, Picture] = {} if facts is None else _pictures(model, facts)
    for name in ("calibration", "predictions"):
        path = folder / f"{name}.png"
        if name in pictures:
            _storage.write_bytes(path, pictures[name].png)
        else:
            path.unlink(missing_ok=True)  # written for an older model
    page = Page(
        title=f"Predicting {model.target}",
        subtitle=f"from {Path(source).name} · {datetime.date.today().isoformat()} · fsgmcmc {__version__}",
        headline=checks.headline(facts),
        marks=[checks.closeness(facts), checks.calibration(facts), _sampling_mark(model)],
        pictures=[pictures[name] for name in ("calibration", "predictions") if name in pictures],
        scores=[] if facts is None else checks.scores(facts),
        extrapolation=checks.extrapolation(model, facts),
        extrapolation_picture=pictures.get("novelty"),
        facts=_fitted(model, 0 if holdout is None else len(holdout.y)),
        notes=_first(model.notes, MOST_NOTES, "more notes are in model.json"),
        sampling=_sampling(model),
        usage=_usage(model, folder),
    )
    _storage.write_text(folder / "report.html", render(page))
    return folder / "report.html"


def _pictures(model: TableModel, facts: checks.Facts) -> dict[str, Picture]:
    holdout, y, prediction = facts.holdout, facts.holdout.y, facts.holdout.prediction
    band = f"Grey: where {percent(figures.CHANCE)} of calibrated models lie with this many rows."
    beyond = "Grey: rows that extrapolate."
    if isinstance(prediction, GaussianPrediction):
        names = ("error", "error", "outside its interval")
        height, width = np.sqrt(facts.loss), facts.width / 2
        drawn = figures.coverage_figure(prediction, y), figures.interval_figure(prediction, y, model.target)
        first = f"Do the intervals contain as many rows as stated? Below the dashed line they are too narrow. {band}"
        second = "Predictions of held-out rows, and the true values. About one in ten should lie outside its bar."
        third = f"Held-out rows: width of the interval, and error of the prediction. {beyond}"
    else:
        assert isinstance(prediction, CategoricalPrediction)
        names = ("confidence, %", "correct", "wrong")
        height, width = 100 * facts.width, None
        classes = [str(label) for label in model.estimator.classes_]
        drawn = figures.reliability_figure(prediction, y), figures.confusion_figure(prediction, y, classes)
        first = f"Is it correct as often as stated? Below the dashed line it is overconfident. {band} Numbers are rows."
        second = f"Held-out rows by class; the diagonal is correct. {_confused(prediction, y, classes)}"
        third = f"Held-out rows: confidence of the model. {beyond}"
    small = figures.novelty_figure(holdout.novelty, height, facts.wrong, names, width)
    return {
        "calibration": Picture(drawn[0], first, figures.NARROW),
        "predictions": Picture(drawn[1], second, figures.WIDE),
        "novelty": Picture(small, third, figures.NARROW),
    }


def _confused(prediction: CategoricalPrediction, y: np.ndarray, classes: Sequence[str]) -> str:
    pairs, rows = np.unique(np.column_stack([y, prediction.labels])[prediction.labels != y], axis=0, return_counts=True)
    if not len(rows):
        return "No class was mistaken for another."
    order = np.argsort(-rows, kind="stable")[:MOST_CONFUSED]
    named = [f"“{classes[pairs[at, 0]]}” as “{classes[pairs[at, 1]]}” ({count(int(rows[at]))})" for at in order]
    return f"Most frequent errors: {', '.join(named)}."


def _fitted(model: TableModel, rows: int) -> list[tuple[str, str]]:
    estimator = model.estimator
    described = methods.METHODS[estimator.method_]
    chains, draws = estimator.energy_.shape
    names = [column.name for column in model.columns.used]
    kind = "a number" if model.is_regression else f"one of {len(estimator.classes_)} classes"
    facts = [
        ("Predicted", f"{model.target}, {kind}"),
        ("Rows", f"{estimator.n_rows_:,} different rows fitted, {f'{rows:,}' if rows else 'none'} held out"),
        ("Columns used", f"{len(names):,}: {', '.join(_first(names, MOST_COLUMNS, 'more'))}"),
        ("Assumed shape", _shape(model)),
        ("Method", f"{described.description} ({described.title})"),
        ("Draws", f"{count(chains, 'chain')} of {draws:,}" if estimator.method_ in methods.SAMPLERS else f"{draws:,}"),
    ]
    if model.is_regression:
        outliers = ", with heavy tails for outliers" if isinstance(estimator.likelihood_, StudentT) else ""
        facts.append(("Noise", f"{number(estimator.noise_)}, the standard deviation that no column explains{outliers}"))
    if model.id_column is not None:
        facts.append(("Row names", f"{model.id_column}, not used as an input"))
    return facts


def _shape(model: TableModel) -> str:
    kernel = model.estimator.kernel_
    if not isinstance(kernel, str):
        return "a custom kernel"
    words = re.sub(r"\w+|[+*]", lambda word: SHAPES.get(word[0].lower(), word[0]), kernel)
    return f"{words} ({kernel}){', selected by evidence' if model.estimator.kernel == 'auto' else ''}"


def _first(texts: Sequence[str], most: int, rest: str) -> list[str]:
    return [*texts[:most], *([f"and {len(texts) - most:,} {rest}"] if len(texts) > most else [])]


def _sampling_mark(model: TableModel) -> Mark:
    question, found = "Did the sampling work?", model.diagnostics
    agreement = "The chains agree" if len(model.estimator.energy_) > 1 else "The two halves of the chain agree"
    # R-hat at the median row, not at the worst one: if chains disagree there, all predictions depend on the seed.
    disagree = "r_hat" in found and not found.get("r_hat_median", found["r_hat"]) <= R_HAT_LIMIT
    if disagree and model.estimator.method_ in methods.SAMPLERS:
        return Mark(question, "bad", "No", "The chains disagree: another seed may give other predictions. See below.")
    if model.estimator.info_.get("interrupted"):
        return Mark(question, "caution", "Stopped early", "The fit was interrupted before all draws were sampled.")
    if model.estimator.method_ not in methods.SAMPLERS:
        return Mark(question, "unknown", "Does not apply", "A variational approximation has no chains.")
    if "r_hat" not in found:
        return Mark(question, "unknown", "Too few draws to decide", "Keep at least four draws of each chain.")
    if found["warnings"]:
        return Mark(question, "caution", "Not fully", f"{agreement} on most rows. See the remedies below.")
    return Mark(question, "good", "Yes", f"{agreement}, and there are enough independent draws.")


def _sampling(model: TableModel) -> list[str]:
    """A paragraph, then remedies."""
    estimator, found = model.estimator, model.diagnostics
    chains, draws = estimator.energy_.shape
    sampled = estimator.method_ in methods.SAMPLERS
    todo = _advice(model) if sampled else []  # independent draws from an approximation have no convergence to diagnose
    if estimator.info_.get("interrupted"):
        had = f"{draws:,} of {estimator.samples:,} draws of each chain" if sampled else "the last approximation"
        todo.insert(0, f"The fit was interrupted and kept {had}. The same command with --resume resumes it.")
    if not sampled:
        text = "A variational approximation was fitted; there are no chains. Check its quality on held-out rows."
        return [text, *todo]
    if "r_hat" not in found:
        return [f"{count(chains, 'chain')} of {count(draws, 'draw')} cannot be compared.", *todo]
    compared = "Independent chains" if chains > 1 else "Both halves of a chain"
    text = (
        f"{compared} should agree. At the worst row their disagreement, R-hat, is "
        f"{number(found['r_hat'])} (1 is none; up to {R_HAT_LIMIT} is fine), and the {chains * draws:,} draws are "
        f"worth {number(found['ess'])} independent ones ({ESS_LIMIT:.0f} are enough)."
    )
    return [text, *(todo or ["No action is needed."])]


def _advice(model: TableModel) -> list[str]:
    """A reason and a remedy for each diagnostic code; the message itself for a code without one."""
    estimator = model.estimator
    longer = f"Fit again with more draws (--samples {4 * estimator.samples})."
    advice = {
        "r_hat": ("The chains do not agree on every row yet.", longer),
        "ess": ("The draws are correlated, so the intervals are imprecise.", longer),
        "energy_drift": (
            "The chains had not converged when the first draws were kept.",
            f"Fit again with a longer burn-in (--burn-in {max(3 * estimator.burn_in, 1000)}).",
        ),
        "weight_growth": ("The network's weights kept growing.", "Try another kernel, or fewer hidden units."),
        "process": (
            "The network explains the rows less well than the assumed shape does.",
            "Fit again with more hidden units (--hidden 100,100).",
        ),
        "beyond": (
            "Beyond the data the network is much more certain than the assumed shape.",
            "Fit again without --extrapolation network.",
        ),
        "process_held_out": (
            "On held-out rows the Gaussian processes of the assumed shape predict better than the network.",
            "Fit again with more hidden units (--hidden 100,100).",
        ),
        FEW_DRAWS: ("Convergence cannot be diagnosed.", "Fit again with 25 draws per chain (--samples 25)."),
    }
    reasons: dict[str, list[str]] = {}
    for warning in model.diagnostics["warnings"]:
        reason, remedy = advice.get(warning["code"], (warning["message"], ""))
        reasons.setdefault(remedy, []).append(reason)
    return [" ".join([*why, remedy]).strip() for remedy, why in reasons.items()]


def _usage(model: TableModel, folder: Path) -> list[tuple[str, str]]:
    name = shlex.quote(folder.resolve().name)
    what = "mean, std and the 90 % interval" if model.is_regression else "the label and the probability of each class"
    return [
        (
            f"fsgmcmc predict {name} new.csv --out predictions.csv",
            f"For each row {what}, and whether it extrapolates. new.csv does not need the target column.",
        ),
        (
            f"fsgmcmc evaluate {name} known.csv",
            "Scores on other rows with a known target. Repeat it when new rows arrive.",
        ),
    ]
