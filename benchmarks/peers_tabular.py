"""Other libraries on tables, for the benchmarks that compare predictive distributions.

Every function takes training rows x (rows, features), targets y (rows,), new rows and a seed, all in the units of the
data, and returns the predictive distribution of the targets of the new rows. Where a number of steps or rounds has to
be chosen, a random fifth of the training rows selects it, and the model is then fitted to all of them.
"""

import contextlib
import io
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from fsgmcmc import MLP, metrics
from fsgmcmc.data import Standardiser
from fsgmcmc.predictions import GaussianPrediction, MomentPrediction, RegressionPrediction

# Of the ensemble: members, learning rate and batch of Adam, and the candidate numbers of steps.
MEMBERS, RATE, BATCH = 5, 0.01, 100
STOPS = (25, 50, 100, 250, 500, 1000, 2000, 4000)
LEAST_VARIANCE = 1e-6
# Of boosting: most rounds, and rounds without improvement after which it stops.
ROUNDS, NGBOOST_PATIENCE, CATBOOST_PATIENCE = 2000, 50, 100
# CatBoost's default number of virtual ensembles, which needs twice as many trees.
VIRTUAL_ENSEMBLES = 10


def held_out_fifth(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Indices of a random fifth of the rows, and of the others."""
    order = np.random.default_rng(seed).permutation(rows)
    return order[: rows // 5], order[rows // 5 :]


def gaussian_process(
    x: np.ndarray, y: np.ndarray, x_test: np.ndarray, seed: int, *, form: Callable[..., Any] = RBF
) -> RegressionPrediction:
    """scikit-learn's exact Gaussian process, a lengthscale for each feature, hyperparameters by marginal likelihood.

    `form` is called with lengthscales and their bounds, such as `RBF` or `partial(Matern, nu=2.5)`.
    """
    scale = Standardiser.fit(x, y)
    kernel = ConstantKernel() * form(np.ones(x.shape[1]), (1e-2, 1e3)) + WhiteKernel(0.1, (1e-6, 1e1))
    model = GaussianProcessRegressor(kernel, normalize_y=True, n_restarts_optimizer=2, random_state=seed)
    mean, std = model.fit(scale.x(x), y).predict(scale.x(x_test), return_std=True)
    return MomentPrediction(mean[:, None], np.zeros((len(mean), 1)), np.maximum(std, 1e-9)[:, None])


def ensemble(x: np.ndarray, y: np.ndarray, x_test: np.ndarray, seed: int) -> RegressionPrediction:
    """Means and variances of five networks, a mixture of equal weights (Lakshminarayanan et al., 2017)."""
    scale = Standardiser.fit(x, y)
    inputs, targets, new = scale.x(x), scale.y(y).astype(np.float32), scale.x(x_test)
    held, kept = held_out_fifth(len(x), seed)
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
    """Natural-gradient boosting of a normal distribution.

    A model that stopped early predicts with all of its rounds, also those after the best one. Hence the second fit,
    whose number of rounds is that of the best one.
    """
    from ngboost import NGBRegressor

    held, kept = held_out_fifth(len(x), seed)
    shared = {"verbose": False, "random_state": seed}
    tried = NGBRegressor(n_estimators=ROUNDS, early_stopping_rounds=NGBOOST_PATIENCE, **shared)
    with contextlib.redirect_stdout(io.StringIO()):
        tried.fit(x[kept], y[kept], X_val=x[held], Y_val=y[held])
    model = NGBRegressor(n_estimators=tried.best_val_loss_itr + 1, **shared)
    normal = model.fit(x, y).pred_dist(x_test)
    return MomentPrediction(normal.loc[:, None], np.zeros((len(x_test), 1)), normal.scale[:, None])


def catboost(x: np.ndarray, y: np.ndarray, x_test: np.ndarray, seed: int) -> RegressionPrediction:
    """CatBoost with a learned variance and virtual ensembles (Malinin et al., 2021), a mixture of equal weights."""
    from catboost import CatBoostRegressor

    held, kept = held_out_fifth(len(x), seed)
    shared = {
        "loss_function": "RMSEWithUncertainty",
        "posterior_sampling": True,
        "random_seed": seed,
        "verbose": False,
        "allow_writing_files": False,
    }
    tried = CatBoostRegressor(iterations=ROUNDS, **shared)
    tried.fit(x[kept], y[kept], eval_set=(x[held], y[held]), early_stopping_rounds=CATBOOST_PATIENCE)
    rounds = max(tried.get_best_iteration() + 1, 2 * VIRTUAL_ENSEMBLES)
    model = CatBoostRegressor(iterations=rounds, **shared).fit(x, y)
    # (rows, ensembles, [mean, variance])
    members = model.virtual_ensembles_predict(x_test, "VirtEnsembles", virtual_ensembles_count=VIRTUAL_ENSEMBLES)
    means, variances = np.moveaxis(members, -1, 0).swapaxes(1, 2)[..., None]
    return GaussianPrediction(means, np.sqrt(variances))


def bde(x: np.ndarray, y: np.ndarray, x_test: np.ndarray, seed: int, *, python: str | Path) -> RegressionPrediction:
    """Bayesian deep ensembles (sklearn-contrib-bde), run by the interpreter `python`: see `bde_peer.py`."""
    with tempfile.TemporaryDirectory() as folder:
        problem, draws = Path(folder) / "problem.npz", Path(folder) / "draws.npz"
        np.savez(problem, x=x, y=y, x_test=x_test, seed=seed)
        script = Path(__file__).with_name("bde_peer.py")
        done = subprocess.run([str(python), str(script), str(problem), str(draws)], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"bde failed: {(done.stderr.strip().splitlines() or ['no message'])[-1]}")
        with np.load(draws) as found:
            return GaussianPrediction(found["means"][..., None], found["noise"][..., None])
