"""Model folders: a fitted estimator as arrays plus JSON. Reading one runs no code.

    model.json           what it is, with a schema version, and the name and hash of the file of arrays
    arrays-<hash>.npz    draws, scales, the prior's numbers and some training rows

The arrays are written first, under a name that no older model has; then model.json is replaced in one step. Until that
moment the older model is whole, and after it the new one is.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import jax
import numpy as np

from fsgmcmc import __version__, _storage
from fsgmcmc.data.standardiser import Standardiser
from fsgmcmc.estimators.base import FunctionalBNN
from fsgmcmc.estimators.candidates import Tried
from fsgmcmc.estimators.classifier import FunctionalBNNClassifier
from fsgmcmc.estimators.novelty import Novelty
from fsgmcmc.estimators.regressor import FunctionalBNNRegressor
from fsgmcmc.likelihoods import LIKELIHOODS
from fsgmcmc.networks import NETWORKS
from fsgmcmc.priors import GaussianProcess, kernel_by_name
from fsgmcmc.priors.extrapolation import Extrapolation

SCHEMA = "fsgmcmc-model"
VERSION = 7  # 7 has the range of the features
ESTIMATORS = {"regression": FunctionalBNNRegressor, "classification": FunctionalBNNClassifier}
# Parameters of the run, not of the model.
NOT_KEPT = ("progress", "checkpoint", "random_state")


def save_model(estimator: FunctionalBNN, folder: str | Path, extra: dict[str, Any] | None = None) -> None:
    """Write a fitted estimator into a folder, with further JSON entries.

    Args:
        estimator: A fitted regressor or classifier whose kernel is a word.
        folder: Where; a model that is there already is replaced in one step.
        extra: More entries of model.json, which `load_model` gives back.
    """
    if not hasattr(estimator, "positions_"):
        raise ValueError("there is nothing to save: fit the estimator first")
    if not isinstance(estimator.kernel_, str):
        raise ValueError(
            "only kernels given as words, such as 'rbf', can be saved in a folder; use joblib for this model"
        )
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file: give a folder for the model")
    scale, novelty, beyond = estimator.scale_, estimator.novelty_, estimator.extrapolation_
    arrays = {
        "positions": estimator.positions_,
        "energy": estimator.energy_,
        "shift": scale.x_mean,
        "scale": scale.x_std,
        "reference": novelty.reference,
        "lowest": novelty.lowest,
        "highest": novelty.highest,
        **_process_arrays("prior", estimator.prior_),
    }
    if beyond is not None:
        arrays |= {"beyond_x": beyond.x, "beyond_y": beyond.y}
        for index, expert in enumerate(beyond.experts):
            arrays |= _process_arrays(f"beyond{index}", expert.posterior.process)
            arrays[f"beyond{index}_noise"] = expert.posterior.noise
    params = {name: value for name, value in estimator.get_params().items() if name not in NOT_KEPT}
    likelihood = LIKELIHOODS.to_config(estimator.likelihood_)
    if likelihood is None:
        raise ValueError(
            f"{type(estimator.likelihood_).__name__} is not registered: decorate the class with "
            "fsgmcmc.likelihoods.register to save the model"
        )
    if params.get("likelihood") is not None:
        params["likelihood"] = likelihood
    task = "regression" if isinstance(estimator, FunctionalBNNRegressor) else "classification"
    meta = {
        "task": task,
        "params": {**params, "hidden": None if estimator.hidden is None else list(estimator.hidden)},
        "likelihood": likelihood,
        "kernel": estimator.kernel_,
        "beyond": [] if beyond is None else [expert.name for expert in beyond.experts],
        "features": estimator.n_features_in_,
        "rows": estimator.n_rows_,
        "method": estimator.method_,
        "network": NETWORKS.to_config(estimator.network_),
        # JSON has no infinity, the density of a run that diverged.
        "tried": [[name, density if np.isfinite(density) else None] for name, density in estimator.tried_],
        "threshold": novelty.threshold,
        "target": {"shift": scale.y_mean, "scale": scale.y_std},
        "info": estimator.info_,
    }
    if hasattr(estimator, "feature_names_in_"):
        meta["feature_names"] = estimator.feature_names_in_.tolist()
    if isinstance(estimator, FunctionalBNNRegressor):
        meta["noise"] = estimator.noise_
    else:
        meta["classes"] = estimator.classes_.tolist()
    document = {"schema": SCHEMA, "version": VERSION, "fsgmcmc": __version__, **meta}
    if taken := sorted({"arrays", *document} & set(extra or {})):
        raise ValueError(f"extra has entries of the model itself: {', '.join(taken)}; give them other names")
    document |= extra or {}
    json.dumps(document, default=_plain)  # what cannot be written is found before anything is
    folder.mkdir(parents=True, exist_ok=True)
    older = _arrays_of(folder)
    document["arrays"] = written = _write_arrays(folder, arrays)
    _storage.write_text(folder / "model.json", json.dumps(document, indent=1, default=_plain))
    if older not in (None, written["name"]):
        (folder / str(older)).unlink(missing_ok=True)


def load_model(folder: str | Path) -> tuple[FunctionalBNN, dict[str, Any]]:
    """The estimator in a folder, ready to predict, and all of its model.json."""
    folder = Path(folder)
    document = _document(folder)
    try:
        return _read(folder, document), document
    except FileNotFoundError:
        newer = _document(folder)
        if newer == document:
            raise
        # Another one took its place just now.
        return _read(folder, newer), newer


def _read(folder: Path, document: dict[str, Any]) -> FunctionalBNN:
    """The estimator that a document and its file of arrays make up."""
    try:
        path = folder / Path(str(document["arrays"]["name"])).name
        if not path.is_file():
            raise FileNotFoundError(f"{folder} lacks {path.name}: the model was not copied whole")
        if hashlib.sha256(path.read_bytes()).hexdigest() != document["arrays"]["sha256"]:
            raise ValueError(f"{path} was truncated or altered since it was written: copy the model again, or fit anew")
        arrays, _ = _storage.read(path, "model")
        return _estimator(document, arrays)
    except (KeyError, TypeError, IndexError) as error:
        raise ValueError(f"{folder / 'model.json'} was altered: {error!r} is not as it was written") from None


def _arrays_of(folder: Path) -> str | None:
    """The file of arrays of the model that is in a folder."""
    try:
        # Of whatever version: it is to be replaced, not read.
        return Path(str(json.loads((folder / "model.json").read_text())["arrays"]["name"])).name
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _plain(value: Any) -> Any:
    """NumPy's numbers and arrays as JSON has them."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"{value!r} cannot be saved in a model folder: use joblib")


