"""The fast generator: the law of its numbers, their independence, and JAX's view of it.

Seeds are fixed. Limits on a statistic are at 5 standard deviations, a false alarm in 2 million, unless said otherwise.
"""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from fsgmcmc import Energy, langevin, sample
from fsgmcmc._compile import SEQUENTIAL
from fsgmcmc.random import HASH, _bits, _normal_from_bits, fast_key, is_fast, normal

# The numbers depend on how a multiplication and an addition are fused.
pytestmark = pytest.mark.usefixtures("optimised")

LIMIT = 5.0


def many(seed, size):
    return np.asarray(normal(fast_key(jax.random.key(seed)), size))


@partial(jax.jit, static_argnums=(0, 1))
def noise_keys(chains, steps):
    """The keys from which a `langevin` step draws its noise, as `sample` derives them."""
    _, _, run_key = jax.random.split(fast_key(jax.random.key(0)), 3)

    def noise_key(chain, step):
        return jax.random.split(jax.random.fold_in(jax.random.fold_in(run_key, chain), step))[1]

    return jax.vmap(lambda chain: jax.vmap(lambda step: noise_key(chain, step))(jnp.arange(steps)))(jnp.arange(chains))


def test_the_first_four_moments_are_those_of_a_normal():
    size = 10_000_000
    z = many(1, size)
    square = np.square(z, dtype=np.float64)
    values = {"mean": z, "variance": square - 1, "skewness": square * z, "kurtosis": square * square - 3}
    for (name, value), variance in zip(values.items(), (1, 2, 15, 96), strict=True):
        assert abs(np.mean(value, dtype=np.float64)) < LIMIT * np.sqrt(variance / size), name


def test_kolmogorov_and_smirnov_see_a_normal():
    """A false alarm in a million."""
    assert stats.kstest(many(2, 1_000_000), "norm").pvalue > 1e-6


def test_tails_have_the_right_weight_on_both_sides():
    """Poisson limits: six of them, each with a false alarm in a million."""
    calls, size = 100, 1_000_000

    @jax.jit
    def beyond(key):
        z = normal(key, size)
        return jnp.array([[jnp.sum(z > limit), jnp.sum(z < -limit)] for limit in (3.0, 4.0, 5.0)])

    counts = sum(np.asarray(beyond(key)) for key in jax.random.split(fast_key(jax.random.key(3)), calls))
    for limit, both_sides in zip((3.0, 4.0, 5.0), counts, strict=True):
        expected = stats.poisson(calls * size * stats.norm.sf(limit))
        for count in both_sides:
            assert min(expected.cdf(count), expected.sf(count - 1)) > 5e-7, (limit, count, expected.mean())


def test_normals_invert_the_distribution_function_at_every_magnitude():
    generator = np.random.default_rng(0)
    powers = 2 ** np.arange(31, dtype=np.int64)
    magnitudes = np.unique(
        np.concatenate(
            [
                np.arange(4096),
                2**31 - 1 - np.arange(4096),
                np.clip(powers[:, None] + np.arange(-3, 4), 0, 2**31 - 1).ravel(),
                (2 ** generator.uniform(0, 31, 200_000)).astype(np.int64),
                2**31 - (2 ** generator.uniform(0, 31, 200_000)).astype(np.int64),
            ]
        )
    )
    z = np.asarray(_normal_from_bits(jnp.asarray(magnitudes, jnp.uint32)), np.float64)
    # What is inverted is q as float32 has it: 24 digits, so near the median steps of 2⁻²⁴.
    q = ((magnitudes.astype(np.float32) + np.float32(0.5)) * np.float32(2.0**-31)).astype(np.float64)
    np.testing.assert_allclose(z, -special.ndtri(q / 2), rtol=1e-5, atol=0)
    opposite = np.asarray(_normal_from_bits(jnp.asarray(magnitudes | 2**31, jnp.uint32)))
    np.testing.assert_array_equal(opposite, -z)
    assert 6.2 < z.max() < 6.4


