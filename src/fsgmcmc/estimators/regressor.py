"""Regression with error bars, as scikit-learn has it."""

from typing import Any

import jax
import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import validate_data

from fsgmcmc import recipe
from fsgmcmc.estimators.base import FunctionalBNN, moments
from fsgmcmc.estimators.prior import of_targets
from fsgmcmc.likelihoods import Gaussian
from fsgmcmc.predictions import GaussianPrediction

NOISE_LAWS = ("student", "gaussian")


class FunctionalBNNRegressor(RegressorMixin, FunctionalBNN):
    """A Bayesian neural network whose prior is a Gaussian process on the function it computes.

    Inputs and targets are standardised inside; everything that goes in or comes out is in the units of the data.

    Args:
        kernel: The prior in a word: "rbf" (smooth), "matern52", "matern32", "matern12" (rougher), "linear",
            "periodic", or words joined by + and *, with a lengthscale for each feature; "auto" chooses a form by
            evidence. Or a tinygp kernel, whose numbers are in the units of the data.
        method: "fsghmc", "fsgld" (priors on functions), "sghmc", "sgld" (priors on weights), or one of the variational
            "fbnn", "ifbnn" and "bbb".
        hidden: Units of each hidden layer. A line past them is added where the kernel has a linear part.
        prior: "pretrained" fits the kernel's numbers, the mean and the noise by marginal likelihood; "fixed" takes the
            kernel as it is, around the mean of y. A word has unit numbers, in standard deviations of the data.
        noise: Standard deviation of the observations in the units of y, where it is known; None learns it.
        noise_law: The law of a noise that is learned: "student" learns its tails too, nearly Gaussian unless many rows
            say otherwise, and "gaussian" has none. A noise that is known is Gaussian, and so is that of the variational
            methods.
        chains: Chains.
        samples: Draws kept from each chain.
        burn_in: Steps before them; half as many steps of Adam come first.
        thinning: Steps between them where there are more than 1000 rows; twice as many where there are fewer.
        steps: Steps of the variational methods, which draw `chains` × `samples` times from what they end with.
        random_state: A seed, or a `numpy.random.RandomState`, that fixes the result.
        progress: Show a progress bar where there is a terminal.
        checkpoint: A file from which a fit that was interrupted after its burn-in continues.

    Attributes:
        prior_: The Gaussian process, in standardised units.
        kernel_: Its form in words, or the kernel given.
        noise_: Standard deviation of the observations: the mean over draws, in the units of y.
        samples_: The draws, with diagnostics and predictions of the rest of the library.
        n_features_in_: Features.

    Example:
        >>> X = np.linspace(-1, 1, 30)[:, None]
        >>> model = FunctionalBNNRegressor("rbf", samples=5, burn_in=200, thinning=5, random_state=0)
        >>> mean, std = model.fit(X, np.sin(3 * X[:, 0])).predict([[0.5], [3.0]], return_std=True)
        >>> bool(std[1] > std[0])
        True
    """

    def __init__(  # of any type: `fit` is where scikit-learn wants them checked
        self,
        kernel: Any = "auto",
        method: Any = "fsghmc",
        *,
        hidden: Any = (50, 50),
        prior: Any = "pretrained",
        noise: Any = None,
        noise_law: Any = "student",
        chains: Any = 4,
        samples: Any = 25,
        burn_in: Any = 3000,
        thinning: Any = 400,
        steps: Any = 5000,
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
            random_state=random_state,
            progress=progress,
            checkpoint=checkpoint,
        )
        self.noise = noise
        self.noise_law = noise_law

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "FunctionalBNNRegressor":
        """Sample the posterior given rows X (n, features), targets y (n,), and how often each row counts.

        Ctrl-C ends the fit with the draws there are; `info_["interrupted"]` tells.
        """
        self._check_params()
        if self.noise_law not in NOISE_LAWS:
            raise ValueError(f"unknown noise_law {self.noise_law!r}; choose 'student' or 'gaussian'")
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True, ensure_min_samples=2)
        rows = self._rows(X, y.astype(np.float64), sample_weight)
        shift, scale = moments(rows.y, rows.weights)
        self.units_ = self.units_._replace(target_shift=float(shift), target_scale=float(scale))
        found = of_targets(self.kernel, self.prior == "pretrained", rows.x, rows.y, self.noise, self.units_)
        self.noise_start_, self.noise_floor_ = found.noise, recipe.SAMPLED_NOISE_FLOOR
        learned = self.noise_law if self.method in recipe.SAMPLERS else "gaussian"
        self.noise_law_ = learned if self.noise is None else "known"
        if self.method in ("fbnn", "ifbnn"):
            self.noise_floor_ = max(found.noise, recipe.LEAST_NOISE)
        nugget = recipe.nugget_for(found.process, self.units_.standardised(rows.x), found.noise)
        self._infer(rows._replace(y=(rows.y - shift) / scale), found, nugget, self._likelihood())
        std = self._likelihood().std(self.samples_.params.likelihood)
        self.noise_ = float(np.mean(std)) * self.units_.target_scale
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The mean at each row and, if asked for, the standard deviation of an observation there."""
        moments = self._each(X, lambda law: np.column_stack([law.mean, law.std]))
        mean = self._in_units(moments[:, 0])
        return (mean, self.units_.target_scale * moments[:, 1]) if return_std else mean

    def predict_interval(self, X: Any, coverage: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper end of the central interval that holds an observation with this probability."""
        if not 0 < coverage < 1:
            raise ValueError(f"coverage is a probability between 0 and 1, such as 0.9, got {coverage}")
        lower, upper = self.predict_quantiles(X, [(1 - coverage) / 2, (1 + coverage) / 2]).T
        return lower, upper

    def predict_quantiles(self, X: Any, quantiles: Any = (0.05, 0.5, 0.95)) -> np.ndarray:
        """Quantiles of an observation at each row, (rows, quantiles)."""
        levels = [float(level) for level in np.ravel(quantiles)]
        return self._in_units(self._each(X, lambda law: law.quantile(levels)[:, :, 0].T))

    def sample_functions(self, X: Any, n: int | None = None) -> np.ndarray:
        """Functions drawn from the posterior, without noise, at the rows: (n, rows); by default every draw.

        A draw is one function at all rows of X, so that differences and sums between rows have their right spread.
        """
        return self._in_units(self._draws(X, n)[..., 0])

    def predict_law(self, X: Any) -> GaussianPrediction:
        """The whole predictive law: densities, scores, epistemic and aleatoric parts (`fsgmcmc.metrics` takes it)."""
        own = jax.tree.map(np.ravel, self.samples_.params.likelihood)
        law = self._likelihood().predict(self._draws(X), own)
        return law.rescaled(self.units_.target_shift, self.units_.target_scale)

    def _in_units(self, values: np.ndarray) -> np.ndarray:
        return self.units_.target_shift + self.units_.target_scale * values.astype(np.float64)

    def _likelihood(self) -> Gaussian:
        if self.noise_law_ == "known":
            return Gaussian(self.noise_start_)
        return recipe.learned_noise(self.noise_start_, self.noise_floor_, heavy_tails=self.noise_law_ == "student")

    def _outputs(self) -> int:
        return 1
