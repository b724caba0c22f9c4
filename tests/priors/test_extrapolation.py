"""Beyond the rows draws of a network vary as processes given the rows do; at the rows they stay.

False-alarm rate of each statistical test: below 1e-4; seeds are fixed.
"""

import numpy as np
import pytest
import scipy.stats

import fsgmcmc as fs
from fsgmcmc import GaussianProcess, linear, matern32, rbf
from fsgmcmc.predictions import GaussianPrediction, StudentPrediction
from fsgmcmc.priors.extrapolation import Extrapolation

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (60, 1))
Y = np.sin(3 * X[:, 0]) + 0.1 * RNG.standard_normal(60)
PROCESSES = (GaussianProcess(rbf(0.5)), GaussianProcess(matern32(0.7), mean=0.2))
FAR = np.array([[4.0], [4.1], [-6.0]])


@pytest.fixture(scope="module")
def beyond():
    return Extrapolation.of(PROCESSES, X, Y, noise=[0.1, 0.1])


def test_most_rows_keep_the_network_and_far_points_do_not(beyond):
    at_rows, far = beyond.weights(X), beyond.weights(FAR)
    assert at_rows.shape == (2, 60, 1)
    assert np.mean(at_rows == 0, axis=(1, 2)).min() >= 0.9
    assert far.min() > 0.9
    functions = RNG.normal(size=(10, 60, 1))
    blended = beyond.blend(X, functions)
    kept = (at_rows == 0).all(axis=(0, 2))
    np.testing.assert_array_equal(blended.functions[:, kept], functions[:, kept])
    assert not blended.spread[:, kept].any()


def test_the_excess_is_that_of_the_spread_over_what_most_rows_have(beyond):
    """Far away a v is the prior's variance, 1; q₉₀ + σ² is that of a row given the others."""
    assert beyond.excess(X).max() < 1
    usual = np.mean([expert.threshold.item() + 0.1**2 for expert in beyond.experts])
    assert beyond.excess([[60.0]]).item() == pytest.approx(np.sqrt(1 / usual), rel=1e-6)


def test_the_threshold_is_the_quantile_of_the_variance_given_the_other_rows(beyond):
    """Each row left out in turn, instead of the formula 1/[C⁻¹]_ii − σ²."""
    for process, expert in zip(PROCESSES, beyond.experts, strict=True):
        left_out = []
        for row in range(len(X)):
            others = np.delete(np.arange(len(X)), row)
            posterior = process.condition(X[others], Y[others], 0.1)
            left_out.append(posterior.predict(X[row : row + 1]).epistemic.item() ** 2)
        assert expert.threshold.item() == pytest.approx(np.quantile(left_out, 0.9), rel=1e-6)


def test_far_away_half_of_the_draws_are_those_of_the_processes_and_all_vary_as_they_do(beyond):
    """At 100 lengthscales v is the prior's variance and a is 1."""
    place = np.array([[60.0]])
    blended = beyond.blend(place, 50 + np.zeros((40, 1, 1)))
    moments = [p.condition(X, Y, 0.1).predict(place) for p in PROCESSES]
    a = beyond.weights(place)[:, 0, 0]
    for index, expected in enumerate(moments):
        mean, spread = (1 - a[index]) * 50 + a[index] * expected.mean.item(), expected.epistemic.item()
        np.testing.assert_allclose(blended.functions[2 * index :: 4], mean, rtol=1e-9)
        np.testing.assert_allclose(blended.functions[2 * index + 1 :: 4], 50.0)
        for own in (blended.spread[2 * index :: 4], blended.spread[2 * index + 1 :: 4]):
            np.testing.assert_allclose(own, np.sqrt(a[index]) * spread, rtol=1e-9)
    np.testing.assert_allclose(a, 1.0)


def test_joint_draws_have_the_moments_of_the_blend_and_the_correlation_of_the_process():
    """4,000 draws: correlations to 5 standard errors of 1/sqrt(4000), standard deviations to 5 of 1/sqrt(8000)."""
    beyond = Extrapolation.of(PROCESSES[:1], X, Y, noise=[0.1])
    functions = np.zeros((4000, 3, 1))
    drawn, blended = beyond.draw(FAR, functions)[..., 0], beyond.blend(FAR, functions)
    np.testing.assert_allclose(drawn.std(axis=0), blended.spread[0, :, 0], rtol=5 / np.sqrt(8000))
    np.testing.assert_allclose(drawn.mean(axis=0), blended.functions[0, :, 0], atol=5 / np.sqrt(4000))
    correlation = np.corrcoef(drawn.T)
    assert correlation[0, 1] == pytest.approx(np.exp(-0.5 * (0.1 / 0.5) ** 2), abs=0.02)
    assert abs(correlation[0, 2]) < 5 / np.sqrt(4000)


