"""Measurement points: the points at which a functional prior is evaluated.

A measurement is one of these kinds, each a pure function of a key:

    FixedSet     the same points at every step; the prior is factorised once
    PoolDraw     `size` points of a finite pool, redrawn at every step
    SetDraw      one of several fixed sets at every step; each is factorised once
    Box          points in a box, redrawn at every step
    FromFunction points from a custom function
    Minibatch    rows of the minibatch of each step
    Union        all points of several measurements

The functions below build them; `union` combines them.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from fsgmcmc import _checks

# On the host as built by the user, on the device within a posterior.
Points = np.ndarray | Array

# Number of rows that are sorted in less time than the gradient of a small network takes; a power of two.
CHEAP_SORT = 256


class FixedSet(eqx.Module):
    """The same points at every step."""

    points: np.ndarray

    def draw(self, key: PRNGKeyArray) -> Float[Array, "m *features"]:
        """All points; the key is not used."""
        del key
        return jnp.asarray(self.points)


class PoolDraw(eqx.Module):
    """`size` random points of a pool."""

    pool: Points
    size: int = eqx.field(static=True)

    def indices(self, key: PRNGKeyArray) -> Int[Array, " m"]:
        """Indices of the drawn points in the pool."""
        return draw_rows(key, len(self.pool), self.size)

    def draw(self, key: PRNGKeyArray) -> Float[Array, "m *features"]:
        """The drawn points."""
        return jnp.asarray(self.pool)[self.indices(key)]


class SetDraw(eqx.Module):
    """One of several sets of equal size."""

    sets: Points

    def index(self, key: PRNGKeyArray) -> Int[Array, ""]:
        """Index of the drawn set."""
        return jax.random.randint(key, (), 0, len(self.sets))

    def draw(self, key: PRNGKeyArray) -> Float[Array, "m *features"]:
        """The points of the drawn set."""
        return jnp.asarray(self.sets)[self.index(key)]


class Box(eqx.Module):
    """`size` points uniform in a box."""

    low: np.ndarray
    high: np.ndarray
    size: int = eqx.field(static=True)

    def draw(self, key: PRNGKeyArray) -> Float[Array, "m *features"]:
        """New points."""
        return jax.random.uniform(key, (self.size, len(self.low)), minval=self.low, maxval=self.high)


class FromFunction(eqx.Module):
    """Points from a custom function of a key."""

    function: Callable[[PRNGKeyArray], Array] = eqx.field(static=True)

    def draw(self, key: PRNGKeyArray) -> Float[Array, "m *features"]:
        """The points of the function."""
        return self.function(key)


class Minibatch(eqx.Module):
    """`size` rows of the minibatch of each step."""

    size: int = eqx.field(static=True)

    def draw(self, key: PRNGKeyArray) -> Float[Array, "m *features"]:
        """Not possible: the posterior draws the minibatch."""
        raise TypeError("measurement.minibatch cannot be drawn alone or be part of a union: use measurement.subset")


class Union(eqx.Module):
    """All points of several measurements, some of them redrawn."""

    parts: "tuple[Measurement, ...]"

    def draw(self, key: PRNGKeyArray) -> Float[Array, "m *features"]:
        """The points of all parts."""
        keys = jax.random.split(key, len(self.parts))
        return jnp.concatenate([part.draw(part_key) for part, part_key in zip(self.parts, keys, strict=True)])


Measurement = FixedSet | PoolDraw | SetDraw | Box | FromFunction | Minibatch | Union


def fixed(points: Any) -> FixedSet:
    """A fixed set, such as a grid or all training inputs.

    Example:
        >>> fixed([[0.0], [1.0]]).draw(jax.random.key(0)).shape
        (2, 1)
    """
    return FixedSet(_checks.matrix(points, "measurement points"))


def subset(points: Any, size: int) -> Measurement:
    """`size` of the given points at every step; a fixed set of all points if there are no more than `size`.

    Example:
        >>> subset(np.arange(60.0), 40).draw(jax.random.key(0)).shape
        (40, 1)
    """
    pool = _checks.matrix(points, "measurement points")
    size = _checks.count(size, "size")
    return FixedSet(pool) if size >= len(pool) else PoolDraw(pool, size)


def sets(points: Any, size: int, count: int, seed: int = 0) -> Measurement:
    """One of `count` sets of `size` points at every step; a fixed set of all points if there are no more than `size`.

    It is cheaper than `subset` for large sets and works with small nuggets, because each set is factorised once in
    float64. Sets from the same random permutation have no point in common.

    Example:
        >>> sets(np.arange(60.0), 20, count=6).draw(jax.random.key(0)).shape
        (20, 1)
    """
    pool = _checks.matrix(points, "measurement points")
    size, count = _checks.count(size, "size"), _checks.count(count, "count")
    if size >= len(pool):
        return FixedSet(pool)
    rng = np.random.default_rng(seed)
    from_each = len(pool) // size
    orders = [rng.permutation(len(pool))[: from_each * size] for _ in range(-(-count // from_each))]
    return SetDraw(pool[np.concatenate(orders)[: size * count].reshape(count, size)])


def box(low: Any, high: Any, size: int) -> Box:
    """`size` points uniform in the box low <= x <= high, one bound per feature, redrawn at every step.

    Example:
        >>> box([-1.0, 0.0], [1.0, 1.0], 5).draw(jax.random.key(0)).shape
        (5, 2)
    """
    low, high = (np.atleast_1d(np.asarray(bound, dtype=np.float32)) for bound in (low, high))
    size = _checks.count(size, "size")
    if low.shape != high.shape or low.ndim != 1:
        raise ValueError(f"a box needs one low and one high bound per feature, got {low.shape} and {high.shape}")
    if not (np.isfinite(low).all() and np.isfinite(high).all() and (low <= high).all()):
        raise ValueError(f"a box needs finite bounds with low <= high, got low={low}, high={high}")
    return Box(low, high, size)


def minibatch(size: int) -> Minibatch:
    """`size` rows of the minibatch of each step: a functional prior that costs little more than its kernel.

    The likelihood needs the network at these rows anyway. If rows are in random order, the gradient has the same mean
    as with `subset(x, size)`, but its two terms are not independent. With `augment` the points are the augmented
    inputs. It is for samplers, with a `batch_size` of at least `size`.

    Example:
        >>> from fsgmcmc import MLP, Gaussian, GaussianProcess, function_space, rbf
        >>> x = np.linspace(-1, 1, 50)
        >>> options = {"prior": GaussianProcess(rbf()), "likelihood": Gaussian(0.1), "batch_size": 10}
        >>> function_space(MLP((5,)), x, x, measurement=minibatch(4), **options).is_deterministic
        False
    """
    return Minibatch(_checks.count(size, "size"))


def union(*parts: Measurement) -> Measurement:
    """All points of several measurements; a fixed set if all of them are fixed.

    Example:
        >>> union(fixed([[0.0]]), box(-1.0, 1.0, 3)).draw(jax.random.key(0)).shape
        (4, 1)
    """
    if not parts:
        raise ValueError("a union needs at least one part")
    features = [jax.eval_shape(part.draw, jax.random.key(0)).shape[1:] for part in parts]
    if len(set(features)) > 1:
        raise ValueError(f"the parts of a union differ in their features: {', '.join(map(str, features))}")
    fixed_points = [part.points for part in parts if isinstance(part, FixedSet)]
    if len(fixed_points) == len(parts):
        return FixedSet(np.concatenate(fixed_points))
    return Union(parts)


def draw_rows(key: PRNGKeyArray, total: int, size: int) -> Int[Array, " size"]:
    """Indices of `size` different rows of `total`, each row equally likely.

    Up to `CHEAP_SORT` rows are shuffled. A shuffle of more rows would take longer than the gradient: the rows form a
    ring, which is split into `size` segments from a random row on, and one row of each segment is drawn.
    """
    if total <= CHEAP_SORT:
        # The lowest bits of each random number are the row: one array to sort, no ties, and half the time of argsort.
        lowest = np.uint32(CHEAP_SORT - 1)
        numbers = jax.random.bits(key, (total,)) & ~lowest | jnp.arange(total, dtype=jnp.uint32)
        return (jnp.sort(numbers)[:size] & lowest).astype(jnp.int32)
    borders = np.arange(size + 1, dtype=np.int64) * total // size
    start_key, place_key = jax.random.split(key)
    start = jax.random.randint(start_key, (), 0, total)
    places = jax.random.randint(place_key, (size,), 0, np.diff(borders).astype(np.int32))
    return (start + borders[:-1].astype(np.int32) + places) % total
