"""Default settings on tables with labels: our classifier compared with common alternatives.

    python benchmarks/practitioners_classes.py --out out/practitioners_classes

Five stratified folds of data sets in scikit-learn. Every method gets the raw columns and the training data of the fold;
nothing is chosen by hand for a data set:

- ours: `FunctionalBNNClassifier()`;
- logistic: scikit-learn's `LogisticRegression` of standardised columns;
- gp: scikit-learn's `GaussianProcessClassifier` of standardised columns, one RBF, one against the rest;
- ensemble: five networks with two layers of 50 units, trained by likelihood; a fifth of the training data selects
  the number of steps, then they are trained on all of it.

NGBoost, which is in the benchmark of regression, fails with infinite gradients on wine. Finished folds in the folder
are not run again.
"""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
from folds import FOLDS, Comparison, Score
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fsgmcmc import MLP, FunctionalBNNClassifier, metrics
from fsgmcmc.predictions import CategoricalPrediction, Prediction

INTRODUCTION = (
    "Five stratified folds, mean ± standard deviation; seconds include compilation. Every method gets the raw "
    "columns; nothing is chosen by hand for a data set. **Bold**: the best of a data set, and all methods that a "
    "paired test over the folds (p = 0.05) does not find worse."
)
LOADERS = {"iris": load_iris, "wine": load_wine, "cancer": load_breast_cancer, "digits": load_digits}
# Of the ensemble, as in the benchmark of regression.
MEMBERS, RATE, BATCH = 5, 0.01, 100
STOPS = (100, 250, 500, 1000, 2000)


def ours(x: np.ndarray, y: np.ndarray, x_test: np.ndarray, seed: int) -> Prediction:
    """Default arguments, except the seed."""
    return FunctionalBNNClassifier(random_state=seed).fit(x, y).predict_distribution(x_test)


def logistic(x: np.ndarray, y: np.ndarray, x_test: np.ndarray, seed: int) -> Prediction:
    """With the default penalty."""
    del seed
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    return _prediction(model.fit(x, y).predict_proba(x_test))


def gaussian_process(x: np.ndarray, y: np.ndarray, x_test: np.ndarray, seed: int) -> Prediction:
    """With the Laplace approximation."""
    kernel = ConstantKernel() * RBF(np.sqrt(x.shape[1]), (1e-1, 1e3))
    model = make_pipeline(StandardScaler(), GaussianProcessClassifier(kernel, random_state=seed))
    return _prediction(model.fit(x, y).predict_proba(x_test))


def ensemble(x: np.ndarray, y: np.ndarray, x_test: np.ndarray, seed: int) -> Prediction:
    """Probabilities of five networks, averaged."""
    scale = StandardScaler().fit(x)
    inputs, new = scale.transform(x), scale.transform(x_test)
    order = np.random.default_rng(seed).permutation(len(x))
    held, kept = order[: len(x) // 5], order[len(x) // 5 :]
    classes = int(y.max()) + 1
    tried = _members(inputs[kept], y[kept], inputs[held], classes, seed, STOPS)
    steps = STOPS[int(np.argmin([metrics.nll(one, y[held]) for one in tried]))]
    (prediction,) = _members(inputs, y, new, classes, seed + 1, (steps,))
    return prediction


def _members(
    x: np.ndarray, y: np.ndarray, new: np.ndarray, classes: int, seed: int, stops: tuple[int, ...]
) -> list[CategoricalPrediction]:
    """The prediction of the ensemble after each of these numbers of steps."""
    network, adam = MLP((50, 50), "relu", initial="fan_in"), optax.adam(RATE)
    inputs, labels = jnp.asarray(x, jnp.float32), jnp.asarray(y)

    def loss(params: object, rows: jax.Array) -> jax.Array:
        logits = network.apply(params, inputs[rows])
        return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(logits, labels[rows]))

    def step(carry: tuple, key: jax.Array) -> tuple[tuple, None]:
        params, state = carry
        rows = jax.random.randint(key, (min(BATCH, len(x)),), 0, len(x))
        updates, state = adam.update(jax.grad(loss)(params, rows), state)
        return (optax.apply_updates(params, updates), state), None

    @jax.jit
    def member(key: jax.Array) -> list[jax.Array]:
        start_key, train_key = jax.random.split(key)
        params = network.init(start_key, x.shape[1], classes)
        keys, done, logits, carry = jax.random.split(train_key, stops[-1]), 0, [], (params, adam.init(params))
        for stop in stops:
            carry, _ = jax.lax.scan(step, carry, keys[done:stop])
            logits.append(network.apply(carry[0], jnp.asarray(new, jnp.float32)))
            done = stop
        return logits

    found = [member(key) for key in jax.random.split(jax.random.key(seed), MEMBERS)]
    return [CategoricalPrediction(np.stack(logits)) for logits in zip(*found, strict=True)]


def _prediction(probabilities: np.ndarray) -> CategoricalPrediction:
    return CategoricalPrediction(np.log(np.maximum(probabilities, 1e-12))[None])


def load(name: str, data: Path | None) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and labels."""
    del data
    return LOADERS[name](return_X_y=True)


CLASSES = Comparison(
    name="practitioners_classes",
    datasets=tuple(LOADERS),
    methods={"ours": ours, "logistic": logistic, "gp": gaussian_process, "ensemble": ensemble},
    scores={
        "nll": Score("NLL, nats per row", 3, smaller_is_better=True),
        "brier": Score("Brier score", 3, smaller_is_better=True),
        "accuracy": Score("accuracy", 3, smaller_is_better=False),
        "ece": Score("ECE", 3, smaller_is_better=False),
        "seconds": Score("seconds per fold", 0, smaller_is_better=False),
    },
    load=load,
    splitter=StratifiedKFold(FOLDS, shuffle=True, random_state=0),
    title="Default settings on tables with labels",
    introduction=INTRODUCTION,
)

if __name__ == "__main__":
    CLASSES.main()
