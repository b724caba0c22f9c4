"""Measurement points: which are drawn, and how often.

Every statistical test has a false-alarm rate of 1e-6 and fixed keys.
"""

from itertools import combinations

import jax
import numpy as np
import pytest
from scipy import stats

from fsgmcmc.measurement import FixedSet, PoolDraw, box, draw_rows, fixed, sets, subset, union

FALSE_ALARM_RATE = 1e-6
DRAWS = 4000


def many(draw, seed=0):
    """`draw` at many independent keys."""
    return np.asarray(jax.jit(jax.vmap(draw))(jax.random.split(jax.random.key(seed), DRAWS)))


def assert_equally_often(drawn, kinds):
    """The chi-square test that `drawn` takes each of `kinds` values equally often."""
    counts = np.bincount(np.ravel(drawn), minlength=kinds)
    assert len(counts) == kinds
    assert stats.chisquare(counts).pvalue > FALSE_ALARM_RATE, counts


@pytest.mark.parametrize(("pool", "size"), [(6, 3), (30, 3)])
def test_a_subset_is_every_set_of_distinct_points_equally_often(pool, size):
    drawn = np.sort(many(subset(np.arange(float(pool)), size).draw)[..., 0].astype(int), axis=1)
    assert (np.diff(drawn, axis=1) > 0).all(), "a point was drawn twice"
    sets = {chosen: number for number, chosen in enumerate(combinations(range(pool), size))}
    if len(sets) < DRAWS / 10:
        assert_equally_often([sets[tuple(row)] for row in drawn.tolist()], len(sets))


@pytest.mark.parametrize(("total", "size"), [(10, 4), (10, 1)])
def test_every_row_is_equally_likely_at_every_place_of_a_batch(total, size):
    drawn = many(lambda key: draw_rows(key, total, size))
    # Within a place the draws of different keys are independent.
    for place in range(size):
        assert_equally_often(drawn[:, place], total)
    assert (np.diff(np.sort(drawn, axis=1), axis=1) > 0).all()


@pytest.mark.parametrize(("total", "size"), [(500, 3), (300, 250), (1000, 128)])
def test_of_many_rows_each_is_equally_likely_in_a_batch_spread_over_all(total, size):
    drawn = many(lambda key: draw_rows(key, total, size))
    # Rows of one key exclude each other, which makes the counts more even than the test expects, never less.
    assert_equally_often(drawn, total)
    assert_equally_often(drawn[:, 0], total)
    assert (np.diff(np.sort(drawn, axis=1), axis=1) > 0).all(), "a row was drawn twice"
    gaps = np.diff(drawn, axis=1) % total
    assert gaps.max() <= 2 * np.ceil(total / size)


def test_sets_measure_every_point_equally_often_and_one_set_at_a_time():
    measurement = sets(np.arange(30.0), 10, count=7)
    assert measurement.sets.shape == (7, 10, 1)
    counts = np.bincount(measurement.sets.astype(int).ravel(), minlength=30)
    assert set(counts) == {2, 3}
    straddling = sets(np.arange(60.0), 40, count=3)
    assert all(len(np.unique(chosen)) == 40 for chosen in straddling.sets)
    assert all(len(np.unique(chosen)) == 10 for chosen in measurement.sets)
    drawn = many(lambda key: measurement.index(key))
    assert_equally_often(drawn, 7)
    key = jax.random.key(5)
    np.testing.assert_array_equal(measurement.draw(key), measurement.sets[measurement.index(key)])
    assert isinstance(sets(np.arange(5.0), 9, count=2), FixedSet)


def test_a_box_is_filled_evenly():
    low, high = np.array([-3.0, 0.5, 2.0]), np.array([-1.0, 4.0, 2.0])
    points = many(box(low, high, 2).draw).reshape(-1, 3)
    assert (points >= low).all()
    assert (points <= high).all()
    for j in (0, 1):
        assert stats.kstest((points[:, j] - low[j]) / (high[j] - low[j]), "uniform").pvalue > FALSE_ALARM_RATE
    # Features are independent: so is the sum of two of them, modulo one, uniform.
    unit = (points[:, :2] - low[:2]) / (high - low)[:2]
    assert stats.kstest(unit.sum(axis=1) % 1, "uniform").pvalue > FALSE_ALARM_RATE
    assert (points[:, 2] == 2).all()


def test_measurements_are_pure_functions_of_the_key():
    first, second = jax.random.split(jax.random.key(3))
    pool = np.arange(20.0)
    for measurement in (subset(pool, 8), box(0.0, 1.0, 8), union(fixed(pool), box(0.0, 1.0, 8))):
        np.testing.assert_array_equal(measurement.draw(first), measurement.draw(first))
        assert not np.array_equal(measurement.draw(first), measurement.draw(second))
    np.testing.assert_array_equal(fixed(pool).draw(first), fixed(pool).draw(second))


def test_a_union_has_the_points_of_all_its_parts_in_order():
    grid, far = np.arange(6.0), np.array([90.0, 91.0])
    # Two boxes of one shape: were they given one key, their points would be the same.
    points = np.asarray(
        union(fixed(far), subset(grid, 3), box(10.0, 20.0, 4), box(10.0, 20.0, 4)).draw(jax.random.key(0))
    )[:, 0]
    np.testing.assert_array_equal(points[:2], far)
    assert len(set(points[2:5]) & set(grid)) == 3
    assert ((points[5:] >= 10) & (points[5:] <= 20)).all()
    assert len(set(points[5:])) == 8


def test_what_cannot_change_is_fixed():
    """Fixed points are factorised once, so a union and a subset must say when nothing is random in them."""
    pool = np.arange(5.0)
    both = union(fixed(pool), fixed([[7.0]]))
    assert isinstance(both, FixedSet)
    np.testing.assert_array_equal(both.points[:, 0], [0, 1, 2, 3, 4, 7])
    for size in (5, 6):
        assert isinstance(subset(pool, size), FixedSet)
    assert isinstance(subset(pool, 4), PoolDraw)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: fixed([[0.0], [np.nan]]), "measurement points has 1 value.*not finite"),
        (lambda: fixed(np.zeros((0, 2))), "measurement points has no rows"),
        (lambda: fixed(3.0), "must have rows and columns"),
        (lambda: subset(np.arange(5.0), 0), "size must be a whole number of at least 1, got 0"),
        (lambda: box(1.0, -1.0, 5), "low <= high, got low="),
        (lambda: box(0.0, np.inf, 5), "finite bounds"),
        (lambda: box([0.0, 0.0], 1.0, 5), r"one low and one high bound per feature, got \(2,\) and \(1,\)"),
        (lambda: box(0.0, 1.0, -2), "size must be a whole number of at least 1, got -2"),
        (union, "at least one part"),
    ],
)
def test_impossible_measurements_are_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()


@pytest.mark.parametrize("parts", [(fixed([0.0]), fixed([[0.0, 1.0]])), (box(0.0, 1.0, 2), box([0, 0], [1, 1], 2))])
def test_a_union_of_points_with_different_features_is_refused(parts):
    with pytest.raises(ValueError, match="features"):
        union(*parts)
