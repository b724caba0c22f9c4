"""What the two estimators share: a posterior, chains and draws."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from fsgmcmc import _checks, defaults, methods, variational
from fsgmcmc._threads import each_on_a_core
from fsgmcmc.data.standardiser import Standardiser, moments
from fsgmcmc.diagnostics import Report, diagnose
from fsgmcmc.errors import DivergenceError
from fsgmcmc.estimators import candidates, comparison
from fsgmcmc.estimators.candidates import Candidate, Tried
from fsgmcmc.estimators.novelty import Novelty
from fsgmcmc.estimators.prior import FittedPrior
from fsgmcmc.estimators.rows import Prepared, Rows, distinct_rows
from fsgmcmc.inference.sample import sample
from fsgmcmc.likelihoods import Likelihood
from fsgmcmc.networks import MLP
from fsgmcmc.posterior import Posterior
from fsgmcmc.posterior.build import function_space, parameter_space
from fsgmcmc.priors import GaussianProcess, frequencies
from fsgmcmc.priors.extrapolation import Extrapolation
from fsgmcmc.priors.functional import SMALLEST_REDRAWN_NUGGET
from fsgmcmc.priors.kernels import is_linear_in_part
from fsgmcmc.samplers import cyclical
from fsgmcmc.samples import Samples

PRIORS = ("pretrained", "fixed")
EXTRAPOLATIONS = ("process", "network")
# Rows of one call of the network. It is the same call for one row as for many: nothing is compiled again, and the
# prediction at a row does not depend on its neighbours.
ROWS_PER_CALL = 256
# Training rows at which convergence is diagnosed, and draws needed for it.
DIAGNOSED_ROWS = 200
FEWEST_DRAWS = 4
# Steps between two draws of up to a thousand rows, in those of more.
STRETCH = 2.0
# Adam's learning rate for the variational methods.
LEARNING_RATE = 0.01


class FunctionalBNN(BaseEstimator, ABC):
    """Parameters, chains and draws of an estimator; `FunctionalBNNRegressor` and `FunctionalBNNClassifier` add y."""

    likelihood_: Likelihood  # of the standardised targets

    def __init__(  # of any type: scikit-learn's convention is to check them in `fit`
        self,
        kernel: Any = "auto",
        method: Any = "fsghmc",
        *,
        hidden: Any = None,
        prior: Any = "pretrained",
        chains: Any = 4,
        samples: Any = 25,
        burn_in: Any = 3000,
        thinning: Any = 400,
        steps: Any = 5000,
        extrapolation: Any = "process",
        random_state: Any = None,
        progress: Any = False,
        checkpoint: Any = None,
    ) -> None:
        self.kernel = kernel
        self.method = method
        self.hidden = hidden
        self.prior = prior
        self.chains = chains
        self.samples = samples
        self.burn_in = burn_in
        self.thinning = thinning
        self.steps = steps
        self.extrapolation = extrapolation
        self.random_state = random_state
        self.progress = progress
        self.checkpoint = checkpoint

    @property
    def samples_(self) -> Samples:
        """The draws, as the rest of the library has them; inputs and targets in their standardised units."""
        check_is_fitted(self)
        samples = Samples.of_arrays(
            self.positions_,
            self.energy_,
            self.network_,
            self.likelihood_,
            self.n_features_in_,
            self._outputs(),
            self.info_,
        )
        return replace(samples, extrapolation=self.extrapolation_)

    def diagnose(self) -> Report | None:
        """Whether the chains agree on the function at some training rows, and the network with its process.

        None where there are too few draws. The code "process" of a warning says that the network misses what its
        Gaussian process explains of the training targets, and "beyond", with extrapolation="network", that it is much
        more certain than its process beyond the rows.
        """
        samples, x = self.samples_, self.novelty_.reference[:DIAGNOSED_ROWS]
        if samples.draws < FEWEST_DRAWS:
            return None
        report = diagnose(samples, x)
        if not methods.INFERENCE[self.method_].is_functional:
            return report
        if self.extrapolation_ is not None:
            found = comparison.at_rows(self._functions, self.extrapolation_)
        else:
            noise = self.likelihood_.noise_std(samples.params.likelihood)
            found = comparison.beyond_rows(self._functions, self.prior_, self.novelty_.reference, noise)
        return report if found is None else replace(report, warnings=(*report.warnings, found))

    def novelty(self, X: Any) -> np.ndarray:
        """How far each row lies from the training data; above 1 it extrapolates.

        The largest of three ratios: the distance to the nearest training row in the metric of the kernel, to the 99 %
        quantile of the distances between training rows; the distance from the range of a feature, to 5 % of it; and,
        with extrapolation="process", the standard deviation that the processes add there, to that at most rows.
        """
        x = self._inputs(X)
        score = self.novelty_.score(x)
        return score if self.extrapolation_ is None else np.maximum(score, self.extrapolation_.excess(x))

    @abstractmethod
    def process_distribution(self, X: Any) -> Any:
        """The prediction of the Gaussian processes beyond the rows, at all rows and without the network."""

    def _check_params(self) -> None:
        known = ("auto", *methods.INFERENCE)
        if not isinstance(self.method, str) or self.method not in known:
            raise ValueError(f"unknown method {self.method!r}; choose one of {', '.join(known)}")
        if not isinstance(self.prior, str) or self.prior not in PRIORS:
            raise ValueError(f"unknown prior {self.prior!r}; choose 'pretrained' or 'fixed'")
        if not isinstance(self.extrapolation, str) or self.extrapolation not in EXTRAPOLATIONS:
            raise ValueError(f"unknown extrapolation {self.extrapolation!r}; choose 'process' or 'network'")
        if self.prior == "fixed" and self.kernel == "auto":
            raise ValueError("prior='fixed' takes a kernel as it is, but kernel='auto' leaves it open: name one")
        if self.checkpoint is not None and self.random_state is None:
            raise ValueError("a checkpoint belongs to one seed: give random_state too, such as random_state=0")
        for name in ("samples", "thinning", "chains", "steps"):
            _checks.count(getattr(self, name), name)
        _checks.count(self.burn_in, "burn_in", least=0)
        if self.hidden is not None and np.ndim(self.hidden) != 1:
            raise TypeError(f"hidden has the units of each layer, such as (50, 50), not {self.hidden!r}")

    def _rows(self, X: Any, y: np.ndarray, sample_weight: Any) -> Rows:
        """The rows as they are fitted; `scale_` is set."""
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        rows = distinct_rows(X, y, weights)
        with np.errstate(over="ignore"):
            self.scale_ = Standardiser(*moments(rows.x, rows.weights))
        check_units(self.scale_.x_std, "feature {}")
        return rows

    def _inputs(self, X: Any) -> np.ndarray:
        """New rows, checked and standardised."""
        check_is_fitted(self)
        return self.scale_.x(validate_data(self, X, dtype=np.float64, reset=False))

    def _fit_rows(self, rows: Rows) -> None:
        """Choose a posterior of the rows, sample it or approximate it, and keep what it takes to predict."""
        prepared = self._prepared(rows, self.kernel)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        x = self.scale_.x(rows.x)
        chosen, self.tried_ = self._choose(seed, rows, prepared.prior.kernel)
        posterior = self._posterior(chosen, x, prepared, rows.weights)
        samples = self._run(seed, chosen, posterior)
        assert samples.positions is not None
        self.method_, self.network_, self.likelihood_ = chosen.method, posterior.network, prepared.likelihood
        self.positions_, self.energy_, self.info_ = samples.positions, samples.energy, samples.info
        self.prior_, self.kernel_, self.n_rows_ = prepared.prior.process, prepared.prior.kernel, len(x)
        self.novelty_ = Novelty.of(self.prior_, x)
        self.extrapolation_ = None
        if self.extrapolation == "process":
            # A row that counts w times has the noise of a mean of w rows.
            often = np.sqrt(rows.weights)[:, None] if (rows.weights != 1).any() else 1.0
            noises, beyond = [each / often for each in prepared.noise], prepared.prior.beyond
            words = [each.kernel for each in beyond]
            self.extrapolation_ = Extrapolation.of([e.process for e in beyond], x, prepared.latent, noises, words)

    def _choose(self, seed: int, rows: Rows, kernel: Any) -> tuple[Candidate, tuple[Tried, ...]]:
        """The candidate with the largest density of held-out rows, and the density of each; with one, this one.

        The first stays unless another is better by a standard error of their difference.
        """
        hidden = None if self.hidden is None else tuple(self.hidden)
        all_of_them = candidates.candidates(self.method, hidden, kernel_is_open=self.kernel == "auto")
        count = candidates.held_out(len(rows.x))
        if len(all_of_them) == 1 or not count:
            return all_of_them[0], ()
        x = self.scale_.x(rows.x)
        # Rows are in random order. Those held out stay, with a weight of zero, so that the fit that follows needs no
        # other program; the prior is fitted without them.
        prepared = self._prepared(Rows(*(each[count:] for each in rows)), kernel)
        whole = self._prepared(rows, prepared.prior.kernel, prepared.prior)._replace(likelihood=prepared.likelihood)
        weights = np.where(np.arange(len(x)) < count, 0.0, rows.weights)

        def held_out_log_prob(candidate: Candidate) -> np.ndarray:
            try:
                samples = self._run(seed, candidate, self._posterior(candidate, x, whole, weights), short=True)
                return samples.predict(x[:count]).log_prob(whole.y[:count])
            except DivergenceError:
                return np.full(count, -np.inf)

        log_probs = each_on_a_core(held_out_log_prob, all_of_them)
        means = np.mean(log_probs, axis=1)
        best = int(np.argmax(means))
        if np.isfinite(means[0]):
            gain = log_probs[best] - log_probs[0]
            best = best if gain.mean() > gain.std() / np.sqrt(count) else 0
        return all_of_them[best], tuple(Tried(c.name, float(m)) for c, m in zip(all_of_them, means, strict=True))

    def _run(self, seed: int, candidate: Candidate, posterior: Posterior, short: bool = False) -> Samples:
        """Draws of a posterior; with `short` as many as tell candidates apart."""
        method, rows = methods.INFERENCE[candidate.method], posterior.data.total
        # Short runs go side by side, and there is one terminal.
        shared = {"progress": False} if short else {"checkpoint": self.checkpoint, "progress": self.progress}
        if not method.is_sampler:
            return variational.fit(
                seed,
                posterior,
                method.approximation(),
                steps=self.steps,
                learning_rate=cyclical(LEARNING_RATE, length=self.steps),
                draws=self.chains * self.samples,
                keep_interrupted=True,
                **shared,
            )
        burn_in = _checks.count(self.burn_in, "burn_in", least=0)
        draws, thinning = self.samples, defaults.thinning_for(rows, self.thinning, STRETCH)
        if short:
            burn_in, thinning = min(burn_in, candidates.BURN_IN), min(thinning, candidates.THINNING)
            draws = min(draws, candidates.DRAWS)
        samples = sample(
            seed,
            posterior,
            method.sampler(posterior),
            draws=draws,
            thinning=thinning,
            burn_in=0,
            chains=self.chains,
            warm_up=defaults.warm_up_for(burn_in, adam_steps=max(burn_in // 2, 1)),
            back_off=defaults.BACK_OFFS,
            keep_interrupted=not short,
            **shared,
        )
        samples.info["burn_in"] = burn_in
        return samples

    def _posterior(self, candidate: Candidate, x: np.ndarray, prepared: Prepared, weights: np.ndarray) -> Posterior:
        """The posterior of standardised rows."""
        method, process, kernel = methods.INFERENCE[candidate.method], prepared.prior.process, prepared.prior.kernel
        # Where the process is linear far from the data the network is too, and elsewhere neither is.
        linear = isinstance(kernel, str) and is_linear_in_part(kernel)
        waves = frequencies(process.kernel, x)
        network = MLP(candidate.hidden, initial=candidate.initial, skip=linear or bool(waves), frequencies=waves)
        batch_size = method.batch_size(len(x))
        if not method.is_functional:
            assert candidate.weight_prior is not None
            posterior = parameter_space(
                network,
                x,
                prepared.y,
                prior=candidate.weight_prior,
                likelihood=prepared.likelihood,
                batch_size=batch_size,
                weights=weights,
            )
        else:
            nugget = max(prepared.nugget, SMALLEST_REDRAWN_NUGGET) if method.is_variational else prepared.nugget
            posterior = function_space(
                network,
                x,
                prepared.y,
                prior=GaussianProcess(process.kernel, process.mean, nugget),
                measurement=method.measurement(x),
                likelihood=prepared.likelihood,
                batch_size=batch_size,
                weights=weights,
            )
        # Cross-validation, whose parts differ by a row, compiles once.
        return posterior.padded(defaults.padded_rows(len(x))) if method.can_pad else posterior

    @abstractmethod
    def _prepared(self, rows: Rows, kernel: Any, prior: FittedPrior | None = None) -> Prepared:
        """The prior of these rows with a kernel, or a prior that is fitted already, and what goes with it."""

    def _predictions(self, X: Any) -> Iterator[Any]:
        """Predictions in standardised units, for some rows at a time."""
        x, samples = self._inputs(X), self.samples_
        for block, rows in _blocks(x):
            yield samples.predict(block), rows

    def _each(self, X: Any, function: Callable[[Any], np.ndarray]) -> np.ndarray:
        """`function` of the predictions, its axis of rows first."""
        return np.concatenate([function(prediction)[:rows] for prediction, rows in self._predictions(X)])

    def _functions(self, x: np.ndarray) -> np.ndarray:
        """The network at standardised rows, (chains, draws, rows, outputs)."""
        samples = self.samples_
        return np.concatenate([samples.functions(block)[:, :, :rows] for block, rows in _blocks(x)], axis=2)

    def _draws(self, X: Any, n: int | None = None) -> np.ndarray:
        """Draws of the function, jointly at all rows, in standardised units: (n, rows, outputs); by default all."""
        x = self._inputs(X)
        values = self._functions(x)
        values = values.reshape(-1, *values.shape[2:])
        if self.extrapolation_ is not None:
            values = self.extrapolation_.draw(x, values)
        if n is None:
            return values
        if _checks.count(n, "n") > len(values):
            raise ValueError(f"there are {len(values)} draws: n is 1 to {len(values)}, got {n}")
        return values[np.linspace(0, len(values) - 1, n).round().astype(int)]

    def _prediction(self, X: Any) -> Any:
        """The prediction at all rows in standardised units."""
        x = self._inputs(X)
        return self.samples_.predict_from(self._functions(x), x)

    @abstractmethod
    def _outputs(self) -> int:
        """Of the network."""


def check_units(std: Any, name: str) -> None:
    """Refuse numbers whose squares are infinite or zero in float64; `name` has a place for the column."""
    wrong = np.flatnonzero(~(np.isfinite(std) & (np.asarray(std) > 0)))
    if wrong.size:
        raise ValueError(
            f"the numbers of {name.format(wrong[0])} are too large or too small to be squared: use other units"
        )


def _blocks(x: np.ndarray) -> Iterator[tuple[np.ndarray, int]]:
    """Blocks of as many rows each, the last row repeated, and how many of them count."""
    for start in range(0, len(x), ROWS_PER_CALL):
        block = x[start : start + ROWS_PER_CALL]
        yield np.concatenate([block, np.repeat(block[-1:], ROWS_PER_CALL - len(block), axis=0)]), len(block)