@pytest.mark.parametrize(
    ("chains", "steps", "parameters"),
    [(1, 1 << 18, 1), (1 << 18, 1, 1), (64, 512, 8)],
    ids=["steps", "chains", "all"],
)
def test_steps_chains_and_parameters_are_uncorrelated(chains, steps, parameters):
    """Values, squares and signs at lags of 1 to 4, at most 36 limits of 6 standard deviations: one in 10 million."""
    draw = jax.jit(jax.vmap(jax.vmap(lambda key: normal(key, parameters))))
    z = np.asarray(draw(noise_keys(chains, steps)))
    for name, values in (("value", z), ("square", (z**2 - 1) / np.sqrt(2)), ("sign", np.sign(z))):
        for axis in [axis for axis, length in enumerate(z.shape) if length > 1]:
            for lag in (1, 2, 3, 4):
                ahead, behind = np.split(values, [lag], axis)[1], np.split(values, [-lag], axis)[0]
                score = np.sum(ahead * behind, dtype=np.float64) / np.sqrt(ahead.size)
                assert abs(score) < 6, (name, axis, lag)


@pytest.mark.parametrize("square", [False, True])
def test_no_two_parameters_of_a_step_are_correlated(square):
    """Over 2¹⁸ steps: neighbours, far ones, and those a power of two apart, where a weak mixer would show first.

    About 11 000 pairs at 6.5 standard deviations: a false alarm in a million.
    """
    steps = 1 << 18
    near, far = np.arange(80), 2 ** np.arange(7, 31)
    counters = np.unique(np.concatenate([near, far, far + 1, far - 1])).astype(np.uint32)

    @jax.jit
    def products(keys):
        z = jax.vmap(lambda key: _normal_from_bits(_bits(jax.random.key_data(key), jnp.asarray(counters))))(keys)
        z = (z**2 - 1) / np.sqrt(2) if square else z
        return z.T @ z

    keys = noise_keys(1, steps)[0].reshape(16, -1)
    scores = sum(np.asarray(products(part), np.float64) for part in keys) / np.sqrt(steps)
    assert np.abs(scores[np.triu_indices(len(counters), 1)]).max() < 6.5


def test_the_squares_of_consecutive_numbers_are_uncorrelated():
    squares = many(5, 2_000_000).astype(np.float64) ** 2 - 1
    for lag in (1, 2, 4, 64, 1024):
        assert abs(np.mean(squares[lag:] * squares[:-lag]) / 2) < LIMIT / np.sqrt(len(squares) - lag), lag


compiled_normal = jax.jit(normal, static_argnums=1)
in_loops = jax.jit(normal, static_argnums=1, compiler_options=SEQUENTIAL)


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="the options of loops are for CPUs")
def test_neither_length_nor_the_options_of_loops_change_a_number():
    """A shorter vector is the beginning of a longer one, in one loop over its numbers or in three."""
    key = fast_key(jax.random.key(6))
    whole = np.asarray(compiled_normal(key, 40_001))
    for size in (1, 2, 7, 8, 9, 1023, 1024, 1025, 22_301, 32_769, 40_001):
        for compiled in (compiled_normal, in_loops):
            np.testing.assert_array_equal(compiled(key, size), whole[:size], err_msg=f"{size} numbers")


@pytest.mark.parametrize("size", [5, 1025])
def test_compiled_mapped_and_eager_numbers_agree(size):
    """Bits are the same. Compiled normals are, mapped or not; eager ones are rounded at every operation."""
    keys = jax.random.split(fast_key(jax.random.key(7)), 3)
    bits = np.stack([jax.random.bits(key, (size,)) for key in keys])
    mapped_bits = jax.vmap(lambda key: jax.random.bits(key, (size,)))
    np.testing.assert_array_equal(mapped_bits(keys), bits)
    np.testing.assert_array_equal(jax.jit(mapped_bits)(keys), bits)
    z = np.stack([compiled_normal(key, size) for key in keys])
    np.testing.assert_array_equal(jax.jit(jax.vmap(lambda key: normal(key, size)))(keys), z)
    np.testing.assert_allclose(normal(keys[0], size), z[0], rtol=1e-6, atol=0)


