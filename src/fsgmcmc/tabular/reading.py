"""Read CSV and Parquet files as pandas frames; an error names the file, the line and the remedy."""

import csv
import io
import re
from pathlib import Path

import pandas as pd

from fsgmcmc import _storage

NEEDS_PYARROW = "Parquet files need pyarrow: pip install 'fsgmcmc[parquet]'"
SEPARATORS = (",", ";", "\t", "|")
PARQUET = (".parquet", ".pq")
DECIMAL_COMMA = re.compile(r"[+-]?\d+(,\d+)?")
THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?")
MISSING = ("", "?", "-", ".", "na", "n/a", "#n/a", "<na>", "nan", "nat", "null", "none", "#div/0!")  # in any case


class TableError(ValueError):
    """A table that cannot be used; the message has the remedy."""


def read_table(path: str | Path, separator: str | None = None, names: str | None = None) -> pd.DataFrame:
    """The table in a file: Parquet by its suffix, else CSV with a header in the first line.

    Args:
        path: The file.
        separator: Separator of columns; by default the most frequent of comma, semicolon, tab and bar in the header.
        names: A column of row names, which is read as text.
    """
    path = Path(path)
    if path.is_dir():
        raise TableError(f"{path} is a folder: give a CSV or Parquet file")
    if not path.exists():
        raise TableError(f"there is no file {path}")
    try:
        if path.stat().st_size == 0:
            raise TableError(f"{path} is empty")
        frame = _parquet(path) if path.suffix.lower() in PARQUET else _csv(path, separator, names)
    except OSError as error:
        raise TableError(f"{path} cannot be read: {error.strerror or error}") from None
    frame.columns = [str(name).strip() for name in frame.columns]
    twice = frame.columns[frame.columns.duplicated()]
    if len(twice):
        raise TableError(f"{path} has more than one column named {twice[0]!r}: rename one")
    if not len(frame):
        raise TableError(f"{path} has a header and no rows")
    return frame


def write_table(frame: pd.DataFrame, path: str | Path) -> None:
    """Write a CSV file, or Parquet by its suffix; an interrupted write leaves an older file intact."""
    path = Path(path)
    if path.is_dir():
        raise TableError(f"{path} is a folder: give a file for the predictions")
    if path.suffix.lower() in PARQUET:
        try:
            content = frame.to_parquet(None, index=False)
        except ImportError:
            raise TableError(NEEDS_PYARROW) from None
    else:
        content = frame.to_csv(index=False).encode()
    if path.exists() and not path.is_file():  # a pipe, or a terminal
        path.write_bytes(content)
    else:
        _storage.write_bytes(path, content)


def _parquet(path: Path) -> pd.DataFrame:
    try:
        return pd.read_parquet(path)
    except ImportError:
        raise TableError(NEEDS_PYARROW) from None
    except OSError:
        raise
    except Exception as error:  # pyarrow raises many types
        raise TableError(f"{path} is not a complete Parquet file: {str(error).splitlines()[0]}") from None


def _csv(path: Path, separator: str | None, row_names: str | None) -> pd.DataFrame:
    text = _text(path)
    header = text.split("\n", 1)[0]
    if separator is None:
        separator = max(SEPARATORS, key=header.count)
    if len(separator) != 1:
        raise TableError(f"the separator must be one character, got {separator!r}")
    rows = _rows(path, text, separator)
    names = [name.strip() for name in rows[0][1]]
    if len(names) == 1 and re.search(r"[\s:/]", names[0].strip()) and len(rows) > 1:
        raise TableError(f"{path} seems to have one column, {names[0]!r}: give the separator, such as --separator ':'")
    if all(_is_number(name) for name in names):
        raise TableError(f"{path} begins with numbers, {', '.join(names[:3])}: add a first line with column names")
    unnamed = [index for index, name in enumerate(names) if not name]
    if any(index > 0 for index in unnamed):
        raise TableError(f"column {unnamed[-1] + 1} of {path} has no name: add one in the first line")
    for line, row in rows[1:]:
        if len(row) != len(names):
            raise TableError(
                f"line {line} of {path} has {len(row)} values where the header has {len(names)}: correct it, or quote "
                f"values that contain {separator!r}"
            )
    # A first column without a name holds row numbers, as written by pandas and R: it is not an input.
    first = 1 if unnamed else 0
    columns = {name: [row[index] for _, row in rows[1:]] for index, name in enumerate(names) if index >= first}
    if len(columns) < len(names) - first:
        twice = next(name for name in names if names.count(name) > 1)
        raise TableError(f"{path} has more than one column named {twice!r}: rename one")
    texts = {name: pd.Series(values, dtype=object) for name, values in columns.items()}
    return pd.DataFrame(
        {name: text if name == row_names else _typed(name, text, separator != ",") for name, text in texts.items()}
    )


def _text(path: Path) -> str:
    content = path.read_bytes()
    if b"\0" in content:
        raise TableError(f"{path} is not a text file: give CSV, or Parquet with the suffix .parquet")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise TableError(f"line {line} of {path} is not in UTF-8: save the file with that encoding") from None
    text = text.replace("\r\n", "\n").replace("\r", "\n").lstrip("\n")
    if not text.strip():
        raise TableError(f"{path} is empty")
    return text


def _rows(path: Path, text: str, separator: str) -> list[tuple[int, list[str]]]:
    """Rows with the number of their last line, without blank lines."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True, skipinitialspace=True)
    try:
        return [(reader.line_num, row) for row in reader if row]
    except csv.Error as error:
        raise TableError(f"line {reader.line_num} of {path} cannot be read: {error}") from None


def _typed(name: str, column: pd.Series, decimal_comma: bool) -> pd.Series:
    """Numbers if every value is a number, text otherwise; missing values are NaN."""
    stripped = column.str.strip()
    known = stripped.mask(stripped.str.lower().isin(MISSING))
    values = known.dropna()
    commas = values[values.str.contains(",")]
    if len(commas) and commas.str.fullmatch(THOUSANDS).all() and _are_numbers(values.str.replace(",", "")):
        raise TableError(
            f"column {name!r} holds {commas.iloc[0]!r}: write numbers without commas between thousands, and decimals "
            "with a point"
        )
    if decimal_comma and len(commas) and values.str.fullmatch(DECIMAL_COMMA).all():
        known = known.str.replace(",", ".", regex=False)
    numbers = pd.to_numeric(known, errors="coerce")
    return numbers.astype(float) if numbers.notna().sum() == known.notna().sum() else known.astype(object)


def _are_numbers(values: pd.Series) -> bool:
    return bool(pd.to_numeric(values, errors="coerce").notna().all())


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
