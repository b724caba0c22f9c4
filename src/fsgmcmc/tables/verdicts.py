"""What rows that a fit has not seen tell about it, in words.

What is said follows from counts with their sampling error: of n rows, intervals of probability p hold between the 0.5 %
and the 99.5 % quantile of Binomial(n, p) if they are right. Only what lies outside is called wrong, and where the two
ends lie far apart nothing is said.
"""

from typing import NamedTuple

import numpy as np
import scipy  # its parts are loaded when they are first used

from fsgmcmc.estimators.novelty import USUAL
from fsgmcmc.predictions import GaussianPrediction
from fsgmcmc.tables import figures
from fsgmcmc.tables._page import Mark, count, number, percent
from fsgmcmc.tables.model import Held, TableModel

LEVELS = (0.5, 0.9, 0.95)
# Probabilities of the most probable class that are looked at together.
GROUPS = ((0.0, 0.5), (0.5, 0.7), (0.7, 0.9), (0.9, 1.0))
# A difference between what was promised and what was kept that matters to nobody, and one that must be visible.
CLOSE, VISIBLE = 0.03, 0.1
# Rows on each side that a comparison of errors needs.
COMPARED = 10


class Check(NamedTuple):
    """Rows of which something was said with a probability, and how many it came true for."""

    promised: float
    kept: int
    rows: int

    @property
    def expected(self) -> tuple[int, int]:
        """How many come true but for chance."""
        return figures.expected(self.rows, self.promised)

    @property
    def side(self) -> int:
        """−1 where too few came true, 1 where too many, 0 where chance explains it or nobody would mind."""
        low, high = self.expected
        if abs(self.kept / self.rows - self.promised) <= CLOSE:
            return 0
        return int(self.kept > high) - int(self.kept < low)

    @property
    def is_vague(self) -> bool:
        """Whether chance would hide a difference that should be visible."""
        low, high = self.expected
        return (high - low) / 2 / self.rows > VISIBLE

    def __str__(self) -> str:
        low, high = self.expected
        return f"{self.kept:,} of {count(self.rows)}; {low:,} to {high:,} would agree with {percent(self.promised)}"


class Facts(NamedTuple):
    """What the sentences and figures of a check have in common, row by row."""

    held: Held
    scores: dict[str, float]
    checks: dict[str, Check]
    wrong: np.ndarray  # outside the 90 % interval, or not the predicted class
    doubt: np.ndarray  # width of that interval, or probability of the predicted class
    loss: np.ndarray  # squared error, or 1 where the class is wrong
    guessed_loss: np.ndarray  # of the same answer for every row
    guess: str


def facts_of(model: TableModel, held: Held) -> Facts:
    """The check, row by row."""
    y, law, estimator = held.y, held.law, model.estimator
    if isinstance(law, GaussianPrediction):
        lower, upper = (end[:, 0] for end in law.interval(0.9))
        scores, rows = held.scores, len(y)
        kept = {level: round(scores[f"coverage_{100 * level:.0f}"] * rows) for level in LEVELS}
        checks = {f"{100 * level:.0f} % intervals": Check(level, kept[level], rows) for level in LEVELS}
        mean, average = law.mean[:, 0], estimator.units_.target_shift
        losses = np.square(y - mean), np.square(y - average)
        return Facts(held, scores, checks, (y < lower) | (y > upper), upper - lower, *losses, "the average")
    top, wrong = law.probabilities.max(axis=1), law.labels != y
    checks = {"all rows": Check(float(top.mean()), int((~wrong).sum()), len(y))}
    for low, high in GROUPS:
        own = (top > low) & ((top <= high) | (high == 1.0))
        if own.any():
            name = f"{100 * low:.0f} to {100 * high:.0f} % sure" if low else f"below {100 * high:.0f} % sure"
            checks[name] = Check(float(top[own].mean()), int((~wrong[own]).sum()), int(own.sum()))
    losses = wrong.astype(float), (estimator.classes_[y] != model.commonest).astype(float)
    guess = f"the commonest class “{model.commonest}”"
    return Facts(held, held.scores, checks, wrong, top, *losses, guess)


