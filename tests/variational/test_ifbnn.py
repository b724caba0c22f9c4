"""IFBNN: its bridge becomes the functional prior, and q the posterior under it."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fsgmcmc import Gaussian, GaussianProcess, function_space, measurement, rbf
from fsgmcmc.samplers.schedules import as_schedule
from fsgmcmc.variational import fit, ifbnn
from fsgmcmc.variational.base import draw_positions, network_values
from fsgmcmc.variational.mean_field import MeanField
from fsgmcmc.variational.training import start, train

X = np.linspace(-1, 1, 6)
PRIOR = GaussianProcess(rbf(3.0, variance=4.0), mean=1.0)
# Three cosines: enough for functions as smooth as the prior's.
NETWORK = ({"w": jnp.zeros((3, 1))}, lambda params, x: jnp.cos(jnp.arange(3) * x) @ params["w"])


def posterior(points):
    return function_space(NETWORK, X, np.cos(X), prior=PRIOR, likelihood=Gaussian(0.2), measurement=points)


@pytest.mark.slow
@pytest.mark.parametrize(
    "points",
    [measurement.fixed(X), pytest.param(measurement.box(-1.0, 1.0, 6), marks=pytest.mark.slow)],
    ids=["fixed", "redrawn"],
)
def test_the_bridge_takes_the_mean_and_spread_of_the_prior(points):
    """The prior has mean 1 and standard deviation 2 everywhere; the bridge starts at 0 and 1/√3 a weight."""
    target, method = posterior(points), ifbnn(functions=64)
    state = start(jax.random.key(0), target, method)
    state, _ = train(
        jax.random.split(jax.random.key(1), 1), state, target, method, as_schedule(3e-3, "rate"), jnp.int32(3000)
    )
    bridge = jax.tree.map(lambda leaf: leaf[0], state.trained.bridge)
    values = network_values(
        target, draw_positions(jax.random.key(1), target, bridge, 4000), jnp.asarray(X[:, None], jnp.float32)
    )[..., 0]
    np.testing.assert_allclose(values.mean(axis=0), 1.0, atol=0.6)
    np.testing.assert_allclose(values.std(axis=0), 2.0, rtol=0.25)


def test_q_follows_the_data():
    samples = fit(0, posterior(measurement.fixed(X)), ifbnn(), steps=2000, learning_rate=0.01, draws=200)
    np.testing.assert_allclose(samples.predict(X).mean[:, 0], np.cos(X), atol=0.25)


@pytest.mark.slow
def test_the_coupling_pulls_the_bridge_to_q():
    """Its gradient gets c times that of the divergence, and q's stays as it is."""
    target = posterior(measurement.fixed(X))
    alone, coupled = ifbnn(coupling=0.0), ifbnn(coupling=2.0)
    state = alone.init(jax.random.key(0), target)
    state = state._replace(q=MeanField(state.q.mean + 0.7, state.q.log_std))
    gradients = [eqx.filter_jit(method.objective)(jax.random.key(1), target, state)[1] for method in (alone, coupled)]
    np.testing.assert_array_equal(gradients[0].q.mean, gradients[1].q.mean)

    def divergence(bridge):
        return jnp.sum(state.q.divergence(bridge.mean, jnp.exp(-2 * bridge.log_std)))

    pull = jax.tree.map(lambda with_q, without: with_q - without, gradients[1].bridge, gradients[0].bridge)
    for found, expected in zip(jax.tree.leaves(pull), jax.tree.leaves(jax.grad(divergence)(state.bridge)), strict=True):
        np.testing.assert_allclose(found, 2.0 * expected, rtol=1e-3, atol=1e-3)


def test_nonsense_is_refused():
    with pytest.raises(ValueError, match="coupling"):
        ifbnn(coupling=-1.0)
    with pytest.raises(ValueError, match="functions"):
        ifbnn(functions=1)
