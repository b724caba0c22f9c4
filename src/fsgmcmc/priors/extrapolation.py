"""Beyond the data the function varies as a Gaussian process does that is given the data.

A network interpolates where there are rows. Far from them nothing determines it but the smoothness of its units, and
its draws agree too much. A process conditioned on the rows says what is unknown there. For each of several processes k:

    C = K + σ² I over the rows,    g(x), v(x)     mean and variance of the process given the rows
    q = 90 % quantile of 1/[C⁻¹]_ii − σ²          variance at a row, given all other rows
    a(x) = max(v(x) − q, 0) / v(x)                in [0, 1]

Each draw s of the network is paired with one process, in turn, and with b = 0 or 1, in turn, and becomes

    f̃(x) = (1 − b a) f_s(x) + b a g(x) + sqrt(a) (h(x) − g(x)),    h a draw of the process given the rows

Where a row is determined by the others as well as most training rows are, a = 0 and f̃ is the network. Where v ≫ q, a
is close to 1: f̃ is then a draw of the process (b = 1), or differs from the network as a draw of the process does from
its mean (b = 0). Given f_s, f̃(x) is Gaussian with variance a v. Neither the processes nor the two ways of going on are
weighted by evidence, which the rows cannot have of the form of a function where there are none.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy  # submodules are loaded at first use
from numpy.typing import ArrayLike

from fsgmcmc import _checks
from fsgmcmc.priors import _host
from fsgmcmc.priors.gaussian_process import GaussianProcess, GaussianProcessPosterior, in_float64

# Rows that a process is conditioned on at most, and new points in one call, whose number is always the same.
LARGEST = 1000
POINTS_PER_CALL = 256
# A process is refuted if its log density of a row given the others is so much below that of the best, in nats.
REFUTED = 0.25
# Share of the training rows at which the network stands as it is.
INSIDE = 0.9


class Expert(NamedTuple):
    """A named process given the rows, q for each output, and the mean log density of a row given the others."""

    name: Any
    posterior: GaussianProcessPosterior
    threshold: np.ndarray
    density: float


class Blend(NamedTuple):
    """Function draws with what the processes add: means and standard deviations, both (draws, points, outputs)."""

    functions: np.ndarray
    spread: np.ndarray


@dataclass(frozen=True, eq=False)
class Extrapolation:
    """Processes given the rows, to which the draws of a network are handed over; `Extrapolation.of` builds it.

    Attributes:
        experts: The conditioned processes, equally weighted.
        x: The rows.
        y: Their targets, in the units of the function.
    """

    experts: tuple[Expert, ...]
    x: np.ndarray
    y: np.ndarray

    @classmethod
    def of(
        cls,
        processes: Sequence[GaussianProcess],
        x: ArrayLike,
        y: ArrayLike,
        noise: Sequence[Any],
        names: Sequence[Any] = (),
    ) -> "Extrapolation":
        """Condition each process on the rows, of which at most the first 1000 are used.

        A process is left out if the rows refute it: if its mean log density of a row given the others is 0.25 nats
        below that of the best.

        Args:
            processes: Gaussian processes.
            x: Rows (n, features) in random order.
            y: Values of the function with noise, (n,) or (n, outputs).
            noise: Standard deviation for each process: a number, or one for each row or each row and output.
            names: Names of the processes, such as the words of their kernels.

        Example:
            >>> from fsgmcmc.priors import rbf
            >>> x = np.linspace(-1, 1, 20)
            >>> beyond = Extrapolation.of([GaussianProcess(rbf(0.5))], x, np.sin(x), noise=[0.1])
            >>> print(beyond.weights(np.array([[0.0], [3.0]]))[0].round(2).ravel())
            [0.   0.99]
        """
        if not len(processes) or len(processes) != len(noise):
            raise ValueError(f"give one noise for each process, got {len(processes)} and {len(noise)}")
        x = _checks.matrix(x, "x", np.float64)[:LARGEST]
        y = _checks.matrix(y, "y", np.float64)[:LARGEST]
        kept = tuple(np.asarray(each)[:LARGEST] if np.ndim(each) else float(each) for each in noise)
        names = tuple(names) or tuple(range(len(kept)))
        given = zip(names, processes, kept, strict=True)
        experts = [_expert(name, process.condition(x, y, each)) for name, process, each in given]
        best = max(expert.density for expert in experts)
        return cls(tuple(expert for expert in experts if expert.density >= best - REFUTED), x, y)

    def weights(self, x: ArrayLike) -> np.ndarray:
        """a(x) of each process, (processes, points, outputs)."""
        return np.stack([_hand_over(expert, moments)[0] for expert, moments in self._moments(x)])

    def excess(self, x: ArrayLike) -> np.ndarray:
        """sqrt(mean_k a v / mean_k (q + σ²)), largest over outputs: what is added to what most rows have, (points,)."""
        added, usual = 0.0, 0.0
        for expert, moments in self._moments(x):
            a, _, v = _hand_over(expert, moments)
            added, usual = added + a * v, usual + expert.threshold + np.mean(np.square(expert.posterior.noise))
        return np.sqrt(np.max(added / usual, axis=1))

    def blend(self, x: ArrayLike, functions: np.ndarray) -> Blend:
        """Means and spread of f̃ at points x for function draws (draws, points, outputs)."""
        means, spreads = np.array(functions, np.float64), np.zeros(functions.shape)
        for index, (expert, moments) in enumerate(self._moments(x)):
            a, g, v = _hand_over(expert, moments)
            paired, moved = self._paired(index, len(means))
            means[moved] = (1 - a) * means[moved] + a * g
            spreads[paired] = np.sqrt(a * v)
        return Blend(means, spreads)

    def draw(self, x: ArrayLike, functions: np.ndarray, seed: int = 0) -> np.ndarray:
        """f̃ for function draws (draws, points, outputs), jointly at those of the points x that are beyond the rows."""
        rng = np.random.default_rng(seed)
        points, drawn = _checks.matrix(x, "x", np.float64), np.array(functions, np.float64)
        for index, (expert, moments) in enumerate(self._moments(points)):
            a, g, _ = _hand_over(expert, moments)
            paired, moved = self._paired(index, len(drawn))
            drawn[moved] = (1 - a) * drawn[moved] + a * g
            beyond = np.flatnonzero(a.any(axis=1))
            if len(beyond) and len(paired):
                deviation = _joint(rng, expert.posterior, points[beyond], len(paired))
                drawn[np.ix_(paired, beyond)] += np.sqrt(a[beyond]) * deviation
        return drawn

    def _paired(self, index: int, draws: int) -> tuple[np.ndarray, np.ndarray]:
        """The draws that go with a process, and those of them whose mean becomes that of the process (b = 1)."""
        each = np.arange(draws)
        own = each[each // 2 % len(self.experts) == index]
        return own, own[own % 2 == 0]

    def _moments(self, x: ArrayLike) -> Any:
        """Each expert with the mean and the variance of its process at x."""
        points = _checks.matrix(x, "x", np.float64)
        # Whole blocks, so that one program serves any number of points.
        even = np.concatenate([points, np.repeat(points[-1:], -len(points) % POINTS_PER_CALL, axis=0)])
        for expert in self.experts:
            blocks = [
                expert.posterior.predict(even[at : at + POINTS_PER_CALL], noise=1.0)
                for at in range(0, len(even), POINTS_PER_CALL)
            ]
            mean, sd = (np.concatenate([getattr(b, name) for b in blocks]) for name in ("mean", "epistemic"))
            yield expert, (mean[: len(points)], np.square(sd[: len(points)]))


def _expert(name: Any, posterior: GaussianProcessPosterior) -> Expert:
    error, variance = posterior.leave_one_out()
    density = -0.5 * np.square(error) / variance - 0.5 * np.log(2 * np.pi * variance)
    noise = np.square(posterior.noise)
    # Rounding can leave a negative variance where the other rows determine the function.
    of_function = np.maximum(variance - (noise[:, None] if noise.ndim == 1 else noise), 0.0)
    return Expert(name, posterior, np.quantile(of_function, INSIDE, axis=0), float(density.sum(axis=1).mean()))


def _hand_over(expert: Expert, moments: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """a, g and v at some points, each (points, outputs)."""
    mean, variance = moments
    excess = np.maximum(variance - expert.threshold, 0.0)
    return np.divide(excess, variance, out=np.zeros_like(excess), where=variance > 0), mean, variance


def _joint(rng: np.random.Generator, posterior: GaussianProcessPosterior, x: ArrayLike, draws: int) -> np.ndarray:
    """Deviations h − g of draws of a conditioned process at points x, (draws, points, outputs)."""
    process, outputs = posterior.process, posterior.weights.shape[1]
    new = in_float64(GaussianProcess.embed, process, _checks.matrix(x, "x", np.float64))
    across, own = (_host.evaluate(process.kernel, a, new) for a in (posterior.x, new))
    count = len(new)
    across, own = (np.broadcast_to(k, (len(posterior.factors), *k.shape[-2:])) for k in (across, own))
    roots = []
    for L, k, prior in zip(posterior.factors, across, own, strict=True):
        solved = scipy.linalg.solve_triangular(L, k, lower=True)
        values, vectors = np.linalg.eigh(prior - solved.T @ solved)
        roots.append(vectors * np.sqrt(np.maximum(values, 0.0)))
    noise = rng.standard_normal((draws, outputs, count))
    deviations = [noise[:, c] @ roots[c % len(roots)].T for c in range(outputs)]
    return np.stack(deviations, axis=-1)
