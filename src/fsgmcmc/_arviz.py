"""Draws in the format of ArviZ: named variables with the axes chain and draw.

ArviZ 0.x has an `InferenceData`, 1.x an xarray `DataTree`. Both have groups, here `posterior` and `sample_stats`.
"""

import importlib
import inspect
import re
import warnings
from collections.abc import Set
from types import ModuleType
from typing import Any

import jax
import numpy as np

MISSING = "to_arviz needs ArviZ: pip install 'fsgmcmc[arviz]'"
FUNCTION_AXES = ("point", "output")
# Names that weights may not have: those of axes, of function values and of the likelihood's parameters.
TAKEN = frozenset({"chain", "draw", *FUNCTION_AXES, "f", "noise"})


def to_arviz(samples: Any, x: Any = None) -> Any:
    """`Samples.to_arviz`."""
    if samples.positions is None:
        raise ValueError("to_arviz needs the weights, but this run kept only what `collect` returned: leave it out")
    arviz = _installed()
    posterior = {"w": samples.positions} if samples.flattener is None else _parameters(samples)
    if x is not None:
        posterior["f"] = samples.functions(x)
    groups = {"posterior": posterior, "sample_stats": {"energy": samples.energy}}
    dims = {"f": list(FUNCTION_AXES)}
    if "posterior" in inspect.signature(arviz.from_dict).parameters:  # 0.x: a keyword for every group
        return arviz.from_dict(**groups, dims=dims)
    return arviz.from_dict(groups, dims=dims)


def _installed() -> ModuleType:
    try:
        # The last versions 0.x warn about 1.x at import; the calls in this module work with both.
        with warnings.catch_warnings(action="ignore", category=FutureWarning):
            return importlib.import_module("arviz")
    except ImportError as error:
        raise ImportError(MISSING) from error


def _parameters(samples: Any) -> dict[str, np.ndarray]:
    network, own = samples.params
    variables = dict(zip(weight_names(own), jax.tree.leaves(own), strict=True))
    names = weight_names(network, TAKEN | set(variables))
    noise = samples.likelihood.noise_std(own) if variables else None
    if noise is not None:
        variables["noise"] = np.asarray(noise)
    return dict(zip(names, jax.tree.leaves(network), strict=True)) | variables


def weight_names(tree: Any, taken: Set[str] = TAKEN) -> list[str]:
    """A name for every leaf, from its path: letters, digits and underscores.

    >>> weight_names([{"bias": 0.0, "weight": 0.0}])
    ['layers_0_bias', 'layers_0_weight']
    >>> weight_names({"f": 0.0, "trend/slope": 0.0})
    ['params_f', 'trend_slope']
    """
    names = []
    for path, _ in jax.tree_util.tree_leaves_with_path(tree):
        name = re.sub(r"\W+", "_", jax.tree_util.keystr(path, simple=True, separator="_"))
        if name[:1].isdigit():  # a list of layers, as in `MLP`
            name = f"layers_{name}"
        elif not name or name in taken:
            name = f"params_{name}".rstrip("_")
        names.append(name)
    if len(set(names)) < len(names):
        return [f"{name}_{leaf}" for leaf, name in enumerate(names)]
    return names
