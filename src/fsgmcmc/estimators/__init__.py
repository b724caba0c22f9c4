"""scikit-learn estimators, and their files."""

from fsgmcmc.estimators.classifier import FunctionalBNNClassifier
from fsgmcmc.estimators.regressor import FunctionalBNNRegressor
from fsgmcmc.estimators.serialization import load_model, save_model

__all__ = ["FunctionalBNNClassifier", "FunctionalBNNRegressor", "load_model", "save_model"]
