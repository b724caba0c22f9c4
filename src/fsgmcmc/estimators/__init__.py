"""scikit-learn estimators."""

from fsgmcmc.estimators.classifier import FunctionalBNNClassifier
from fsgmcmc.estimators.regressor import FunctionalBNNRegressor

__all__ = ["FunctionalBNNClassifier", "FunctionalBNNRegressor"]
