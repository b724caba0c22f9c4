"""Loops of small steps are compiled for one thread; an XLA without the options is served as well."""

import jax
import jax.numpy as jnp
import pytest

from fsgmcmc import _compile


@pytest.fixture(autouse=True)
def forget_options():
    _compile._options.cache_clear()
    yield
    _compile._options.cache_clear()


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
    assert options_used(monkeypatch, 10) == [_compile.ONE_AFTER_THE_OTHER]
    assert options_used(monkeypatch, _compile.LARGE) == [None]


def test_an_xla_that_does_not_know_the_options_compiles_without_them(monkeypatch):
    monkeypatch.setattr(_compile, "ONE_AFTER_THE_OTHER", {"xla_no_such_option": True})
    assert options_used(monkeypatch, 10) == [None]