def _write_arrays(folder: Path, arrays: dict[str, np.ndarray]) -> dict[str, str]:
    """Under the name of their hash."""
    beside = folder / ".arrays.npz"
    try:
        _storage.write(beside, arrays, {"kind": "model"})
        digest = hashlib.sha256(beside.read_bytes()).hexdigest()
        name = f"arrays-{digest[:12]}.npz"
        beside.replace(folder / name)
    finally:
        beside.unlink(missing_ok=True)
    return {"name": name, "sha256": digest}


def _document(folder: Path) -> dict[str, Any]:
    path = folder / "model.json"
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no model folder {folder}")
    if not path.is_file():
        raise FileNotFoundError(f"{folder} contains no model: model.json is missing")
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} was truncated or altered: {error}") from None
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise ValueError(f"{path} does not describe a model of fsgmcmc")
    if not isinstance(document.get("version"), int):
        raise ValueError(f"{path} was altered: it has no version")
    if document["version"] < VERSION:
        raise ValueError(f"{path} was written by an earlier fsgmcmc ({document.get('fsgmcmc')}): fit the model again")
    if document["version"] > VERSION:
        raise ValueError(f"{path} was written by a newer fsgmcmc ({document.get('fsgmcmc')}): upgrade to read it")
    return document


def _process_arrays(name: str, process: GaussianProcess) -> dict[str, np.ndarray]:
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(process.kernel)]
    return {f"{name}_mean": np.asarray(process.mean), **_storage.numbered(f"{name}_kernel", leaves)}


def _process(name: str, word: str, features: int, arrays: dict[str, np.ndarray]) -> GaussianProcess:
    """The process whose arrays `_process_arrays` gave, with the kernel of this word."""
    leaves = [leaf if leaf.ndim else leaf.item() for leaf in _storage.collect_numbered(f"{name}_kernel", arrays)]
    kernel = jax.tree.unflatten(jax.tree.structure(kernel_by_name(word, features)), leaves)
    mean = arrays[f"{name}_mean"]
    return GaussianProcess(kernel, mean if mean.ndim else float(mean))


def _estimator(document: dict[str, Any], arrays: dict[str, np.ndarray]) -> FunctionalBNN:
    hidden = document["params"]["hidden"]
    params = {**document["params"], "hidden": None if hidden is None else tuple(hidden)}
    likelihood = LIKELIHOODS.from_config(document["likelihood"])
    if params.get("likelihood") is not None:
        params["likelihood"] = likelihood
    estimator = ESTIMATORS[document["task"]](**params)
    target, features = document["target"], document["features"]
    estimator.scale_ = Standardiser(arrays["shift"], arrays["scale"], target["shift"], target["scale"])
    estimator.prior_ = _process("prior", document["kernel"], features, arrays)
    words, estimator.extrapolation_ = document["beyond"], None
    if words:
        processes = [_process(f"beyond{index}", word, features, arrays) for index, word in enumerate(words)]
        noise = [arrays[f"beyond{index}_noise"] for index in range(len(words))]
        rows = arrays["beyond_x"], arrays["beyond_y"]
        estimator.extrapolation_ = Extrapolation.of(processes, *rows, noise, words)
    estimator.novelty_ = Novelty(
        estimator.prior_, arrays["reference"], document["threshold"], arrays["lowest"], arrays["highest"]
    )
    estimator.positions_, estimator.energy_ = arrays["positions"], arrays["energy"]
    estimator.kernel_, estimator.n_rows_, estimator.info_ = document["kernel"], document["rows"], document["info"]
    estimator.n_features_in_ = document["features"]
    estimator.method_, estimator.likelihood_ = document["method"], likelihood
    estimator.network_ = NETWORKS.from_config(document["network"])
    estimator.tried_ = tuple(Tried(name, -np.inf if found is None else found) for name, found in document["tried"])
    if "feature_names" in document:
        estimator.feature_names_in_ = np.array(document["feature_names"], dtype=object)
    if isinstance(estimator, FunctionalBNNRegressor):
        estimator.noise_ = document["noise"]
    else:
        estimator.classes_ = np.asarray(document["classes"])
    return estimator
