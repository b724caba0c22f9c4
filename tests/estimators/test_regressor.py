"""Regression: units, intervals, kernels, weights and noise."""

import pickle
from copy import copy

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from fsgmcmc import FunctionalBNNRegressor, load_model, metrics, save_model
from fsgmcmc._progress import Progress
from fsgmcmc.errors import DivergedChainError
from fsgmcmc.estimators import noise
from fsgmcmc.estimators.base import FunctionalBNN
from fsgmcmc.estimators.candidates import CANDIDATES, held_out
from fsgmcmc.estimators.novelty import Novelty
from fsgmcmc.estimators.prior import FittedPrior
from fsgmcmc.methods import INFERENCE
from fsgmcmc.priors import GaussianProcess, linear, matern32, periodic, rbf
from fsgmcmc.priors.extrapolation import Extrapolation

QUICK = {"hidden": (10,), "chains": 1, "samples": 8, "burn_in": 300, "thinning": 2, "steps": 60, "random_state": 0}


def wave_rows(seed, rows):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-3, 3, (rows, 1))
    return 10 * x, 100 + 50 * np.sin(x[:, 0]) + 5 * rng.standard_normal(rows)


@pytest.fixture(scope="module")
def waves():
    return wave_rows(0, 60)


@pytest.fixture(scope="module")
def regressor(waves):
    settings = {"hidden": (30,), "chains": 2, "samples": 20, "thinning": 10, "burn_in": 1000, "random_state": 1}
    return FunctionalBNNRegressor("rbf", **settings).fit(*waves)


def test_predictions_are_in_the_units_of_the_data(waves, regressor):
    x, y = waves
    mean, std = regressor.predict(x, return_std=True)
    assert metrics.rmse(regressor.predict_distribution(x), y) < 8
    assert 3 < regressor.noise_ < 8
    np.testing.assert_allclose(regressor.predict_distribution(x).mean[:, 0], mean, rtol=1e-6)
    np.testing.assert_allclose(regressor.predict_distribution(x).std[:, 0], std, rtol=1e-5)
    functions = regressor.sample_functions(x, 7)
    assert functions.shape == (7, 60)
    inside = (regressor.extrapolation_.weights(regressor.scale_.x(x)) == 0).all(axis=(0, 2))
    assert inside.mean() > 0.8
    np.testing.assert_allclose(regressor.sample_functions(x).mean(axis=0)[inside], mean[inside], rtol=1e-5)


def test_intervals_hold_what_they_promise(regressor):
    x, y = wave_rows(1, 2000)
    lower, upper = regressor.predict_interval(x, coverage=0.9)
    # The noise is estimated from 60 rows, to 9 %: coverage is then within .04 of .9, two thirds of the time.
    assert 0.82 <= np.mean((lower <= y) & (y <= upper)) <= 0.96
    quantiles = regressor.predict_quantiles(x, [0.05, 0.5, 0.95])
    np.testing.assert_allclose(quantiles[:, 0], lower)
    assert (np.diff(quantiles, axis=1) > 0).all()
    with pytest.raises(ValueError, match="between 0 and 1"):
        regressor.predict_interval(x, 90)


def test_it_does_not_know_what_it_has_not_seen(regressor):
    inside, outside = regressor.predict([[0.0], [300.0]], return_std=True)[1]
    assert outside > 3 * inside
    near, far = regressor.novelty([[0.0], [300.0]])
    assert near < 1 < far


def test_what_is_said_of_a_row_does_not_depend_on_its_neighbours(waves, regressor):
    x, _ = waves
    np.testing.assert_array_equal(regressor.predict(x)[:7], regressor.predict(x[:7]))


def test_it_pickles_and_clones(waves, regressor):
    x, _ = waves
    again = pickle.loads(pickle.dumps(regressor))
    np.testing.assert_array_equal(again.predict(x), regressor.predict(x))
    assert clone(regressor).get_params() == regressor.get_params()


EVERYDAY = ("fsghmc", "bbb")


