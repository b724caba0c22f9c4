"""Fit a table, score the fit on held-out rows, save and load it."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fsgmcmc import metrics
from fsgmcmc.diagnostics import Diagnostic, Report
from fsgmcmc.estimators import FunctionalBNNClassifier, FunctionalBNNRegressor
from fsgmcmc.estimators.base import FunctionalBNN
from fsgmcmc.estimators.serialization import load_model, save_model
from fsgmcmc.predictions import CategoricalPrediction, GaussianPrediction
from fsgmcmc.tabular.columns import LARGEST, Columns, is_text, numeric, some
from fsgmcmc.tabular.reading import TableError

TASKS = ("auto", "regression", "classification")
ANSWERS = ("mean", "std", "lower", "upper", "label", "extrapolates")
# Fewest rows of a fit.
LEAST_ROWS = 5
# Tables with fewer rows have no check, because one on very few rows is uninformative; and the most rows of a check.
LEAST_CHECKED_ROWS = 20
MOST_HELD_OUT = 5000
# The processes are clearly better if the gain is above this, in nats per row, and above so many standard errors.
BEHIND, STANDARD_ERRORS = 0.1, 3.0
SMALLEST_PROBABILITY = 1e-6
# Code of the warning that convergence cannot be diagnosed; the other codes are those of `fsgmcmc.diagnostics`.
FEW_DRAWS = "few_draws"


@dataclass(frozen=True)
class Request:
    """A table to fit, and how.

    Attributes:
        target: The column to predict.
        task: "regression", "classification", or "auto", which treats a text target as classes.
        id_column: The column that names rows, if any; it is not an input.
        drop: Columns to leave out.
        holdout: Share of the rows that are held out for the check; 0 fits all rows.
        seed: Seed of the split and of the sampler.
        settings: Parameters of the estimator.
    """

    target: str
    task: str = "auto"
    id_column: str | None = None
    drop: tuple[str, ...] = ()
    holdout: float = 0.2
    seed: int = 0
    settings: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class HoldoutResult:
    """Held-out rows: targets (labels as numbers), predictive distributions, and distances to the training rows.

    `process` is the prediction of the Gaussian processes without the network, or None.
    """

    y: np.ndarray
    prediction: GaussianPrediction | CategoricalPrediction
    novelty: np.ndarray
    process: GaussianPrediction | CategoricalPrediction | None = None

    @property
    def scores(self) -> dict[str, float]:
        """Scores by name; in the units of the target, nats or shares."""
        return metrics.summary(self.prediction, self.y)

    def behind_process(self) -> Diagnostic | None:
        """Whether the Gaussian processes predict these rows clearly better than the network does."""
        if self.process is None or len(self.y) < LEAST_CHECKED_ROWS:
            return None
        network, process = (_log_prob(each, self.y) for each in (self.prediction, self.process))
        gain = process - network
        if gain.mean() <= max(BEHIND, STANDARD_ERRORS * gain.std(ddof=1) / np.sqrt(len(gain))):
            return None
        message = (
            f"On held-out rows the Gaussian processes alone are better by {gain.mean():.2f} nats per row: the network "
            "does not follow its prior. Use more hidden units, a smoother kernel, or longer chains."
        )
        return Diagnostic("process_held_out", float(gain.mean()), message)


@dataclass(frozen=True)
class TableModel:
    """A fitted estimator with the columns of its table."""

    estimator: FunctionalBNN
    columns: Columns
    target: str
    id_column: str | None
    notes: tuple[str, ...]
    scores: dict[str, float]
    held_out: int
    diagnostics: dict[str, Any]
    most_frequent: str | None = None  # class in the training rows

    @property
    def is_regression(self) -> bool:
        """Whether it predicts numbers."""
        return isinstance(self.estimator, FunctionalBNNRegressor)

    @property
    def diagnosed(self) -> list[str]:
        """The messages of the diagnostics that are beyond their limits."""
        return [warning["message"] for warning in self.diagnostics["warnings"]]

    def save(self, folder: str | Path) -> None:
        """Write a model folder; an older model there is replaced in one step."""
        table = {
            "columns": self.columns.to_json(),
            "target": self.target,
            "id_column": self.id_column,
            "notes": list(self.notes),
            "scores": self.scores,
            "held_out": self.held_out,
            "diagnostics": self.diagnostics,
            "most_frequent": self.most_frequent,
        }
        save_model(self.estimator, folder, {"table": table})

    @classmethod
    def load(cls, folder: str | Path) -> "TableModel":
        """What `save` wrote."""
        estimator, document = load_model(folder)
        if "table" not in document:
            raise ValueError(f"{folder} was saved from Python without its table: read it with fsgmcmc.load_model")
        try:
            table = dict(document["table"])
            columns = Columns.from_json(table.pop("columns"))
            return cls(estimator, columns, **{**table, "notes": tuple(table["notes"])})
        except (KeyError, TypeError) as error:
            raise ValueError(f"{Path(folder) / 'model.json'} was altered: {error!r}") from None

    def predict(self, frame: pd.DataFrame, coverage: float = 0.9) -> pd.DataFrame:
        """Mean, standard deviation and interval of each row, or the probability of each class; with the row's name."""
        if not 0 < coverage < 1:
            raise TableError(f"coverage must be a probability between 0 and 1, such as 0.9, got {coverage}")
        x, model = self.columns.numbers(frame), self.estimator
        if self.id_column is not None and self.id_column in frame.columns:
            answer = pd.DataFrame({self.id_column: frame[self.id_column].to_numpy()})
        else:
            answer = pd.DataFrame({"row": np.arange(1, len(frame) + 1)})
        if isinstance(model, FunctionalBNNRegressor):
            answer["mean"], answer["std"] = model.predict(x, return_std=True)
            answer["lower"], answer["upper"] = model.predict_interval(x, coverage)
        else:
            assert isinstance(model, FunctionalBNNClassifier)
            probabilities = model.predict_proba(x)
            answer["label"] = model.classes_[probabilities.argmax(axis=1)]
            for label, column in zip(model.classes_, probabilities.T, strict=True):
                answer[f"p({label})"] = column
        answer["extrapolates"] = model.novelty(x) > 1
        return answer

    def evaluate(self, frame: pd.DataFrame) -> HoldoutResult:
        """Predictions and targets of a table with known targets; rows without a target are left out."""
        if self.target not in frame.columns:
            raise TableError(f"the table has no column {self.target!r}, the target: there is nothing to compare with")
        frame = frame[frame[self.target].notna()]
        if not len(frame):
            raise TableError(f"no row has a value of {self.target!r}: there is nothing to compare with")
        x = self.columns.numbers(frame)
        return _predicted(self.estimator, x, _known_targets(self.estimator, frame[self.target]))


