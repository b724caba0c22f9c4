"""Default settings on tables: our regressor compared with a Gaussian process, a deep ensemble and NGBoost.

    python benchmarks/practitioners.py --data DIR --out out/practitioners

Five folds of scikit-learn's diabetes and of three UCI data sets. Every method gets the raw columns and the training
data of the fold; nothing is chosen by hand for a data set:

- ours: `FunctionalBNNRegressor()`;
- gp: scikit-learn's `GaussianProcessRegressor`, RBF with a lengthscale for each feature plus white noise, three starts;
- ensemble: five networks with two layers of 50 units that give mean and variance, trained by likelihood
  (Lakshminarayanan et al., 2017); a fifth of the training data selects the number of steps, then they are
  trained on all of it;
- ngboost: NGBoost, normal distribution; a fifth of the training data selects the number of rounds, at most 2000, then
  it is fitted to all of it.

Finished folds in the folder are not run again; practitioners.md and practitioners.csv have all of its records.
"""

from pathlib import Path

import numpy as np
from folds import FOLDS, Comparison, Score
from peers_tabular import ensemble, gaussian_process, ngboost
from sklearn.datasets import load_diabetes
from sklearn.model_selection import KFold

from fsgmcmc import FunctionalBNNRegressor
from fsgmcmc.data import load_uci
from fsgmcmc.predictions import RegressionPrediction

INTRODUCTION = (
    "Five folds, mean ± standard deviation; CRPS and RMSE are in units of the target, and seconds include "
    "compilation. Every method gets the raw columns; nothing is chosen by hand for a data set. **Bold**: the best of a "
    "data set, and all methods that a paired test over the folds (p = 0.05) does not find worse."
)


def ours(x: np.ndarray, y: np.ndarray, x_test: np.ndarray, seed: int) -> RegressionPrediction:
    """Default arguments, except the seed."""
    return FunctionalBNNRegressor(random_state=seed).fit(x, y).predict_distribution(x_test)


def load(name: str, data: Path | None) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and targets, in their units."""
    if name == "diabetes":
        return load_diabetes(return_X_y=True, scaled=False)
    found = load_uci(name, data)
    return found.x, found.y


REGRESSION = Comparison(
    name="practitioners",
    datasets=("diabetes", "yacht", "boston", "concrete"),
    methods={"ours": ours, "gp": gaussian_process, "ensemble": ensemble, "ngboost": ngboost},
    scores={
        "nll": Score("NLL, nats per row", 2, smaller_is_better=True),
        "crps": Score("CRPS", 2, smaller_is_better=True),
        "rmse": Score("RMSE", 2, smaller_is_better=True),
        "coverage_90": Score("share of rows in 90 % intervals", 2, smaller_is_better=False),
        "seconds": Score("seconds per fold", 0, smaller_is_better=False),
    },
    load=load,
    splitter=KFold(FOLDS, shuffle=True, random_state=0),
    title="Default settings on tables",
    introduction=INTRODUCTION,
)

if __name__ == "__main__":
    REGRESSION.main()
