"""The network of an estimator beside its Gaussian process: at the training rows, and beyond them."""

from collections.abc import Callable
from typing import Any

import numpy as np

from fsgmcmc.diagnostics import Diagnostic
from fsgmcmc.priors import GaussianProcess
from fsgmcmc.priors.extrapolation import LARGEST, Extrapolation

# Ratio of training errors, of the network and its process, beyond which the network does not follow its prior; errors
# below this, in standard deviations of the targets, are not compared.
MISSED_LIMIT = 1.5
NEGLIGIBLE = 0.02
# Rows that are moved, how far in each feature, in standard deviations, and the ratio of spreads that is too small.
ROWS, MOVED, NARROW_LIMIT = 200, 2.0, 0.5

Functions = Callable[[np.ndarray], np.ndarray]


def at_rows(functions: Functions, processes: Extrapolation) -> Diagnostic | None:
    """A finding where the network misses what its processes explain of the targets.

    It compares the root mean square errors of the means; `functions` gives (chains, draws, rows, outputs).
    """
    x, y = processes.x, processes.y
    network = _rms(functions(x).mean(axis=(0, 1)) - y)
    process = float(np.median([_rms(mean - y) for mean in processes.alone(x).functions]))
    missed = network / max(process, NEGLIGIBLE)
    if missed <= MISSED_LIMIT:
        return None
    message = (
        f"The network's errors on the training rows are {missed:.1f} times those of its Gaussian process: "
        "it does not follow its prior. Use more hidden units, a smoother kernel, or longer chains."
    )
    return Diagnostic("process", missed, message)


def beyond_rows(functions: Functions, prior: GaussianProcess, x: np.ndarray, noise: Any) -> Diagnostic | None:
    """A finding where the network varies much less than its process at moved rows; None without a noise.

    It compares the medians of the standard deviations. Those of a process do not depend on the targets.
    """
    if noise is None:
        return None
    rows = x[:LARGEST]
    process = prior.condition(rows, np.zeros(len(rows)), float(np.mean(noise)))
    moved = rows[:ROWS]
    moved = moved + MOVED * np.random.default_rng(0).choice([-1, 1], moved.shape).astype(np.float32)
    spread = np.maximum(process.predict(moved).epistemic, NEGLIGIBLE)
    ratio = float(np.median(functions(moved).std(axis=(0, 1)) / spread))
    if ratio >= NARROW_LIMIT:
        return None
    message = (
        f"At rows moved by {MOVED:g} standard deviations the network varies {ratio:.2f} times as much as its "
        'Gaussian process: its error bars beyond the data are too narrow. Use extrapolation="process".'
    )
    return Diagnostic("beyond", ratio, message)


def _rms(errors: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(errors))))
