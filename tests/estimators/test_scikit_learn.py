"""scikit-learn's own checks of the estimators."""

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

from fsgmcmc import FunctionalBNNClassifier, FunctionalBNNRegressor

ESTIMATORS = (FunctionalBNNRegressor, FunctionalBNNClassifier)
QUICK = {"hidden": (10,), "chains": 1, "samples": 8, "burn_in": 300, "thinning": 2, "steps": 60, "random_state": 0}


# What a user would meet first; `make test-all` runs all checks.
EVERYDAY = {
    "check_dict_unchanged",
    "check_estimator_sparse_tag",
    "check_estimators_nan_inf",
    "check_estimators_pickle",
    "check_fit2d_1sample",
    "check_methods_subset_invariance",
    "check_n_features_in",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_regressors_int",
    "check_sample_weight_equivalence_on_dense_data",
}


def named(check):
    return getattr(check, "func", check).__name__


# Everything but the inference is the same for all methods; this one compiles soonest.
@pytest.mark.parametrize(
    ("estimator", "check"),
    [
        pytest.param(estimator, check, id=named(check), marks=() if named(check) in EVERYDAY else pytest.mark.slow)
        for estimator, check in estimator_checks_generator(
            FunctionalBNNRegressor("linear", "bbb", prior="fixed", **QUICK)
        )
    ],
)
def test_scikit_learn_accepts(estimator, check):
    check(estimator)


# The regressor has most of the code that is checked.
@pytest.mark.slow
@parametrize_with_checks([FunctionalBNNClassifier("linear", "bbb", prior="fixed", **{**QUICK, "steps": 200})])
def test_scikit_learn_accepts_classifiers(estimator, check):
    check(estimator)


# Some checks have targets that are noise, and others want a chain that has arrived.
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the fitted Gaussian process explains the data by noise alone")
@parametrize_with_checks([kind("linear", **{**QUICK, "burn_in": 1000}) for kind in ESTIMATORS])
def test_scikit_learn_accepts_the_sampler_of_the_default(estimator, check):
    check(estimator)
