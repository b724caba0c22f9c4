"""Compilation of loops over the steps of chains.

By default XLA's CPU backend orders operations so that several can run at a time, and hands sums and matrix products to
libraries with threads of their own. For steps of a hundred microseconds the handing over costs more than it saves: one
after the other in one thread is a third faster, and the other cores are there for other chains. Large networks are
compiled as usual.
"""

import functools
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax

ONE_AFTER_THE_OTHER = {
    "xla_cpu_scheduler_type": "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED",
    "xla_cpu_multi_thread_eigen": False,
    "xla_cpu_experimental_ynn_fusion_type": "",
    # XLA prefers 256 bits to spare the clock of older processors; where there are 512, normals take a sixth less time.
    "xla_cpu_prefer_vector_width": 512,
    # Loops over arrays stay whole, and `jax.lax.optimization_barrier` keeps two of them apart.
    "xla_disable_hlo_passes": "cpu-parallel-task-assigner,cse_barrier_expander",
}
# From so many parameters on the threads are worth waking.
LARGE = 100_000

Function = TypeVar("Function", bound=Callable)


def jit_loop(function: Function) -> Function:
    """`equinox.filter_jit` of function(keys, carried, ...), with the options that suit the carried arrays' size."""
    # Not before the first call: asking for the backend starts it.
    lock = threading.Lock()  # chains enter from several threads, and one of them is to compile

    @functools.cache
    def compiled(large: bool) -> Callable:
        options = None if large else _options()
        return eqx.filter_jit(function, compiler_options=options)  # type: ignore[call-overload]

    @functools.wraps(function)
    def call(keys: Any, carried: Any, *others: Any) -> Any:
        size = max((leaf.size // len(keys) for leaf in jax.tree.leaves(carried)), default=0)
        with lock:
            program = compiled(size >= LARGE)
        return program(keys, carried, *others)

    return call  # type: ignore[return-value]


@functools.cache
def _options() -> dict[str, Any] | None:
    if jax.default_backend() != "cpu":
        return None
    try:
        jax.jit(lambda: 0, compiler_options=ONE_AFTER_THE_OTHER)()
    except jax.errors.JaxRuntimeError:  # an XLA that does not have the options
        return None
    return ONE_AFTER_THE_OTHER