def test_far_from_rows_that_do_not_determine_each_other_the_process_predicts():
    """Eight rows many lengthscales apart: given the others, a row is as uncertain as any point."""
    x, y = np.arange(8.0)[:, None], RNG.normal(size=(8, 1))
    lonely = Extrapolation.of([GaussianProcess(rbf(0.1))], x, y, noise=[0.1])
    np.testing.assert_allclose(lonely.weights([[0.5], [30.0]]).ravel(), 1.0)
    np.testing.assert_array_equal(lonely.weights(x), 0.0)


def test_rows_are_drawn_at_random_where_they_are_many():
    x = np.linspace(-1, 1, 3000)[:, None]
    beyond = Extrapolation.of([GaussianProcess(rbf(0.5))], x, np.sin(3 * x), noise=[np.full(3000, 0.1)])
    assert len(beyond.x) == 1000
    np.testing.assert_allclose(beyond.y, np.sin(3 * beyond.x))
    assert not beyond.weights([[-0.5], [0.0], [0.5]]).any()


def test_wrong_arguments_are_refused():
    of, process = Extrapolation.of, PROCESSES[0]
    with pytest.raises(TypeError, match="a list of processes"):
        of(process, X, Y, [0.1])
    with pytest.raises(TypeError, match="a list with the noise"):
        of([process], X, Y, 0.1)
    with pytest.raises(TypeError, match="must be of GaussianProcess"):
        of([rbf()], X, Y, [0.1])
    with pytest.raises(ValueError, match="one name for each process, got 1 and 2"):
        of([process], X, Y, [0.1], ["a", "b"])
    with pytest.raises(ValueError, match="x has 19 rows but y has 20"):
        of([process], X[1:20], Y[:20], [0.1])
    with pytest.raises(ValueError, match=r"rows of shape \(2,\)"):
        of([process], X, Y, [0.1]).weights([[0.0, 1.0]])


def test_a_process_that_the_rows_refute_is_left_out():
    wave = Extrapolation.of([*PROCESSES, GaussianProcess(linear())], X, Y, [0.1, 0.1, 0.5], ["rbf", "rough", "line"])
    assert [expert.name for expert in wave.experts] == ["rbf", "rough"]
    with pytest.raises(ValueError, match="one noise for each process, got 2 and 1"):
        Extrapolation.of(PROCESSES, X, Y, [0.1])


def test_the_spread_of_a_prediction_is_epistemic_and_widens_its_distribution():
    functions, spread = RNG.normal(size=(30, 4, 1)), np.abs(RNG.normal(size=(30, 4, 1)))
    y = RNG.normal(size=(4, 1))
    prediction = GaussianPrediction(functions, 0.3, spread=spread)
    scale = np.hypot(0.3, spread)
    np.testing.assert_allclose(prediction.log_prob(y), np.log(scipy.stats.norm.pdf(y, functions, scale).mean(0))[:, 0])
    np.testing.assert_allclose(prediction.aleatoric, 0.3)
    variance = functions.var(axis=0) + np.square(spread).mean(axis=0)
    np.testing.assert_allclose(prediction.epistemic, np.sqrt(variance))
    twice = prediction.rescaled(1.0, 2.0)
    np.testing.assert_allclose(twice.std, 2 * prediction.std)
    np.testing.assert_allclose(prediction.cdf(prediction.quantile(0.9)), 0.9, rtol=1e-6)


def test_tails_that_meet_a_spread_have_the_variance_of_the_sum_and_nearly_its_distribution():
    nu, sigma, spread = 5.0, 0.4, 0.5
    one = np.ones((1, 1, 1))
    prediction = StudentPrediction(0 * one, sigma, nu * one, spread=spread * one)
    total = sigma**2 * nu / (nu - 2) + spread**2
    assert prediction.std.item() ** 2 == pytest.approx(total)
    levels = [0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99]
    z = np.linspace(-12, 12, 48_001)
    density = np.convolve(
        scipy.stats.t.pdf(z / sigma, nu) / sigma, scipy.stats.norm.pdf(z, scale=spread), mode="same"
    ) * (z[1] - z[0])
    quantiles = np.interp(levels, np.cumsum(density) * (z[1] - z[0]), z)
    np.testing.assert_allclose(prediction.quantile(levels).ravel(), quantiles, atol=0.02)


