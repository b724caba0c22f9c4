"""Samples: prediction in blocks, and files that come back whole or not at all."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fsgmcmc import MLP, Categorical, Dirichlet, Gaussian, Samples, WarmUp, parameter_space, sample, sgld

X = np.linspace(-1, 1, 12)
SHORT = {"draws": 5, "thinning": 2, "burn_in": 4, "chains": 2, "warm_up": WarmUp(adam_steps=5, blocks=0)}


def gaussian_samples(**noise):
    posterior = parameter_space(MLP((6,)), X, np.sin(X), likelihood=Gaussian(0.2, **noise))
    return sample(0, posterior, sgld(), **SHORT)


def test_functions_in_blocks_equal_the_network(monkeypatch):
    samples = gaussian_samples()
    monkeypatch.setattr("fsgmcmc.samples.VALUES_PER_CALL", 5)
    values = samples.functions(X)
    params = jax.tree.map(lambda leaf: leaf[1, 3], samples.params.network)
    np.testing.assert_allclose(
        values[1, 3], samples.network.apply(params, jnp.asarray(X[:, None], jnp.float32)), rtol=1e-5
    )


def test_predictions_pool_the_chains_and_carry_the_noise():
    samples = gaussian_samples(sampled=True)
    prediction, values = samples.predict(X), samples.functions(X).astype(float)
    np.testing.assert_allclose(prediction.mean, values.mean(axis=(0, 1)), rtol=1e-6)
    np.testing.assert_allclose(prediction.epistemic, values.std(axis=(0, 1)), rtol=1e-5)
    noise = np.exp(samples.params.likelihood["log_noise"].astype(float))
    assert noise.std() > 0
    np.testing.assert_allclose(prediction.aleatoric, np.sqrt(np.mean(noise**2)), rtol=1e-5)


def test_known_noise_by_row_is_asked_for_at_new_rows():
    posterior = parameter_space(MLP((6,)), X, np.sin(X), likelihood=Gaussian(), noise=np.full(12, 0.2))
    samples = sample(0, posterior, sgld(), **SHORT)
    with pytest.raises(ValueError, match="noise="):
        _ = samples.predict(X).std
    np.testing.assert_allclose(samples.predict(X, noise=np.full(12, 0.4)).aleatoric, 0.4)


@pytest.mark.parametrize("kind", ["gaussian", "sampled", "categorical", "dirichlet"])
def test_saved_samples_come_back_whole(kind, tmp_path):
    labels = {"categorical": Categorical(2), "dirichlet": Dirichlet(2, 0.1, noise_scale=2.0)}.get(kind)
    if labels is not None:
        network = MLP((6,), skip=kind == "dirichlet")
        samples = sample(0, parameter_space(network, X, (X > 0).astype(int), likelihood=labels), sgld(), **SHORT)
    else:
        samples = gaussian_samples(sampled=kind == "sampled")
    path = tmp_path / "samples.npz"
    samples.save(path)
    loaded = Samples.load(path)
    assert loaded.info == samples.info
    assert labels is None or (loaded.likelihood, loaded.network) == (labels, network)
    first, second = samples.predict(X), loaded.predict(X)
    attribute = "probabilities" if labels is not None else "std"
    np.testing.assert_array_equal(getattr(first, attribute), getattr(second, attribute))


def test_a_network_of_ones_own_is_given_again(tmp_path):
    network = ({"a": jnp.ones((1, 1))}, lambda params, x: x @ params["a"])
    posterior = parameter_space(network, X, np.sin(X), likelihood=Gaussian(0.2))
    samples = sample(0, posterior, sgld(), **SHORT)
    samples.save(tmp_path / "own.npz")
    with pytest.raises(ValueError, match="pass it as network="):
        Samples.load(tmp_path / "own.npz")
    with pytest.raises(ValueError, match="have 1 parameters each"):
        Samples.load(tmp_path / "own.npz", network=MLP((3,)))
    with pytest.raises(ValueError, match="parameter shapes"):
        Samples.load(tmp_path / "own.npz", network=({"a": jnp.ones(1)}, lambda params, x: x * params["a"]))
    loaded = Samples.load(tmp_path / "own.npz", network=network)
    np.testing.assert_array_equal(loaded.functions(X), samples.functions(X))


def test_damaged_files_are_told_apart(tmp_path):
    path = tmp_path / "samples.npz"
    with pytest.raises(FileNotFoundError, match="there is no file"):
        Samples.load(path)
    gaussian_samples().save(path)
    whole = path.read_bytes()
    for damage in (whole[: len(whole) // 2], b"", b"not an archive", whole[:200] + b"\0" * 100 + whole[300:]):
        path.write_bytes(damage)
        with pytest.raises(ValueError, match="truncated or altered"):
            Samples.load(path)


def test_files_of_a_newer_version_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("fsgmcmc._storage.VERSION", 99)
    gaussian_samples().save(tmp_path / "samples.npz")
    monkeypatch.undo()
    with pytest.raises(ValueError, match="newer fsgmcmc"):
        Samples.load(tmp_path / "samples.npz")
