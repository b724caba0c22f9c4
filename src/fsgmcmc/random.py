"""Fast noise on CPUs: a counter-based generator of bits, and normals from these bits.

On a CPU JAX's default generator takes more time for the noise of an iteration than a small network takes for the rest.
Here word number i of a key (k₀, k₁) is a sum of two keyed permutations of the counter,

    bits(i) = π₁(φ i + k₀) + π₂(ψ (i ⊕ k₁)),

where π₁ and π₂ are two rounds of xor-shift and multiply on 32 bits. Keys are derived (seed, split, fold_in) by JAX's
Threefry, so that streams of chains and steps are as independent as those of Threefry. The generator is registered with
JAX: its keys have the usual type, and every function that takes a key accepts them. `docs/noise.md` has the results of
test batteries.

`normal` inverts the normal distribution function. One loop would be a long chain of dependent operations for each
number; three short loops, separated by barriers (see `_compile.py`), take half the time.
"""

import math
from typing import Any

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, UInt32

PHI, PSI = np.uint32(0x9E3779B9), np.uint32(0x85EBCA6B)
FIRST, SECOND = (np.uint32(0x7FEB352D), np.uint32(0x846CA68B)), (np.uint32(0x21F0AAAD), np.uint32(0xD35A2D97))


def _permute(x: Array, multipliers: tuple[np.uint32, np.uint32]) -> Array:
    x = (x ^ (x >> 16)) * multipliers[0]
    x = (x ^ (x >> 15)) * multipliers[1]
    return x ^ (x >> 16)


def _bits(key: UInt32[Array, "2"], counter: UInt32[Array, "..."]) -> UInt32[Array, "..."]:
    return _permute(counter * PHI + key[0], FIRST) + _permute((counter ^ key[1]) * PSI, SECOND)


def _random_bits(key: Array, bit_width: int, shape: tuple[int, ...]) -> Array:
    words = 2 if bit_width == 64 else 1
    counter = jax.lax.iota(jnp.uint32, words * int(np.prod(shape, dtype=np.int64))).reshape(*shape, words)
    bits = _bits(key, counter)
    if words == 2:
        return jax.lax.bitcast_convert_type(bits, jnp.uint64)
    return bits[..., 0].astype(f"uint{bit_width}")


def _threefry(key: Array) -> PRNGKeyArray:
    return jax.random.wrap_key_data(key, impl="threefry2x32")


HASH = jax.extend.random.define_prng_impl(
    key_shape=(2,),
    # Bits from the Threefry key, not the key itself, which is the seed: the hash does not mix similar seeds enough.
    seed=lambda seed: jax.random.bits(jax.random.key(seed, impl="threefry2x32"), (2,), jnp.uint32),
    split=lambda key, shape: jax.random.key_data(jax.random.split(_threefry(key), shape)),
    random_bits=_random_bits,
    fold_in=lambda key, data: jax.random.key_data(jax.random.fold_in(_threefry(key), data)),
    name="fsgmcmc_hash",
    tag="hash",
)


@jax.jit
def fast_key(key: PRNGKeyArray) -> PRNGKeyArray:
    """A key of the fast generator, determined by `key`, which may be for any generator."""
    return jax.random.wrap_key_data(jax.random.bits(key, (2,), jnp.uint32), impl=HASH)


def is_fast(key: PRNGKeyArray) -> bool:
    """Whether a key is for the fast generator."""
    return jax.random.key_impl(key) == HASH


def generator_key(key: PRNGKeyArray, generator: str | None) -> PRNGKeyArray:
    """The key for the generator of this name; the default is the fast one on a CPU and that of `key` elsewhere."""
    if generator not in (None, "fast", "jax"):
        raise ValueError(f"unknown generator {generator!r}; choose 'fast', 'jax' or None")
    fast = jax.default_backend() == "cpu" if generator is None else generator == "fast"
    return fast_key(key) if fast and not is_fast(key) else key


def normal(key: PRNGKeyArray, size: int) -> Float[Array, " {size}"]:
    """Standard normals; keys of other generators use `jax.random.normal`.

    Example:
        >>> normal(fast_key(jax.random.key(0)), 3).shape
        (3,)
    """
    if not is_fast(key):
        return jax.random.normal(key, (size,))
    return _normal_from_bits(_bits(jax.random.key_data(key), jax.lax.iota(jnp.uint32, size)))


# z / (1 − q) as a polynomial in (sqrt(3 − log(q (2 − q))) − CENTRE) / HALF_WIDTH, highest power first: a weighted
# Chebyshev fit over q from 2⁻³² to 1, accurate to 3e-6.
CENTRE, HALF_WIDTH = 3.34027087, 1.60822007
COEFFICIENTS = (
    -0.0321147069,
    0.0353463031,
    0.0948913693,
    -0.148921058,
    -0.0339982398,
    0.195858553,
    -0.17619057,
    0.0772659034,
    0.0341359191,
    -0.166834205,
    2.65559459,
    3.80292106,
)


# log₂(1 + m) / m for 1 + m from 2^−½ to 2^½, highest power first: the logarithm is accurate to 4e-7.
LOGARITHM = (0.170633897, -0.272697777, 0.297262698, -0.35896188, 0.480465025, -0.721375883, 1.44269967)
ROOT_HALF = np.int32(0x3F3504F3)  # 2^−½ in float32


def _polynomial(coefficients: tuple[float, ...], x: Float[Array, "..."]) -> Float[Array, "..."]:
    value: Any = np.float32(coefficients[0])
    for coefficient in coefficients[1:]:
        value = value * x + np.float32(coefficient)
    return value


def _log2(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """log₂ x of positive normal numbers, equal in all programs: no sum has two products of which one may be fused."""
    bits = jax.lax.bitcast_convert_type(x, jnp.int32)
    exponent = (bits - ROOT_HALF) >> 23
    mantissa = jax.lax.bitcast_convert_type(bits - (exponent << 23), jnp.float32) - 1
    return _polynomial(LOGARITHM, mantissa) * mantissa + exponent.astype(jnp.float32)


def _normal_from_bits(bits: UInt32[Array, "..."]) -> Float[Array, "..."]:
    """z with P(|z| > z') = q, with q from 31 bits and the sign from the remaining bit.

    Small q have full precision in float32, so that tails are smooth and reach 6.3 standard deviations.
    """
    bits = jax.lax.optimization_barrier(bits)
    magnitude = jax.lax.bitcast_convert_type(bits & np.uint32(0x7FFFFFFF), jnp.int32).astype(jnp.float32)
    q = (magnitude + np.float32(0.5)) * np.float32(2.0**-31)
    logarithm = jax.lax.optimization_barrier(_log2(q * (2 - q)))
    variable = (jnp.sqrt(3 - np.float32(math.log(2)) * logarithm) - np.float32(CENTRE)) * np.float32(1 / HALF_WIDTH)
    sign = bits & np.uint32(0x80000000)
    weight = jax.lax.bitcast_convert_type(jax.lax.bitcast_convert_type(1 - q, jnp.uint32) | sign, jnp.float32)
    return jax.lax.optimization_barrier(weight * _polynomial(COEFFICIENTS, variable))
