"""Encoding of the columns of a table as numbers.

- A numeric column is used unchanged. Missing values are replaced by the median of the training rows, and an indicator
  column marks them.
- A text column is one-hot encoded. A missing value has 0 in every category.
- Columns that are empty or constant carry no information and are left out.
"""

import re
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from fsgmcmc.tabular.reading import TableError

# A text column with more distinct values, or with a larger share of distinct values, holds names and not categories.
MOST_CATEGORIES = 50
NAMES = 0.5
# A column with a larger share of numbers counts as numeric.
MOSTLY_NUMBERS = 0.5
# Magnitudes whose squares are representable in float64.
SMALLEST, LARGEST = 1e-100, 1e100
PERCENT = re.compile(r"[+-]?[\d.,]+\s*%")
DATE = re.compile(r"\d{4}-\d{1,2}-\d{1,2}([T ].*)?|\d{1,2}[./]\d{1,2}[./]\d{2,4}")


@dataclass(frozen=True)
class Column:
    """One column: a number with the replacement of missing values, or a text with its categories."""

    name: str
    kind: str
    median: float = 0.0
    marks_missing: bool = False
    categories: tuple[str, ...] = ()

    @property
    def features(self) -> list[str]:
        """Names of its inputs to the network."""
        if self.kind == "category":
            return [f"{self.name} = {category}" for category in self.categories]
        return [self.name, *([f"{self.name} is missing"] if self.marks_missing else [])]


@dataclass(frozen=True)
class Columns:
    """The columns that a model was fitted to, and notes about them."""

    used: tuple[Column, ...]
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, frame: pd.DataFrame, training: np.ndarray) -> "Columns":
        """Kinds and categories from all rows; medians from the training rows only."""
        used, notes = [], []
        for name in frame.columns:
            column, note = _column(frame[name], training)
            used += [column] if column is not None else []
            notes += [note] if note else []
        if not used:
            raise TableError("no column is left to predict from: all are empty, constant, or dropped")
        return cls(tuple(used), tuple(notes))

    @property
    def features(self) -> list[str]:
        """Names of the inputs to the network."""
        return [feature for column in self.used for feature in column.features]

    def numbers(self, frame: pd.DataFrame) -> np.ndarray:
        """The rows of a table as numbers, (rows, features)."""
        absent = [column.name for column in self.used if column.name not in frame.columns]
        if absent:
            raise TableError(
                f"the table has no column {absent[0]!r}, which the model needs; it has {some(list(frame.columns))}"
            )
        return np.column_stack([_encoded(column, frame[column.name]) for column in self.used])

    def filled(self, frame: pd.DataFrame) -> list[str]:
        """Notes on columns with missing numbers that had none when the model was fitted."""
        notes = []
        for column in self.used:
            missing = int(frame[column.name].isna().sum())
            if column.kind == "number" and missing and not column.marks_missing:
                notes.append(
                    f"column {column.name!r} lacks {missing} of {len(frame)} values and lacked none in the fit: they "
                    f"are replaced by the median of the training rows, {column.median:.4g}"
                )
        return notes

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {"used": [asdict(column) for column in self.used], "notes": list(self.notes)}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Columns":
        """The inverse of `to_json`."""
        used = (Column(**{**column, "categories": tuple(column["categories"])}) for column in data["used"])
        return cls(tuple(used), tuple(data["notes"]))


def numeric(values: pd.Series, what: str) -> np.ndarray:
    """A column as float64 with NaN for missing values; an error names the first value that is not a number."""
    if pd.api.types.is_datetime64_any_dtype(values) or pd.api.types.is_timedelta64_dtype(values):
        raise TableError(f"{what} holds dates: convert them to numbers, such as days since the first, or drop them")
    numbers = pd.to_numeric(values, errors="coerce").to_numpy(np.float64, na_value=np.nan)
    wrong = np.flatnonzero(np.isnan(numbers) & values.notna().to_numpy())
    if len(wrong):
        raise TableError(
            f"{what} is numeric except for {len(wrong)} value(s), the first {values.iloc[wrong[0]]!r} in row "
            f"{values.index[wrong[0]] + 1}: correct them or leave them empty"
        )
    infinite = np.flatnonzero(np.isinf(numbers))
    if len(infinite):
        raise TableError(f"{what} is infinite in row {values.index[infinite[0]] + 1}: correct it or leave it empty")
    largest = np.nanmax(np.abs(numbers), initial=0.0)
    if largest > LARGEST or 0 < largest < SMALLEST:
        raise TableError(f"{what} reaches {largest:.3g}: use other units")
    return numbers


