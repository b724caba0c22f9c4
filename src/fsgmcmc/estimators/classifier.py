"""Classification with probabilities that know what they do not know, as scikit-learn has it."""

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from fsgmcmc.estimators.base import FunctionalBNN
from fsgmcmc.estimators.prior import of_classes
from fsgmcmc.likelihoods import Categorical
from fsgmcmc.predictions import CategoricalPrediction

# Relative to the prior's variance, of which the noise of the transformed targets is about half. With a small
# one predictions stay near uniform: labels say little against the volume of the weights (docs/what-is-sampled.md).
NUGGET = 0.5


class FunctionalBNNClassifier(ClassifierMixin, FunctionalBNN):
    """A Bayesian neural network whose logits have Gaussian processes as their prior.

    Labels are turned into regression targets with known noise (a Dirichlet prior), to which the processes are fitted;
    the network's posterior has a softmax likelihood. Parameters and attributes are those of `FunctionalBNNRegressor`,
    but for the noise, which labels do not have; `classes_` are the labels.

    Example:
        >>> X = np.linspace(-1, 1, 40)[:, None]
        >>> model = FunctionalBNNClassifier("rbf", samples=5, burn_in=200, thinning=5, random_state=0)
        >>> model.fit(X, np.where(X[:, 0] > 0, "yes", "no")).predict([[-0.9], [0.9]]).tolist()
        ['no', 'yes']
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "FunctionalBNNClassifier":
        """Sample the posterior given rows X (n, features), labels y (n,), and how often each row counts.

        Ctrl-C ends the fit with the draws there are; `info_["interrupted"]` tells.
        """
        self._check_params()
        X, y = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=2)
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        rows = self._rows(X, labels.astype(np.float64), sample_weight)
        if len(np.unique(rows.y)) < 2:
            raise ValueError(f"y holds one class, {self.classes_[int(rows.y[0])]!r}: there is nothing to tell apart")
        rows = rows._replace(y=rows.y.astype(np.int32))
        found = of_classes(self.kernel, self.prior == "pretrained", rows.x, rows.y, len(self.classes_), self.units_)
        self._infer(rows, found, NUGGET, self._likelihood())
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The most probable label of each row."""
        most_probable = self.predict_proba(X).argmax(axis=1)
        return self.classes_[most_probable]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of `classes_`, (rows, classes)."""
        return self._each(X, lambda law: law.probabilities)

    def sample_functions(self, X: Any, n: int | None = None) -> np.ndarray:
        """Logits drawn from the posterior at the rows: (n, rows, classes); by default every draw."""
        return self._draws(X, n).astype(np.float64)

    def predict_law(self, X: Any) -> CategoricalPrediction:
        """The whole predictive law: probabilities, entropy and mutual information (`fsgmcmc.metrics` takes it)."""
        return CategoricalPrediction(self._draws(X))

    def _likelihood(self) -> Categorical:
        check_is_fitted(self, "classes_")
        return Categorical(len(self.classes_))

    def _outputs(self) -> int:
        return len(self.classes_)
