"""Compilation of loops whose every step is a handful of small operations.

By default XLA's CPU backend orders operations so that several can run at a time, and hands sums and matrix products
to a library (YNN) with threads of its own. For steps of a hundred microseconds the handing over costs more than it
saves: one after the other in one thread is a third faster, and the other cores are there for other chains.
"""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax

ONE_AFTER_THE_OTHER = {
    "xla_cpu_scheduler_type": "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED",
    "xla_cpu_multi_thread_eigen": False,
    "xla_cpu_experimental_ynn_fusion_type": "",
}

Function = TypeVar("Function", bound=Callable)


def jit_loop(function: Function) -> Function:
    """`equinox.filter_jit` with the options that suit such loops on the backend in use."""

    # Not before the first call: asking for the backend starts it.
    @functools.cache
    def compiled() -> Callable:
        return eqx.filter_jit(function, compiler_options=_options())  # type: ignore[call-overload]

    @functools.wraps(function)
    def call(*arguments: Any) -> Any:
        return compiled()(*arguments)

    return call  # type: ignore[return-value]


@functools.cache
def _options() -> dict[str, Any]:
    if jax.default_backend() != "cpu":
        return {}
    try:
        jax.jit(lambda: 0, compiler_options=ONE_AFTER_THE_OTHER)()
    except jax.errors.JaxRuntimeError:  # an XLA that does not have the option
        return {}
    return ONE_AFTER_THE_OTHER
