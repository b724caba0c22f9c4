"""Networks: what they compute, how they start, and that it does not matter which library they come from.

False-alarm rates: 1e-6 for each statistic of the starts; seeds are fixed.
"""

from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from fsgmcmc import (
    MLP,
    Categorical,
    Gaussian,
    GaussianProcess,
    GaussianWeights,
    Network,
    function_space,
    parameter_space,
    rbf,
)
from fsgmcmc.networks import ACTIVATIONS, as_network

FALSE_ALARM_RATE = 1e-6

IN_NUMPY = {
    "tanh": np.tanh,
    "relu": lambda a: np.maximum(a, 0),
    "gelu": lambda a: a * 0.5 * (1 + np.tanh(np.sqrt(2 / np.pi) * (a + 0.044715 * a**3))),
    "silu": lambda a: a * special.expit(a),
    "softplus": lambda a: np.logaddexp(a, 0),
    "sigmoid": special.expit,
    "elu": lambda a: np.where(a > 0, a, np.expm1(np.minimum(a, 0))),
    "sin": np.sin,
    "identity": lambda a: a,
}


def forward(params, x, activation):
    for layer in params[:-1]:
        x = activation(x @ layer["weight"] + layer["bias"])
    return x @ params[-1]["weight"] + params[-1]["bias"]


def test_an_mlp_is_a_chain_of_affine_maps_and_activations():
    assert set(IN_NUMPY) == set(ACTIVATIONS)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4, 3))
    for sizes in ((3, 2), (3, 5, 4, 2)):
        params = [{"weight": rng.normal(size=pair), "bias": rng.normal(size=pair[1])} for pair in pairwise(sizes)]
        for name in ("tanh",) if len(sizes) == 2 else ACTIVATIONS:
            values = MLP(sizes[1:-1], name).apply(
                jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), params), jnp.asarray(x, jnp.float32)
            )
            by_numpy = forward(params, x, IN_NUMPY[name])
            np.testing.assert_allclose(values, by_numpy, rtol=1e-5, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("hidden", [(), (3,), (3, 2)])
def test_a_line_past_the_layers_is_added(key, hidden):
    """What is left without it is the network of the layers alone."""
    x, network = jnp.arange(12.0).reshape(4, 3), MLP(hidden, skip=True)
    *layers, line = params = network.init(key, inputs=3, outputs=2)
    with_line = np.asarray(MLP(hidden).apply(layers, x)) + np.asarray(x) @ np.asarray(line["weight"])
    np.testing.assert_allclose(network.apply(params, x), with_line, rtol=1e-5, atol=1e-5)
    assert network.fan_in(params)[-1] == {"weight": 3}


@pytest.mark.parametrize("initial", ["unit", "fan_in"])
def test_weights_start_independent_and_with_the_stated_variance(key, initial):
    network = MLP((40, 40, 40), initial=initial)
    params = network.init(key, inputs=40, outputs=40)
    for layer, variances in zip(params, network.variance(params), strict=True):
        for name, leaf in layer.items():
            assert variances[name] == (1 if initial == "unit" else 1 / 40)
            # Squares of n independent N(0, v) sum to v times a chi-square with n degrees of freedom.
            lower, upper = stats.chi2(leaf.size).interval(1 - FALSE_ALARM_RATE)
            assert lower < np.square(leaf).sum() / variances[name] < upper, name
    # All layers have one shape: were a key used twice, two of them would be equal.
    flat = np.stack([np.ravel(layer["weight"]) for layer in params])
    correlation = np.corrcoef(flat)[np.triu_indices(len(flat), 1)]
    assert np.abs(correlation).max() < stats.norm.isf(FALSE_ALARM_RATE / 2 / len(correlation)) / np.sqrt(1600)


def test_fan_in_counts_the_units_below():
    sizes = (7, 5, 3, 2)
    params = jax.eval_shape(lambda key: MLP((5, 3)).init(key, inputs=7, outputs=2), jax.random.key(0))
    assert MLP((5, 3)).fan_in(params) == [{"weight": n, "bias": n} for n in sizes[:-1]]


class Tanh(eqx.Module):
    """One hidden layer as Equinox writes it: weights (out, in), one example at a time; the integer is no parameter."""

    hidden: eqx.nn.Linear
    last: eqx.nn.Linear
    version: jax.Array

    def __call__(self, x):
        return self.last(jnp.tanh(self.hidden(x)))


class OneHidden(Network):
    """The same again, as a subclass of the contract."""

    def __init__(self, params):
        self.params = params

    def init(self, key, inputs, outputs):
        return self.params

    def apply(self, params, x):
        return jnp.tanh(x @ params["w"] + params["b"]) @ params["v"] + params["c"]

    def fan_in(self, params):
        return dict.fromkeys(params, 1)

    variance = fan_in


def the_same_network_four_times(key, inputs, outputs):
    """Networks that start from the same weights, each with the function that puts them in the form of the MLP."""
    mlp = MLP((4,))
    first, last = mlp.init(key, inputs, outputs)

    def linear(layer):
        module = eqx.filter_eval_shape(eqx.nn.Linear, *layer["weight"].shape, key=key)
        return eqx.tree_at(lambda m: (m.weight, m.bias), module, (layer["weight"].T, layer["bias"]))

    def of_equinox(p):
        return [{"weight": layer.weight.T, "bias": layer.bias} for layer in (p.hidden, p.last)]

    def of_pair(p):
        return [{"weight": p["w"], "bias": p["b"]}, {"weight": p["v"], "bias": p["c"]}]

    pair = {"w": first["weight"], "b": first["bias"], "v": last["weight"], "c": last["bias"]}
    own = OneHidden(pair)
    return [
        (mlp, lambda p: p),
        (Tanh(linear(first), linear(last), jnp.arange(3)), of_equinox),
        ((pair, own.apply), of_pair),
        (own, of_pair),
    ]


def test_the_posterior_does_not_depend_on_the_library_of_the_network(key):
    rng = np.random.default_rng(0)
    x, labels = rng.normal(size=(6, 2)), rng.integers(0, 3, 6)
    potentials = []
    for network, in_order in the_same_network_four_times(key, inputs=2, outputs=3):
        prior = GaussianProcess(rbf(), nugget=0.1) + GaussianWeights(2.0)
        posterior = function_space(network, x, labels, prior=prior, likelihood=Categorical(3))
        energy, gradient = eqx.filter_jit(posterior.potential)(key, posterior.init(key))
        potentials.append((energy, in_order(posterior.parameters(gradient).network)))
    for other in potentials[1:]:
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-4), potentials[0], other)