def fit_table(frame: pd.DataFrame, request: Request) -> tuple[TableModel, HoldoutResult | None]:
    """Fit a table, and predict the held-out rows; None if no rows were held out."""
    task, frame, notes = _prepared(frame, request)
    if task == "regression":
        y: np.ndarray = numeric(frame[request.target], f"the target {request.target!r}")
    else:
        y = _labels(frame[request.target])
    _check_varies(y, request.target, task)
    training, held_out = _split(y, request, task)
    if request.holdout and not len(held_out):
        classes = f" of {len(np.unique(y))} classes" if task == "classification" else ""
        notes.append(f"nothing was held out: {len(y)} rows{classes} are too few")
    inputs = frame.drop(columns=[request.target, *([request.id_column] if request.id_column else []), *request.drop])
    columns = Columns.of(inputs, training)
    x = columns.numbers(inputs)
    kind = FunctionalBNNRegressor if task == "regression" else FunctionalBNNClassifier
    estimator = kind(random_state=request.seed, **dict(request.settings))
    estimator.fit(x[training], y[training])
    holdout = None
    if len(held_out):
        holdout = _predicted(estimator, x[held_out], _numbered(estimator, y[held_out]))
        if estimator.extrapolation_ is not None:
            holdout = replace(holdout, process=estimator.process_distribution(x[held_out]))
    diagnostics = _plain(estimator.diagnose(), estimator.energy_.shape[1])
    if holdout is not None and (behind := holdout.behind_process()):
        diagnostics["warnings"].append(_finite(behind))
    model = TableModel(
        estimator,
        columns,
        request.target,
        request.id_column,
        (*notes, *columns.notes),
        {} if holdout is None else holdout.scores,
        len(held_out),
        diagnostics,
        _most_frequent(y[training]) if task == "classification" else None,
    )
    return model, holdout


def _prepared(frame: pd.DataFrame, request: Request) -> tuple[str, pd.DataFrame, list[str]]:
    """The task, the rows that have a target, and notes on rows that were left out."""
    roles = (("target", request.target), ("id", request.id_column), *(("drop", name) for name in request.drop))
    for role, name in roles:
        if name is not None and name not in frame.columns:
            raise TableError(f"--{role}: there is no column {name!r}; the table has {some(list(frame.columns))}")
    if request.target in (request.id_column, *request.drop):
        raise TableError(f"{request.target!r} is the target: it cannot be dropped or name the rows")
    names = request.id_column
    if names is not None and (names in ANSWERS or names.startswith("p(")):
        raise TableError(f"--id: predictions have a column {names!r} as well: rename the column of the table")
    if request.task not in TASKS:
        raise TableError(f"unknown task {request.task!r}; choose regression, classification or auto")
    known, notes = frame[frame[request.target].notna()], []
    if len(known) < len(frame):
        notes.append(f"{len(frame) - len(known)} rows without a value of {request.target!r} were left out")
    if len(known) < LEAST_ROWS:
        raise TableError(f"{len(known)} row(s) with a value of {request.target!r} are too few: {LEAST_ROWS} at least")
    task = request.task
    if task == "auto":
        column = known[request.target]
        task = "classification" if is_text(column) or pd.api.types.is_bool_dtype(column) else "regression"
    return task, known, notes