def headline(facts: Facts | None) -> str:
    """The most important number, beside what it would be without a model."""
    if facts is None:
        return "How good the predictions are is not known: no rows were held out to check the model on."
    rows, guess = count(len(facts.loss)), facts.guessed_loss.mean()
    if "rmse" in facts.scores:
        return (
            f"Typical error on {rows} the model never saw: {number(facts.scores['rmse'])} (always answering "
            f"{facts.guess} would be off by {number(guess**0.5)}). The 90 % intervals held "
            f"{percent(facts.scores['coverage_90'])} of them."
        )
    return (
        f"{percent(facts.scores['accuracy'])} right on {rows} the model never saw (always answering {facts.guess} "
        f"would be right on {percent(1 - guess)})."
    )


def closeness(facts: Facts | None) -> Mark:
    """Whether it errs less than the same answer for every row."""
    question = "Is it better than guessing?"
    if facts is None:
        return Mark(question, "unknown", "Not checked", "Score it on rows with known answers; the command is below.")
    gain, rows = facts.guessed_loss - facts.loss, len(facts.loss)
    own, guessed = facts.loss.mean(), facts.guessed_loss.mean()
    error = gain.std(ddof=1) / rows**0.5 if rows > 1 else np.inf
    clear = abs(gain.mean()) > error * (scipy.stats.t.ppf(0.5 + figures.CHANCE / 2, rows - 1) if rows > 1 else 1.0)
    if "rmse" in facts.scores:
        change = abs(1 - (own / guessed) ** 0.5) if guessed else 0.0
        size = f"Its errors are {percent(change)} {'smaller' if own < guessed else 'larger'} than those of answering"
    else:
        change = abs(own - guessed) * rows
        size = f"It is right on {count(round(change))} {'more' if own <= guessed else 'fewer'} than if it answered"
    size += f" {facts.guess} every time"
    if not clear:
        why = "chance alone can do that" if rows >= COMPARED else "too few rows to tell"
        return Mark(question, "caution" if rows >= COMPARED else "unknown", "Not clearly", f"{size}: {why}.")
    return Mark(question, *(("good", "Yes") if own < guessed else ("bad", "No, worse")), f"{size}.")


def calibration(facts: Facts | None) -> Mark:
    """Whether what was said with a probability came true as often."""
    if facts is None:
        return Mark("Can its certainty be trusted?", "unknown", "Not checked", "No rows were held out to compare with.")
    regression = "rmse" in facts.scores
    name, main = ("90 % intervals", facts.checks["90 % intervals"]) if regression else ("", facts.checks["all rows"])
    said = f"The {name} held" if regression else f"On average it was {percent(main.promised)} sure, and right on"
    said += f" {main}."
    question = "Can its intervals be trusted?" if regression else "Can its probabilities be trusted?"
    sides = {check.side for check in facts.checks.values()} - {0}
    if sides == {-1, 1}:
        text = "too sure of some rows and not sure enough of others: see the figure."
        return Mark(question, "caution", "Only on average", f"{said} But it is {text}")
    if sides == {-1}:
        text = "Real errors are larger than it says." if regression else "It is wrong more often than it says."
        return Mark(question, "bad", "Too sure of itself", f"{said} {text}")
    if sides == {1}:
        text = "Intervals are wider than they need be." if regression else "It is right more often than it says."
        return Mark(question, "caution", "Too careful", f"{said} {text}")
    if main.is_vague:
        return Mark(question, "unknown", "Too few rows to tell", said)
    return Mark(question, "good", "Yes", said)


def alarms(model: TableModel, held: Held) -> list[str]:
    """What a person should hear at once: it is worse than guessing, or too sure of itself."""
    facts = facts_of(model, held)
    marks = (closeness(facts), calibration(facts))
    return [f"{mark.question} {mark.title}. {mark.text}" for mark in marks if mark.level == "bad"]


