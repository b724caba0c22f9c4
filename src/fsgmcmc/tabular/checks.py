"""Checks of a model on held-out rows, in words.

Each check compares a count with its sampling error: of n rows, calibrated intervals of probability p contain between
the 0.5 % and the 99.5 % quantile of Binomial(n, p). Only a count outside this range is reported as a problem. If the
range is wide, the check reports that there are too few rows.
"""

from typing import NamedTuple

import numpy as np
import scipy  # submodules are loaded at first use

from fsgmcmc import methods, metrics
from fsgmcmc.predictions import GaussianPrediction
from fsgmcmc.tabular import figures
from fsgmcmc.tabular._page import Mark, count, number, percent
from fsgmcmc.tabular.model import HoldoutResult, TableModel

LEVELS = (0.5, 0.9, 0.95)
# Ranges of the probability of the most probable class that are checked together.
GROUPS = ((0.0, 0.5), (0.5, 0.7), (0.7, 0.9), (0.9, 1.0))
# A difference between stated and observed frequency that is negligible, and one that a check must be able to detect.
CLOSE, VISIBLE = 0.03, 0.1
# Rows needed in each group to compare errors.
COMPARED = 10


class Check(NamedTuple):
    """A stated probability, and for how many of the rows the event occurred."""

    stated: float
    observed: int
    rows: int

    @property
    def expected(self) -> tuple[int, int]:
        """Range of the count for a calibrated model."""
        return figures.expected(self.rows, self.stated)

    @property
    def side(self) -> int:
        """−1 if the count is too low, 1 if too high, 0 if chance explains it or the difference is negligible."""
        low, high = self.expected
        if abs(self.observed / self.rows - self.stated) <= CLOSE:
            return 0
        return int(self.observed > high) - int(self.observed < low)

    @property
    def is_vague(self) -> bool:
        """Whether there are too few rows to detect a relevant difference."""
        low, high = self.expected
        return (high - low) / 2 / self.rows > VISIBLE

    def __str__(self) -> str:
        low, high = self.expected
        return f"{self.observed:,} of {count(self.rows)}; {low:,} to {high:,} is consistent with {percent(self.stated)}"


class Facts(NamedTuple):
    """Results on held-out rows that the sentences and figures share."""

    holdout: HoldoutResult
    scores: dict[str, float]
    checks: dict[str, Check]
    wrong: np.ndarray  # outside the 90 % interval, or not in the predicted class
    width: np.ndarray  # width of that interval, or probability of the predicted class
    loss: np.ndarray  # squared error, or 1 where the class is wrong
    baseline_loss: np.ndarray  # of the same prediction for every row
    baseline: str


def facts_of(model: TableModel, holdout: HoldoutResult) -> Facts:
    """The results, row by row."""
    y, prediction, estimator = holdout.y, holdout.prediction, model.estimator
    if isinstance(prediction, GaussianPrediction):
        lower, upper = (end[:, 0] for end in prediction.interval(0.9))
        scores, rows = holdout.scores, len(y)
        observed = {level: round(scores[f"coverage_{100 * level:.0f}"] * rows) for level in LEVELS}
        checks = {f"{100 * level:.0f} % intervals": Check(level, observed[level], rows) for level in LEVELS}
        mean, average = prediction.mean[:, 0], estimator.scale_.y_mean
        losses = np.square(y - mean), np.square(y - average)
        return Facts(holdout, scores, checks, (y < lower) | (y > upper), upper - lower, *losses, "the average")
    top, wrong = prediction.probabilities.max(axis=1), prediction.labels != y
    checks = {"all rows": Check(float(top.mean()), int((~wrong).sum()), len(y))}
    for low, high in GROUPS:
        own = (top > low) & ((top <= high) | (high == 1.0))
        if own.any():
            name = f"{100 * low:.0f} to {100 * high:.0f} % confident" if low else f"below {100 * high:.0f} % confident"
            checks[name] = Check(float(top[own].mean()), int((~wrong[own]).sum()), int(own.sum()))
    losses = wrong.astype(float), (estimator.classes_[y] != model.most_frequent).astype(float)
    baseline = f"the most frequent class “{model.most_frequent}”"
    return Facts(holdout, holdout.scores, checks, wrong, top, *losses, baseline)