def _check_varies(y: np.ndarray, target: str, task: str) -> None:
    values, counts = np.unique(y, return_counts=True)
    if len(values) == 1:
        raise TableError(f"the target {target!r} is {values[0]} in every row: there is nothing to learn")
    if task == "classification" and len(values) > max(len(y) / 2, 2):
        raise TableError(f"the target {target!r} has {len(values)} classes in {len(y)} rows: too many to learn")
    if task == "classification" and counts.min() < 2:
        raise TableError(f"class {values[counts.argmin()]} of {target!r} has one row: remove it, or add another")


def _split(y: np.ndarray, request: Request, task: str) -> tuple[np.ndarray, np.ndarray]:
    """Training rows and held-out rows, stratified by class."""
    if not 0 <= request.holdout < 1:
        raise TableError(f"holdout must be the share of held-out rows, from 0 to below 1, got {request.holdout}")
    rows, size = np.arange(len(y)), min(round(request.holdout * len(y)), MOST_HELD_OUT)
    classes = len(np.unique(y)) if task == "classification" else 1
    if len(y) >= LEAST_CHECKED_ROWS and len(y) - size < LEAST_ROWS:
        raise TableError(f"holdout {request.holdout:g} leaves {len(y) - size} of {len(y)} rows to fit: hold out fewer")
    if size < classes or len(y) < LEAST_CHECKED_ROWS or len(y) - size < classes:
        return rows, rows[:0]
    from sklearn.model_selection import train_test_split

    labels = y if task == "classification" else None
    training, held_out = train_test_split(rows, test_size=size, random_state=request.seed, stratify=labels)
    # A class that occurs only in held-out rows cannot be learned: its rows return to the training rows.
    lost = np.zeros(len(held_out), bool) if labels is None else ~np.isin(y[held_out], y[training])
    return np.sort(np.concatenate([training, held_out[lost]])), np.sort(held_out[~lost])


def _predicted(estimator: FunctionalBNN, x: np.ndarray, y: np.ndarray) -> HoldoutResult:
    assert isinstance(estimator, FunctionalBNNRegressor | FunctionalBNNClassifier)
    return HoldoutResult(y, estimator.predict_distribution(x), estimator.novelty(x))


def _log_prob(prediction: GaussianPrediction | CategoricalPrediction, y: np.ndarray) -> np.ndarray:
    if isinstance(prediction, GaussianPrediction):
        return prediction.log_prob(y)
    return np.log(np.maximum(prediction.probabilities[np.arange(len(y)), y], SMALLEST_PROBABILITY))


def _known_targets(estimator: FunctionalBNN, values: pd.Series) -> np.ndarray:
    if isinstance(estimator, FunctionalBNNRegressor):
        return numeric(values, f"the target {values.name!r}")
    texts = _labels(values)
    unknown = ~np.isin(texts, estimator.classes_)
    if unknown.any():
        label = str(texts[unknown][0])
        raise TableError(f"the target {values.name!r} has the value {label!r}, which is not a class of the model")
    return _numbered(estimator, texts)


def _most_frequent(labels: np.ndarray) -> str:
    classes, rows = np.unique(labels, return_counts=True)
    return str(classes[rows.argmax()])


def _labels(values: pd.Series) -> np.ndarray:
    """Classes as texts; 1 and 1.0 are the same class."""
    if pd.api.types.is_float_dtype(values) and (values == values.round()).all() and (values.abs() < 2**53).all():
        values = values.astype(np.int64)
    return values.astype(str).to_numpy(dtype=object).astype(str)


def _numbered(estimator: FunctionalBNN, y: np.ndarray) -> np.ndarray:
    """Labels as positions in `classes_`; numbers unchanged."""
    return np.searchsorted(estimator.classes_, y) if isinstance(estimator, FunctionalBNNClassifier) else y


def _plain(report: Report | None, draws: int) -> dict[str, Any]:
    """A report as JSON; its warnings have a code, a value and a message."""
    if report is None:
        message = "There are too few draws to diagnose convergence: keep at least 4 per chain."
        return {"warnings": [{"code": FEW_DRAWS, "value": draws, "message": message}]}
    numbers = {name: getattr(report, name) for name in ("r_hat", "r_hat_median", "ess", "ess_median")}
    # JSON has neither NaN nor infinity.
    if np.isnan(list(numbers.values())).any():
        numbers = {}
    numbers = {name: min(value, LARGEST) for name, value in numbers.items()}
    return {**numbers, "warnings": [_finite(warning) for warning in report.warnings]}


def _finite(warning: Diagnostic) -> dict[str, Any]:
    """A diagnostic as JSON, its value bounded."""
    return {**warning._asdict(), "value": float(np.clip(np.nan_to_num(warning.value), -LARGEST, LARGEST))}
