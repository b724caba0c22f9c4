"""The potential is the formula of the posterior, and its gradient is the gradient.

Energies are compared with the formula written in NumPy and float64, gradients with finite differences of it. Where
a key decides, every energy must be that of some minibatch and some measurement points, each equally often.
False-alarm rate of each statistical test: 1e-6; keys are fixed.
"""

from itertools import combinations, pairwise, product

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import linalg, special, stats

from fsgmcmc import (
    MLP,
    Categorical,
    Functional,
    Gaussian,
    GaussianProcess,
    GaussianWeights,
    function_space,
    matern12,
    measurement,
    parameter_space,
    rbf,
)
from fsgmcmc.priors.weights import WEAK_PRECISION

FALSE_ALARM_RATE = 1e-6
NUGGET = 0.05
# Of energies and gradients, which are sums of some ten terms in float32.
TOLERANCE = 2e-5

energy_of = eqx.filter_jit(lambda posterior, key, w: posterior.energy(key, w))
potential_of = eqx.filter_jit(lambda posterior, key, w: posterior.potential(key, w))


@eqx.filter_jit
def in_two_ways(posterior, keys, w):
    """At every key, energy and gradient by `potential` and by automatic differentiation of `energy`."""

    def at(key):
        return posterior.potential(key, w), jax.value_and_grad(lambda w: posterior.energy(key, w))(w)

    return jax.lax.map(at, keys)


def assert_same(potential, autodiff):
    """The energies are equal, and so are the gradients, in units of their largest entry."""
    np.testing.assert_allclose(potential[0], autodiff[0], rtol=1e-6)
    np.testing.assert_allclose(potential[1], autodiff[1], rtol=1e-5, atol=1e-6 * np.abs(autodiff[1]).max())


# The formula in NumPy


def smooth(a, b):
    return 1.5 * np.exp(-0.5 * np.square((a[:, None] - b[None]) / 0.8).sum(axis=-1))


def rough(a, b):
    return 0.7 * np.exp(-np.sqrt(np.square((a[:, None] - b[None]) / 1.1).sum(axis=-1)))


SMOOTH, ROUGH = rbf(0.8, variance=1.5), matern12(1.1, variance=0.7)


def covariance(kernel, points):
    K = kernel(points, points)
    return K + NUGGET * np.diag(K).mean() * np.eye(len(K))


def functional_energy(values, points, kernels, means):
    """½ Σ_c (F_c − m_c)ᵀ (K_c + δI)⁻¹ (F_c − m_c)."""
    residuals = (values - means).T
    return 0.5 * sum(r @ np.linalg.solve(covariance(k, points), r) for k, r in zip(kernels, residuals, strict=True))


def layers(w, inputs, hidden, outputs):
    """The vector w as [(bias, weight), …], and what is left of it."""
    sizes, result = (inputs, *hidden, outputs), []
    for below, units in pairwise(sizes):
        bias, weight, w = np.split(w, [units, units + below * units])
        result.append((bias, weight.reshape(below, units)))
    return result, w


def forward(network, x):
    for bias, weight in network[:-1]:
        x = np.tanh(x @ weight + bias)
    return x @ network[-1][1] + network[-1][0]


def gaussian(f, y, noise):
    return stats.norm.logpdf(y, f, np.broadcast_to(noise, len(y))[:, None]).sum(axis=1)


def categorical(f, y):
    return special.log_softmax(f, axis=1)[np.arange(len(y)), y]


def slopes(function, w, width=1e-5):
    """The gradient by central differences."""
    steps = width * np.eye(len(w))
    return np.array([(function(w + step) - function(w - step)) / (2 * width) for step in steps])


def assert_formula(energy, gradient, formula, w):
    """Both are those of the formula, whose gradient is found by differences."""
    np.testing.assert_allclose(energy, formula(w.astype(float)), rtol=TOLERANCE)
    expected = slopes(formula, w.astype(float))
    np.testing.assert_allclose(gradient, expected, rtol=TOLERANCE, atol=TOLERANCE * np.abs(expected).max())