def headline(facts: Facts | None) -> str:
    """The most important score, next to that of a constant prediction."""
    if facts is None:
        return "The accuracy of the predictions is unknown: no rows were held out to check the model."
    rows, baseline = count(len(facts.loss)), facts.baseline_loss.mean()
    if "rmse" in facts.scores:
        return (
            f"Typical error on {rows} held out from the fit: {number(facts.scores['rmse'])} (always predicting "
            f"{facts.baseline}: {number(baseline**0.5)}). The 90 % intervals contain "
            f"{percent(facts.scores['coverage_90'])} of them."
        )
    return (
        f"{percent(facts.scores['accuracy'])} correct on {rows} held out from the fit (always predicting "
        f"{facts.baseline}: {percent(1 - baseline)})."
    )


def closeness(facts: Facts | None) -> Mark:
    """Whether its error is smaller than that of a constant prediction."""
    question = "Is it better than a constant prediction?"
    if facts is None:
        return Mark(question, "unknown", "Not checked", "Score it on rows with a known target; the command is below.")
    gain, rows = facts.baseline_loss - facts.loss, len(facts.loss)
    own, baseline = facts.loss.mean(), facts.baseline_loss.mean()
    error = gain.std(ddof=1) / rows**0.5 if rows > 1 else np.inf
    clear = abs(gain.mean()) > error * (scipy.stats.t.ppf(0.5 + figures.CHANCE / 2, rows - 1) if rows > 1 else 1.0)
    if "rmse" in facts.scores:
        change = abs(1 - (own / baseline) ** 0.5) if baseline else 0.0
        size = f"Its errors are {percent(change)} {'smaller' if own < baseline else 'larger'} than those of predicting"
    else:
        change = abs(own - baseline) * rows
        size = f"It is correct on {count(round(change))} {'more' if own <= baseline else 'fewer'} than when predicting"
    size += f" {facts.baseline} for every row"
    if not clear:
        why = "the difference is within sampling error" if rows >= COMPARED else "too few rows to decide"
        return Mark(question, "caution" if rows >= COMPARED else "unknown", "Not clearly", f"{size}: {why}.")
    return Mark(question, *(("good", "Yes") if own < baseline else ("bad", "No, worse")), f"{size}.")


def calibration(facts: Facts | None) -> Mark:
    """Whether events occur as often as their stated probability."""
    if facts is None:
        return Mark("Is its uncertainty calibrated?", "unknown", "Not checked", "No rows were held out.")
    regression = "rmse" in facts.scores
    name, main = ("90 % intervals", facts.checks["90 % intervals"]) if regression else ("", facts.checks["all rows"])
    found = f"The {name} contain" if regression else f"Its mean confidence is {percent(main.stated)}; it is correct on"
    found += f" {main}."
    question = "Are its intervals calibrated?" if regression else "Are its probabilities calibrated?"
    sides = {check.side for check in facts.checks.values()} - {0}
    if sides == {-1, 1}:
        text = "It is overconfident on some rows and underconfident on others: see the figure."
        return Mark(question, "caution", "Only on average", f"{found} {text}")
    if sides == {-1}:
        text = "Errors are larger than stated." if regression else "It is wrong more often than stated."
        return Mark(question, "bad", "No, overconfident", f"{found} {text}")
    if sides == {1}:
        text = "Intervals are wider than necessary." if regression else "It is correct more often than stated."
        return Mark(question, "caution", "Underconfident", f"{found} {text}")
    if main.is_vague:
        return Mark(question, "unknown", "Too few rows to decide", found)
    return Mark(question, "good", "Yes", found)


def alarms(model: TableModel, holdout: HoldoutResult) -> list[str]:
    """Serious problems: the model is worse than a constant prediction, or overconfident."""
    facts = facts_of(model, holdout)
    marks = (closeness(facts), calibration(facts))
    return [f"{mark.question} {mark.title}. {mark.text}" for mark in marks if mark.level == "bad"]


