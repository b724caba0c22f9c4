"""Data on the host, rows shared by devices, bfloat16: the same posterior, held and computed in another way."""

import os
import subprocess
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fsgmcmc import (
    MLP,
    BFloat16,
    Categorical,
    DivergenceError,
    Gaussian,
    GaussianProcess,
    ResNet,
    WarmUp,
    fsgld,
    function_space,
    functions_at,
    measurement,
    parameter_space,
    rbf,
    sample,
    sgld,
    variational,
)
from fsgmcmc.data import Shifted
from fsgmcmc.posterior.streaming import Feeder, HostRows

X = np.linspace(-1, 1, 60)[:, None]
Y = np.sin(3 * X[:, 0])
COUNTING = (({"offset": jnp.zeros(1)}), lambda params, x: x * 0 + params["offset"])


def streamed(**options):
    return parameter_space(MLP((5,)), X, Y, likelihood=Gaussian(0.2), batch_size=10, stream=True, **options)


def run(posterior, **options):
    settings = {"draws": 4, "thinning": 50, "burn_in": 100, "chains": 2, "warm_up": None, "progress": False} | options
    return sample(1, posterior, sgld(1e-4), **settings)


def test_every_row_is_fed_equally_often():
    """Each of 60 rows is in a batch of 10 with probability 1/6. Chi-squared over 3000 batches, false alarm 1e-4."""
    source = HostRows((np.arange(60)[:, None], np.arange(60)))
    counts = np.bincount(np.concatenate([source.rows(10, 7, 0, step)[1] for step in range(3000)]), minlength=60)
    # Rows of a batch are different, which makes the variance of a count n p (1 − p).
    statistic = np.sum((counts - 500) ** 2) / (500 * (1 - 1 / 6)) * 59 / 60
    assert statistic < 106  # the 1e-4 quantile of 59 degrees of freedom


def test_rows_depend_on_chain_and_step_alone():
    source = HostRows((X, Y))
    with Feeder(source, 10, seed=3, chains=2) as feeder:
        x, y = feeder.take(0)
        feeder.prepare(5)
        later = feeder.take(5)
    np.testing.assert_array_equal(x[:, 5:7], later[0][:, :2])
    assert not np.array_equal(y[0], y[1])
    np.testing.assert_allclose(np.sin(3 * np.asarray(x)[..., 0]), y, atol=1e-6)


def test_a_streamed_run_is_cut_anywhere_with_the_same_result(tmp_path):
    whole = run(streamed())
    path = tmp_path / "run"
    run(streamed(), draws=2, checkpoint=path)
    np.testing.assert_array_equal(run(streamed(), checkpoint=path).positions, whole.positions)


def test_a_streamed_chain_has_the_law_of_one_whose_data_lie_on_the_device():
    """The mean of the posterior of a constant is that of the data: 6 standard errors, false alarm below 1e-6."""
    targets = Y + 2.0
    means = []
    for stream in (True, False):
        posterior = parameter_space(COUNTING, X, targets, likelihood=Gaussian(1.0), batch_size=20, stream=stream)
        samples = sample(
            0, posterior, sgld(4e-3), draws=1000, thinning=10, burn_in=200, chains=2, warm_up=None, progress=False
        )
        means.append(samples.positions.mean())
    exact = targets.sum() / (len(X) + 1)
    assert np.abs(np.array(means) - exact).max() < 6 * np.sqrt(1 / 61) / np.sqrt(1000)  # fewer than the effective draws


def test_the_warm_up_of_streamed_data_finds_a_step():
    samples = sample(0, streamed(), sgld(), draws=2, burn_in=10, warm_up=WarmUp(adam_steps=50), progress=False)
    assert 0 < samples.info["step_size"] < 1


def test_other_host_data_are_another_run(tmp_path):
    path = tmp_path / "run"
    run(streamed(), checkpoint=path)
    other = parameter_space(MLP((5,)), X, Y + 1e-3, likelihood=Gaussian(0.2), batch_size=10, stream=True)
    with pytest.raises(ValueError, match="another run"):
        run(other, checkpoint=path)


def test_what_cannot_be_streamed_is_refused():
    with pytest.raises(ValueError, match="needs a batch_size below the 60 rows"):
        parameter_space(MLP((5,)), X, Y, likelihood=Gaussian(0.2), stream=True)
    with pytest.raises(ValueError, match="do not stream"):
        variational.fit(0, streamed(), variational.bbb(), steps=5)


def test_a_diverging_streamed_run_says_so():
    with pytest.raises(DivergenceError):
        sample(0, streamed(), sgld(1e3), draws=2, warm_up=None, back_off=0, progress=False)


def test_collected_functions_are_those_of_the_kept_weights():
    posterior = parameter_space(MLP((5,)), X, Y, likelihood=Gaussian(0.2))
    collected = run(posterior, collect=functions_at(posterior, X[:7], rows_per_call=3)).collected
    np.testing.assert_allclose(collected, run(posterior).functions(X[:7]), rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="rows of shape"):
        functions_at(posterior, np.zeros((3, 2)))


