"""`fit`: continues bit for bit, stops at non-finite values, ends in Samples like any other method."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fsgmcmc import MLP, Gaussian, GaussianProcess, Samples, cyclical, function_space, metrics, parameter_space, rbf
from fsgmcmc.errors import DivergedFitError
from fsgmcmc.random import normal
from fsgmcmc.variational import bbb, fbnn, fit, ifbnn, training
from fsgmcmc.variational.base import draw_positions
from fsgmcmc.variational.mean_field import MeanField

X = np.linspace(-1, 1, 12)
Y = np.sin(3 * X)
WEIGHTS = parameter_space(MLP((8,)), X, Y, likelihood=Gaussian(0.2), batch_size=6)
FUNCTION = function_space(MLP((8,)), X, Y, prior=GaussianProcess(rbf(0.5)), likelihood=Gaussian(0.2))
METHODS = {
    "bbb": (WEIGHTS, bbb()),
    "fbnn": (FUNCTION, fbnn(function_draws=10)),
    "ifbnn": (FUNCTION, ifbnn(functions=4)),
}


@pytest.mark.parametrize(
    "name", [name if name == "bbb" else pytest.param(name, marks=pytest.mark.slow) for name in METHODS]
)
def test_a_killed_fit_goes_on_bit_for_bit(name, tmp_path, monkeypatch):
    whole = fit(0, *METHODS[name], steps=400, draws=5)
    shown = []

    def interrupt(self, phase, done=0, note=""):
        shown.append(done)
        if len(shown) == 50:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(training.Progress, "show", interrupt)
        with pytest.raises(KeyboardInterrupt):
            fit(0, *METHODS[name], steps=400, draws=5, checkpoint=tmp_path / "fit")
    resumed = fit(0, *METHODS[name], steps=400, draws=5, checkpoint=tmp_path / "fit")
    np.testing.assert_array_equal(resumed.positions, whole.positions)
    assert resumed.info["loss"] == whole.info["loss"]


def test_the_checkpoint_of_another_fit_is_refused(tmp_path):
    fit(0, *METHODS["bbb"], steps=10, checkpoint=tmp_path / "fit")
    with pytest.raises(ValueError, match="another run"):
        fit(1, *METHODS["bbb"], steps=10, checkpoint=tmp_path / "fit")
    with pytest.raises(ValueError, match="another run"):
        fit(0, WEIGHTS, bbb(draws_per_step=2), steps=10, checkpoint=tmp_path / "fit")


def test_a_network_given_by_its_parameters_starts_from_them(tmp_path):
    """Two networks of one function share their programs, and neither their starts nor their checkpoints."""

    def line(slope):
        network = ({"w": jnp.full((1, 1), slope)}, apply)
        return parameter_space(network, X, Y, likelihood=Gaussian(0.2))

    def apply(params, x):
        return x @ params["w"]

    still = {"steps": 1, "learning_rate": 1e-9, "draws": 1}
    found = [fit(0, line(slope), bbb(initial_log_std=-20.0), **still).positions.item() for slope in (3.0, 7.0)]
    np.testing.assert_allclose(found, [3.0, 7.0], atol=1e-4)
    fit(0, line(3.0), bbb(), checkpoint=tmp_path / "fit", **still)
    with pytest.raises(ValueError, match="another run"):
        fit(0, line(7.0), bbb(), checkpoint=tmp_path / "fit", **still)


def test_a_fit_that_diverges_stops_early_and_tells_the_remedy():
    with pytest.raises(DivergedFitError, match="try learning_rate=") as caught:
        fit(0, *METHODS["bbb"], steps=100_000, learning_rate=cyclical(1e30, length=100_000))
    assert caught.value.step <= 500
    assert "try learning_rate=3.3e+29" in str(caught.value)


def test_gradients_through_draws_are_those_of_cutting_the_vector():
    """With respect to mean and log σ, and zero for a leaf that nobody looks at."""
    posterior = parameter_space(MLP((3,)), np.zeros((4, 2)), np.zeros(4), likelihood=Gaussian(0.1))
    q = MeanField(jnp.linspace(-1, 1, posterior.size), jnp.linspace(-2, 0, posterior.size))
    noise = normal(jax.random.key(0), 2 * posterior.size).reshape(2, -1)

    def looked_at(position):
        return sum(jnp.sum(jnp.sin(leaf)) for leaf in jax.tree.leaves(position.network)[1:])

    found = jax.grad(lambda q: looked_at(draw_positions(jax.random.key(0), posterior, q, 2)))(q)
    expected = jax.grad(lambda q: looked_at(posterior.parameters(q.mean + q.std * noise)))(q)
    for ours, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    assert (np.asarray(found.mean) == 0).any()


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name == "ifbnn" else name for name in METHODS]
)
def test_the_learning_curve_falls_and_the_draws_predict(name):
    samples = fit(0, *METHODS[name], steps=600, learning_rate=1e-2, draws=30)
    loss = samples.info["loss"]
    assert len(loss) == len(samples.info["loss_steps"]) == training.CURVE
    assert samples.info["loss_steps"][-1] == samples.info["iterations"] == 600
    assert np.mean(loss[-20:]) < np.mean(loss[:20])
    assert samples.positions.shape[:2] == samples.energy.shape == (1, 30)
    assert np.isfinite(metrics.nll(samples.predict(X), Y))


def test_draws_are_saved_and_loaded_like_those_of_a_sampler(tmp_path):
    samples = fit(0, *METHODS["bbb"], steps=10, draws=5)
    samples.save(tmp_path / "samples")
    loaded = Samples.load(tmp_path / "samples")
    np.testing.assert_array_equal(loaded.predict(X).mean, samples.predict(X).mean)


def test_fewer_steps_than_points_of_the_curve_are_fine():
    samples = fit(0, *METHODS["bbb"], steps=3)
    assert samples.info["loss_steps"] == [1, 2, 3]


@pytest.mark.parametrize(
    ("posterior", "method", "match"),
    [
        (FUNCTION, bbb(), "parameter_space"),
        (WEIGHTS, fbnn(), "function_space"),
        (WEIGHTS, ifbnn(), "function_space"),
        (WEIGHTS, None, "method must be"),
        (None, bbb(), "posterior must be built by"),
    ],
)
def test_what_does_not_fit_is_refused(posterior, method, match):
    with pytest.raises((TypeError, ValueError), match=match):
        fit(0, posterior, method, steps=1)