@pytest.mark.parametrize(
    "method", [name if name in EVERYDAY else pytest.param(name, marks=pytest.mark.slow) for name in INFERENCE]
)
def test_every_method_fits_and_predicts(waves, method):
    x, y = waves
    model = FunctionalBNNRegressor("rbf", method, **{**QUICK, "burn_in": 1000, "steps": 1500}).fit(x, y)
    # The noise has 5; a straight line leaves 0.7 sd(y), 25.
    assert metrics.rmse(model.predict_distribution(x), y) < 10
    assert np.isfinite(model.predict_quantiles([[1000.0]])).all()


@pytest.mark.slow
def test_a_few_rows_far_off_do_not_widen_every_interval(waves):
    """Under Gaussian noise they do; what was fitted with tails keeps them when the parameters change afterwards."""
    x, y = waves
    strange = np.where(np.arange(60) % 20 == 3, y + 400, y)
    settings = {"hidden": (30,), "chains": 2, "samples": 20, "thinning": 10, "burn_in": 1000, "random_state": 1}
    heavy, light = (
        FunctionalBNNRegressor("rbf", noise_distribution=name, **settings).fit(x, strange)
        for name in ("student", "gaussian")
    )
    widths = [np.subtract(*model.predict_interval(x, 0.5)[::-1]).mean() for model in (heavy, light)]
    assert widths[0] < 0.9 * widths[1]
    before = heavy.predict(x, return_std=True)[1]
    np.testing.assert_array_equal(
        heavy.set_params(noise_distribution="gaussian").predict(x, return_std=True)[1], before
    )


def test_a_weight_is_a_row_that_counts_so_often(waves):
    x, y = waves
    times = np.random.default_rng(1).integers(0, 4, 60)
    weighted = FunctionalBNNRegressor("rbf", **QUICK).fit(x, y, sample_weight=times)
    repeated = FunctionalBNNRegressor("rbf", **QUICK).fit(np.repeat(x, times, axis=0), np.repeat(y, times))
    np.testing.assert_array_equal(weighted.predict(x), repeated.predict(x))
    plain = FunctionalBNNRegressor("rbf", **QUICK).fit(x, y)
    assert not np.allclose(plain.predict(x), weighted.predict(x))


def test_a_kernel_has_the_units_of_the_data(waves):
    x, y = waves
    given = FunctionalBNNRegressor(50.0**2 * rbf(10.0), prior="fixed", noise=5.0, **QUICK).fit(x, y)
    points = np.array([[0.0], [10.0]])
    covariance = np.asarray(given.prior_.gram(given.scale_.x(points))) * given.scale_.y_std**2
    np.testing.assert_allclose(covariance, 2500 * np.exp([[0, -0.5], [-0.5, 0]]), rtol=1e-4)
    assert given.noise_ == pytest.approx(5.0, rel=1e-6)


