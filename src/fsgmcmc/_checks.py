"""Checks of arguments, before anything is compiled."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray


def matrix(values: Any, name: str, dtype: type = np.float32) -> np.ndarray:
    """`values` as a float matrix with at least one row, without NaN or infinity; a vector is one column."""
    array = finite(values, name, dtype)
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim < 2:
        raise ValueError(f"{name} must have rows and columns, got shape {array.shape}")
    if array.shape[0] == 0:
        raise ValueError(f"{name} has no rows")
    if array.size == 0:
        raise ValueError(f"{name} has no columns")
    return array


def finite(values: Any, name: str, dtype: type = np.float32) -> np.ndarray:
    """`values` as a float array without NaN or infinity."""
    try:
        with np.errstate(over="ignore"):
            given = np.asarray(values)
            array: np.ndarray = np.asarray(given, dtype=dtype)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be numeric: {error}") from None
    wrong = np.argwhere(~np.isfinite(array))
    if wrong.size:
        place = tuple(int(i) for i in wrong[0])
        raise ValueError(
            f"{name} has {len(wrong)} value(s) that are not finite in {dtype.__name__}, the first at {place}: "
            f"{given[place]}; remove or impute them"
        )
    if array.size and np.ptp(given) > 0 and np.ptp(array) == 0:
        raise ValueError(f"{name} differs only in digits that {dtype.__name__} does not have: subtract its mean")
    return array


def same_length(x: np.ndarray, y: np.ndarray, x_name: str = "x", y_name: str = "y") -> None:
    """`x` and `y` must have the same number of rows."""
    if len(x) != len(y):
        raise ValueError(f"{x_name} has {len(x)} rows but {y_name} has {len(y)}")


def labels(values: Any, classes: int) -> np.ndarray:
    """`values` as class labels 0 … classes − 1, one per row."""
    array = np.asarray(values)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1 or len(array) == 0:
        raise ValueError(f"labels must be one number per row, got shape {array.shape}")
    whole = np.issubdtype(array.dtype, np.number) or array.dtype == bool
    if not whole or not np.array_equal(array, np.round(array.astype(float))):
        raise ValueError(f"labels must be whole numbers from 0 to {classes - 1}")
    wrong = (array < 0) | (array >= classes)
    if wrong.any():
        raise ValueError(f"label {array[wrong][0]} is outside 0 … {classes - 1}")
    return array.astype(np.int32)


def positive(value: Any, name: str) -> None:
    """Every number in `value` must be finite and above zero."""
    array = np.asarray(value, dtype=float)
    if not (np.isfinite(array).all() and (array > 0).all()):
        raise ValueError(f"{name} must be positive and finite, got {value}")


def positive_number(value: Any, name: str) -> None:
    """`value` must be one number that float32 can hold, above zero."""
    number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    with np.errstate(over="ignore"):
        if not number or not 0 < np.float32(value) < np.inf:
            raise ValueError(f"{name} must be a positive number, got {value!r}")


def count(value: Any, name: str, *, least: int = 1) -> int:
    """`value` as a whole number that is at least `least`."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}")
    return int(value)


def as_key(key: PRNGKeyArray | int) -> PRNGKeyArray:
    """A typed JAX key from a key or an integer seed."""
    if isinstance(key, int | np.integer):
        return jax.random.key(int(key))
    if not isinstance(key, jax.Array):
        raise TypeError(f"key must be a whole number or a JAX key, not {key!r}")
    if jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        if key.ndim:
            raise ValueError(f"key must be one key, got an array of keys of shape {key.shape}")
        return key
    return jax.random.wrap_key_data(key)
