"""Classification with calibrated probabilities: a scikit-learn estimator."""

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from fsgmcmc import defaults
from fsgmcmc.estimators.base import FunctionalBNN
from fsgmcmc.estimators.prior import FittedPrior, of_classes
from fsgmcmc.estimators.rows import Prepared, Rows
from fsgmcmc.likelihoods import Dirichlet
from fsgmcmc.predictions import CategoricalPrediction
from fsgmcmc.priors.dirichlet import dirichlet_targets


class FunctionalBNNClassifier(ClassifierMixin, FunctionalBNN):
    """A Bayesian neural network whose logits have Gaussian processes as their prior.

    Labels are turned into regression targets with known noise (`Dirichlet`), to which first the processes are fitted
    and then the network; a softmax of its logits gives the probabilities. Parameters and attributes are those of
    `FunctionalBNNRegressor` but for the noise: `classes_` are the labels. `likelihood_.noise_scale` is 1 where
    similar rows have one label and larger where they have several.

    Example:
        >>> X = np.linspace(-1, 1, 40)[:, None]
        >>> model = FunctionalBNNClassifier("rbf", samples=5, burn_in=200, thinning=5, random_state=0)
        >>> model.fit(X, np.where(X[:, 0] > 0, "yes", "no")).predict([[-0.9], [0.9]]).tolist()
        ['no', 'yes']
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "FunctionalBNNClassifier":
        """Sample the posterior given rows X (n, features), labels y (n,), and how often each row counts.

        Ctrl-C ends the fit with the draws there are; `info_["interrupted"]` is then true.
        """
        self._check_params()
        X, y = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=2)
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        rows = self._rows(X, labels.astype(np.float64), sample_weight)
        if len(np.unique(rows.y)) < 2:
            raise ValueError(f"y has one class, {self.classes_[int(rows.y[0])]}: classification needs two")
        rows = rows._replace(y=rows.y.astype(np.int32))
        self._fit_rows(rows)
        return self

    def _prepared(self, rows: Rows, kernel: Any, prior: FittedPrior | None = None) -> Prepared:
        count = len(self.classes_)
        if prior is None:
            prior = of_classes(kernel, self.prior == "pretrained", rows.x, rows.y, count, self.scale_)
        _, noise = dirichlet_targets(np.arange(count), count, noise_scale=prior.noise)
        typical = float(np.sqrt(np.mean(np.square(noise))))
        latent, noise = dirichlet_targets(rows.y, count)
        return Prepared(
            prior,
            Dirichlet(count, noise_scale=prior.noise),
            rows.y,
            latent,
            tuple(each.noise * noise for each in prior.beyond),
            defaults.nugget_for(prior.process, self.scale_.x(rows.x), typical),
        )

    def predict(self, X: Any) -> np.ndarray:
        """The most probable label of each row."""
        most_probable = self.predict_proba(X).argmax(axis=1)
        return self.classes_[most_probable]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of `classes_`, (rows, classes)."""
        return self._each(X, lambda prediction: prediction.probabilities)

    def sample_functions(self, X: Any, n: int | None = None) -> np.ndarray:
        """Logits drawn from the posterior at the rows: (n, rows, classes); by default every draw."""
        return self._draws(X, n).astype(np.float64)

    def predict_distribution(self, X: Any) -> CategoricalPrediction:
        """The predictive distribution: probabilities, entropy and mutual information, for `fsgmcmc.metrics`."""
        return self._prediction(X)

    def process_distribution(self, X: Any) -> CategoricalPrediction:
        """The prediction of the Gaussian processes alone, equally weighted, to compare with that of the network."""
        x = self._inputs(X)
        if self.extrapolation_ is None:
            raise ValueError('there are no processes: fit with extrapolation="process"')
        return self.likelihood_.predict_spread(*self.extrapolation_.alone(x), ())

    def _outputs(self) -> int:
        return len(self.classes_)
