"""Waves of a kernel as inputs of a network: their covariance is the kernel's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tinygp import kernels

from fsgmcmc import MLP, linear, matern32, periodic, rbf
from fsgmcmc.priors import frequencies
from fsgmcmc.priors.kernels import InUnits, evaluate


@pytest.mark.parametrize("kernel", [rbf(0.05), matern32(0.05)])
def test_the_mean_wave_is_the_correlation_of_the_kernel(kernel, monkeypatch):
    monkeypatch.setattr("fsgmcmc.priors.spectrum.WAVES", 2048)
    monkeypatch.setattr("fsgmcmc.priors.spectrum.ROWS_PER_CYCLE", 0.001)
    x = np.linspace(0, 1, 30)[:, None]
    waves = np.array(frequencies(kernel, x))
    found = np.cos(2 * np.pi * (x[:, None] - x[None]) @ waves.T).mean(axis=-1)
    np.testing.assert_allclose(found, evaluate(kernel, jnp.asarray(x), jnp.asarray(x)), atol=0.02)


def test_a_period_has_its_harmonics_and_few_where_it_is_smooth():
    x = np.linspace(0, 10, 50)[:, None]
    assert frequencies(periodic(2.0, lengthscale=5.0), x) == ((0.5,),)
    rough = np.array(frequencies(periodic(2.0, lengthscale=0.5), x))
    np.testing.assert_allclose(rough.ravel(), 0.5 * np.arange(1, len(rough) + 1))
    assert len(rough) > 2
    assert frequencies(periodic(100.0), x) == ()


def test_waves_are_in_the_units_of_the_network():
    x = np.linspace(-1.7, 1.7, 50)[:, None]
    in_units = InUnits(periodic(1.0, lengthscale=5.0), np.array([4.0]), 1.0)
    np.testing.assert_allclose(frequencies(in_units, x), [[4.0]])


def test_a_long_lengthscale_needs_no_waves():
    x = np.linspace(0, 1, 20)[:, None]
    assert frequencies(rbf(0.5) + linear() + kernels.Constant(1.0), x) == ()
    waves = np.array(frequencies(rbf(0.01) + linear(), x))
    assert 0 < waves.max() <= 5  # 20 rows
    assert frequencies(rbf(0.01), np.random.default_rng(0).normal(size=(50, 2))) == ()


def test_waves_are_inputs_and_part_of_the_skip_connection():
    network = MLP((5,), frequencies=((0.5, 0.0), (0.0, 1.0)), skip=True)
    params = network.init(jax.random.key(0), inputs=2, outputs=1)
    assert [params[0]["weight"].shape, params[-1]["weight"].shape] == [(6, 5), (6, 1)]
    x = jnp.asarray(np.random.default_rng(0).normal(size=(7, 2)), jnp.float32)
    linear_part = jax.tree.map(jnp.zeros_like, params)
    linear_part[-1] = {"weight": jnp.array([0, 0, 1.0, 0, 0, 0])[:, None]}
    expected = np.sqrt(2) * np.cos(np.pi * x[:, 0])
    np.testing.assert_allclose(network.apply(linear_part, x)[:, 0], expected, rtol=1e-4, atol=1e-5)
    assert MLP.from_config(network.to_config()) == network


def test_frequencies_must_fit_the_features():
    with pytest.raises(ValueError, match="frequencies has 1 columns, but there are 3 features"):
        MLP((5,), frequencies=((1.0,),)).init(jax.random.key(0), inputs=3, outputs=1)