def assert_equally_often(energies, possible):
    """Each energy is one of those possible, and each of these comes equally often."""
    nearest = np.abs(energies[:, None] - possible).argmin(axis=1)
    np.testing.assert_allclose(energies, possible[nearest], rtol=TOLERANCE)
    assert np.diff(np.sort(possible)).min() > 10 * TOLERANCE * possible.max(), "the energies cannot be told apart"
    assert stats.chisquare(np.bincount(nearest, minlength=len(possible))).pvalue > FALSE_ALARM_RATE


def at_one_place(points):
    """Points that are drawn anew at every step, and always the same."""
    return measurement.FromFunction(lambda key: jnp.asarray(points, jnp.float32))


RNG = np.random.default_rng(0)
X = RNG.normal(size=(5, 2)).astype(np.float32).astype(float)
Y = RNG.normal(size=(5, 2)).astype(np.float32).astype(float)
LABELS = np.array([2, 0, 1, 1, 2])
NOISE = np.array([0.3, 0.5, 1.0, 0.7, 0.4])
POINTS = RNG.normal(size=(4, 2)).astype(np.float32).astype(float)
HIDDEN = (3,)
START = RNG.normal(size=40)


def parameter_gaussian():
    posterior = parameter_space(
        MLP(HIDDEN), X, Y[:, 0], likelihood=Gaussian(0.5, sampled=True), prior=GaussianWeights(2.0)
    )

    def formula(w):
        network, (log_noise,) = layers(w, 2, HIDDEN, 1)
        weights = np.square(w[:-1]).sum() / 8 + 0.5 * ((log_noise - np.log(0.5)) / 0.3) ** 2
        return weights - gaussian(forward(network, X), Y[:, :1], np.exp(log_noise)).sum()

    return posterior, formula


def parameter_categorical():
    prior = GaussianWeights(1.5, scaling="fan_in")
    posterior = parameter_space(MLP(HIDDEN), X, LABELS, likelihood=Categorical(3), prior=prior)

    def formula(w):
        network, _ = layers(w, 2, HIDDEN, 3)
        squares = [np.square(bias).sum() + np.square(weight).sum() for bias, weight in network]
        weights = np.dot([2, 3], squares) / (2 * 1.5**2)
        return weights - categorical(forward(network, X), LABELS).sum()

    return posterior, formula


def function_gaussian(points, kernels, means, at):
    outputs = len(kernels)
    shared = {smooth: SMOOTH, rough: ROUGH}
    prior = GaussianProcess(
        SMOOTH if len(set(kernels)) == 1 else tuple(shared[k] for k in kernels),
        np.squeeze(means) if outputs == 1 else means,
        NUGGET,
    )

    def build():
        posterior = function_space(
            MLP(HIDDEN), X, Y[:, :outputs], prior=prior, likelihood=Gaussian(), noise=NOISE, measurement=at(points)
        )

        def formula(w):
            network, _ = layers(w, 2, HIDDEN, outputs)
            likelihood = gaussian(forward(network, X), Y[:, :outputs], NOISE).sum()
            functional = functional_energy(forward(network, points), points, kernels, means)
            return functional - likelihood + 0.5 * WEAK_PRECISION * np.square(w).sum()

        return posterior, formula

    return build


def function_categorical(points, at):
    def build():
        posterior = function_space(
            MLP(HIDDEN),
            X,
            LABELS,
            prior=GaussianProcess((SMOOTH, ROUGH, SMOOTH), -1.0, NUGGET),
            likelihood=Categorical(3),
            measurement=at(points),
            weight_prior=None,
        )

        def formula(w):
            network, _ = layers(w, 2, HIDDEN, 3)
            functional = functional_energy(forward(network, points), points, (smooth, rough, smooth), -1.0)
            return functional - categorical(forward(network, X), LABELS).sum()

        return posterior, formula

    return build


TWO = np.array([0.5, -1.0])