def test_seeds_splits_and_folds_give_distinct_keys():
    """Pairs of words: 40 000 of them are distinct but for a chance of 5e-11."""
    count = 10_000
    root = jax.random.key(0, impl=HASH)
    keys = jnp.concatenate(
        [
            jax.vmap(lambda seed: jax.random.key(seed, impl=HASH))(jnp.arange(count)),
            jax.random.split(jax.random.key(-1, impl=HASH), count),
            jax.random.split(jax.random.key(-2, impl=HASH), (count // 2, 2)).reshape(-1),
            jax.vmap(lambda number: jax.random.fold_in(root, number))(jnp.arange(count)),
        ]
    )
    assert len(np.unique(np.asarray(jax.random.key_data(keys)), axis=0)) == len(keys)


@pytest.mark.parametrize("width", [8, 16, 32, 64])
def test_every_bit_of_every_width_is_set_half_of_the_time(width):
    """At most 64 limits: a false alarm in 30 000."""
    size = 1 << 18
    with jax.enable_x64(True):
        bits = np.asarray(jax.random.bits(jax.random.key(8, impl=HASH), (size // 4, 4), f"uint{width}"))
    assert bits.dtype == f"uint{width}"
    assert bits.shape == (size // 4, 4)
    shares = np.unpackbits(bits.reshape(-1, 1).view(np.uint8), axis=1).mean(axis=0)
    assert np.abs(shares - 0.5).max() < LIMIT * 0.5 / np.sqrt(size)


def test_distributions_of_jax_have_their_laws():
    """Each with a false alarm in a million."""
    uniform_key, integer_key, order_key = jax.random.split(jax.random.key(9, impl=HASH), 3)
    assert stats.kstest(np.asarray(jax.random.uniform(uniform_key, (100_000,))), "uniform").pvalue > 1e-6
    integers = np.asarray(jax.random.randint(integer_key, (100_000,), 0, 10))
    assert stats.chisquare(np.bincount(integers, minlength=10)).pvalue > 1e-6
    orders = jax.vmap(lambda key: jax.random.permutation(key, 4))(jax.random.split(order_key, 24_000))
    _, counts = np.unique(np.asarray(orders), axis=0, return_counts=True)
    assert len(counts) == 24
    assert stats.chisquare(counts).pvalue > 1e-6


@pytest.mark.parametrize("implementation", ["threefry2x32", "rbg", HASH])
def test_a_fast_key_comes_from_every_generator_and_depends_on_the_key(implementation):
    first, second = (jax.random.key(seed, impl=implementation) for seed in (0, 1))
    assert is_fast(fast_key(first))
    assert fast_key(first) == fast_key(first)
    assert fast_key(first) != fast_key(second)
    np.testing.assert_array_equal(normal(fast_key(first), 9), normal(fast_key(first), 9))
    assert not np.any(normal(fast_key(first), 9) == normal(fast_key(second), 9))


def test_other_generators_keep_their_own_normals(key):
    assert not is_fast(key)
    np.testing.assert_array_equal(normal(key, 50), jax.random.normal(key, (50,)))


@cache
def drawn(generator, *, fast=False):
    key = fast_key(jax.random.key(0)) if fast else jax.random.key(0)
    target = Energy(lambda w: 0.5 * jnp.sum(w**2), jnp.zeros(3))
    options = {"draws": 5, "burn_in": 5, "chains": 2, "warm_up": None, "generator": generator}
    return sample(key, target, langevin(0.1), **options).positions


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="accelerators use JAX's own generator by default")
def test_sample_on_a_cpu_uses_the_fast_generator_unless_told_otherwise():
    np.testing.assert_array_equal(drawn(None), drawn("fast"))
    assert not np.any(drawn("jax") == drawn("fast"))


@pytest.mark.parametrize("generator", [None, "fast", "jax"])
def test_sample_uses_a_fast_key_as_it_is(generator):
    np.testing.assert_array_equal(drawn(generator, fast=True), drawn("fast"))


def test_sample_draws_the_noise_of_its_keys(key):
    """Without a force a step of size ½ is its noise, so positions are sums of it."""
    flat = Energy(lambda w: 0.0 * jnp.sum(w), jnp.zeros(3))
    options = {"draws": 4, "thinning": 1, "burn_in": 0, "chains": 2, "warm_up": None}
    positions = sample(key, flat, langevin(0.5), **options).positions
    noise = jax.vmap(jax.vmap(lambda key: normal(key, 3)))(noise_keys(2, 4))
    np.testing.assert_allclose(positions, np.cumsum(noise, axis=1), rtol=1e-5, atol=1e-6)


def test_an_unknown_generator_is_refused():
    with pytest.raises(ValueError, match="unknown generator 'mt19937'; choose 'fast', 'jax' or None"):
        drawn("mt19937")
