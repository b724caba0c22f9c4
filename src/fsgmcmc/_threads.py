"""Threads: independent work side by side, and linear algebra in one thread.

Compilation, XLA's programs and linear algebra release Python's lock. A library of linear algebra with a thread for each
core loses more by waiting for them than it gains at matrices of some hundred rows.
"""

import functools
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import TypeVar

from threadpoolctl import ThreadpoolController

Item = TypeVar("Item")
Result = TypeVar("Result")


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def each_on_a_core(function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """`function` of each item, in as many threads as there are cores; results have the order of the items."""
    with ThreadPoolExecutor(max(min(cores(), len(items)), 1)) as threads:
        return list(threads.map(function, items))


def one_blas_thread() -> AbstractContextManager:
    """Linear algebra of NumPy and SciPy in one thread for as long as the context lasts."""
    return _controller().limit(limits=1, user_api="blas")


@functools.cache
def _controller() -> ThreadpoolController:
    import scipy.linalg  # noqa: F401 (has a library of its own)

    return ThreadpoolController()