@pytest.mark.parametrize(
    "build",
    [
        pytest.param(parameter_gaussian, id="parameter-gaussian-sampled"),
        pytest.param(parameter_categorical, id="parameter-categorical"),
        pytest.param(function_gaussian(POINTS, (smooth,), np.array([0.7]), measurement.fixed), id="fixed-shared"),
        pytest.param(function_gaussian(X, (smooth, rough), TWO, measurement.fixed), id="training-tuple"),
        pytest.param(function_gaussian(POINTS, (smooth, smooth), TWO, at_one_place), id="fresh-shared"),
        pytest.param(function_categorical(POINTS, at_one_place), id="fresh-tuple-categorical"),
    ],
)
def test_the_potential_is_the_formula_and_its_gradient_the_gradient(key, build):
    posterior, formula = build()
    w = START[: posterior.size].astype(np.float32)
    (energy, gradient), autodiff = in_two_ways(posterior, key[None], w)
    assert_same((energy, gradient), autodiff)
    assert_formula(energy[0], gradient[0], formula, w)


@pytest.mark.parametrize("likelihood", ["gaussian", "categorical"])
def test_each_energy_is_that_of_a_minibatch_and_a_part_of_the_pool(likelihood):
    """Two of four rows and three of four points: 24 energies, all equally often.

    The likelihood is scaled by N/n = 2, its noise follows its rows, the prior has no factor, and rows and points
    are chosen independently of each other.
    """
    x, pool, size = X[:4], POINTS, 3
    outputs, kernels = (2, (smooth, rough)) if likelihood == "gaussian" else (3, (smooth,) * 3)
    process = GaussianProcess((SMOOTH, ROUGH) if likelihood == "gaussian" else SMOOTH, 0.4, NUGGET)
    posterior = function_space(
        MLP(HIDDEN),
        x,
        Y[:4] if likelihood == "gaussian" else LABELS[:4],
        prior=process,
        likelihood=Gaussian() if likelihood == "gaussian" else Categorical(3),
        noise=NOISE[:4] if likelihood == "gaussian" else None,
        measurement=measurement.subset(pool, size),
        batch_size=2,
        weight_prior=None,
    )
    w = START[: posterior.size].astype(np.float32)
    network, _ = layers(w.astype(float), 2, HIDDEN, outputs)
    f = forward(network, x)
    log_density = gaussian(f, Y[:4], NOISE[:4]) if likelihood == "gaussian" else categorical(f, LABELS[:4])
    of_batch = [-2 * log_density[list(rows)].sum() for rows in combinations(range(4), 2)]
    of_points = [
        functional_energy(forward(network, points), points, kernels, 0.4)
        for points in (pool[list(rows)] for rows in combinations(range(4), size))
    ]
    possible = np.array([a + b for a, b in product(of_batch, of_points)])
    keys = jax.random.split(jax.random.key(1), 2000)
    potential, autodiff = in_two_ways(posterior, keys, w)
    assert_same(potential, autodiff)
    assert_equally_often(np.asarray(potential[0]), possible)


def test_points_of_the_minibatch_are_any_of_its_rows():
    """Three of four rows, and two of these are measured: 12 energies, all equally often."""
    x, y = X[:4], Y[:4, :1]
    posterior = function_space(
        MLP(HIDDEN),
        x,
        y,
        prior=GaussianProcess(SMOOTH, 3.0, NUGGET),
        likelihood=Gaussian(0.5),
        measurement=measurement.minibatch(2),
        batch_size=3,
        weight_prior=None,
    )
    w = START[: posterior.size].astype(np.float32)
    f = forward(layers(w.astype(float), 2, HIDDEN, 1)[0], x)
    log_density = gaussian(f, y, 0.5)
    possible = np.array(
        [
            -4 / 3 * log_density[list(rows)].sum() + functional_energy(f[list(pair)], x[list(pair)], (smooth,), 3.0)
            for rows in combinations(range(4), 3)
            for pair in combinations(rows, 2)
        ]
    )
    potential, autodiff = in_two_ways(posterior, jax.random.split(jax.random.key(1), 2000), w)
    assert_same(potential, autodiff)
    assert_equally_often(np.asarray(potential[0]), possible)


@pytest.mark.parametrize(("size", "batch_size"), [(5, None), (5, 4), (41, 41)])
def test_points_of_the_minibatch_need_one_as_large(size, batch_size):
    with pytest.raises(ValueError, match=f"minibatch.{size}. needs a batch_size"):
        function_space(
            MLP(HIDDEN),
            np.zeros((40, 2)),
            np.zeros(40),
            prior=GaussianProcess(SMOOTH),
            likelihood=Gaussian(0.5),
            measurement=measurement.minibatch(size),
            batch_size=batch_size,
        )


