"""One-dimensional extrapolation: several methods on one data set.

    y = sin(3πx) + 0.3 cos(9πx) + 0.5 sin(7πx) + N(0, 0.5²),    10 x from U(−0.75, −0.25), 10 from U(0.25, 0.75)

All samplers have the same budget. They, the variational methods and the exact GP posterior have the same data. The
methods differ where there are no data: between the two groups (the gap) and beyond them (the outer region).
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from fsgmcmc import defaults, measurement, metrics, variational
from fsgmcmc.diagnostics import effective_sample_size, r_hat
from fsgmcmc.experiments.extrapolation.config import METHODS, Config
from fsgmcmc.inference.sample import sample
from fsgmcmc.inference.warm_up import WarmUp
from fsgmcmc.likelihoods import Gaussian
from fsgmcmc.methods import SAMPLERS, VARIATIONAL, title_of
from fsgmcmc.networks import MLP
from fsgmcmc.posterior.build import function_space, parameter_space
from fsgmcmc.priors import GaussianProcess, GaussianWeights, Pretrained, frequencies, pretrain, rbf
from fsgmcmc.samplers import cyclical, step_decay
from fsgmcmc.samples import Samples

REGIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "observed": lambda x: (np.abs(x) >= 0.25) & (np.abs(x) <= 0.75),
    "gap": lambda x: np.abs(x) < 0.25,
    "outer": lambda x: np.abs(x) > 0.75,
}


def truth(x: np.ndarray) -> np.ndarray:
    """The true function."""
    return np.sin(3 * np.pi * x) + 0.3 * np.cos(9 * np.pi * x) + 0.5 * np.sin(7 * np.pi * x)


@dataclass(frozen=True)
class Result:
    """The result of a run: a record per method, and the curves of the figure."""

    config: Config
    records: list[dict[str, Any]]
    predictions: dict[str, Any]
    grid: np.ndarray
    data: tuple[np.ndarray, np.ndarray]
    fit: Pretrained


def run(
    config: Config,
    methods: tuple[str, ...] = METHODS,
    report: Callable[[str], None] = lambda _: None,
    progress: bool = True,
) -> Result:
    """Run some methods on one data set; `report` is called with a description of each stage."""
    x, y, pool, test_x, test_y = _data(config)
    grid = np.linspace(-1, 1, 201)
    report("pre-training the Gaussian process")
    fit = _pretrain(config, x, y)
    began = time.monotonic()
    exact = fit.prior.condition(x, y, fit.noise)
    predictions: dict[str, Any] = {"gp": exact.predict(grid)}
    gp_seconds = time.monotonic() - began
    records = []
    runs = _runs(config, x, y, pool, fit)
    for method in methods:
        report(f"{'sampling' if method in SAMPLERS else 'fitting'} {title_of(method)}")
        samples = runs[method](progress)
        functions = samples.functions(grid)
        predictions[method] = samples.predict(grid)
        record = _record(method, grid, predictions, metrics.nll(samples.predict(test_x), test_y))
        seconds, iterations = samples.info["seconds"], samples.info["iterations"]
        cost = {"iterations": iterations, "seconds": seconds, "microseconds_per_iteration": 1e6 * seconds / iterations}
        records.append(record | _mixing(functions, method) | cost | {"step_size": samples.info.get("step_size")})
    gp_record = _record("gp", grid, predictions, metrics.nll(exact.predict(test_x), test_y))
    nothing = dict.fromkeys(("r_hat", "ess", "microseconds_per_iteration", "step_size"))
    records.append(gp_record | nothing | {"iterations": 0, "seconds": gp_seconds})
    return Result(config, records, predictions, grid, (x, y), fit)


def first_sample(config: Config) -> None:
    """Everything that the demo does up to its first sample, to measure its duration."""
    x, y, pool, _, _ = _data(config)
    fit = _pretrain(config, x, y)
    _runs(replace(config, iterations=100, samples=1), x, y, pool, fit)["fsgld"](False)


def _data(config: Config) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(config.seed)
    x = np.concatenate([rng.uniform(-0.75, -0.25, 10), rng.uniform(0.25, 0.75, 10)])
    y = truth(x) + config.noise * rng.standard_normal(20)
    pool = np.concatenate([x, rng.uniform(-1, 1, config.pool)])
    test_x = rng.uniform(-1, 1, config.test_points)
    test_y = truth(test_x) + config.noise * rng.standard_normal(config.test_points)
    return x, y, pool, test_x, test_y


def _pretrain(config: Config, x: np.ndarray, y: np.ndarray) -> Pretrained:
    return pretrain(GaussianProcess(rbf(lengthscale=0.3)), x, y, config.epochs)


def _runs(
    config: Config, x: np.ndarray, y: np.ndarray, pool: np.ndarray, fit: Pretrained
) -> Mapping[str, Callable[[bool], Samples]]:
    """A function for each method, with the argument `progress`; all methods use the noise of the pre-trained GP."""
    likelihood = Gaussian(float(fit.noise))
    waves = frequencies(fit.prior.kernel, pool) if config.waves else ()
    functional = function_space(
        MLP(config.hidden, initial="fan_in" if waves else "unit", skip=bool(waves), frequencies=waves),
        x,
        y,
        prior=fit.prior,
        likelihood=likelihood,
        measurement=measurement.fixed(np.concatenate([x, np.linspace(-1, 1, config.grid)]))
        if config.grid
        else measurement.subset(pool, config.points),
    )
    weights = parameter_space(MLP(config.hidden), x, y, prior=GaussianWeights(1.0), likelihood=likelihood)

    def sampled(method: str, progress: bool) -> Samples:
        posterior = functional if SAMPLERS[method].is_functional else weights
        options = SAMPLERS[method].tuned(posterior) if config.adapted else {}
        return sample(
            config.seed,
            posterior,
            SAMPLERS[method].build(step_decay(rate=config.decay, every=5000), **options),
            draws=config.samples,
            thinning=config.iterations // config.samples,
            burn_in=config.burn_in,
            chains=config.chains,
            warm_up=WarmUp(adam_steps=config.adam_steps, precondition=config.adapted),
            back_off=defaults.BACK_OFFS,
            progress=progress,
        )

    def fitted(method: str, progress: bool) -> Samples:
        return variational.fit(
            config.seed,
            functional if VARIATIONAL[method].is_functional else weights,
            VARIATIONAL[method].approximation(options),
            steps=config.fit_steps,
            learning_rate=cyclical(config.fit_rate, length=config.fit_steps),
            progress=progress,
        )

    options = {
        "draws_per_step": config.fit_draws,
        "function_draws": config.function_draws,
        "functions": config.functions,
    }
    return {name: partial(sampled, name) for name in SAMPLERS} | {name: partial(fitted, name) for name in VARIATIONAL}


def _mixing(functions: np.ndarray, method: str) -> dict[str, float | None]:
    """R-hat and ESS of the worst function value; draws of a variational method are independent."""
    if method not in SAMPLERS:
        return {"r_hat": None, "ess": None}
    return {"r_hat": float(np.max(r_hat(functions))), "ess": float(np.min(effective_sample_size(functions)))}


def _record(method: str, grid: np.ndarray, predictions: dict[str, Any], nll: float) -> dict[str, Any]:
    mean, std = predictions[method].mean[:, 0], predictions[method].epistemic[:, 0]
    exact = predictions["gp"].mean[:, 0]
    inside = {name: region(grid) for name, region in REGIONS.items()}

    def rmse(difference: np.ndarray) -> float:
        return float(np.sqrt(np.mean(difference**2)))

    return {
        "method": method,
        "rmse_truth_observed": rmse((mean - truth(grid))[inside["observed"]]),
        **{f"rmse_gp_{name}": rmse((mean - exact)[inside[name]]) for name in ("observed", "gap", "outer")},
        **{f"std_{name}": float(std[inside[name]].mean()) for name in REGIONS},
        "nll": nll,
    }