@pytest.mark.slow
def test_a_period_is_found_in_the_units_of_the_data():
    """Four cycles; of one alone a period cannot be told from a trend."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 80, (60, 1))
    y = 100 + 50 * np.sin(2 * np.pi * x[:, 0] / 20) + 5 * rng.standard_normal(60)
    fitted = FunctionalBNNRegressor(periodic(period=17.0), **QUICK).fit(x, y)
    assert fitted.prior_.kernel.kernel.kernel2.period == pytest.approx(20, rel=0.02)


@pytest.mark.slow
def test_a_kernel_is_chosen_by_evidence(waves):
    x, _ = waves
    line = FunctionalBNNRegressor("auto", **QUICK).fit(x, 3 * x[:, 0] + np.random.default_rng(0).standard_normal(60))
    assert "linear" in line.kernel_


def test_wrong_words_are_refused(waves):
    x, y = waves
    with pytest.raises(ValueError, match="unknown kernel 'smooth'"):
        FunctionalBNNRegressor("smooth", **QUICK).fit(x, y)
    with pytest.raises(ValueError, match="name one"):
        FunctionalBNNRegressor("auto", prior="fixed").fit(x, y)
    with pytest.raises(ValueError, match="unknown method 'nuts'"):
        FunctionalBNNRegressor("rbf", "nuts").fit(x, y)
    with pytest.raises(ValueError, match="unknown noise_distribution 'cauchy'"):
        FunctionalBNNRegressor("rbf", noise_distribution="cauchy").fit(x, y)
    with pytest.raises(ValueError, match="at least one non-zero"):
        FunctionalBNNRegressor("rbf").fit(x, y, sample_weight=np.zeros(60))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": None}, "unknown method None"),
        ({"prior": np.array([1, 2])}, "unknown prior"),
        ({"extrapolation": ["process"]}, "unknown extrapolation"),
        ({"noise": -1.0}, "noise must be a positive number, got -1.0"),
        ({"noise": np.ones(60)}, "noise must be a positive number"),
        ({"samples": 0}, "samples must be a whole number"),
        ({"steps": 1.5}, "steps must be a whole number"),
        ({"burn_in": -1}, "burn_in must be a whole number"),
        ({"hidden": 50}, "such as \\(50, 50\\), not 50"),
        ({"checkpoint": "fit.npz"}, "give random_state too"),
    ],
)
def test_wrong_parameters_are_refused_by_their_names(waves, options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        FunctionalBNNRegressor("rbf", **options).fit(*waves)


@pytest.mark.parametrize("factor", [1e200, 1e-200])
def test_numbers_whose_squares_float64_does_not_have_are_refused(waves, factor):
    x, y = waves
    with pytest.raises(ValueError, match="numbers of y are too large or too small to be squared"):
        FunctionalBNNRegressor("rbf", **QUICK).fit(x, factor * y)
    with pytest.raises(ValueError, match="numbers of feature 0 are too large or too small"):
        FunctionalBNNRegressor("rbf", **QUICK).fit(factor * x, y)


def test_wrong_arguments_of_predictions_are_refused(regressor):
    far = np.vstack([np.zeros((700, 1)), [[1e300]]])
    with pytest.raises(ValueError, match="1e\\+300 in row 700 and feature 0 of x is too far"):
        regressor.predict(far)
    with pytest.raises(ValueError, match="coverage is a probability"):
        regressor.predict_interval([[0.0]], 90)
    with pytest.raises(ValueError, match="n must be a whole number"):
        regressor.sample_functions([[0.0]], n=0)


@pytest.mark.slow
def test_frames_pipelines_and_searches(waves):
    x, y = waves
    colours = np.array(["red", "blue"])[(y > 100).astype(int)]
    frame = pd.DataFrame({"x": x[:, 0], "colour": colours})
    model = make_pipeline(
        make_column_transformer((OneHotEncoder(), ["colour"]), remainder="passthrough"),
        # Ten units can take the waves for noise.
        FunctionalBNNRegressor("rbf", **{**QUICK, "burn_in": 1000, "hidden": (30,)}),
    )
    assert model.fit(frame, y).score(frame, y) > 0.5
    named = FunctionalBNNRegressor("rbf", **QUICK).fit(pl.DataFrame({"x": x[:, 0]}), y)
    assert named.feature_names_in_.tolist() == ["x"]
    with pytest.raises(ValueError, match="feature names"):
        named.predict(pd.DataFrame({"z": x[:, 0]}))
    settled = FunctionalBNNRegressor(**{**QUICK, "burn_in": 1000})
    search = GridSearchCV(settled, {"kernel": ["linear", "rbf"]}, cv=KFold(2)).fit(x, y)
    assert search.best_params_ == {"kernel": "rbf"}
    assert cross_val_score(search.best_estimator_, x, y, cv=KFold(2)).min() > 0.5


@pytest.mark.slow
def test_what_is_linear_is_learned_as_such():
    """Without a linear skip connection few steep networks are linear: slopes of 0.4, an error of 0.65.

    Least squares has an error of 0.28.
    """
    rng = np.random.default_rng(1)
    x, slopes = rng.normal(size=(150, 8)), np.ones(8) / np.sqrt(8)
    model = FunctionalBNNRegressor("linear", chains=1, samples=10, burn_in=1000, thinning=10, random_state=0)
    new = rng.normal(size=(200, 8))
    mean = model.fit(x, x @ slopes + rng.normal(size=150)).predict(new)
    assert np.std(mean - new @ slopes) < 0.45


def test_ctrl_c_keeps_what_was_sampled(waves, monkeypatch):
    def interrupt(bar, phase, *_, **__):
        if phase == "sampling":
            raise KeyboardInterrupt

    monkeypatch.setattr(Progress, "show", interrupt)
    model = FunctionalBNNRegressor("rbf", **{**QUICK, "samples": 5000}).fit(*waves)
    assert model.info_["interrupted"]
    assert 0 < model.energy_.shape[1] < 5000
    assert np.isfinite(model.predict(waves[0])).all()


@pytest.mark.slow
def test_few_rows_constants_and_a_column_that_is_always_the_same():
    model = FunctionalBNNRegressor("rbf", prior="fixed", **QUICK)
    assert np.isfinite(model.fit([[0.0, 1.0], [1.0, 1.0], [2.0, 1.0]], [1.0, 2.0, 1.0]).predict([[5.0, 1.0]])).all()
    assert model.fit([[0.0], [1.0], [2.0]], [7.0, 7.0, 7.0]).predict([[1.5]]) == pytest.approx(7.0, abs=1.5)


def test_novelty_is_the_distance_of_the_kernel():
    x = np.random.default_rng(0).normal(size=(700, 2)).astype(np.float32)
    novelty = Novelty.of(GaussianProcess(matern32(2.0, variance=9.0)), x)
    np.testing.assert_allclose(novelty.distance(x), 0.0, atol=2e-3)
    new = np.array([[3.0, 3.0]], np.float32)
    nearest = np.sqrt(np.square(new - x).sum(axis=1)).min()
    correlation = (1 + np.sqrt(3) * nearest / 2) * np.exp(-np.sqrt(3) * nearest / 2)
    assert novelty.distance(new)[0] == pytest.approx(np.sqrt(1 - correlation), rel=1e-3)
    assert np.mean(novelty.score(np.random.default_rng(1).normal(size=(500, 2)).astype(np.float32)) > 1) < 0.05


def test_a_shift_that_the_kernel_does_not_see_is_new():
    """The second feature has a lengthscale of a thousand ranges."""
    x = np.random.default_rng(0).uniform(size=(200, 2)).astype(np.float32)
    novelty = Novelty.of(GaussianProcess(rbf([1.0, 1e3])), x)
    later = np.array([[0.5, 1.04], [0.5, 1.2]], np.float32)
    assert novelty.distance(later).max() < novelty.threshold
    np.testing.assert_array_equal(novelty.score(later) > 1, [False, True])


@pytest.fixture(scope="module")
def compared(waves):
    """A model that compared posteriors, and the posteriors of its runs, the last one being that of the fit."""
    seen, run = [], FunctionalBNN._run
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FunctionalBNN, "_run", lambda *args, **options: seen.append(args[3]) or run(*args, **options))
        return FunctionalBNNRegressor(**{**QUICK, "hidden": (5,)}).fit(*waves), seen


def test_a_posterior_is_chosen_by_held_out_density_and_saved(tmp_path, waves, compared):
    x, model = waves[0], compared[0]
    assert [tried.name for tried in model.tried_] == [each.name for each in CANDIDATES]
    best = max(range(len(CANDIDATES)), key=lambda index: model.tried_[index].density)
    forms = [(each.method, each.initial, (5,)) for each in (CANDIDATES[0], CANDIDATES[best])]
    assert (model.method_, model.network_.initial, model.network_.hidden) in forms
    save_model(model, tmp_path)
    loaded, _ = load_model(tmp_path)
    assert (loaded.tried_, loaded.method_, loaded.network_) == (model.tried_, model.method_, model.network_)
    np.testing.assert_allclose(loaded.predict(x), model.predict(x), rtol=1e-5)


def test_held_out_rows_do_not_reach_the_runs_that_are_scored_on_them(waves, compared):
    x, seen = waves[0], compared[1]
    short = [np.asarray(posterior.data.rows.weights)[: len(x)] for posterior in seen[:-1]]
    assert len(short) == len(CANDIDATES)
    for weights in short:
        assert (weights == 0).sum() == held_out(len(x))
    assert not (np.asarray(seen[-1].data.rows.weights)[: len(x)] == 0).any()


@pytest.mark.slow
def test_a_candidate_that_diverges_is_not_chosen(waves, monkeypatch):
    run = FunctionalBNN._run

    def sometimes(self, seed, candidate, posterior, short=False):
        if candidate.method == "fsghmc":
            raise DivergedChainError(0, 10, 1.0)
        return run(self, seed, candidate, posterior, short)

    monkeypatch.setattr(FunctionalBNN, "_run", sometimes)
    model = FunctionalBNNRegressor(**{**QUICK, "hidden": (5,)}).fit(*waves)
    assert model.method_ == "sghmc"
    assert model.tried_[0].density == -np.inf


def test_a_kernel_that_is_given_is_the_prior(regressor):
    assert regressor.method_ == "fsghmc"
    assert regressor.tried_ == ()


def test_noise_does_not_vanish_where_a_rough_kernel_explains_everything():
    """Noise of 1 around a line on 40 rows: a network through all of them would have none."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, (40, 2)).astype(np.float32)
    y = x[:, 0] + rng.standard_normal(40)
    process = GaussianProcess(matern32(0.05))
    rough, smooth = FittedPrior(process, 0.01, "matern32"), FittedPrior(GaussianProcess(linear()), 0.9, "linear")
    assert noise.scale_of(rough, x, y) < 0.1
    assert noise.scale_of(rough._replace(others=(smooth, smooth, rough)), x, y) == pytest.approx(0.9)
    # Errors beyond what the process says raise the scale: a line cannot follow a parabola.
    sure = FittedPrior(GaussianProcess(linear()), 0.01, "linear")
    assert noise.scale_of(sure, x, y) > 0.5