def forty_rows(batch_size):
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(40, 2)), rng.normal(size=40) + 2
    return function_space(
        MLP(HIDDEN),
        x,
        y,
        prior=GaussianProcess(SMOOTH, nugget=NUGGET),
        likelihood=Gaussian(),
        noise=np.exp(rng.normal(size=40) / 2),
        measurement=measurement.fixed(POINTS),
        batch_size=batch_size,
    )


@pytest.mark.parametrize("batch_size", [1, 3, 39])
def test_the_gradient_of_a_minibatch_is_right_in_the_mean(key, batch_size):
    """A z test for each parameter; the prior is large, so were it scaled as well, the mean would be far off."""
    posterior = forty_rows(batch_size)
    w = jnp.asarray(START[: posterior.size], jnp.float32)
    _, whole = potential_of(forty_rows(None), key, w)
    keys = jax.random.split(key, 4000)
    gradients = np.asarray(
        eqx.filter_jit(lambda p, keys, w: jax.lax.map(lambda key: p.potential(key, w)[1], keys))(posterior, keys, w),
        float,
    )
    error = gradients.std(axis=0, ddof=1) / np.sqrt(len(keys))
    score = (gradients.mean(axis=0) - np.asarray(whole)) / error
    assert np.abs(score).max() < stats.norm.isf(FALSE_ALARM_RATE / 2 / len(score)), score
    assert np.linalg.norm(error) < 0.05 * np.linalg.norm(whole), "too few draws to tell"


@pytest.mark.parametrize("batch_size", [40, 1000])
def test_a_batch_of_all_rows_is_no_minibatch(key, batch_size):
    posterior, whole = forty_rows(batch_size), forty_rows(None)
    assert posterior.is_deterministic
    w = START[: posterior.size].astype(np.float32)
    for got, expected in zip(potential_of(posterior, key, w), potential_of(whole, key, w), strict=True):
        np.testing.assert_array_equal(got, expected)


def test_points_shared_with_the_data_are_evaluated_once_and_count_the_same(key):
    def potential(points):
        posterior = function_space(
            MLP(HIDDEN),
            X,
            Y,
            prior=GaussianProcess((SMOOTH, ROUGH), TWO, NUGGET),
            likelihood=Gaussian(),
            noise=NOISE,
            measurement=points,
        )
        return posterior.shares_points, *potential_of(posterior, key, START[: posterior.size].astype(np.float32))

    shared, energy, gradient = potential(None)
    assert shared
    for points in (measurement.fixed(X[::-1]), at_one_place(X)):
        also_shared, same_energy, same_gradient = potential(points)
        assert not also_shared
        np.testing.assert_allclose(same_energy, energy, rtol=1e-5)
        np.testing.assert_allclose(same_gradient, gradient, rtol=1e-4, atol=1e-5 * np.abs(gradient).max())


def test_priors_add(key):
    """U of a sum of priors is the sum of their energies, in any order, above that of the likelihood."""
    a = GaussianProcess(SMOOTH, 0.5, NUGGET)
    b = Functional(GaussianProcess(ROUGH, -1.0, NUGGET), measurement.fixed(POINTS[:3]))
    weights = GaussianWeights(0.5)

    def energy(prior):
        posterior = function_space(
            MLP(HIDDEN),
            X,
            Y[:, 0],
            prior=prior,
            likelihood=Gaussian(0.5),
            measurement=None if prior is b else measurement.fixed(POINTS),
            weight_prior=None,
        )
        return float(energy_of(posterior, key, START[: posterior.size].astype(np.float32)))

    network, rest = layers(START, 2, HIDDEN, 1)
    likelihood = -gaussian(forward(network, X), Y[:, :1], 0.5).sum()
    squares = np.square(START[: len(START) - len(rest)]).sum() / (2 * 0.5**2)
    np.testing.assert_allclose(energy(a + b), energy(a) + energy(b) - likelihood, rtol=TOLERANCE)
    np.testing.assert_allclose(energy(weights + b + a), energy(a + b) + squares, rtol=TOLERANCE)


