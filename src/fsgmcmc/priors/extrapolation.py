"""Beyond the data, predictions follow Gaussian processes conditioned on the data.

A network interpolates where there are rows. Far from them only the smoothness of its units determines it, and its draws
agree too much. For each of several processes:

    C = K + σ² I over the rows,    g(x), v(x)     mean and variance of the process given the rows
    q(x) = min(q₉₀, 0.95 k(x, x))                 q₉₀: 90 % quantile over rows of 1/[C⁻¹]_ii − σ², the variance at a
                                                  row given all other rows
    a(x) = max(v − q, 0) / min(v, k(x, x) − q)    in [0, 1]

Each draw s of the network is paired with one process, in turn, and with b = 0 or 1, in turn, and becomes

    f̃(x) = (1 − b a) f_s(x) + b a g(x) + sqrt(a) (h(x) − g(x)),    h a draw of the process given the rows

Where a point is determined by the rows as well as most rows are by the others, a = 0 and f̃ is the network. Where the
rows say nothing (v = k), or little beside what they say elsewhere (v ≫ q), a is 1 or close to it: f̃ is then a draw of
the process (b = 1), or differs from the network as a draw of the process does from its mean (b = 0). Given f_s, f̃(x) is
Gaussian with variance a v. Processes, and both values of b, have equal weights: the rows have no evidence about regions
without rows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy  # submodules are loaded at first use
from numpy.typing import ArrayLike

from fsgmcmc import _checks
from fsgmcmc.priors import _host
from fsgmcmc.priors.gaussian_process import GaussianProcess, GaussianProcessPosterior, in_float64

# Rows that a process is conditioned on at most, and numbers in all covariance factors together: where each class has a
# factor there are fewer rows. New points in one call, whose number is always the same.
LARGEST = 1000
LARGEST_FACTORS = 4e7
POINTS_PER_CALL = 256
# A process is refuted if its log density of a row given the others is so much below that of the best, in nats.
REFUTED = 0.25
# Share of the training rows at which the prediction is the network's, unchanged. If the rows do not determine each
# other, q₉₀ is the variance of the process itself, which no point exceeds: q is below it by this factor.
INSIDE = 0.9
BELOW_PRIOR = 0.95


class Expert(NamedTuple):
    """A named process given the rows, q₉₀ for each output, and the mean log density of a row given the others."""

    name: Any
    posterior: GaussianProcessPosterior
    threshold: np.ndarray
    density: float


class Moments(NamedTuple):
    """Of an expert at points: a, and the mean g and the variance v of its process, all (points, outputs)."""

    a: np.ndarray
    g: np.ndarray
    v: np.ndarray


class Blend(NamedTuple):
    """Function draws with what the processes add: means and standard deviations, both (draws, points, outputs)."""

    functions: np.ndarray
    spread: np.ndarray


@dataclass(frozen=True, eq=False)
class Extrapolation:
    """Processes given the rows, by which the draws of a network are replaced beyond them; `Extrapolation.of` builds it.

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
        processes: Any,
        x: ArrayLike,
        y: ArrayLike,
        noise: Any,
        names: Sequence[Any] = (),
    ) -> "Extrapolation":
        """Condition each process on the rows, of which at most 1000 are used, fewer for many classes.

        A process is left out if the rows refute it: if its mean log density of a row given the others is 0.25 nats
        below that of the best.

        Args:
            processes: A list of `GaussianProcess`.
            x: Rows (n, features).
            y: Values of the function with noise, (n,) or (n, outputs).
            noise: A list with the standard deviation for each process: a number, one for each row, or one for each row
                and output.
            names: Names of the processes, such as the words of their kernels.

        Example:
            >>> from fsgmcmc.priors import rbf
            >>> x = np.linspace(-1, 1, 20)
            >>> beyond = Extrapolation.of([GaussianProcess(rbf(0.5))], x, np.sin(x), noise=[0.1])
            >>> print(beyond.weights(np.array([[0.0], [3.0]]))[0].round(2).ravel())
            [0. 1.]
        """
        if not isinstance(processes, Sequence) or not isinstance(noise, Sequence) or not processes:
            raise TypeError("give a list of processes, and a list with the noise of each")
        if wrong := [process for process in processes if not isinstance(process, GaussianProcess)]:
            raise TypeError(f"processes must be of GaussianProcess, such as GaussianProcess(rbf()), not {wrong[0]!r}")
        if len(processes) != len(noise):
            raise ValueError(f"give one noise for each process, got {len(processes)} and {len(noise)}")
        names = tuple(names) or tuple(range(len(processes)))
        if len(names) != len(processes):
            raise ValueError(f"give one name for each process, got {len(processes)} and {len(names)}")
        x, y = _checks.matrix(x, "x", np.float64), _checks.matrix(y, "y", np.float64)
        _checks.same_length(x, y)
        factors = sum(np.shape(each)[1] if np.ndim(each) == 2 else 1 for each in noise)
        count = min(LARGEST, int((LARGEST_FACTORS / factors) ** 0.5))
        rows = np.sort(np.random.default_rng(0).permutation(len(x))[:count])
        x, y = x[rows], y[rows]
        kept = [np.asarray(each)[rows] if np.ndim(each) else float(each) for each in noise]
        given = zip(names, processes, kept, strict=True)
        experts = [_expert(name, process.condition(x, y, each)) for name, process, each in given]
        best = max(expert.density for expert in experts)
        return cls(tuple(expert for expert in experts if expert.density >= best - REFUTED), x, y)

    def weights(self, x: ArrayLike) -> np.ndarray:
        """a(x) of each process, (processes, points, outputs)."""
        return np.stack([moments.a for _, moments in self._moments(x)])

    def excess(self, x: ArrayLike) -> np.ndarray:
        """sqrt(mean a v / mean (q₉₀ + σ²)), largest over outputs: what is added to what most rows have, (points,)."""
        added, usual = 0.0, 0.0
        for expert, (a, _, v) in self._moments(x):
            added, usual = added + a * v, usual + expert.threshold + np.mean(np.square(expert.posterior.noise))
        return np.sqrt(np.max(added / usual, axis=1))

    def blend(self, x: ArrayLike, functions: np.ndarray) -> Blend:
        """Means and spread of f̃ at points x for function draws (draws, points, outputs)."""
        means, spreads = np.array(functions, np.float64), np.zeros(functions.shape)
        for index, (_, (a, g, v)) in enumerate(self._moments(x)):
            paired, moved = self._paired(index, len(means))
            means[moved] = (1 - a) * means[moved] + a * g
            spreads[paired] = np.sqrt(a * v)
        return Blend(means, spreads)

    def alone(self, x: ArrayLike) -> Blend:
        """Means and standard deviations of the processes without the network, (processes, points, outputs)."""
        moments = [moments for _, moments in self._moments(x)]
        return Blend(np.stack([each.g for each in moments]), np.sqrt([each.v for each in moments]))

    def draw(self, x: ArrayLike, functions: np.ndarray, seed: int = 0) -> np.ndarray:
        """f̃ for function draws (draws, points, outputs), jointly at those of the points x that are beyond the rows."""
        rng = np.random.default_rng(seed)
        points, drawn = _checks.matrix(x, "x", np.float64), np.array(functions, np.float64)
        for index, (expert, (a, g, _)) in enumerate(self._moments(points)):
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

    def _moments(self, x: ArrayLike) -> Iterator[tuple[Expert, Moments]]:
        """Each expert with its moments at x."""
        points = _checks.matrix(x, "x", np.float64)
        if points.shape[1:] != self.x.shape[1:]:
            raise ValueError(
                f"x has rows of shape {points.shape[1:]}, but those given to the processes {self.x.shape[1:]}"
            )
        # Whole blocks, so that one program serves any number of points.
        even = np.concatenate([points, np.repeat(points[-1:], -len(points) % POINTS_PER_CALL, axis=0)])
        for expert in self.experts:
            blocks = [
                _moments_at(expert, even[at : at + POINTS_PER_CALL]) for at in range(0, len(even), POINTS_PER_CALL)
            ]
            yield expert, Moments(*(np.concatenate(parts)[: len(points)] for parts in zip(*blocks, strict=True)))


def _expert(name: Any, posterior: GaussianProcessPosterior) -> Expert:
    error, variance = posterior.leave_one_out()
    density = -0.5 * np.square(error) / variance - 0.5 * np.log(2 * np.pi * variance)
    noise = np.square(posterior.noise)
    # Rounding can leave a negative variance where the other rows determine the function.
    of_function = np.maximum(variance - (noise[:, None] if noise.ndim == 1 else noise), 0.0)
    return Expert(name, posterior, np.quantile(of_function, INSIDE, axis=0), float(density.sum(axis=1).mean()))


def _moments_at(expert: Expert, x: np.ndarray) -> Moments:
    process, found = expert.posterior.process, expert.posterior.predict(x, noise=1.0)
    g, v = found.mean, np.square(found.epistemic)
    k = _host.evaluate(process.kernel, in_float64(GaussianProcess.embed, process, x)).T.reshape(len(x), -1)
    q = np.minimum(expert.threshold, BELOW_PRIOR * k)
    excess = np.maximum(v - q, 0.0)
    return Moments(np.divide(excess, np.minimum(v, k - q), out=np.zeros_like(excess), where=excess > 0), g, v)


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
