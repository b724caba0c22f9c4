"""Awkward data give finite answers; impossible requests give one sentence, before anything is compiled."""

import inspect
from contextlib import contextmanager

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fsgmcmc import (
    MLP,
    Categorical,
    Gaussian,
    GaussianProcess,
    GaussianWeights,
    WarmUp,
    fsghmc,
    fsgld,
    function_space,
    hmc,
    kernel_by_name,
    linear,
    mala,
    measurement,
    nuts,
    parameter_space,
    rbf,
    sample,
    sghmc,
    sgld,
)

NETWORK = MLP((4,))
ROWS, FEATURES = 12, 3
# Its own programs are compiled for every shape of data, so most shapes go without Adam and blocks: the step is by
# rule in all of them.
WHOLE_WARM_UP = WarmUp(adam_steps=5, blocks=1, block_steps=3)
SHORT_WARM_UP = WarmUp(adam_steps=0, blocks=0)
BRIEF = {
    "draws": 4,
    "thinning": 2,
    "burn_in": 4,
    "chains": 2,
    "warm_up": SHORT_WARM_UP,
    "progress": False,
    "back_off": 0,
}


def ordinary(rows=ROWS, outputs=1):
    rng = np.random.default_rng(0)
    return rng.normal(size=(rows, FEATURES)), rng.normal(size=(rows, outputs))


def in_function_space(x, y, **options):
    return function_space(
        options.pop("network", NETWORK),
        x,
        y,
        prior=options.pop("prior", GaussianProcess(rbf())),
        likelihood=options.pop("likelihood", Gaussian(0.3)),
        **options,
    )


def in_parameter_space(x, y, **options):
    return parameter_space(options.pop("network", NETWORK), x, y, likelihood=Gaussian(0.3), **options)


# Awkward data


def duplicate_rows(x, y):
    return np.repeat(x[:3], 4, axis=0), y


def one_point(x, y):
    return np.ones_like(x), y


def constant_columns(x, y):
    return x * [1, 0, 0] + [0, 0, 5], y


def collinear_features(x, y):
    return x[:, :1] * [1, -2, 1], y


def equal_targets(x, y):
    return x, np.full_like(y, 3)


AWKWARD = [duplicate_rows, one_point, constant_columns, collinear_features, equal_targets]


def assert_finite_predictions(posterior, sampler, *, outputs=1, warm_up=SHORT_WARM_UP):
    samples = sample(0, posterior, sampler, **{**BRIEF, "warm_up": warm_up})
    x_new = np.linspace(-2, 2, 7 * FEATURES).reshape(7, FEATURES)
    prediction = samples.predict(x_new)
    assert samples.functions(x_new).shape == (2, 4, 7, outputs)
    assert np.isfinite(samples.energy).all()
    assert prediction.mean.shape == prediction.std.shape == (7, outputs)
    assert np.isfinite(prediction.mean).all()
    assert np.isfinite(prediction.std).all()
    # The chains move from draw to draw: a step of zero would be finite as well.
    assert (np.abs(np.diff(samples.positions, axis=1)).max(axis=-1) > 0).all()


@pytest.mark.parametrize("change", AWKWARD)
def test_awkward_data_in_function_space(change):
    assert_finite_predictions(in_function_space(*change(*ordinary())), fsgld(), warm_up=WHOLE_WARM_UP)


@pytest.mark.parametrize("change", AWKWARD)
def test_awkward_data_in_parameter_space(change):
    assert_finite_predictions(in_parameter_space(*change(*ordinary())), sghmc())


def test_a_single_row_with_ten_outputs():
    assert_finite_predictions(in_function_space(*ordinary(rows=1, outputs=10)), fsghmc(), outputs=10)


def test_many_rows_in_minibatches():
    """50,000 rows: minibatches with repeats, and measurement points from a pool too large to keep its covariance."""
    with pytest.warns(UserWarning, match="a larger batch_size"):
        assert_finite_predictions(in_function_space(*ordinary(rows=50_000), batch_size=32), fsgld())


def test_one_class_only():
    x, _ = ordinary()
    posterior = in_function_space(x, np.zeros(ROWS, int), likelihood=Categorical(10))
    prediction = sample(0, posterior, fsgld(1e-3), **{**BRIEF, "warm_up": None}).predict(x)
    assert prediction.probabilities.shape == (ROWS, 10)
    np.testing.assert_allclose(prediction.probabilities.sum(axis=1), 1, rtol=1e-6)


@pytest.mark.parametrize("points", [measurement.fixed, lambda x: measurement.subset(x, 6)])
def test_a_kernel_of_rank_one_is_regular_with_its_nugget(points, key):
    """A linear kernel on collinear features has one eigenvalue that is not zero."""
    x, y = collinear_features(*ordinary())
    posterior = in_function_space(x, y, prior=GaussianProcess(linear()), measurement=points(x))
    energy, gradient = eqx.filter_jit(posterior.potential)(key, posterior.init(key))
    assert np.isfinite(energy)
    assert np.isfinite(gradient).all()