def test_priors_on_other_functions_of_the_parameters_enter_beside_those_on_the_network(key):
    """Four functional priors with different numbers of points: none may see the values of another."""
    own = RNG.normal(size=(3, 2)).astype(np.float32).astype(float)

    def hidden(params, x):
        return x @ params[0]["weight"] + params[0]["bias"]

    def first_output(params, x):
        return MLP(HIDDEN).apply(params, x)[:, :1]

    posterior = function_space(
        MLP(HIDDEN),
        X,
        Y,
        prior=Functional(GaussianProcess(SMOOTH, 0.2, NUGGET), measurement.fixed(own), hidden)
        + Functional(GaussianProcess((SMOOTH, ROUGH), TWO, NUGGET), at_one_place(POINTS))
        + Functional(GaussianProcess(ROUGH, 1.0, NUGGET), at_one_place(X[:2]), first_output)
        + Functional(GaussianProcess(ROUGH, nugget=NUGGET), measurement.fixed(own)),
        likelihood=Gaussian(),
        noise=NOISE,
        weight_prior=None,
    )
    assert not posterior.is_deterministic

    def formula(w):
        network, _ = layers(w, 2, HIDDEN, 2)
        return (
            functional_energy(own @ network[0][1] + network[0][0], own, (smooth,) * 3, 0.2)
            + functional_energy(forward(network, POINTS), POINTS, (smooth, rough), TWO)
            + functional_energy(forward(network, X[:2])[:, :1], X[:2], (rough,), 1.0)
            + functional_energy(forward(network, own), own, (rough,) * 2, 0.0)
            - gaussian(forward(network, X), Y, NOISE).sum()
        )

    w = START[: posterior.size].astype(np.float32)
    assert_formula(*potential_of(posterior, key, w), formula, w)


@eqx.filter_jit
def dense_curvature(posterior, key, w):
    return jax.vmap(lambda v: posterior.curvature(key, w, v))(jnp.eye(posterior.size))


@pytest.mark.parametrize("likelihood", ["gaussian", "categorical"])
def test_curvature_is_the_gauss_newton_matrix(key, likelihood):
    """Jᵀ H J + Λ with H the second derivatives in function values: 1/σ² or diag p − ppᵀ, and (K_c + δI)⁻¹."""
    regression = likelihood == "gaussian"
    outputs, kernels = (2, (smooth, rough)) if regression else (3, (smooth,) * 3)
    posterior = function_space(
        MLP(HIDDEN),
        X,
        Y if regression else LABELS,
        prior=GaussianProcess((SMOOTH, ROUGH) if regression else SMOOTH, nugget=NUGGET),
        likelihood=Gaussian() if regression else Categorical(3),
        noise=NOISE if regression else None,
        measurement=measurement.fixed(POINTS),
        weight_prior=GaussianWeights(2.0),
    )
    w = START[: posterior.size]

    def jacobian(x):
        """(rows, outputs, k), by central differences."""
        steps = 1e-5 * np.eye(len(w))
        up, down = ([forward(layers(w + s * d, 2, HIDDEN, outputs)[0], x) for d in steps] for s in (1, -1))
        return np.moveaxis(np.subtract(up, down) / 2e-5, 0, -1)

    if regression:
        blocks = [np.eye(2) / noise**2 for noise in NOISE]
    else:
        probabilities = special.softmax(forward(layers(w, 2, HIDDEN, 3)[0], X), axis=1)
        blocks = [np.diag(p) - np.outer(p, p) for p in probabilities]
    J = jacobian(X).reshape(-1, len(w))
    expected = J.T @ linalg.block_diag(*blocks) @ J + np.eye(len(w)) / 4
    at_points = jacobian(POINTS)
    for c, kernel in enumerate(kernels):
        J = at_points[:, c]
        expected += J.T @ np.linalg.solve(covariance(kernel, POINTS), J)
    scale = np.abs(expected).max()
    np.testing.assert_allclose(
        dense_curvature(posterior, key, w.astype(np.float32)), expected, rtol=1e-4, atol=TOLERANCE * scale
    )


