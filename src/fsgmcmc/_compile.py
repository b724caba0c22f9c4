"""Compilation of loops over the steps of chains, and of what runs once.

By default XLA's CPU backend runs several operations at a time, and uses libraries with their own threads for sums and
matrix products. For steps of a hundred microseconds this overhead is larger than the gain: sequential operations in one
thread are a third faster, and the other cores can run other chains. Large networks are compiled with the default
options.

What runs once, such as the measurement of the curvature, is compiled without the fusion emitters: this takes two thirds
of the time, and the program is hardly slower. A loop would take twice as long.
"""

import functools
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax

SEQUENTIAL = {
    "xla_cpu_scheduler_type": "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED",
    "xla_cpu_multi_thread_eigen": False,
    "xla_cpu_experimental_ynn_fusion_type": "",
    # XLA prefers 256 bits, because wider vectors slow down older processors; with 512, normals take a sixth less time.
    "xla_cpu_prefer_vector_width": 512,
    # Loops over arrays are not split between threads, and `jax.lax.optimization_barrier` keeps two loops separate.
    "xla_disable_hlo_passes": "cpu-parallel-task-assigner,cse_barrier_expander",
}
QUICKLY = {"xla_cpu_use_fusion_emitters": False}
# Number of parameters from which on several threads are faster.
LARGE = 100_000

Function = TypeVar("Function", bound=Callable)


def jit_loop(function: Function) -> Function:
    """`equinox.filter_jit` of function(keys, carried, ...); compiler options depend on the size of `carried`."""
    # The options are computed at the first call, because a query of the backend initialises it.
    lock = threading.Lock()  # chains call from several threads, and only one should compile

    @functools.cache
    def compiled(large: bool) -> Callable:
        options = None if large else _supported(*SEQUENTIAL.items())
        return eqx.filter_jit(function, compiler_options=options)  # type: ignore[call-overload]

    @functools.wraps(function)
    def call(keys: Any, carried: Any, *others: Any) -> Any:
        size = max((leaf.size // len(keys) for leaf in jax.tree.leaves(carried)), default=0)
        with lock:
            program = compiled(size >= LARGE)
        return program(keys, carried, *others)

    return call  # type: ignore[return-value]


def jit_once(function: Function) -> Function:
    """`equinox.filter_jit` of a function that is called few times: it compiles fast."""
    lock = threading.Lock()
    compiled = functools.cache(
        lambda: eqx.filter_jit(function, compiler_options=_supported(*QUICKLY.items()))  # type: ignore[call-overload]
    )

    @functools.wraps(function)
    def call(*args: Any) -> Any:
        with lock:
            program = compiled()
        return program(*args)

    return call  # type: ignore[return-value]


@functools.cache
def _supported(*options: tuple[str, Any]) -> dict[str, Any] | None:
    """The options, or None where the backend does not have them."""
    if jax.default_backend() != "cpu":
        return None
    try:
        jax.jit(lambda: 0, compiler_options=dict(options))()
    except jax.errors.JaxRuntimeError:  # this version of XLA does not have the options
        return None
    return dict(options)