def test_a_network_that_does_not_follow_its_process_is_told(regressor):
    assert "process" not in [warning.code for warning in regressor.diagnose().warnings]
    poor = copy(regressor)
    poor.positions_ = 0.1 * regressor.positions_
    found = {warning.code: warning for warning in poor.diagnose().warnings}
    assert found["process"].value > 3
    assert "it does not follow its prior" in found["process"].message


def test_the_prediction_of_the_processes_alone_is_their_mixture_in_the_units_of_the_data(waves, regressor):
    x, y = waves
    scale, model = regressor.scale_, copy(regressor)
    processes = [GaussianProcess(rbf(length)) for length in (0.5, 0.7)]
    model.extrapolation_ = Extrapolation.of(processes, scale.x(x), scale.y(y), noise=[0.1, 0.2])
    assert len(model.extrapolation_.experts) == 2
    new, targets = np.array([[0.0], [200.0]]), np.array([90.0, 130.0])
    each = [
        expert.posterior.predict(scale.x(new)).rescaled(scale.y_mean, scale.y_std).log_prob(targets)
        for expert in model.extrapolation_.experts
    ]
    found = model.process_distribution(new).log_prob(targets)
    np.testing.assert_allclose(found, np.log(np.mean(np.exp(each), axis=0)), rtol=1e-6)
    model.extrapolation_ = None
    with pytest.raises(ValueError, match='extrapolation="process"'):
        model.process_distribution(new)


