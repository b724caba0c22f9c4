"""Posteriors among which an estimator chooses by the density of rows that were held out.

No network is best on every table. A functional prior wins where rows are few or noisy; where they are many and exact,
a network without a functional prior learns more, and whether a wide or a deep one is better depends on the table. Short
runs on part of the rows decide: each takes a fraction of the time of the fit.
"""

from typing import NamedTuple

from fsgmcmc.methods import INFERENCE
from fsgmcmc.priors import GaussianWeights

# Hidden units where no candidates are compared.
HIDDEN = (50, 50)
# Share of the rows that are held out, the most of them, and the fewest that are worth a comparison.
HELD_OUT = 0.2
MOST_HELD_OUT, LEAST_HELD_OUT = 500, 10
# A run of a comparison: steps of the burn-in, draws of each chain, and steps between them.
BURN_IN, DRAWS, THINNING = 1200, 10, 120


class Candidate(NamedTuple):
    """A network, a prior and a method; `weight_prior` is that of a method in parameter space."""

    name: str
    method: str
    hidden: tuple[int, ...] = HIDDEN
    initial: str = "fan_in"
    weight_prior: GaussianWeights | None = None


class Tried(NamedTuple):
    """A candidate's name, and the mean log density of held-out rows: in nats, targets in standard deviations."""

    name: str
    density: float


CANDIDATES = (
    Candidate("functional prior", "fsghmc"),
    Candidate("weak weights", "sghmc", weight_prior=GaussianWeights(10**0.5, "fan_in")),
    Candidate("deep, N(0, 1) weights", "sghmc", (16, 16, 16, 16), "unit", GaussianWeights()),
)


def candidates(method: str, hidden: tuple[int, ...] | None, kernel_is_open: bool) -> tuple[Candidate, ...]:
    """Those of a method by name, or of "auto", with the hidden units where they are given.

    A kernel that is given states what is known: only the functional prior is then used.
    """
    if method == "auto":
        found = CANDIDATES if kernel_is_open else CANDIDATES[:1]
        return tuple(each if hidden is None else each._replace(hidden=hidden) for each in found)
    hidden = HIDDEN if hidden is None else hidden
    return (Candidate(method, method, hidden, weight_prior=INFERENCE[method].weight_prior),)


def held_out(rows: int) -> int:
    """How many of so many rows are held out; 0 where they are too few to compare."""
    count = min(round(HELD_OUT * rows), MOST_HELD_OUT)
    return count if count >= LEAST_HELD_OUT else 0
