"""What ArviZ is given: every parameter under its name, with the values that were sampled."""

import sys
from types import ModuleType

import equinox as eqx
import jax
import numpy as np
import pytest

from fsgmcmc import MLP, Categorical, Gaussian, Samples, parameter_space
from fsgmcmc._arviz import weight_names
from fsgmcmc.diagnostics import r_hat

X = np.linspace(-1, 1, 12)
CHAINS, DRAWS = 2, 20


def drawn(network, y, likelihood):
    """Samples of a posterior that nobody ran: where they come from is nothing to ArviZ."""
    posterior = parameter_space(network, X, y, likelihood=likelihood)
    rng = np.random.default_rng(0)
    positions = rng.standard_normal((CHAINS, DRAWS, posterior.size)).astype(np.float32)
    return posterior.samples(positions, rng.standard_normal((CHAINS, DRAWS)), None, {})


@pytest.fixture(scope="module")
def samples():
    return drawn(MLP((6, 4)), np.sin(X), Gaussian(0.2, sampled=True, floor=0.05))


def stand_in(from_dict):
    module = ModuleType("arviz")
    module.from_dict = from_dict
    return module


def test_variables_are_the_parameters_under_their_names(samples):
    data = samples.to_arviz(x=X)
    network, own = samples.params
    expected = {f"layers_{layer}_{kind}": network[layer][kind] for layer in range(3) for kind in ("weight", "bias")}
    expected["log_noise"] = own["log_noise"]
    expected["noise"] = np.sqrt(0.05**2 + np.exp(2 * own["log_noise"]))
    expected["f"] = samples.functions(X)
    assert set(data.posterior.data_vars) == set(expected)
    for name, values in expected.items():
        assert data.posterior[name].dims[:2] == ("chain", "draw")
        np.testing.assert_allclose(data.posterior[name].values, values, rtol=1e-6)
    assert data.posterior["f"].dims[2:] == ("point", "output")
    np.testing.assert_array_equal(data.sample_stats["energy"].values, samples.energy)


def test_arviz_finds_the_same_convergence(samples):
    data = samples.to_arviz(x=X)
    arviz = sys.modules["arviz"]
    # Two implementations of one formula. The median of an even number of draws makes ties, which they rank differently.
    np.testing.assert_allclose(arviz.rhat(data, var_names=["f"])["f"].values, r_hat(samples.functions(X)), rtol=0.02)


def test_both_forms_of_from_dict_get_the_same_groups(samples, monkeypatch):
    # The signatures of ArviZ 0.23 and 1.3, as far as they matter here.
    def keywords(posterior=None, *, sample_stats=None, coords=None, dims=None, **kwargs):
        assert not kwargs
        return {"posterior": posterior, "sample_stats": sample_stats}, dims

    def nested(data, *, name=None, sample_dims=None, coords=None, dims=None, attrs=None):
        return data, dims

    found = []
    for from_dict in (keywords, nested):
        monkeypatch.setitem(sys.modules, "arviz", stand_in(from_dict))
        found.append(samples.to_arviz(x=X))
    (first, first_dims), (second, second_dims) = found
    assert first_dims == second_dims == {"f": ["point", "output"]}
    jax.tree.map(np.testing.assert_array_equal, first, second)
    assert set(first) == {"posterior", "sample_stats"}


def test_a_missing_arviz_is_told_with_the_remedy(samples, monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz", None)
    with pytest.raises(ImportError, match=r"pip install 'fsgmcmc\[arviz\]'"):
        samples.to_arviz()


def test_runs_without_weights_are_refused():
    collected = Samples(None, np.zeros((CHAINS, DRAWS)), collected=np.zeros((CHAINS, DRAWS, 3)))
    with pytest.raises(ValueError, match="needs the weights, but this run kept only what `collect` returned"):
        collected.to_arviz()


def test_likelihoods_without_parameters_and_bare_targets_add_no_variables(monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz", stand_in(lambda data, *, dims: data))
    classes = drawn(MLP(()), (X > 0).astype(int), Categorical(2))
    assert set(classes.to_arviz()["posterior"]) == {"layers_0_weight", "layers_0_bias"}
    bare = Samples(np.zeros((CHAINS, DRAWS, 3)), np.zeros((CHAINS, DRAWS)))
    assert bare.to_arviz()["posterior"] == {"w": bare.positions}
    with pytest.raises(ValueError, match="no network"):
        bare.to_arviz(x=X)


def test_names_come_from_paths_and_never_meet():
    module = eqx.nn.MLP(1, 1, 3, 1, key=jax.random.key(0))
    layers = [f"layers_{layer}_{kind}" for layer in range(2) for kind in ("weight", "bias")]
    assert weight_names(eqx.filter(module, eqx.is_inexact_array)) == layers
    assert weight_names(0.0) == ["params"]
    assert weight_names({"noise": 0.0, "mlp/~/linear 0": 0.0}) == ["mlp_linear_0", "params_noise"]
    names = weight_names({"a": {"b": 0.0}, "a_b": 0.0, "f": 0.0, "params_f": 0.0})
    assert len(set(names)) == 4