def test_bfloat16_keeps_the_gradient_in_float32_and_close():
    settings = {"likelihood": Gaussian(0.2)}
    exact, low = (parameter_space(network, X, Y, **settings) for network in (MLP((20,)), BFloat16(MLP((20,)))))
    w = exact.init(jax.random.key(0))
    (_, gradient), (_, rounded) = (eqx.filter_jit(p.potential)(jax.random.key(1), w) for p in (exact, low))
    assert rounded.dtype == jnp.float32
    difference = jnp.linalg.norm(gradient - rounded) / jnp.linalg.norm(gradient)
    assert 0 < difference < 0.03  # eight bits of mantissa


def test_a_normalised_network_in_bfloat16_stays_near_the_exact_one():
    """The statistics of the normalisation are exact: with rounded ones the difference is 0.010 instead of 0.005."""
    pictures = 20 + jax.random.normal(jax.random.key(0), (4, 8, 8, 1))
    network = ResNet(8, width=4)
    params = network.init(jax.random.key(1), 1, 3)
    exact, low = (jax.jit(each.apply)(params, pictures) for each in (network, BFloat16(network)))
    assert low.dtype == jnp.float32
    assert 0 < jnp.linalg.norm(exact - low) / jnp.linalg.norm(exact) < 0.007


def test_augmentation_mirrors_every_other_picture():
    pictures = jnp.arange(20 * 3 * 3, dtype=jnp.float32).reshape(20, 3, 3, 1)
    turned = Shifted(0, mirrored=True)(jax.random.key(0), pictures)
    same, mirrored = (np.all(turned == other, axis=(1, 2, 3)) for other in (pictures, pictures[:, :, ::-1]))
    assert (same ^ mirrored).all()
    assert 3 <= mirrored.sum() <= 17  # but for a chance of 4e-4


def test_augmentation_moves_pictures_by_whole_pixels():
    pictures = jnp.arange(2 * 6 * 6, dtype=jnp.float32).reshape(2, 6, 6, 1)
    moved = Shifted(1)(jax.random.key(0), pictures)
    inner = np.asarray(moved)[:, 2:4, 2:4, 0]
    for picture, centre in zip(np.asarray(pictures)[..., 0], inner, strict=True):
        windows = [picture[2 + i : 4 + i, 2 + j : 4 + j] for i in (-1, 0, 1) for j in (-1, 0, 1)]
        assert any(np.array_equal(centre, window) for window in windows)
    posterior = parameter_space(
        (jnp.zeros((36, 2)), lambda w, x: x.reshape(len(x), -1) @ w),
        np.asarray(pictures) / 72,
        [0, 1],
        likelihood=Categorical(2),
        augment=Shifted(1),
    )
    first, second = (posterior.data.batch(jax.random.key(seed)).x for seed in (0, 3))
    assert not np.array_equal(first, second)
    assert not posterior.is_deterministic


DEVICES = """
import jax, numpy as np
from fsgmcmc import *
from fsgmcmc.inference.sample import _shared_by_devices
assert len(jax.devices()) == 3
x = np.linspace(-1, 1, 60)
posterior = function_space(MLP((8,)), x, np.sin(3 * x), prior=GaussianProcess(rbf(0.5)), likelihood=Gaussian(0.2),
                           batch_size=10, measurement=measurement.subset(x, 7))
assert _shared_by_devices(posterior, 1).devices.size == 3
samples = sample(1, posterior, fsgld(1e-4), draws=3, thinning=20, burn_in=20, chains=1,
                 warm_up=WarmUp(adam_steps=20), progress=False)
np.save(SAVE, samples.positions)
"""


@pytest.mark.slow
def test_devices_that_share_the_rows_of_a_gradient_agree_with_one(tmp_path):
    """Ten rows and seven points on three devices, which does not come out even."""
    path = tmp_path / "shared.npy"
    program = DEVICES.replace("SAVE", repr(str(path)))
    flags = {"XLA_FLAGS": f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count=3"}
    subprocess.run([sys.executable, "-c", program], check=True, env=os.environ | flags)
    posterior = function_space(
        MLP((8,)),
        X[:, 0],
        Y,
        prior=GaussianProcess(rbf(0.5)),
        likelihood=Gaussian(0.2),
        batch_size=10,
        measurement=measurement.subset(X[:, 0], 7),
    )
    alone = sample(
        1,
        posterior,
        fsgld(1e-4),
        draws=3,
        thinning=20,
        burn_in=20,
        chains=1,
        warm_up=WarmUp(adam_steps=20),
        progress=False,
    )
    np.testing.assert_allclose(np.load(path), alone.positions, rtol=2e-3, atol=2e-4)
