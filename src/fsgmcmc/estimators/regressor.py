"""Regression with error bars: a scikit-learn estimator."""

from dataclasses import replace
from typing import Any

import jax
import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import validate_data

from fsgmcmc import _checks, defaults, methods
from fsgmcmc.data.standardiser import moments
from fsgmcmc.estimators import noise
from fsgmcmc.estimators.base import FunctionalBNN, check_units
from fsgmcmc.estimators.prior import FittedPrior, of_targets
from fsgmcmc.estimators.rows import Prepared, Rows
from fsgmcmc.likelihoods import Gaussian, Likelihood
from fsgmcmc.predictions import GaussianPrediction

NOISE_DISTRIBUTIONS = ("student", "gaussian")


class FunctionalBNNRegressor(RegressorMixin, FunctionalBNN):
    """A Bayesian neural network whose prior is a Gaussian process on the function it computes.

    Inputs and targets are standardised internally; all arguments and results are in the units of the data.

    Args:
        kernel: The prior as a word: "rbf" (smooth), "matern52", "matern32", "matern12" (rougher), "linear",
            "periodic", or words joined by + and *, with a lengthscale for each feature; "auto" chooses a form by
            evidence. Or a tinygp kernel, whose numbers are in the units of the data.
        method: A name in `fsgmcmc.methods.INFERENCE`, such as "fsghmc" (prior on functions) or "sghmc" (on weights).
            "auto" is "fsghmc" with a given kernel. With kernel="auto" it compares a few posteriors in short runs, by
            the density of a fifth of the rows: "fsghmc", and two with priors on weights, which replace it if they are
            better by more than a standard error.
        hidden: Units of each hidden layer; None is (50, 50), or those of the best posterior. A linear skip connection
            is added where the kernel has a linear part, waves as inputs where it has a period or short lengthscales.
        prior: "pretrained" fits the kernel's numbers, the mean and the noise by marginal likelihood; "fixed" takes the
            kernel as it is, around the mean of y. A word has unit numbers, in standard deviations of the data.
        noise: Standard deviation of the observations in the units of y, where it is known; None learns it.
        noise_distribution: Distribution of a learned noise: "student" learns its tails too, nearly Gaussian unless many
            rows are in the tails, or "gaussian". Known noise is Gaussian, and so is that of the variational methods.
        likelihood: A `Likelihood` of the targets as they are, such as one of counts; None is real targets with noise.
            Targets are then not standardised, and the kernel describes the function of that likelihood.
        chains: Chains.
        samples: Draws kept from each chain.
        burn_in: Steps before them; half as many steps of Adam come first.
        thinning: Steps between them where there are more than 1000 rows; twice as many where there are fewer.
        steps: Steps of the variational methods, which draw `chains` × `samples` times from what they end with.
        extrapolation: With "process" predictions far from all rows vary as Gaussian processes do that are given the
            rows, whose error bars grow (docs/what-is-sampled.md): draws of the numbers of `kernel`, or with "auto" of
            up to seven kernels, equally weighted. "network" keeps the network everywhere.
        random_state: A seed, or a `numpy.random.RandomState`, that fixes the result.
        progress: Show a progress bar where there is a terminal.
        checkpoint: A file from which an interrupted fit resumes, also within its warm-up.

    Attributes:
        prior_: The Gaussian process, in standardised units.
        kernel_: Its form in words, or the kernel given.
        method_: The method, and `network_` the network.
        tried_: The posteriors that were compared: their names, and the mean log density of the rows held out.
        likelihood_: The likelihood of the standardised targets.
        noise_: Standard deviation of the observations: the mean over draws, in the units of y; None where the
            likelihood has no noise.
        samples_: The draws, with diagnostics and predictions of the rest of the library.
        n_features_in_: Features.

    Example:
        >>> X = np.linspace(-1, 1, 30)[:, None]
        >>> model = FunctionalBNNRegressor("rbf", samples=5, burn_in=200, thinning=5, random_state=0)
        >>> mean, std = model.fit(X, np.sin(3 * X[:, 0])).predict([[0.5], [3.0]], return_std=True)
        >>> bool(std[1] > std[0])
        True
    """

    def __init__(  # of any type: scikit-learn's convention is to check them in `fit`
        self,
        kernel: Any = "auto",
        method: Any = "auto",
        *,
        hidden: Any = None,
        prior: Any = "pretrained",
        noise: Any = None,
        noise_distribution: Any = "student",
        likelihood: Any = None,
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
        super().__init__(
            kernel,
            method,
            hidden=hidden,
            prior=prior,
            chains=chains,
            samples=samples,
            burn_in=burn_in,
            thinning=thinning,
            steps=steps,
            extrapolation=extrapolation,
            random_state=random_state,
            progress=progress,
            checkpoint=checkpoint,
        )
        self.noise = noise
        self.noise_distribution = noise_distribution
        self.likelihood = likelihood

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "FunctionalBNNRegressor":
        """Sample the posterior given rows X (n, features), targets y (n,), and how often each row counts.

        Ctrl-C ends the fit with the draws there are; `info_["interrupted"]` is then true.
        """
        self._check_params()
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True, ensure_min_samples=2)
        rows = self._rows(X, y.astype(np.float64), sample_weight)
        if self.likelihood is None:
            with np.errstate(over="ignore"):
                mean, std = moments(rows.y, rows.weights)
            check_units(std, "y")
            self.scale_ = replace(self.scale_, y_mean=float(mean), y_std=float(std))
        self._fit_rows(rows)
        learned = self.likelihood_.noise_std(self.samples_.params.likelihood)
        self.noise_ = None if learned is None else float(np.mean(learned)) * self.scale_.y_std
        return self

    def _prepared(self, rows: Rows, kernel: Any, prior: FittedPrior | None = None) -> Prepared:
        x, own = self.scale_.x(rows.x), self.likelihood
        values = rows.y if own is None else self._latent(rows.y)
        if prior is None:
            prior = of_targets(kernel, self.prior == "pretrained", rows.x, values, self.noise, self.scale_)
        latent = self.scale_.y(values)
        likelihood = self._noise_likelihood(prior, x, latent) if own is None else own
        return Prepared(
            prior,
            likelihood,
            latent if own is None else rows.y,
            latent,
            tuple(each.noise for each in prior.beyond),
            defaults.nugget_for(prior.process, x, prior.noise),
        )

    def _check_params(self) -> None:
        super()._check_params()
        if self.noise_distribution not in NOISE_DISTRIBUTIONS:
            raise ValueError(f"unknown noise_distribution {self.noise_distribution!r}; choose 'student' or 'gaussian'")
        if self.noise is not None:
            _checks.positive_number(self.noise, "noise")
        if self.likelihood is not None and not isinstance(self.likelihood, Likelihood):
            raise TypeError(f"likelihood must be a Likelihood or None, not {self.likelihood!r}")
        if self.likelihood is not None and self.noise is not None:
            raise ValueError("give either a noise or a likelihood, whose noise is its own")

    def _latent(self, y: np.ndarray) -> np.ndarray:
        """Targets of the Gaussian process for a likelihood that was given, which is checked before anything long."""
        likelihood, name = self.likelihood, type(self.likelihood).__name__
        latent = np.asarray(likelihood.latent_targets(likelihood.targets(y)), np.float64)
        if latent.shape != (len(y), 1):
            raise ValueError(f"latent_targets of {name} must have shape ({len(y)}, 1), got {latent.shape}")
        if likelihood.outputs(latent) != 1:
            raise ValueError(f"{name} needs {likelihood.outputs(latent)} network outputs; the regressor has one")
        own = jax.tree.map(lambda leaf: np.asarray(leaf)[None], likelihood.init())
        prediction = likelihood.predict(np.zeros((1, 1, 1)), own)
        mean: Any = getattr(prediction, "mean", None)
        if np.shape(mean) != (1, 1):
            raise TypeError(
                f"predict of {name} must return a prediction with a mean of shape (rows, outputs), such as a "
                f"DistributionPrediction, not {prediction!r}"
            )
        return latent[:, 0]

    def _noise_likelihood(self, prior: FittedPrior, x: np.ndarray, y: np.ndarray) -> Gaussian:
        """Known noise, or noise that is learned from that beside the process."""
        if self.noise is not None:
            return Gaussian(prior.noise)
        method = methods.INFERENCE.get(self.method)
        if method is not None and method.is_variational:
            floor = max(prior.noise, defaults.LEAST_NOISE) if method.is_functional else defaults.SAMPLED_NOISE_FLOOR
            return defaults.learned_noise(prior.noise, floor, heavy_tails=False)
        scale = noise.scale_of(prior, x, y)
        floor = max(noise.floor_of(scale, y), defaults.SAMPLED_NOISE_FLOOR)
        return defaults.learned_noise(scale, floor, self.noise_distribution == "student")

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The mean at each row and, if asked for, the standard deviation of an observation there."""
        moments = self._each(X, lambda prediction: np.column_stack([prediction.mean, prediction.std]))
        mean = self.scale_.original_y(moments[:, 0])
        return (mean, self.scale_.y_std * moments[:, 1]) if return_std else mean

    def process_distribution(self, X: Any) -> GaussianPrediction:
        """The prediction of the Gaussian processes alone, equally weighted, to compare with that of the network.

        p(y) = 1/K Σ_k N(y; g_k(x), v_k(x) + σ_k²)
        """
        x = self._inputs(X)
        if self.extrapolation_ is None or self.likelihood is not None:
            raise ValueError('there are no processes of y: fit with extrapolation="process" and without a likelihood')
        # A row that counts w times has noise σ / sqrt(w), so the largest is that of a single row.
        noise = [float(np.max(expert.posterior.noise)) for expert in self.extrapolation_.experts]
        functions, spread = self.extrapolation_.alone(x)
        mixture = GaussianPrediction(functions, np.reshape(noise, (-1, 1, 1)), spread=spread)
        return mixture.rescaled(self.scale_.y_mean, self.scale_.y_std)

    def predict_interval(self, X: Any, coverage: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper end of the central interval that contains an observation with this probability."""
        if np.ndim(coverage) or not 0 < coverage < 1:
            raise ValueError(f"coverage is a probability between 0 and 1, such as 0.9, got {coverage}")
        lower, upper = self.predict_quantiles(X, [(1 - coverage) / 2, (1 + coverage) / 2]).T
        return lower, upper

    def predict_quantiles(self, X: Any, quantiles: Any = (0.05, 0.5, 0.95)) -> np.ndarray:
        """Quantiles of an observation at each row, (rows, quantiles)."""
        levels = [float(level) for level in np.ravel(quantiles)]
        return self.scale_.original_y(self._each(X, lambda prediction: prediction.quantile(levels)[:, :, 0].T))

    def sample_functions(self, X: Any, n: int | None = None) -> np.ndarray:
        """Functions drawn from the posterior, without noise, at the rows: (n, rows); by default every draw.

        A draw is one function at all rows of X, so that differences and sums between rows have the right spread.
        """
        return self.scale_.original_y(self._draws(X, n)[..., 0])

    def predict_distribution(self, X: Any) -> Any:
        """The predictive distribution: densities, scores, epistemic and aleatoric parts, for `fsgmcmc.metrics`."""
        prediction = self._prediction(X)
        if self.likelihood is not None:
            return prediction
        return prediction.rescaled(self.scale_.y_mean, self.scale_.y_std)

    def _outputs(self) -> int:
        return self.likelihood_.outputs(np.zeros((1, 1)))
