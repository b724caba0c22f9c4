"""What the two estimators share: rows, chains and draws.

A fit depends on the set of rows and their weights, not on their order: equal rows are merged, their weights summed, and
the rest is put into one order before anything random happens. A weight of 2 is therefore a row seen twice, exactly.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from fsgmcmc import _checks, recipe, variational
from fsgmcmc.diagnostics import Report, diagnose
from fsgmcmc.estimators.novelty import Novelty
from fsgmcmc.estimators.prior import Found, Units
from fsgmcmc.likelihoods import Categorical, Gaussian, Weighted
from fsgmcmc.measurement import box, subset
from fsgmcmc.networks import MLP
from fsgmcmc.posterior import Posterior
from fsgmcmc.predictions import CategoricalPrediction, GaussianPrediction
from fsgmcmc.priors import GaussianProcess, GaussianWeights
from fsgmcmc.priors.functional import SMALLEST_REDRAWN_NUGGET
from fsgmcmc.priors.kernels import is_linear_in_part
from fsgmcmc.samplers import cyclical
from fsgmcmc.samples import Samples
from fsgmcmc.sampling import sample
from fsgmcmc.spaces import function_space, parameter_space

METHODS = (*recipe.SAMPLERS, *recipe.VARIATIONAL)
PRIORS = ("pretrained", "fixed")
# The others draw measurement points from a pool of rows, which padding would change.
PADDED = (*recipe.SAMPLERS, "bbb")
# Rows of one call of the network. It is the same call for one row as for many: nothing is compiled again, and what is
# said of a row does not depend on its neighbours.
ROWS_PER_CALL = 256
# Rows whose function values tell whether the chains agree, and draws that they need for it.
DIAGNOSED_ROWS = 200
FEWEST_DRAWS = 4
# Steps between two draws of up to a thousand rows, in those of more.
STRETCH = 2.0
# Adam's learning rate, batch and draws of q of the variational methods.
LEARNING_RATE = 0.01
FITTED_BATCH = 50
FITTED_POINTS, RANDOM_POINTS = 40, 10
WEIGHT_SCALE = 2.0
COUPLING = 0.01


class Rows(NamedTuple):
    """Distinct rows in one order, in the units of the data, and how often each counts."""

    x: np.ndarray
    y: np.ndarray
    weights: np.ndarray


class FunctionalBNN(BaseEstimator, ABC):
    """Parameters, chains and draws of an estimator; `FunctionalBNNRegressor` and `FunctionalBNNClassifier` add y."""

    def __init__(  # of any type: `fit` is where scikit-learn wants them checked
        self,
        kernel: Any = "auto",
        method: Any = "fsghmc",
        *,
        hidden: Any = (50, 50),
        prior: Any = "pretrained",
        chains: Any = 4,
        samples: Any = 25,
        burn_in: Any = 3000,
        thinning: Any = 400,
        steps: Any = 5000,
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
        self.random_state = random_state
        self.progress = progress
        self.checkpoint = checkpoint

    @property
    def samples_(self) -> Samples:
        """The draws, as the rest of the library has them; inputs and targets in their standardised units."""
        check_is_fitted(self)
        likelihood, outputs = self._likelihood(), self._outputs()
        return Samples.of_arrays(
            self.positions_, self.energy_, self._network(), likelihood, self.n_features_in_, outputs, self.info_
        )

    def diagnose(self) -> Report | None:
        """Whether the chains agree on the function at some training rows; None where there are too few draws."""
        samples = self.samples_
        return diagnose(samples, self.novelty_.reference[:DIAGNOSED_ROWS]) if samples.draws >= FEWEST_DRAWS else None

    def novelty(self, X: Any) -> np.ndarray:
        """How far each row lies from the training data in the prior's metric: 0 on a training row, 1 out of its sight.

        Distances are those of the kernel to the nearest training row, sqrt(½ (k(x, x) + k(x', x') − 2 k(x, x')) / v)
        with v the prior's variance. `novelty_.usual` is what 99 % of the training rows have to each other.
        """
        return self.novelty_.distance(self._inputs(X))

    def _check_params(self) -> None:
        if self.method not in METHODS:
            raise ValueError(f"unknown method {self.method!r}; choose one of {', '.join(METHODS)}")
        if self.prior not in PRIORS:
            raise ValueError(f"unknown prior {self.prior!r}; choose 'pretrained' or 'fixed'")
        if self.prior == "fixed" and self.kernel == "auto":
            raise ValueError("prior='fixed' takes a kernel as it is, but kernel='auto' leaves it open: name one")

    def _network(self) -> MLP:
        return MLP(tuple(self.hidden), initial="fan_in", skip=self.skip_)

    def _rows(self, X: Any, y: np.ndarray, sample_weight: Any) -> Rows:
        """The rows as they are fitted; `units_` is set."""
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        seen = weights > 0
        both, place = np.unique(np.column_stack([X, y])[seen], axis=0, return_inverse=True)
        weights = np.bincount(place.ravel(), weights[seen])
        order = np.random.default_rng(0).permutation(len(both))
        rows = Rows(both[order, :-1], both[order, -1], weights[order])
        with np.errstate(over="ignore"):
            self.units_ = Units(*moments(rows.x, rows.weights))
        if not np.isfinite(self.units_.scale).all():
            column = int(np.argmin(np.isfinite(self.units_.scale)))
            raise ValueError(f"the numbers of feature {column} are too large to be squared: give it in other units")
        return rows

    def _inputs(self, X: Any) -> np.ndarray:
        """New rows, checked and standardised."""
        check_is_fitted(self)
        return self.units_.standardised(validate_data(self, X, dtype=np.float64, reset=False))

    def _infer(self, rows: Rows, found: Found, nugget: float, likelihood: Gaussian | Categorical) -> None:
        """Sample or fit the network to standardised rows; what it takes to predict is set."""
        rows = rows._replace(x=self.units_.standardised(rows.x))
        # Where the process is linear far from the data the network is too, and elsewhere neither is.
        self.skip_ = isinstance(found.kernel, str) and is_linear_in_part(found.kernel)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        posterior = self._posterior(rows, found.process, nugget, Weighted(likelihood, rows.weights))
        if self.method in PADDED:
            # Cross-validation, whose parts differ by a row, compiles once.
            posterior = posterior.padded(recipe.padded_rows(len(rows.x)))
        shared = {"checkpoint": self.checkpoint, "progress": self.progress, "keep_interrupted": True}
        if self.method in recipe.SAMPLERS:
            burn_in = _checks.count(self.burn_in, "burn_in", least=0)
            samples = sample(
                seed,
                posterior,
                recipe.SAMPLERS[self.method].sampler(posterior),
                draws=self.samples,
                thinning=recipe.thinning_for(len(rows.x), self.thinning, STRETCH),
                burn_in=0,
                chains=self.chains,
                warm_up=recipe.warm_up_for(burn_in, adam_steps=max(burn_in // 2, 1)),
                back_off=recipe.BACK_OFFS,
                **shared,
            )
            samples.info["burn_in"] = burn_in
        else:
            samples = variational.fit(
                seed,
                posterior,
                _approximation(self.method),
                steps=self.steps,
                learning_rate=cyclical(LEARNING_RATE, length=self.steps),
                draws=self.chains * self.samples,
                **shared,
            )
        assert samples.positions is not None
        self.positions_, self.energy_, self.info_ = samples.positions, samples.energy, samples.info
        self.prior_, self.kernel_, self.n_rows_ = found.process, found.kernel, len(rows.x)
        self.novelty_ = Novelty.of(found.process, rows.x)

    def _posterior(self, rows: Rows, process: GaussianProcess, nugget: float, likelihood: Weighted) -> Posterior:
        x, network = rows.x, self._network()
        if self.method in ("sgld", "sghmc", "bbb"):
            weights, batch = GaussianWeights(), recipe.batch_size_for(len(x))
            if self.method == "bbb":
                weights, batch = GaussianWeights(WEIGHT_SCALE, "fan_in"), FITTED_BATCH
            return parameter_space(network, x, rows.y, prior=weights, likelihood=likelihood, batch_size=batch)
        measurement, batch = recipe.measured_at(x), recipe.batch_size_for(len(x))
        if self.method in recipe.VARIATIONAL:
            nugget, batch = max(nugget, SMALLEST_REDRAWN_NUGGET), FITTED_BATCH
            measurement = subset(x, min(FITTED_POINTS, len(x)))
            if self.method == "fbnn":
                measurement = box(x.min(axis=0), x.max(axis=0), RANDOM_POINTS)
        prior = GaussianProcess(process.kernel, process.mean, nugget)
        return function_space(
            network, x, rows.y, prior=prior, measurement=measurement, likelihood=likelihood, batch_size=batch
        )

    def _predictions(self, X: Any) -> Iterator[Any]:
        """Predictions in standardised units, for some rows at a time."""
        x, samples = self._inputs(X), self.samples_
        for start in range(0, len(x), ROWS_PER_CALL):
            block = x[start : start + ROWS_PER_CALL]
            padded = np.concatenate([block, np.repeat(block[-1:], ROWS_PER_CALL - len(block), axis=0)])
            yield samples.predict(padded), len(block)

    def _each(self, X: Any, law: Callable[[Any], np.ndarray]) -> np.ndarray:
        """`law` of the predictions, its axis of rows first."""
        return np.concatenate([law(prediction)[:rows] for prediction, rows in self._predictions(X)])

    def _draws(self, X: Any, n: int | None = None) -> np.ndarray:
        """Function values in standardised units, (n, rows, outputs); by default of every draw."""
        values = np.moveaxis(self._each(X, lambda law: np.moveaxis(_functions(law), 1, 0)), 0, 1)
        if n is None:
            return values
        if not 1 <= n <= len(values):
            raise ValueError(f"there are {len(values)} draws: n is 1 to {len(values)}, got {n}")
        return values[np.linspace(0, len(values) - 1, n).round().astype(int)]

    @abstractmethod
    def _likelihood(self) -> Gaussian | Categorical:
        """Of a fitted model, in standardised units."""

    @abstractmethod
    def _outputs(self) -> int:
        """Of the network."""


def moments(values: np.ndarray, weights: np.ndarray) -> tuple[Any, Any]:
    """Weighted mean and standard deviation of each column; a constant has 1."""
    mean = np.average(values, axis=0, weights=weights)
    std = np.sqrt(np.average(np.square(values - mean), axis=0, weights=weights))
    # The standard deviation of equal numbers may be a rounding error instead of zero.
    return mean, np.where(np.ptp(values, axis=0) > 0, std, 1.0)


def _functions(law: GaussianPrediction | CategoricalPrediction) -> np.ndarray:
    return law.functions if isinstance(law, GaussianPrediction) else law.logits


def _approximation(method: str) -> variational.Method:
    if method == "bbb":
        return variational.bbb(draws_per_step=4, initial_log_std=-5.0)
    if method == "fbnn":
        return variational.fbnn(draws_per_step=30, initial_log_std=-5.0)
    return variational.ifbnn(draws_per_step=4, initial_log_std=-5.0, functions=16, coupling=COUPLING)
