"""The registry of inference methods: every method once, with its name, title, space, kind and how it is built.

Estimators, the command line, reports, titles of tables and experiments derive from it. A new method is one file with
its sampler or variational objective, and one entry of `METHODS`.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from fsgmcmc import defaults, variational
from fsgmcmc.measurement import Measurement, box, subset
from fsgmcmc.posterior import Posterior
from fsgmcmc.priors import GaussianWeights
from fsgmcmc.samplers import fsghmc, fsgld, sghmc, sgld
from fsgmcmc.samplers.base import Sampler

# Rows of a gradient of the variational methods, and measurement points of the functional ones.
VARIATIONAL_BATCH = 50
VARIATIONAL_POINTS, RANDOM_POINTS = 40, 10
INITIAL_LOG_STD = -5.0


def _cannot_build(*args: Any, **options: Any) -> Any:
    raise ValueError("a baseline is run by its experiment, not built")


@dataclass(frozen=True)
class Method:
    """One inference method.

    Attributes:
        name: As users type it.
        title: As tables and figures show it.
        description: In a few words.
        space: "function" or "parameter", where its prior is.
        kind: "sampler", "variational" or "baseline".
        color: Of its curve in every figure.
        build: `build(step_size, **options)` gives a `Sampler`, `build(**options)` a variational method.
        options: Of `build` in the estimators.
        tuned: Further options that depend on the posterior, for a sampler whose step is measured.
        has_momentum: Whether its steps are in units of time, as of Hamiltonian dynamics.
        batch_size: Rows of a gradient for so many training rows; None is all.
        measurement: Measurement points for training inputs x; it may have options, such as their number.
        weight_prior: Prior of the weights in parameter space.
    """

    name: str
    title: str
    description: str
    space: str
    kind: str
    color: str
    build: Callable[..., Any] = _cannot_build
    options: dict[str, Any] = field(default_factory=dict)
    tuned: Callable[[Posterior], dict[str, Any]] = lambda posterior: {}
    has_momentum: bool = False
    batch_size: Callable[[int], int | None] = defaults.batch_size_for
    measurement: Callable[..., Measurement] = defaults.measured_at
    weight_prior: GaussianWeights = GaussianWeights()  # noqa: RUF009 (immutable)

    @property
    def is_functional(self) -> bool:
        """Whether the prior is on functions."""
        return self.space == "function"

    @property
    def is_sampler(self) -> bool:
        """Whether chains of it run through `sample`."""
        return self.kind == "sampler"

    @property
    def is_variational(self) -> bool:
        """Whether it is trained by `variational.fit`."""
        return self.kind == "variational"

    @property
    def can_pad(self) -> bool:
        """Whether padded rows leave its result unchanged; a variational method draws its points from the rows."""
        return self.is_sampler or not self.is_functional

    def sampler(self, posterior: Posterior, step_size: Any = None) -> Sampler:
        """The sampler for this posterior; without a step size the warm-up measures it."""
        if not self.is_sampler:
            raise ValueError(f"{self.title} is not a sampler")
        return self.build(step_size, **({} if step_size is not None else self.tuned(posterior)))

    def approximation(self, options: dict[str, Any] | None = None) -> variational.Approximation:
        """The variational method with those of the options that its builder has; by default with its own."""
        if not self.is_variational:
            raise ValueError(f"{self.title} is not a variational method")
        return self.build(**(self.options if options is None else _accepted(self.build, options)))

    def measured_at(self, x: np.ndarray, options: dict[str, Any]) -> Measurement:
        """`measurement` with those of the options that it has."""
        return self.measurement(x, **_accepted(self.measurement, options))


def _accepted(function: Callable[..., Any], options: dict[str, Any]) -> dict[str, Any]:
    """The options that are parameters of the function."""
    return {name: value for name, value in options.items() if name in inspect.signature(function).parameters}


def _momentum(posterior: Posterior) -> dict[str, Any]:
    friction = defaults.FRICTION if posterior.is_deterministic else defaults.FRICTION_OF_BATCHES
    return {"friction_per_step": friction, "step_times_frequency": defaults.STEP_TIMES_FREQUENCY}


def _few_rows(rows: int) -> int:
    del rows
    return VARIATIONAL_BATCH


def _some_rows(x: np.ndarray, points: int = VARIATIONAL_POINTS) -> Measurement:
    return subset(x, min(points, len(x)))


def _box_around(x: np.ndarray, random_points: int = RANDOM_POINTS) -> Measurement:
    return box(x.min(axis=0), x.max(axis=0), random_points)


_sampler = partial(Method, kind="sampler")
_variational = partial(Method, kind="variational", batch_size=_few_rows)

METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        _sampler("sgld", "SGLD", "sampling, prior on weights", "parameter", color="#9db8dc", build=sgld),
        _sampler("fsgld", "fSGLD", "sampling, prior on functions", "function", color="#2f5597", build=fsgld),
        _sampler(
            "sghmc",
            "SGHMC",
            "sampling with momentum, prior on weights",
            "parameter",
            color="#f2b382",
            build=sghmc,
            tuned=_momentum,
            has_momentum=True,
        ),
        _sampler(
            "fsghmc",
            "fSGHMC",
            "sampling with momentum, prior on functions",
            "function",
            color="#c8561b",
            build=fsghmc,
            tuned=_momentum,
            has_momentum=True,
        ),
        _variational(
            "bbb",
            "BBB",
            "variational approximation, prior on weights",
            "parameter",
            color="#a9d3a0",
            build=variational.bbb,
            options={"draws_per_step": 4, "initial_log_std": INITIAL_LOG_STD},
            weight_prior=GaussianWeights(2.0, "fan_in"),
        ),
        _variational(
            "fbnn",
            "FBNN",
            "variational approximation, prior on functions",
            "function",
            color="#3c8d4f",
            build=variational.fbnn,
            options={"function_draws": 30, "initial_log_std": INITIAL_LOG_STD},
            measurement=_box_around,
        ),
        _variational(
            "ifbnn",
            "IFBNN",
            "variational approximation, prior on functions",
            "function",
            color="#8172b3",
            build=variational.ifbnn,
            options={"draws_per_step": 4, "initial_log_std": INITIAL_LOG_STD, "functions": 16, "coupling": 0.01},
            measurement=_some_rows,
        ),
        Method("gp", "exact GP", "the Gaussian process itself", "function", "baseline", "#222222"),
        Method("map-ensemble", "MAP ensemble", "ten networks fitted by Adam", "parameter", "baseline", "#8c8c8c"),
    )
}
SAMPLERS = {name: method for name, method in METHODS.items() if method.is_sampler}
VARIATIONAL = {name: method for name, method in METHODS.items() if method.is_variational}
# What an estimator can fit with.
INFERENCE = SAMPLERS | VARIATIONAL


def register(method: Method) -> None:
    """Add a method of your own, for the estimators and reports of this program."""
    if method.name in METHODS:
        raise ValueError(f"there is a method {method.name!r} already")
    METHODS[method.name] = method
    for kind, of_kind in (("sampler", SAMPLERS), ("variational", VARIATIONAL)):
        if method.kind == kind:
            of_kind[method.name] = INFERENCE[method.name] = method


def title_of(name: str) -> str:
    """The title of a method, or the name itself where it is not in the registry."""
    return METHODS[name].title if name in METHODS else name