def is_text(values: pd.Series) -> bool:
    """Whether a column holds categories: texts that are mostly not numbers."""
    known = values.dropna()
    if pd.api.types.is_numeric_dtype(values) or pd.api.types.is_bool_dtype(values) or not len(known):
        return False
    if pd.api.types.is_datetime64_any_dtype(values) or pd.api.types.is_timedelta64_dtype(values):
        return False
    return float(pd.to_numeric(known.astype(str), errors="coerce").notna().mean()) <= MOSTLY_NUMBERS


def _column(values: pd.Series, training: np.ndarray) -> tuple[Column | None, str]:
    name, missing = str(values.name), int(values.isna().sum())
    if missing == len(values):
        return None, f"column {name!r} is empty and was left out"
    try:
        distinct = values.nunique()
    except TypeError:
        raise TableError(f"column {name!r} holds lists or other structures: drop it with --drop {name!r}") from None
    if distinct == 1 and not missing:
        return None, f"column {name!r} is constant and was left out"
    lacks = f"column {name!r} lacks {missing} of {len(values)} values: "
    if is_text(values):
        texts = values.dropna().astype(str)
        for pattern, what in (
            (PERCENT, "percentages: write them as numbers"),
            (DATE, "dates: convert them to numbers"),
        ):
            if texts.str.fullmatch(pattern).mean() > MOSTLY_NUMBERS:
                raise TableError(f"column {name!r} holds {what}, or drop it with --drop {name!r}")
        categories = tuple(sorted(texts.unique()))
        if len(categories) > min(MOST_CATEGORIES, max(NAMES * len(values), 2)):
            raise TableError(
                f"column {name!r} has {len(categories)} different texts, such as {categories[0]!r}: names, not "
                f"categories; drop it with --drop {name!r}, or use it as row names with --id {name!r}"
            )
        note = lacks + "they are encoded as 0 in every category" if missing else ""
        return Column(name, "category", categories=categories), note
    numbers = numeric(values, f"column {name!r}")
    known = numbers[training][~np.isnan(numbers[training])]
    if not len(known):
        return None, f"column {name!r} is empty in the training rows and was left out"
    median = float(np.median(known))
    note = lacks + f"they are replaced by the median, {median:.4g}, and an indicator column is added" if missing else ""
    return Column(name, "number", median, marks_missing=missing > 0), note


def _encoded(column: Column, values: pd.Series) -> np.ndarray:
    if column.kind == "number":
        numbers = numeric(values, f"column {column.name!r}")
        filled = np.where(np.isnan(numbers), column.median, numbers)
        return np.column_stack([filled, *([np.isnan(numbers)] if column.marks_missing else [])])
    texts = values.map(lambda value: _category(value, column.categories))
    unseen = values.notna() & ~texts.isin(column.categories)
    if unseen.any():
        row = int(np.flatnonzero(unseen)[0])
        raise TableError(
            f"column {column.name!r} holds {str(values.iloc[row])!r} in row {values.index[row] + 1}, which did not "
            f"occur in the fit; known values are {some(list(column.categories))}; leave the value empty to predict "
            "without it"
        )
    return (texts.to_numpy(dtype=object)[:, None] == np.array(column.categories, dtype=object)[None]).astype(float)


def _category(value: Any, categories: tuple[str, ...]) -> Any:
    """A value as text; 3 and 3.0 are the same category."""
    if pd.isna(value):
        return None
    if isinstance(value, float) and value.is_integer() and str(value) not in categories:
        return str(int(value))
    return str(value)


def some(names: list[str]) -> str:
    """The first of these names, for a message."""
    return ", ".join(repr(name) for name in names[:5]) + (" …" if len(names) > 5 else "")
