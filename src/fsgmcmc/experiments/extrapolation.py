"""One-dimensional extrapolation, the first experiment of the paper and the main job of `fsgmcmc demo`.

    y = sin(3πx) + 0.3 cos(9πx) + 0.5 sin(7πx) + N(0, 0.5²),    10 x from U(−0.75, −0.25), 10 from U(0.25, 0.75)

Four samplers of equal budget, three variational methods and the exact GP posterior see the same data. What matters is
where there are no data: between the two groups (the gap) and beyond them (the outer region).
"""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fsgmcmc import measurement, metrics, variational
from fsgmcmc.diagnostics import effective_sample_size, r_hat
from fsgmcmc.likelihoods import Gaussian
from fsgmcmc.networks import MLP
from fsgmcmc.posterior import Posterior
from fsgmcmc.priors import GaussianProcess, GaussianWeights, Pretrained, pretrain, rbf
from fsgmcmc.recipe import SAMPLERS
from fsgmcmc.samplers import cyclical, step_decay
from fsgmcmc.samples import Samples
from fsgmcmc.sampling import sample
from fsgmcmc.spaces import function_space, parameter_space
from fsgmcmc.warm_up import WarmUp

TITLES = {
    "fsgld": "fSGLD",
    "fsghmc": "fSGHMC",
    "fbnn": "FBNN",
    "sgld": "SGLD",
    "sghmc": "SGHMC",
    "ifbnn": "IFBNN",
    "bbb": "BBB",
    "gp": "exact GP",
}
METHODS = tuple(method for method in TITLES if method != "gp")
REGIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "observed": lambda x: (np.abs(x) >= 0.25) & (np.abs(x) <= 0.75),
    "gap": lambda x: np.abs(x) < 0.25,
    "outer": lambda x: np.abs(x) > 0.75,
}


@dataclass(frozen=True)
class Config:
    """Settings; the defaults are the paper's, except that every step size is measured, not chosen.

    Attributes:
        seed: Of the data and of the chains.
        hidden: Units of the tanh network.
        noise: Standard deviation of the observations.
        epochs: Iterations of the prior's pre-training.
        pool: Points of U(−1, 1) that join the training inputs as candidates for measurement points.
        points: Measurement points drawn at every step.
        burn_in: Steps before sampling.
        iterations: Steps of sampling.
        samples: Draws kept from each chain.
        chains: Independent chains of each sampler.
        decay: Factor of the step size every 5000 steps.
        adam_steps: Steps of the warm-up, the same for all samplers.
        fit_steps: Steps of the variational methods.
        fit_rate: Their learning rate, which decays to zero along a cosine.
        fit_draws: Draws of the weights in each of their gradients.
        function_draws: Draws of the function in each gradient of FBNN.
        functions: Functions of the bridge and of the GP in each gradient of IFBNN.
        test_points: Fresh noisy observations on (−1, 1) for the negative log-likelihood.
    """

    seed: int = 3
    hidden: tuple[int, ...] = (100, 100)
    noise: float = 0.5
    epochs: int = 100
    pool: int = 40
    points: int = 40
    burn_in: int = 2000
    iterations: int = 8000
    samples: int = 80
    chains: int = 1
    decay: float = 0.9
    adam_steps: int = 500
    fit_steps: int = 10_000
    fit_rate: float = 0.01
    fit_draws: int = 4
    function_draws: int = 50
    functions: int = 16
    test_points: int = 500


def truth(x: np.ndarray) -> np.ndarray:
    """The function behind the data."""
    return np.sin(3 * np.pi * x) + 0.3 * np.cos(9 * np.pi * x) + 0.5 * np.sin(7 * np.pi * x)


@dataclass(frozen=True)
class Result:
    """What a run gives: a record per method, and the curves behind the figure."""

    config: Config
    records: list[dict[str, Any]]
    predictions: dict[str, Any]
    grid: np.ndarray
    data: tuple[np.ndarray, np.ndarray]
    fit: Pretrained


