"""Convergence and effective sample size of chains.

Both are computed from function values at a few hundred points, not from weights: many weight vectors give the same
function, so chains can agree on all function values and disagree on the weights.
"""

from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import jax
import numpy as np
from numpy.typing import ArrayLike

# Limits of the warnings. R-hat and ESS follow Vehtari et al. (2021), but R-hat has a limit above 1.01, because
# stochastic-gradient chains of a large network are few and short.
R_HAT_LIMIT = 1.1
ESS_LIMIT = 50.0
ENERGY_DRIFT_LIMIT = 1.0  # standard deviations
WEIGHT_GROWTH_LIMIT = 0.2  # log ratio of mean squared weights


@runtime_checkable
class FunctionChains(Protocol):
    """The attributes of samples that `diagnose` needs; `Samples` has them."""

    @property
    def energy(self) -> ArrayLike:
        """Potential at each draw, (chains, draws)."""

    @property
    def positions(self) -> ArrayLike | None:
        """Flat weights, (chains, draws, k), or None if they were not kept."""

    def functions(self, x: np.ndarray) -> ArrayLike:
        """Function values, (chains, draws, rows, outputs)."""


def r_hat(values: ArrayLike) -> np.ndarray:
    """Rank-normalised split R-hat of (chains, draws, ...), shape (...); 1 if the chains agree.

    The larger of the R-hats of location and of scale (Vehtari et al. 2021). Chains are split into halves, so one chain
    is enough. A constant has R-hat 1; chains at different constants have an infinite R-hat.

    >>> chains = np.random.default_rng(0).normal(size=(4, 500))
    >>> bool(r_hat(chains) < 1.01), bool(r_hat(chains + np.arange(4)[:, None]) > 1.5)
    (True, True)
    """
    from blackjax.diagnostics import potential_scale_reduction, rhat

    flat, varies, shape = _standardised(values)
    rank_normalised = np.asarray(jax.jit(rhat)(flat), dtype=np.float64).reshape(-1)
    halves = np.concatenate(np.split(flat, 2, axis=1))
    plain = np.asarray(jax.jit(potential_scale_reduction)(halves), dtype=np.float64).reshape(-1)
    # With only two values (two constant chains) the ranks of |value − median| do not vary: their R-hat is 0/0.
    result = np.where(np.isnan(rank_normalised), plain, rank_normalised)
    return np.where(varies, result, 1.0).reshape(shape)


def effective_sample_size(values: ArrayLike) -> np.ndarray:
    """Bulk effective sample size of (chains, draws, ...), shape (...): the equivalent number of independent draws.

    Rank-normalised, with split chains (Vehtari et al. 2021). A constant has NaN, because its autocorrelation is
    undefined. With fewer than about 20 draws per chain the estimate is too high.

    >>> chains = np.random.default_rng(0).normal(size=(4, 500))
    >>> bool(1500 < effective_sample_size(chains) < 2500)
    True
    """
    from blackjax.diagnostics import ess_bulk

    flat, varies, shape = _standardised(values)
    ess = np.asarray(jax.jit(ess_bulk)(flat), dtype=np.float64).reshape(-1)
    return np.where(varies, ess, np.nan).reshape(shape)


class Diagnostic(NamedTuple):
    """One finding of a report.

    Attributes:
        code: "r_hat", "ess", "energy_drift", "weight_growth", of an estimator "process" or "beyond", of a table
            "process_held_out"; programs act on it.
        value: The number that is beyond its limit.
        message: A sentence with the remedy.
    """

    code: str
    value: float
    message: str


@dataclass(frozen=True)
class Report:
    """The result of `diagnose`; it can be printed."""

    r_hat: float  # worst over points and outputs
    r_hat_median: float
    ess: float  # smallest over points and outputs that vary; 0 if none does
    ess_median: float
    energy_drift: float  # last against first third of the draws, in standard deviations within a third
    weight_growth: float | None  # log ratio of ‖w‖²/k, last against first third; None without weights
    spread: float  # mean epistemic standard deviation at the points, in the units of the function
    warnings: tuple[Diagnostic, ...]

    def __str__(self) -> str:
        growth = "not kept" if self.weight_growth is None else f"{self.weight_growth:+.3f}"
        return "\n".join(
            [
                f"R-hat          {self.r_hat:.3f} worst, {self.r_hat_median:.3f} median",
                f"ESS            {self.ess:.0f} smallest, {self.ess_median:.0f} median",
                f"energy drift   {self.energy_drift:+.2f} standard deviations",
                f"weight growth  {growth}",
                f"spread         {self.spread:.3g}",
                *(f"warning: {warning.message}" for warning in self.warnings),
            ]
        )