def test_samples_predict_with_processes_beyond_the_rows():
    network = fs.MLP((5,))
    posterior = fs.parameter_space(network, X, Y, likelihood=fs.Gaussian(0.1))
    positions = RNG.normal(size=(2, 20, posterior.size)).astype(np.float32)
    samples = posterior.samples(positions, np.zeros((2, 20)), None, {})
    beyond = samples.extrapolated(PROCESSES, X, Y, noise=[0.1, 0.1])
    with pytest.raises(ValueError, match="1 and 2 columns, but the network 1 inputs and 1 outputs"):
        samples.extrapolated(PROCESSES, X, np.stack([Y, Y], axis=1), noise=[0.1, 0.1])
    with pytest.raises(ValueError, match="are not saved"):
        beyond.save("draws.npz")
    near = X[(beyond.extrapolation.weights(X) == 0).all(axis=(0, 2))]
    np.testing.assert_allclose(beyond.predict(near).mean, samples.predict(near).mean, rtol=1e-6)
    functions, spread = beyond.extrapolation.blend([[60.0]], samples.functions([[60.0]]).reshape(40, 1, 1))
    expected = np.sqrt(functions.var() + np.square(spread).mean())
    assert beyond.predict([[60.0]]).epistemic.item() == pytest.approx(expected, rel=1e-4)
    assert expected > 0.9
    np.testing.assert_array_equal(beyond.functions(X), samples.functions(X))


def test_classes_are_uncertain_beyond_the_rows():
    """Logits get independent errors for each class, so that probabilities move towards equal ones."""
    functions = np.tile([[[4.0, -4.0]]], (200, 1, 1))
    sure = fs.Categorical(2).predict(functions, ()).probabilities
    unsure = fs.Categorical(2).predict_spread(functions, np.full(functions.shape, 10.0), ()).probabilities
    assert sure[0, 0] > 0.999
    # P(N(8, 200) > 0) = 0.714, and the softmax is close to a step.
    assert unsure[0, 0] == pytest.approx(0.71, abs=0.05)


def test_few_draws_of_class_logits_get_several_errors_each():
    """Against 200,000 Monte Carlo errors, whose own error is below 0.002.

    The 100 stratified errors leave at most 0.06; one error for each of the ten draws leaves much more.
    """
    rng = np.random.default_rng(0)
    functions, spread = rng.normal(scale=2, size=(10, 40, 3)), rng.uniform(0, 6, size=(10, 40, 3))
    errors = np.random.default_rng(1).standard_normal((20_000, 10, 1, 3))
    predict = fs.Categorical(3).predict
    for row in range(0, 40, 8):
        at = np.s_[:, row : row + 1]
        exact = predict((functions[at] + spread[at] * errors).reshape(-1, 1, 3), ())
        found = fs.Categorical(3).predict_spread(functions[at], spread[at], ())
        np.testing.assert_allclose(found.probabilities, exact.probabilities, atol=0.06)
        np.testing.assert_allclose(found.mutual_information, exact.mutual_information, atol=0.06)
    whole = fs.Categorical(3).predict_spread(functions, spread, ())
    np.testing.assert_array_equal(whole.probabilities[row], found.probabilities[0])  # whatever the other rows are
    sure = fs.Categorical(3).predict_spread(functions, 0 * spread, ())
    np.testing.assert_allclose(sure.probabilities, predict(functions, ()).probabilities)


def test_each_error_of_a_draw_is_in_a_part_of_its_own_and_params_follow_their_draws():
    """With spread 1 and functions 0 the logits are the errors themselves."""
    errors = fs.Categorical(2).predict_spread(np.zeros((20, 1, 2)), np.ones((20, 1, 2)), ()).logits[:, 0]
    levels = scipy.stats.norm.cdf(errors)
    np.testing.assert_allclose(np.sort(levels, axis=0), (np.arange(100)[:, None] + 0.5) / 100 + np.zeros(2))
    parts = np.sort((5 * levels).astype(int).reshape(20, 5, 2), axis=1)
    np.testing.assert_array_equal(parts, np.broadcast_to(np.arange(5)[:, None], parts.shape))
    assert abs(np.corrcoef(errors.T)[0, 1]) < 0.4

    class WithOwn(fs.Categorical):
        def predict(self, functions, params, noise=None):
            return super().predict(functions + params["shift"][:, None, None], (), noise)

    shift = {"shift": np.arange(20.0)}
    shifted = WithOwn(2).predict_spread(np.zeros((20, 1, 2)), 0 * np.ones((20, 1, 2)), shift).logits
    np.testing.assert_array_equal(shifted[:, 0, 0], np.repeat(np.arange(20.0), 5))
