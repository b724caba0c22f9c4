"""Files with arrays and JSON. Reading runs no code; an interrupted write leaves an older file intact."""

import contextlib
import json
import os
import uuid
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

VERSION = 2  # version 1 stored likelihoods by kind
_JSON = "json"


def write(path: str | os.PathLike, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> None:
    """Write arrays and JSON to a file."""
    text = json.dumps({"version": VERSION, **meta})
    with _temporary(path) as file:
        np.savez(file, allow_pickle=False, **{_JSON: np.frombuffer(text.encode(), np.uint8)} | arrays)


def write_text(path: str | os.PathLike, text: str) -> None:
    """Write a text file."""
    write_bytes(path, text.encode())


def write_bytes(path: str | os.PathLike, content: bytes) -> None:
    """Write a file."""
    with _temporary(path) as file:
        file.write(content)


@contextlib.contextmanager
def _temporary(path: str | os.PathLike) -> Iterator[IO[bytes]]:
    """A temporary file in the same folder, which is renamed to `path` when it is complete."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.parent / f".{path.name}.{uuid.uuid4().hex}"
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


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
            f"{path} is not a complete fsgmcmc file (truncated or altered): delete it or create it again"
        ) from error
    if meta.get("version", 0) > VERSION:
        raise ValueError(f"{path} was written by a newer fsgmcmc (format {meta['version']}); upgrade to read it")
    if meta.get("version", 0) < VERSION:
        raise ValueError(f"{path} was written by an earlier fsgmcmc: create it again")
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
