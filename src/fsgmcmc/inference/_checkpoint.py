"""Checkpoints: everything from which a run continues bit for bit."""

import hashlib
import re
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import numpy as np

from fsgmcmc import _storage
from fsgmcmc.samplers.base import Sampler


@dataclass
class Run:
    """A run of `sample` on the host: its sampler, the states of its chains, and the draws so far."""

    sampler: Sampler
    origin: Any
    states: Any
    steps: int = 0
    seconds: float = 0.0
    back_offs: int = 0
    kept: list[list[np.ndarray]] = field(default_factory=list)
    energy: list[np.ndarray] = field(default_factory=list)

    @property
    def draws(self) -> int:
        """Draws kept from each chain so far."""
        return sum(block.shape[1] for block in self.energy)

    def add(self, states: Any, steps: int, leaves: list[np.ndarray], energy: np.ndarray, seconds: float) -> None:
        """Add states after some more steps, and the draws kept on the way."""
        if energy.shape[1]:
            self.kept.append(leaves)
            self.energy.append(energy)
        self.states, self.steps, self.seconds = states, self.steps + steps, self.seconds + seconds

    def stacked(self) -> tuple[list[np.ndarray], np.ndarray]:
        """The kept leaves (chains, draws, …) and the energies (chains, draws)."""
        leaves = [np.concatenate(blocks, axis=1) for blocks in zip(*self.kept, strict=True)]
        return leaves, np.concatenate(self.energy, axis=1)

    def contents(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """The run as arrays and JSON, for a checkpoint."""
        arrays = {"step_size": np.asarray(self.sampler.step_size.initial), "origin": np.asarray(self.origin)}
        if self.sampler.preconditioner is not None:
            arrays["preconditioner"] = np.asarray(self.sampler.preconditioner)
        arrays |= _storage.numbered("state", jax.tree.leaves(self.states))
        if self.draws:
            leaves, arrays["energy"] = self.stacked()
            arrays |= _storage.numbered("kept", leaves)
            # Keep one block instead of many, so that the next save does not copy them again one by one.
            self.kept, self.energy = [leaves], [arrays["energy"]]
        progress = {"steps": self.steps, "draws": self.draws, "seconds": self.seconds, "back_offs": self.back_offs}
        return arrays, progress

    @classmethod
    def restored(
        cls, arrays: dict[str, np.ndarray], meta: dict[str, Any], sampler: Sampler, start: Callable[[Sampler], Any]
    ) -> "Run":
        """The run that `contents` described; `start` gives the form of the sampler's states."""
        sampler = sampler.with_step(arrays["step_size"])
        if "preconditioner" in arrays:
            sampler = sampler.with_preconditioner(jax.numpy.asarray(arrays["preconditioner"]))
        states = restored_tree("state", arrays, jax.eval_shape(start, sampler))
        counts = meta["steps"], meta["seconds"], meta["back_offs"]
        run = cls(sampler, jax.numpy.asarray(arrays["origin"]), states, *counts)
        if meta["draws"]:
            run.kept.append(_storage.collect_numbered("kept", arrays))
            run.energy.append(arrays["energy"])
        return run


def restored_tree(name: str, arrays: dict[str, np.ndarray], form: Any) -> Any:
    """The pytree whose leaves were numbered under `name`, in the structure of `form`."""
    leaves = [jax.numpy.asarray(leaf) for leaf in _storage.collect_numbered(name, arrays)]
    return jax.tree.unflatten(jax.tree.structure(form), leaves)


def fingerprint(arrays: Any, settings: dict[str, Any]) -> str:
    """What must be the same for a run to continue: every array that goes into it, its structure and its settings.

    Functions are compared by their names only: their code cannot be compared across processes.
    """
    text = repr((jax.tree.structure(arrays), sorted(settings.items())))
    digest = hashlib.sha256(re.sub(r" at 0x[0-9a-f]+", "", text).encode())
    for leaf in jax.tree.leaves(arrays):
        if isinstance(leaf, jax.Array) and jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            leaf = jax.random.key_data(leaf)
        if isinstance(leaf, jax.Array | np.ndarray):
            digest.update(f"{leaf.shape}{leaf.dtype}".encode())
            digest.update(np.ascontiguousarray(leaf).tobytes())
    return digest.hexdigest()


@dataclass
class Checkpoint:
    """A file that holds a run, or nothing where `path` is None."""

    path: str | Path | None
    every: float
    mark: str
    written: float = field(default_factory=time.monotonic)

    def read(self) -> tuple[dict[str, np.ndarray], dict[str, Any]] | None:
        """The arrays and the JSON of the run in the file, None when there is none."""
        if self.path is None:
            return None
        path = Path(self.path)
        if path.is_dir():
            raise ValueError(f"the checkpoint {path} is a folder; give the path of a file")
        if not path.exists():
            # Fail before there is anything to lose.
            path.parent.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=path.parent).close()
            return None
        arrays, meta = _storage.read(self.path, "checkpoint")
        if meta["fingerprint"] != self.mark:
            raise ValueError(
                f"{self.path} is the checkpoint of another run (other data, key or settings); "
                "delete it or give another path"
            )
        return arrays, meta

    def write(self, contents: Callable[[], tuple[dict[str, np.ndarray], dict[str, Any]]], *, now: bool = False) -> None:
        """Write the run every so many seconds, or now. A full disk gives a warning and keeps the older file."""
        if self.path is None or (not now and time.monotonic() - self.written < self.every):
            return
        self.written = time.monotonic()
        arrays, meta = contents()
        try:
            _storage.write(self.path, arrays, {"kind": "checkpoint", "fingerprint": self.mark, **meta})
        except OSError as error:
            warnings.warn(
                f"the checkpoint {self.path} could not be written ({error}); the run continues, "
                "and an earlier checkpoint there is still valid",
                UserWarning,
                stacklevel=2,
            )
