"""Files of arrays plus JSON. Reading one runs no code; an interrupted write leaves the older file whole."""

import contextlib
import json
import os
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

VERSION = 1
_JSON = "json"


def write(path: str | os.PathLike, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> None:
    """A file of arrays and JSON."""
    text = json.dumps({"version": VERSION, **meta})
    with _beside(path) as file:
        np.savez(file, allow_pickle=False, **{_JSON: np.frombuffer(text.encode(), np.uint8)} | arrays)


def write_text(path: str | os.PathLike, text: str) -> None:
    """A text file."""
    write_bytes(path, text.encode())


def write_bytes(path: str | os.PathLike, content: bytes) -> None:
    """Any file."""
    with _beside(path) as file:
        file.write(content)


@contextlib.contextmanager
def _beside(path: str | os.PathLike) -> Iterator[IO[bytes]]:
    """A file beside `path` to write to, which is then renamed onto it."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, beside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(beside, 0o666 & ~_umask())  # mkstemp lets nobody else read it
        os.replace(beside, path)
    except BaseException:
        Path(beside).unlink(missing_ok=True)
        raise


def _umask() -> int:
    """Which can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def read(path: str | os.PathLike, kind: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays and the JSON of a file written as `kind`."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        meta = json.loads(arrays.pop(_JSON).tobytes())
    except (ValueError, KeyError, AttributeError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(
            f"{path} is not a whole fsgmcmc file (cut short or altered): delete it or make it again"
        ) from error
    if meta.get("version", 0) > VERSION:
        raise ValueError(f"{path} was written by a newer fsgmcmc (format {meta['version']}); upgrade to read it")
    if meta.get("kind") != kind:
        raise ValueError(f"{path} holds {meta.get('kind')!r}, not {kind!r}")
    return arrays, meta


def numbered(name: str, leaves: list[Any]) -> dict[str, np.ndarray]:
    """Leaves of a pytree as arrays `name_0`, `name_1` and so on."""
    return {f"{name}_{index}": np.asarray(leaf) for index, leaf in enumerate(leaves)}


def collect_numbered(name: str, arrays: dict[str, np.ndarray]) -> list[np.ndarray]:
    """The leaves that `numbered` wrote, in order."""
    count = sum(key.startswith(f"{name}_") and key[len(name) + 1 :].isdigit() for key in arrays)
    return [arrays[f"{name}_{index}"] for index in range(count)]