def diagnose(samples: FunctionChains, x: np.ndarray) -> Report:
    """Convergence of the function values at the rows of `x`; a few hundred rows are enough.

    >>> from types import SimpleNamespace
    >>> values = np.random.default_rng(0).normal(size=(4, 500, 3, 1))
    >>> chains = SimpleNamespace(functions=lambda x: values, energy=values[..., 0, 0], positions=None)
    >>> diagnose(chains, np.zeros((3, 1))).warnings
    ()
    """
    functions = np.asarray(samples.functions(x), dtype=np.float64)
    r_hats, sizes = r_hat(functions), effective_sample_size(functions)
    sizes = sizes[np.isfinite(sizes)] if np.isfinite(sizes).any() else np.zeros(1)
    growth = None if samples.positions is None else _weight_growth(np.asarray(samples.positions))
    drift = _energy_drift(np.asarray(samples.energy, dtype=np.float64))
    return Report(
        r_hat=float(r_hats.max()),
        r_hat_median=float(np.median(r_hats)),
        ess=float(sizes.min()),
        ess_median=float(np.median(sizes)),
        energy_drift=drift,
        weight_growth=growth,
        spread=float(functions.std(axis=(0, 1)).mean()),
        warnings=_warnings(float(r_hats.max()), float(sizes.min()), drift, growth),
    )


def _warnings(worst_r_hat: float, smallest_ess: float, drift: float, growth: float | None) -> tuple[Diagnostic, ...]:
    found = []
    if worst_r_hat > R_HAT_LIMIT:
        message = f"R-hat is {worst_r_hat:.2f}: the chains disagree; run longer or more chains."
        found.append(Diagnostic("r_hat", worst_r_hat, message))
    if smallest_ess < ESS_LIMIT:
        message = f"The smallest effective sample size is {smallest_ess:.0f}: run longer or more chains."
        found.append(Diagnostic("ess", smallest_ess, message))
    if abs(drift) > ENERGY_DRIFT_LIMIT:
        direction = "falling" if drift < 0 else "rising"
        message = f"The energy is still {direction}, by {abs(drift):.1f} standard deviations: use more burn-in."
        found.append(Diagnostic("energy_drift", drift, message))
    if growth is not None and growth > WEIGHT_GROWTH_LIMIT:
        message = f"The squared weights grew {np.exp(growth):.1f}-fold: use a stronger weight prior."
        found.append(Diagnostic("weight_growth", growth, message))
    return tuple(found)


def _standardised(values: ArrayLike) -> tuple[np.ndarray, np.ndarray, tuple[int, ...]]:
    """Values as (chains, even number of draws, quantities), which quantities vary, and their shape.

    They are standardised on the host: in float32 small variations around a large mean would become ties.
    """
    values = np.asarray(values, dtype=np.float64)
    if values.ndim < 2 or values.shape[1] < 4:
        raise ValueError(f"R-hat and ESS need (chains, 4 or more draws, ...), got {values.shape}: keep more draws")
    if not np.isfinite(values).all():
        raise ValueError("values have NaN or infinity: leave out diverged chains")
    flat = values[:, : values.shape[1] // 2 * 2].reshape(len(values), values.shape[1] // 2 * 2, -1)
    varies = np.ptp(flat, axis=(0, 1)) > 0
    scale = np.where(varies, flat.std(axis=(0, 1)), 1.0)
    return (flat - flat.mean(axis=(0, 1))) / scale, varies, values.shape[2:]


def _thirds(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    third = max(values.shape[1] // 3, 1)
    return values[:, :third], values[:, -third:]


def _energy_drift(energy: np.ndarray) -> float:
    first, last = _thirds(energy)
    change = last.mean(axis=1) - first.mean(axis=1)
    within = np.sqrt((first.var(axis=1) + last.var(axis=1)) / 2)
    return float(np.divide(change, within, out=np.zeros_like(change), where=within > 0).mean())


def _weight_growth(positions: np.ndarray) -> float:
    first, last = _thirds(np.einsum("cdk,cdk->cd", positions, positions, dtype=np.float64))
    return float(np.log(last.mean(axis=1) / first.mean(axis=1)).mean())