def test_a_network_that_is_sure_beyond_the_rows_is_told(waves, regressor):
    alone = copy(regressor)
    alone.extrapolation_ = None
    assert "beyond" not in [warning.code for warning in regressor.diagnose().warnings]
    alone.positions_ = np.zeros_like(regressor.positions_) + regressor.positions_[:1, :1]  # draws that all agree
    found = {warning.code: warning for warning in alone.diagnose().warnings}
    assert found["beyond"].value == pytest.approx(0.0, abs=1e-3)
    assert 'Use extrapolation="process"' in found["beyond"].message


@pytest.mark.slow
def test_a_season_and_a_trend_go_on_for_four_years():
    """Monthly rows of 13 years: forecast errors within 1.2 of the exact process's, coverage of 48 rows above .7."""
    rng = np.random.default_rng(0)
    years = 1990 + np.arange(17 * 12) / 12
    y = 0.05 * (years - 1990) + 0.4 * np.sin(2 * np.pi * years) + 0.1 * rng.standard_normal(len(years))
    past, ahead = years[:156, None], years[156:, None]
    model = FunctionalBNNRegressor("periodic + linear", random_state=0, samples=10, thinning=100).fit(past, y[:156])
    scale = model.scale_
    exact = model.prior_.condition(scale.x(past), scale.y(y[:156]), model.noise_ / scale.y_std)
    process = scale.original_y(exact.predict(scale.x(ahead)).mean[:, 0])
    errors = [np.sqrt(np.mean(np.square(mean - y[156:]))) for mean in (model.predict(ahead), process)]
    assert errors[0] < 1.2 * errors[1]
    lower, upper = model.predict_interval(ahead)
    assert np.mean((lower <= y[156:]) & (y[156:] <= upper)) > 0.7
