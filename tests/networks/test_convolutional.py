"""Networks for images are functions of one image, of the usual size."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fsgmcmc import Categorical, parameter_space
from fsgmcmc.networks._convolution import convolve
from fsgmcmc.networks.convolutional import LeNet, ResNet

IMAGES = np.random.default_rng(0).normal(size=(3, 12, 12, 3)).astype(np.float32)


def parameters(network, inputs):
    shapes = jax.eval_shape(lambda key: network.init(key, inputs, 10), jax.random.key(0))
    return sum(leaf.size for leaf in jax.tree.leaves(shapes))


def test_resnet_18_has_the_eleven_million_weights_of_the_literature():
    assert parameters(ResNet(18), 3) == 11_173_962
    assert parameters(LeNet(28), 1) == 61_706


@pytest.mark.parametrize(
    "network", [LeNet(12), *(pytest.param(ResNet(8, width=n), marks=pytest.mark.slow) for n in (4, 16))], ids=str
)
def test_the_value_at_an_image_does_not_depend_on_the_others(network):
    params = network.init(jax.random.key(0), 3, 10)
    apply = jax.jit(network.apply)
    together = apply(params, jnp.asarray(IMAGES))
    alone = jnp.concatenate([apply(params, jnp.asarray(IMAGES[i : i + 1])) for i in range(3)])
    np.testing.assert_allclose(together, alone, rtol=1e-3, atol=1e-4)
    assert np.std(together) > 0.01


def test_an_image_and_its_double_are_one_to_a_normalised_network():
    """The first normalisation takes the scale of an image away."""
    network = ResNet(8, width=16)
    params = network.init(jax.random.key(0), 3, 10)
    once, twice = (jax.jit(network.apply)(params, jnp.asarray(scale * IMAGES)) for scale in (1, 2))
    np.testing.assert_allclose(once, twice, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("network", [pytest.param(ResNet(8, width=4), marks=pytest.mark.slow), LeNet(12)], ids=str)
def test_starts_have_the_variance_they_say(network):
    params = network.init(jax.random.key(0), 3, 10)
    for leaf, variance in zip(jax.tree.leaves(params), jax.tree.leaves(network.variance(params)), strict=True):
        if leaf.ndim > 1 and leaf.size > 100:
            # Five standard errors of a sample variance.
            assert float(jnp.var(leaf)) == pytest.approx(variance, rel=5 * np.sqrt(2 / leaf.size))


def test_a_posterior_takes_them():
    posterior = parameter_space(ResNet(8, width=4), IMAGES, [0, 1, 2], likelihood=Categorical(3))
    energy, gradient = eqx.filter_jit(posterior.potential)(jax.random.key(0), posterior.init(jax.random.key(1)))
    assert np.isfinite(energy)
    assert np.isfinite(gradient).all()
    assert float(jnp.abs(gradient).max()) > 0


@pytest.mark.parametrize(
    ("image", "kernel", "stride", "padding"),
    [
        ((2, 7, 7, 3), (3, 3, 3, 4), 1, "SAME"),
        ((2, 8, 8, 3), (3, 3, 3, 4), 2, "SAME"),
        ((2, 7, 6, 3), (3, 3, 3, 4), 2, "SAME"),
        ((2, 8, 8, 3), (1, 1, 3, 4), 2, "SAME"),
        ((2, 9, 9, 3), (5, 5, 3, 4), 1, "VALID"),
    ],
)
def test_our_convolution_has_the_derivatives_of_jax(image, kernel, stride, padding):
    """The gradient, and the product of the curvature with a vector, which differentiates the gradient."""
    x, k, v = (jax.random.normal(jax.random.key(seed), shape) for seed, shape in enumerate((image, kernel, kernel)))

    def reference(k, x):
        order = ("NHWC", "HWIO", "NHWC")
        return jax.lax.conv_general_dilated(x, k, (stride, stride), padding, dimension_numbers=order)

    def ours(k, x):
        return convolve(k, x, stride, padding)

    def derivatives(convolution):
        def loss(k, x):
            return jnp.sum(jnp.sin(convolution(k, x)))

        return jax.grad(loss, (0, 1))(k, x), jax.grad(lambda k: jnp.vdot(jax.grad(loss)(k, x), v))(k)

    for a, b in zip(
        *(jax.tree.leaves(jax.jit(derivatives, static_argnums=0)(f)) for f in (ours, reference)), strict=True
    ):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3)


def test_the_curvature_of_a_network_without_forward_mode_is_the_gauss_newton_matrix():
    posterior = parameter_space(LeNet(12), IMAGES, [0, 1, 2], likelihood=Categorical(3))
    key, w = jax.random.key(0), posterior.init(jax.random.key(1))
    v = jax.random.normal(jax.random.key(2), w.shape)

    @eqx.filter_jit
    def both(posterior):
        def logits(w):
            return posterior.network.apply(posterior.parameters(w).network, posterior.data.rows.x)

        values, pull_back = jax.vjp(logits, w)
        rows = jax.vmap(lambda unit: pull_back(unit)[0])(jnp.eye(values.size).reshape(-1, *values.shape))
        pushed = (rows @ v).reshape(values.shape)
        p = jax.nn.softmax(values)
        bent = p * pushed - p * jnp.sum(p * pushed, axis=1, keepdims=True)
        return posterior.curvature(key, w, v), pull_back(bent)[0] + posterior.precision * v

    product, exact = both(posterior)
    np.testing.assert_allclose(product, exact, rtol=1e-3, atol=1e-3 * float(jnp.abs(exact).max()))


def test_nonsense_is_refused():
    with pytest.raises(ValueError, match="depth must be one of"):
        ResNet(depth=9)
    with pytest.raises(ValueError, match="width"):
        ResNet(width=0)
    with pytest.raises(ValueError, match=r"LeNet\(28\) is for 28 x 28 pixels, these have \(12, 12\)"):
        parameter_space(LeNet(28), IMAGES, [0, 1, 2], likelihood=Categorical(3))
