"""Loops of small steps are compiled for one thread, and each program once."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fsgmcmc import FunctionalBNNRegressor, _compile


@pytest.fixture(autouse=True)
def forget_options():
    _compile._supported.cache_clear()
    yield
    _compile._supported.cache_clear()


def options_used(monkeypatch, size):
    used = []
    original = _compile.eqx.filter_jit

    def recording(function, compiler_options=None):
        used.append(compiler_options)
        return original(function, compiler_options=compiler_options)

    monkeypatch.setattr(_compile.eqx, "filter_jit", recording)
    doubled = _compile.jit_loop(lambda keys, carried: 2 * carried)
    keys = jax.random.split(jax.random.key(0), 2)
    assert (doubled(keys, jnp.ones((2, size))) == 2).all()
    return used


def test_small_steps_run_one_after_the_other_and_large_ones_as_usual(monkeypatch):
    assert options_used(monkeypatch, 10) == [_compile.SEQUENTIAL]
    assert options_used(monkeypatch, _compile.LARGE) == [None]


def test_an_xla_that_does_not_know_the_options_compiles_without_them(monkeypatch):
    monkeypatch.setattr(_compile, "SEQUENTIAL", {"xla_no_such_option": True})
    assert options_used(monkeypatch, 10) == [None]


# Programs of a first fit and prediction; those of a second one, for the new number of rows, are small.
MOST_PROGRAMS, MOST_MORE = 150, 60
LOOPS = ("_run_steps", "_adam_steps", "_adapt", "_apply")


def test_a_second_fit_of_about_as_many_rows_compiles_no_loop(compiled):
    """As in cross-validation, whose parts differ by a row; and a fit needs a bounded number of programs."""
    rng = np.random.default_rng(0)
    # One chain runs in this thread, whose compilations are seen.
    settings = {"hidden": (10,), "chains": 1, "samples": 4, "burn_in": 60, "thinning": 2, "random_state": 0}
    counts, loops = [], []
    for rows in (70, 71):
        x = rng.normal(size=(rows, 2))
        FunctionalBNNRegressor("rbf", **settings).fit(x, np.sin(x[:, 0])).predict(x)
        counts.append(len(compiled))
        loops.append({name for name in LOOPS for message in compiled if f"jit({name})" in message})
        compiled.clear()
    assert loops[0] == set(LOOPS), "compilations are not seen"
    assert not loops[1]
    assert counts[0] < MOST_PROGRAMS
    assert counts[1] < MOST_MORE
