"""Predictive distributions of new rows, with densities, quantiles and scores."""

from fsgmcmc.predictions.classification import CategoricalPrediction as CategoricalPrediction
from fsgmcmc.predictions.distribution import DistributionPrediction as DistributionPrediction
from fsgmcmc.predictions.regression import (
    GaussianPrediction as GaussianPrediction,
    MomentPrediction as MomentPrediction,
    RegressionPrediction as RegressionPrediction,
)
from fsgmcmc.predictions.student_t import StudentPrediction as StudentPrediction

Prediction = RegressionPrediction | CategoricalPrediction