def test_curvature_is_the_hessian_for_a_network_linear_in_its_parameters(key):
    """The sampled noise included: its own second derivative and the mixed ones."""
    posterior = function_space(
        MLP(()),
        X,
        Y,
        prior=GaussianProcess(SMOOTH, nugget=NUGGET),
        likelihood=Gaussian(0.5, sampled=True),
        measurement=at_one_place(POINTS),
        batch_size=2,
    )
    w = START[: posterior.size].astype(np.float32)
    hessian = np.asarray(jax.jit(jax.hessian(lambda w: posterior.energy(key, w)))(w))
    np.testing.assert_allclose(
        dense_curvature(posterior, key, w), hessian, rtol=1e-4, atol=1e-5 * np.abs(hessian).max()
    )


def test_a_weak_weight_prior_is_there_unless_another_is_given_or_none(key):
    """By default it is the fan in times a constant here, in units of 1 / (variance of the start)."""
    process = GaussianProcess(SMOOTH, nugget=NUGGET)

    def energy(prior=process, **options):
        posterior = function_space(
            MLP(HIDDEN, initial="fan_in"), X, Y[:, 0], prior=prior, likelihood=Gaussian(0.5), **options
        )
        return float(energy_of(posterior, key, START[: posterior.size].astype(np.float32)))

    network, _ = layers(START, 2, HIDDEN, 1)
    squares = [np.square(bias).sum() + np.square(weight).sum() for bias, weight in network]
    without = energy(weight_prior=None)
    np.testing.assert_allclose(energy(), without + 0.5 * WEAK_PRECISION * np.dot([2, 3], squares), rtol=TOLERANCE)
    np.testing.assert_allclose(energy(process + GaussianWeights(2.0)), without + sum(squares) / 8, rtol=TOLERANCE)
    np.testing.assert_allclose(energy(weight_prior=GaussianWeights(2.0)), without + sum(squares) / 8, rtol=TOLERANCE)


@pytest.mark.parametrize(
    ("options", "deterministic"),
    [
        ({}, True),
        ({"measurement": measurement.fixed(POINTS)}, True),
        ({"measurement": measurement.subset(POINTS, 3)}, False),
        ({"measurement": measurement.box([-1, -1], [1, 1], 3)}, False),
        ({"batch_size": 2}, False),
    ],
)
def test_a_potential_is_deterministic_when_no_key_changes_it(options, deterministic):
    posterior = function_space(
        MLP(HIDDEN), X, Y, prior=GaussianProcess(SMOOTH, nugget=NUGGET), likelihood=Gaussian(), noise=NOISE, **options
    )
    w = START[: posterior.size].astype(np.float32)
    energies = {energy_of(posterior, key, w).item() for key in jax.random.split(jax.random.key(0), 8)}
    assert posterior.is_deterministic == deterministic
    assert (len(energies) == 1) == deterministic


def test_a_functional_prior_must_have_the_outputs_of_its_function():
    def space(prior):
        return function_space(MLP(HIDDEN), X, Y, prior=prior, likelihood=Gaussian(), noise=NOISE)

    with pytest.raises(ValueError, match="numbers of outputs differ: kernel 3, values 2"):
        space(GaussianProcess((SMOOTH, ROUGH, SMOOTH)))
    with pytest.raises(ValueError, match="numbers of outputs differ: mean 3, values 2"):
        space(GaussianProcess(SMOOTH, [0.0, 1.0, 2.0]))
    # A single output would otherwise be compared with both means.
    single = Functional(
        GaussianProcess(SMOOTH, TWO), measurement.fixed(POINTS), lambda params, x: x @ params[0]["weight"][:, :1]
    )
    with pytest.raises(ValueError, match="numbers of outputs differ: mean 2, values 1"):
        space(single)
    flat = Functional(
        GaussianProcess(SMOOTH), measurement.fixed(POINTS), lambda params, x: x @ params[0]["weight"][:, 0]
    )
    with pytest.raises(ValueError, match=r"must give \(points, outputs\), got shape \(4,\)"):
        space(flat)


def test_a_function_space_needs_a_functional_prior():
    with pytest.raises(ValueError, match=r"needs a functional prior, such as GaussianProcess\(rbf\(\)\)"):
        function_space(MLP(HIDDEN), X, Y, prior=GaussianWeights(), likelihood=Gaussian(), noise=NOISE)