def scores(facts: Facts) -> list[tuple[str, str, str]]:
    """Names, values and meanings."""
    found, baseline = facts.scores, facts.baseline_loss.mean()
    nll = "Negative log likelihood per row, in nats. Lower is better, on the same rows."
    alone = []
    if (process := facts.holdout.process) is not None:
        meaning = "Of the Gaussian processes of the assumed shape alone, without the network."
        alone = [("Log loss of the processes", number(metrics.nll(process, facts.holdout.y)), meaning)]
    if "rmse" in found:
        unit = "in units of the target"
        covered = [
            (f"Rows in {name}", percent(found[f"coverage_{100 * level:.0f}"]), f"{check}.")
            for level, (name, check) in zip(LEVELS, facts.checks.items(), strict=True)
        ]
        width = f"On average, {unit}. Narrower is better as long as 90 % of rows are inside."
        error = f"Root mean squared, {unit}; predicting {facts.baseline}: {number(baseline**0.5)}. Lower is better."
        crps = f"Error of the predictive distribution, {unit}. Lower is better."
        return [
            ("Typical error (RMSE)", number(found["rmse"]), error),
            *covered,
            ("Width of the 90 % interval", number(found["width_90"]), width),
            ("Error of the distribution (CRPS)", number(found["crps"]), crps),
            ("Log loss (NLL)", number(found["nll"]), nll),
            *alone,
        ]
    groups = [(name, check) for name, check in facts.checks.items() if name != "all rows"]
    gap = "Mean difference between confidence and accuracy; 0 is best, 1 worst."
    brier = "Squared error of the probabilities, summed over classes; 0 is best, 2 worst."
    return [
        ("Accuracy", percent(found["accuracy"]), f"Predicting {facts.baseline}: {percent(1 - baseline)}."),
        *((f"Accuracy if {name}", percent(check.observed / check.rows), f"{check}.") for name, check in groups),
        ("Calibration error (ECE)", number(found["ece"]), gap),
        ("Brier score", number(found["brier"]), brier),
        ("Log loss (NLL)", number(found["nll"]), nll),
        *alone,
    ]


def extrapolation(model: TableModel, facts: Facts | None) -> list[str]:
    """How many held-out rows extrapolate, and the errors there."""
    functional = methods.METHODS[model.estimator.method_].is_functional
    prior = "the assumed shape" if functional else "the network alone"
    risk = "interval, although it should widen, may be too narrow"
    if not model.is_regression:
        risk = "probabilities may be overconfident"
    meaning = (
        "A row extrapolates if it lies outside the range of a column, farther from the training rows than these from "
        "each other, or where the function is much less certain. There are few data there: a prediction depends on "
        f"{prior}, and its {risk}. Do not rely on it. The column “extrapolates” of the predictions marks such rows."
    )
    if facts is None:
        return [meaning]
    beyond, rows = facts.holdout.novelty > 1, len(facts.loss)
    n, held_out = int(beyond.sum()), count(rows, "held-out row")
    if not n:
        return [f"None of the {held_out} extrapolates, so rows that do were not checked.", meaning]
    text = f"{n:,} of {held_out} ({percent(n / rows)}) {'extrapolates' if n == 1 else 'extrapolate'}."
    if beyond.all():
        return [text, meaning]
    regression = "rmse" in facts.scores
    there, here = facts.width[beyond].mean(), facts.width[~beyond].mean()
    if regression:
        wider = f"{there / here:.2g} times as wide as" if there > 1.05 * here else "no wider than"
        text += f" Intervals there are {wider} elsewhere."
    else:
        text += f" The mean confidence is {percent(there)} there and {percent(here)} elsewhere."
    if min(n, rows - n) < COMPARED:
        return [f"{text} There are too few to compare errors.", meaning]
    there, here = facts.loss[beyond].mean(), facts.loss[~beyond].mean()
    if regression:
        inside, inside_elsewhere = (percent(1 - facts.wrong[own].mean()) for own in (beyond, ~beyond))
        text += f" The typical error is {number(there**0.5)} there and {number(here**0.5)} elsewhere;"
        text += f" the 90 % intervals contain {inside} there and {inside_elsewhere} elsewhere."
    else:
        text += f" The accuracy is {percent(1 - there)} there and {percent(1 - here)} elsewhere."
    return [text, meaning]
