"""Default settings on tables: our regressor compared with a Gaussian process, a deep ensemble and NGBoost.

    python benchmarks/practitioners.py --data DIR --out out/practitioners

Five folds of scikit-learn's diabetes and of three UCI data sets. Every method gets the raw columns and the training
data of the fold; nothing is chosen by hand for a data set:

- ours: `FunctionalBNNRegressor()`;
- gp: scikit-learn's `GaussianProcessRegressor`, RBF with a lengthscale for each feature plus white noise, three starts;
- ensemble: five networks with two layers of 50 units that give mean and variance, trained by likelihood
  (Lakshminarayanan et al., 2017); a fifth of the training data selects the number of steps, then they are
  trained on all of it;
- ngboost: NGBoost, normal distribution, at most 2000 rounds, early stopping on a tenth of the training data.

Finished folds in the folder are not run again; practitioners.md and practitioners.csv have all of its records.
"""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
from folds import FOLDS, Comparison, Score
from sklearn.datasets import load_diabetes
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.model_selection import KFold

from fsgmcmc import MLP, FunctionalBNNRegressor, metrics
from fsgmcmc.data import Standardiser, load_uci
from fsgmcmc.predictions import GaussianPrediction, MomentPrediction, RegressionPrediction

INTRODUCTION = (
    "Five folds, mean ± standard deviation; CRPS and RMSE are in units of the target, and seconds include "
    "compilation. Every method gets the raw columns; nothing is chosen by hand for a data set. **Bold**: the best of a "
    "data set, and all methods that a paired test over the folds (p = 0.05) does not find worse."
)
# Of the ensemble: members, learning rate and batch of Adam, and the candidate numbers of steps.
MEMBERS, RATE, BATCH = 5, 0.01, 100
STOPS = (250, 500, 1000, 2000, 4000)
LEAST_VARIANCE = 1e-6


def ours(x: np.ndarray, y: np.ndarray, x_test: np.ndarray, seed: int) -> RegressionPrediction:
    """Default arguments, except the seed."""
    return FunctionalBNNRegressor(random_state=seed).fit(x, y).predict_distribution(x_test)


def gaussian_process(x: np.ndarray, y: np.ndarray, x_test: np.ndarray, seed: int) -> RegressionPrediction:
    """Exact, with hyperparameters by marginal likelihood."""
    scale = Standardiser.fit(x, y)
    kernel = ConstantKernel() * RBF(np.ones(x.shape[1]), (1e-2, 1e3)) + WhiteKernel(0.1, (1e-6, 1e1))
    model = GaussianProcessRegressor(kernel, normalize_y=True, n_restarts_optimizer=2, random_state=seed)
    mean, std = model.fit(scale.x(x), y).predict(scale.x(x_test), return_std=True)
    return MomentPrediction(mean[:, None], np.zeros((len(mean), 1)), np.maximum(std, 1e-9)[:, None])


def ensemble(x: np.ndarray, y: np.ndarray, x_test: np.ndarray, seed: int) -> RegressionPrediction:
    """Means and variances of five networks, a mixture of equal weights."""
    scale = Standardiser.fit(x, y)
    inputs, targets, new = scale.x(x), scale.y(y).astype(np.float32), scale.x(x_test)
    order = np.random.default_rng(seed).permutation(len(x))
    held, kept = order[: len(x) // 5], order[len(x) // 5 :]
    scores = [
        metrics.nll(one, targets[held]) for one in _members(inputs[kept], targets[kept], inputs[held], seed, STOPS)
    ]
    steps = STOPS[int(np.argmin(scores))]
    (prediction,) = _members(inputs, targets, new, seed + 1, (steps,))
    return prediction.rescaled(scale.y_mean, scale.y_std)


def _members(
    x: np.ndarray, y: np.ndarray, new: np.ndarray, seed: int, stops: tuple[int, ...]
) -> list[GaussianPrediction]:
    """The prediction of the ensemble after each of these numbers of steps."""
    network, adam = MLP((50, 50), "relu", initial="fan_in"), optax.adam(RATE)

    def outputs(params: object, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        values = network.apply(params, x)
        return values[:, 0], jax.nn.softplus(values[:, 1]) + LEAST_VARIANCE

    def loss(params: object, rows: jax.Array) -> jax.Array:
        mean, variance = outputs(params, jnp.asarray(x)[rows])
        return jnp.mean(0.5 * jnp.log(variance) + 0.5 * jnp.square(jnp.asarray(y)[rows] - mean) / variance)

    @jax.jit
    def train(key: jax.Array, params: object, state: object, steps: int) -> tuple[object, object]:
        def step(t: int, carry: tuple) -> tuple:
            params, state = carry
            rows = jax.random.randint(jax.random.fold_in(key, t), (min(BATCH, len(x)),), 0, len(x))
            updates, state = adam.update(jax.grad(loss)(params, rows), state)
            return optax.apply_updates(params, updates), state

        return jax.lax.fori_loop(0, steps, step, (params, state))

    predictions, done = [], 0
    keys = jax.random.split(jax.random.key(seed), 2 * MEMBERS)
    members = [network.init(key, x.shape[1], 2) for key in keys[:MEMBERS]]
    states = [adam.init(params) for params in members]
    for stop in stops:
        trained = [
            train(jax.random.fold_in(key, stop), params, state, stop - done)
            for key, params, state in zip(keys[MEMBERS:], members, states, strict=True)
        ]
        members, states, done = [params for params, _ in trained], [state for _, state in trained], stop
        found = [outputs(params, jnp.asarray(new)) for params in members]
        means, variances = (np.asarray(jnp.stack(part), np.float64)[..., None] for part in zip(*found, strict=True))
        predictions.append(GaussianPrediction(means, np.sqrt(variances)))
    return predictions


def ngboost(x: np.ndarray, y: np.ndarray, x_test: np.ndarray, seed: int) -> RegressionPrediction:
    """Natural-gradient boosting of a normal distribution."""
    from ngboost import NGBRegressor

    model = NGBRegressor(
        n_estimators=2000, validation_fraction=0.1, early_stopping_rounds=50, verbose=False, random_state=seed
    )
    normal = model.fit(x, y).pred_dist(x_test)
    return MomentPrediction(normal.loc[:, None], np.zeros((len(x_test), 1)), normal.scale[:, None])


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