# Impossible requests


@contextmanager
def refused(message, kind=ValueError):
    """The error is raised in one sentence that matches, and no program is compiled before it."""
    compiled = []

    def listen(event, duration, **_):
        if event == "/jax/core/compile/backend_compile_duration":
            compiled.append(duration)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        with pytest.raises(kind, match=message) as caught:
            yield
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    assert "\n" not in str(caught.value)
    assert not compiled, "something was compiled before the error"


def compile_and_raise():
    jax.jit(lambda x: jnp.sin(x) + 1.2345)(0.5)
    raise ValueError("late")


def test_an_error_after_a_compilation_would_be_noticed():
    with pytest.raises(AssertionError, match="something was compiled"), refused("late"):
        compile_and_raise()


def changed(array, value):
    array = array.copy()
    array[2, 0] = value
    return array


X, Y = ordinary()


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (changed(X, np.nan), Y, r"x has 1 value.*first at \(2, 0\): nan; remove or impute"),
        (changed(X, -np.inf), Y, r"x has 1 value.*first at \(2, 0\): -inf; remove or impute"),
        (changed(X, 1e300), Y, r"x has 1 value.*not finite in float32.*: 1e\+300"),
        (X, changed(Y, np.nan), "y has 1 value.*not finite"),
        (X, changed(Y, np.inf), "y has 1 value.*not finite"),
        (X, Y[1:], "x has 12 rows but y has 11"),
        (X[:0], Y[:0], "x has no rows"),
        (X[:, :0], Y, "x has no columns"),
        (X.astype(str) + "a", Y, "x must be numeric"),
        (3.0, Y, "x must have rows and columns"),
    ],
)
def test_impossible_data_are_refused(x, y, message):
    def apply(params, x):
        raise AssertionError("the network was used before the data were checked")

    network = ({"w": jnp.ones((FEATURES, 1))}, apply)
    prior, likelihood = GaussianProcess(rbf()), Gaussian(0.3)
    with refused(message):
        in_function_space(x, y, network=network, prior=prior, likelihood=likelihood)
    with refused(message):
        parameter_space(network, x, y, likelihood=likelihood)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size must be a whole number of at least 1, got 0"),
        ({"batch_size": -5}, "batch_size must be .* got -5"),
        ({"measurement": measurement.fixed([0.0, 1.0])}, r"measurement points have \(1,\) features but x has \(3,\)"),
        ({"measurement": measurement.box(0.0, 1.0, 5)}, r"measurement points have \(1,\) features but x has \(3,\)"),
        (
            {"measurement": measurement.subset(X, 5), "prior": GaussianProcess(rbf(), nugget=1e-6)},
            "nugget of 1e-06 is too small.*use at least 0.0001.*or a fixed set",
        ),
        (
            {"measurement": measurement.fixed(np.repeat(X, 2, axis=0)), "prior": GaussianProcess(rbf(), nugget=0.0)},
            "singular.*duplicate.*raise the nugget",
        ),
        ({"prior": GaussianProcess(rbf([1.0, 2.0]))}, "kernel has 2 lengthscales, but the points have 3 features"),
    ],
)
def test_impossible_posteriors_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        in_function_space(X, Y, **options)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: fsgld(0.0), "step_size must be positive and finite, got 0"),
        (lambda: sgld(-1e-3), "step_size must be positive and finite, got -0.001"),
        (lambda: fsghmc(np.nan), "step_size must be positive and finite, got nan"),
        (lambda: mala(-1.0), "step_size must be positive"),
        (lambda: fsgld(temperature=-1.0), "temperature must be positive"),
        (lambda: fsghmc(friction=0.0), "friction must be positive and finite, got 0"),
        (lambda: sghmc(friction=-0.5), "friction must be positive and finite, got -0.5"),
        (lambda: fsghmc(integrator="verlet"), "unknown integrator 'verlet'; choose from baoab"),
        (lambda: fsghmc(resample_every=0), "resample_every must be a whole number of at least 1, got 0"),
        (lambda: fsghmc(integrator="euler", resample_every=1), "never uses the gradient.*use at least 2"),
        (lambda: hmc(length=0), "length must be a whole number"),
        (lambda: kernel_by_name("cubic", features=1), "unknown kernel 'cubic'.*choose from rbf"),
        (lambda: kernel_by_name("rbf +", features=1), r"cannot read the kernel 'rbf \+'; choose from rbf"),
        (lambda: GaussianProcess("rbf"), "kernel must be a tinygp kernel.*such as rbf"),
        (lambda: GaussianProcess(rbf(), nugget=-1.0), "nugget must be zero or a positive number, got -1"),
        (lambda: GaussianProcess(rbf(), np.nan), "mean must be a finite number"),
        (lambda: rbf(0.0), "lengthscale must be positive and finite, got 0"),
        (lambda: rbf(variance=-1.0), "variance must be positive and finite, got -1"),
        (lambda: GaussianWeights(0.0), "scale must be positive and finite, got 0"),
        (lambda: GaussianWeights(scaling="he"), "unknown scaling 'he'; choose from unit, fan_in, initial"),
        (lambda: WarmUp(adam_steps=-1), "adam_steps must be a whole number of at least 0, got -1"),
        (lambda: WarmUp(learning_rate=0.0), "learning_rate must be positive"),
    ],
)
def test_impossible_settings_are_refused(build, message):
    with refused(message):
        build()