def test_a_network_without_output_axis_gets_one(key):
    x, y = np.linspace(-1, 1, 5), np.ones(5)
    params = {"w": jnp.array([[0.7]])}
    energies = [
        parameter_space((params, apply), x, y, likelihood=Gaussian(0.5)).energy(key, jnp.array([0.7]))
        for apply in (lambda p, x: x @ p["w"], lambda p, x: (x @ p["w"])[:, 0])
    ]
    # Without the axis, y − f would be 5 by 5.
    residual = 1 - 0.7 * x
    by_hand = 0.5 * 0.7**2 + 0.5 * np.sum((residual / 0.5) ** 2) + 5 * np.log(0.5 * np.sqrt(2 * np.pi))
    np.testing.assert_allclose(energies, by_hand, rtol=1e-6)
    scalar = as_network(eqx.nn.Linear(1, "scalar", key=key))
    one = as_network(eqx.nn.Linear(1, 1, key=key))
    points = jnp.asarray(x, jnp.float32)[:, None]
    np.testing.assert_array_equal(scalar.apply(scalar.params, points), one.apply(one.params, points))


class OutFirst(eqx.Module):
    """The layouts of Equinox: (out, in), (out, in, height, width) and (out, 1, 1)."""

    dense: jax.Array
    convolution: jax.Array
    bias: jax.Array

    def __call__(self, x):
        return x


def test_foreign_weights_are_scaled_by_the_fan_in_of_their_layout():
    equinox = as_network(OutFirst(jnp.zeros((2, 6)), jnp.zeros((8, 3, 5, 5)), jnp.zeros((8, 1, 1))))
    fan_in = equinox.fan_in(equinox.params)
    assert (fan_in.dense, fan_in.convolution, fan_in.bias) == (6, 75, 1)

    layouts = {"dense": jnp.zeros((6, 2)), "convolution": jnp.zeros((5, 5, 3, 8)), "bias": jnp.zeros(8)}
    pair = as_network((layouts, lambda p, x: x @ p["dense"]))
    assert pair.fan_in(layouts) == {"dense": 6, "convolution": 75, "bias": 1}
    # N(0, s² / fan in) has the precision fan in / s².
    precision = GaussianWeights(2.0, scaling="fan_in").precision(pair, layouts)
    assert jax.tree.map(lambda leaf: set(np.ravel(leaf).tolist()), precision) == {
        "dense": {6 / 4},
        "convolution": {75 / 4},
        "bias": {1 / 4},
    }


def test_two_pairs_of_one_function_are_one_network_and_compile_once():
    def apply(params, x):
        return x @ params

    def other(params, x):
        return x @ params

    one, same = as_network((jnp.ones((1, 1)), apply)), as_network((jnp.zeros((1, 1)), apply))
    assert one == same
    assert hash(one) == hash(same)
    assert one != as_network((jnp.ones((1, 1)), other))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"activation": "swish"}, "unknown activation 'swish'; choose from tanh"),
        ({"hidden": (10, 0)}, r"units of a hidden layer must be a whole number of at least 1, got 0"),
        ({"hidden": (-3,)}, "at least 1, got -3"),
        ({"initial": "he"}, "unknown initial 'he'; choose 'unit' or 'fan_in'"),
    ],
)
def test_an_impossible_mlp_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        MLP(**options)


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (lambda x: x, "cannot use function as a network; give an MLP, a FunctionNetwork"),
        ("mlp", "cannot use str as a network"),
        (({"w": jnp.ones((1, 1))}, "apply"), "cannot use tuple as a network"),
        (({"w": np.arange(3)}, lambda p, x: x), "must be a float array.*keep integers and flags inside apply"),
        (({"w": jnp.ones(2), "train": True}, lambda p, x: x), "must be a float array, but one is True"),
        (MLP, "cannot use ABCMeta as a network"),
    ],
)
def test_what_is_no_network_is_refused(network, message):
    with pytest.raises(TypeError, match=message):
        as_network(network)


@pytest.mark.parametrize(
    ("network", "message"),
    [
        ((jnp.ones((2, 3)), lambda p, x: x @ p), r"values of shape \(2, 3\).*needs \(2, 1\)"),
        ((jnp.ones((3, 1)), lambda p, x: x @ p), r"cannot be applied to inputs of shape \(5, 2\)"),
        (eqx.nn.Linear(3, 1, key=jax.random.key(0)), r"cannot be applied to inputs of shape \(5, 2\)"),
        (eqx.nn.Linear(2, 4, key=jax.random.key(0)), r"values of shape \(2, 4\).*needs \(2, 1\)"),
    ],
)
def test_a_network_that_does_not_fit_the_data_is_refused(network, message):
    with pytest.raises(ValueError, match=message):
        parameter_space(network, np.ones((5, 2)), np.ones(5), likelihood=Gaussian())