def scores(facts: Facts) -> list[tuple[str, str, str]]:
    """Names, values and meanings."""
    found, guess = facts.scores, facts.guessed_loss.mean()
    surprise = "How unexpected the truth was, in nats. Lower is better, on the same rows."
    if "rmse" in found:
        unit = "in units of the target"
        covered = [
            (f"Rows in {name}", percent(found[f"coverage_{100 * level:.0f}"]), f"{check}.")
            for level, (name, check) in zip(LEVELS, facts.checks.items(), strict=True)
        ]
        width = f"On average, {unit}. Narrower is better as long as 90 % of rows are held."
        error = f"Root mean squared, {unit}; answering {facts.guess}: {number(guess**0.5)}. Lower is better."
        whole = f"Error of the whole prediction, with its intervals, {unit}. Lower is better."
        return [
            ("Typical error (RMSE)", number(found["rmse"]), error),
            *covered,
            ("Width of the 90 % interval", number(found["width_90"]), width),
            ("Error and certainty (CRPS)", number(found["crps"]), whole),
            ("Surprise (NLL)", number(found["nll"]), surprise),
        ]
    groups = [(name, check) for name, check in facts.checks.items() if name != "all rows"]
    gap = "Mean distance between how sure it was and how often right; 0 is best, 1 worst."
    brier = "Squared error of the probabilities, added over classes; 0 is best, 2 worst."
    return [
        ("Share right (accuracy)", percent(found["accuracy"]), f"Answering {facts.guess}: {percent(1 - guess)}."),
        *((f"Right when {name}", percent(check.kept / check.rows), f"{check}.") for name, check in groups),
        ("Calibration error (ECE)", number(found["ece"]), gap),
        ("Brier score", number(found["brier"]), brier),
        ("Surprise (NLL)", number(found["nll"]), surprise),
    ]


def extrapolation(model: TableModel, facts: Facts | None) -> list[str]:
    """How many rows lie beyond the training data, and how the model did there."""
    prior = "the assumed shape" if model.estimator.method not in ("sgld", "sghmc", "bbb") else "the network alone"
    doubt = "interval, though it should widen, may be too narrow"
    if not model.is_regression:
        doubt = "probabilities may be too sure"
    meaning = (
        f"A row extrapolates if its nearest training row is farther away than for {percent(USUAL)} of the training "
        f"rows themselves. The data say little there: a prediction rests on {prior}, and its {doubt}. Treat it as a "
        "guess. Such rows are marked in the column “extrapolates” of predictions."
    )
    if facts is None:
        return [meaning]
    beyond, rows = facts.held.novelty > model.estimator.novelty_.limit, len(facts.loss)
    n, held_out = int(beyond.sum()), count(rows, "held-out row")
    if not n:
        return [f"None of the {held_out} extrapolates, so the check says nothing about rows that do.", meaning]
    told = f"{n:,} of {held_out} ({percent(n / rows)}) {'extrapolates' if n == 1 else 'extrapolate'}."
    if beyond.all():
        return [told, meaning]
    regression = "rmse" in facts.scores
    there, here = facts.doubt[beyond].mean(), facts.doubt[~beyond].mean()
    if regression:
        wider = f"{there / here:.2g} times as wide as" if there > 1.05 * here else "no wider than"
        told += f" Intervals there are {wider} elsewhere."
    else:
        told += f" The model is {percent(there)} sure there on average, {percent(here)} elsewhere."
    if min(n, rows - n) < COMPARED:
        return [f"{told} Too few to compare errors.", meaning]
    there, here = facts.loss[beyond].mean(), facts.loss[~beyond].mean()
    if regression:
        held, held_elsewhere = (percent(1 - facts.wrong[own].mean()) for own in (beyond, ~beyond))
        told += f" The typical error is {number(there**0.5)} there and {number(here**0.5)} elsewhere;"
        told += f" the 90 % intervals held {held} there and {held_elsewhere} elsewhere."
    else:
        told += f" It is right on {percent(1 - there)} there and {percent(1 - here)} elsewhere."
    return [told, meaning]