WHOLE, MINIBATCH = in_function_space(X, Y), in_function_space(X, Y, batch_size=5)
REDRAWN, WEIGHTS = in_function_space(X, Y, measurement=measurement.subset(X, 5)), in_parameter_space(X, Y)


@pytest.mark.parametrize(
    ("posterior", "sampler", "options", "message"),
    [
        (WHOLE, fsgld(), {"draws": 0}, "draws must be a whole number of at least 1, got 0"),
        (WHOLE, fsgld(), {"draws": -3}, "draws must be .* got -3"),
        (WHOLE, fsgld(), {"thinning": 0}, "thinning must be a whole number of at least 1, got 0"),
        (WHOLE, fsgld(), {"thinning": -1}, "thinning must be .* got -1"),
        (WHOLE, fsgld(), {"burn_in": -1}, "burn_in must be a whole number of at least 0, got -1"),
        (WHOLE, fsgld(), {"chains": 0}, "chains must be .* got 0"),
        (WEIGHTS, fsgld(), {}, "for function space.*only a weight prior: use sgld or sghmc"),
        (WEIGHTS, fsghmc(), {}, "use sgld or sghmc"),
        (WHOLE, sgld(), {}, "for parameter space.*functional prior: use fsgld or fsghmc"),
        (WHOLE, sghmc(), {}, "use fsgld or fsghmc"),
        (MINIBATCH, mala(), {}, "Metropolis-corrected.*leave batch_size out"),
        (REDRAWN, nuts(), {}, "Metropolis-corrected.*fixed set of measurement points"),
    ],
)
def test_impossible_runs_are_refused(posterior, sampler, options, message):
    with refused(message):
        sample(0, posterior, sampler, **{**BRIEF, **options})


@pytest.mark.parametrize(
    ("init", "message"),
    [
        (np.zeros(3), rf"init must have shape \({WHOLE.size},\) or \(2, {WHOLE.size}\), got \(3,\)"),
        (np.full(WHOLE.size, np.nan), "init has .* not finite"),
    ],
)
def test_impossible_starts_are_refused(init, message):
    with pytest.raises(ValueError, match=message):
        sample(0, WHOLE, fsgld(), init=init, **BRIEF)


def test_impossible_predictions_are_refused():
    samples = sample(0, WHOLE, fsgld(), **BRIEF)
    for x_new, message in (
        (np.ones((5, 2)), "x has 2 features but the network was trained on 3"),
        (np.ones(3), "x has 1 features but the network was trained on 3"),
        (changed(X, np.nan), "x has 1 value.*not finite"),
        (X[:0], "x has no rows"),
    ):
        with refused(message):
            samples.predict(x_new)
    with pytest.raises(ValueError, match="noise must be positive"):
        samples.predict(X, noise=-1.0)


def test_data_that_are_not_standardised_are_told():
    x, y = ordinary()
    with pytest.warns(UserWarning, match="y reaches .* standardise it"):
        in_function_space(x, 1000 + y)


def test_digits_that_float32_does_not_have_are_told():
    with pytest.raises(ValueError, match="subtract its mean"):
        in_function_space(1.7e9 + np.arange(12.0), np.ones(12))


@pytest.mark.parametrize("weight_prior", [0.1, GaussianProcess(rbf())])
def test_a_weight_prior_of_another_kind_is_refused(weight_prior):
    # Unwrapped of the type checks that tests add, which would refuse it first.
    build = inspect.unwrap(function_space)
    x, y = ordinary()
    with pytest.raises(TypeError, match="weight_prior must be GaussianWeights"):
        build(NETWORK, x, y, prior=GaussianProcess(rbf()), likelihood=Gaussian(0.3), weight_prior=weight_prior)


def test_targets_with_more_than_two_axes_are_refused():
    x, y = ordinary()
    with pytest.raises(ValueError, match=r"y must have shape \(rows,\)"):
        in_function_space(x, y[..., None])