def run(
    config: Config,
    methods: tuple[str, ...] = METHODS,
    say: Callable[[str], None] = lambda _: None,
    progress: bool = True,
) -> Result:
    """Some methods on one data set; `say` is told what is being done."""
    x, y, pool, test_x, test_y = _data(config)
    grid = np.linspace(-1, 1, 201)
    say("pre-training the Gaussian process")
    fit = _pretrain(config, x, y)
    began = time.monotonic()
    exact = fit.prior.condition(x, y, fit.noise)
    predictions: dict[str, Any] = {"gp": exact.predict(grid)}
    gp_seconds = time.monotonic() - began
    records = []
    runs = _runs(config, x, y, pool, fit)
    for method in methods:
        say(f"{'sampling' if method in SAMPLERS else 'fitting'} {TITLES[method]}")
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
    """What the demo does up to its first sample, to time it."""
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
    """Every method, to be called with whether to show its progress; the noise of the pre-trained GP serves them all."""
    network, likelihood = MLP(config.hidden), Gaussian(fit.noise)
    functional = function_space(
        network, x, y, prior=fit.prior, likelihood=likelihood, measurement=measurement.subset(pool, config.points)
    )
    weights = parameter_space(network, x, y, prior=GaussianWeights(1.0), likelihood=likelihood)

    def sampled(method: str, progress: bool) -> Samples:
        return sample(
            config.seed,
            functional if SAMPLERS[method].functional else weights,
            SAMPLERS[method].build(step_decay(rate=config.decay, every=5000)),
            draws=config.samples,
            thinning=config.iterations // config.samples,
            burn_in=config.burn_in,
            chains=config.chains,
            warm_up=WarmUp(adam_steps=config.adam_steps),
            progress=progress,
        )

    def fitted(posterior: Posterior, method: variational.Method, progress: bool) -> Samples:
        rate = cyclical(config.fit_rate, length=config.fit_steps)
        return variational.fit(
            config.seed, posterior, method, steps=config.fit_steps, learning_rate=rate, progress=progress
        )

    indirect = variational.ifbnn(draws_per_step=config.fit_draws, functions=config.functions)
    return {method: partial(sampled, method) for method in SAMPLERS} | {
        "fbnn": partial(fitted, functional, variational.fbnn(draws_per_step=config.function_draws)),
        "ifbnn": partial(fitted, functional, indirect),
        "bbb": partial(fitted, weights, variational.bbb(draws_per_step=config.fit_draws)),
    }


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


COLUMNS = {
    "rmse_truth_observed": "rmse true",
    "rmse_gp_observed": "rmse GP",
    "rmse_gp_gap": "rmse gap",
    "std_observed": "sd data",
    "std_gap": "sd gap",
    "std_outer": "sd far",
    "nll": "test nll",
    "r_hat": "Rhat",
    "ess": "ESS",
    "microseconds_per_iteration": "µs",
}


LEGEND = (
    "rmse of the mean to the truth and to the exact GP where there are data, and to the GP in the gap; sd of the "
    "function where there are data, in the gap and beyond; R-hat and ESS of function values, the worst on the grid; "
    "µs per iteration"
)


def table(result: Result) -> list[list[str]]:
    """The records as rows of text, a header first; `LEGEND` explains the columns."""

    def cell(value: float | None, name: str) -> str:
        if value is None:
            return ""
        return f"{value:.0f}" if name in ("ess", "microseconds_per_iteration") else f"{value:.2f}"

    rows = [[TITLES[record["method"]], *(cell(record[name], name) for name in COLUMNS)] for record in result.records]
    return [["method", *COLUMNS.values()], *rows]


def figure(result: Result, path: Path) -> None:
    """A panel per method, the exact GP's band outlined in each."""
    from matplotlib.figure import Figure

    from fsgmcmc.plotting import function_panel

    methods = [record["method"] for record in result.records]
    columns, rows = 3, len(methods) // 3 + 1  # one panel is for the legend
    fig = Figure(figsize=(4.2 * columns, 3.2 * rows), layout="constrained")
    axes = fig.subplots(rows, columns, sharex=True, sharey=True).ravel()
    for panel, method in zip(axes, methods, strict=False):
        reference = None if method == "gp" else result.predictions["gp"]
        prediction = result.predictions[method]
        function_panel(
            panel,
            result.grid,
            prediction,
            data=result.data,
            truth=truth(result.grid),
            reference=reference,
            title=TITLES[method],
        )
    axes[0].set_ylim(-3.6, 3.6)
    for empty in axes[len(methods) :]:
        empty.axis("off")
    axes[len(methods)].legend(*axes[0].get_legend_handles_labels(), loc="center", frameon=False, fontsize=10)
    fig.savefig(path, dpi=150)


def write(result: Result, folder: Path) -> None:
    """`extrapolation.json` and `extrapolation.png` in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    prior = {"noise": float(result.fit.noise), "evidence": result.fit.evidence, "kernel": str(result.fit.prior.kernel)}
    document = {"records": result.records, "config": asdict(result.config) | {"prior": prior}}
    (folder / "extrapolation.json").write_text(json.dumps(document, indent=2) + "\n")
    figure(result, folder / "extrapolation.png")
