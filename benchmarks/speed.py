"""Microseconds per iteration of our samplers and of other implementations, measured in one process.

    fsgmcmc bench --out out/bench.json

All programs are compiled first. Then they run in turns, for several rounds, so that a slow phase of the machine affects
all of them. `bare-gradient` is the gradient of the same potential in the same loop, without noise or update: a lower
bound on the cost of a sampler. Ratios are to `fsgld` on the same task.
"""

import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from fsgmcmc import measurement, variational
from fsgmcmc.inference import _loop
from fsgmcmc.inference._devices import chain_keys
from fsgmcmc.likelihoods import Gaussian
from fsgmcmc.networks import MLP
from fsgmcmc.posterior import Posterior
from fsgmcmc.posterior.build import function_space, parameter_space
from fsgmcmc.priors import GaussianProcess, rbf
from fsgmcmc.random import fast_key
from fsgmcmc.samplers import fsghmc, fsgld, sghmc, sgld
from fsgmcmc.samplers.base import Potential, Sampler
from fsgmcmc.samplers.langevin import Langevin, LangevinState
from fsgmcmc.samplers.schedules import as_schedule
from fsgmcmc.variational.training import start, train

# Steps that are too small to move a chain: the cost of a step does not depend on its size.
LANGEVIN_STEP, HAMILTONIAN_STEP = 1e-8, 1e-5
# Long enough that the overhead of a call, which `sample` has every half second, is negligible.
SECONDS_PER_MEASUREMENT = 0.2
MANY_CHAINS = 16


class Task(NamedTuple):
    """A network and its data, in both spaces."""

    name: str
    function_space: Posterior
    parameter_space: Posterior


class Program(NamedTuple):
    """A program to be timed; `run(n)` runs n steps and waits for the result."""

    name: str
    task: str
    run: Callable[[int], None]
    iterations_per_step: int = 1


def extrapolation_task() -> Task:
    """2x100 tanh, 20 data, 40 measurement points redrawn from a pool of 60."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, 20)
    pool = np.concatenate([x, rng.uniform(-1, 1, 40)])
    return _task("1-d", MLP((100, 100)), x, np.sin(3 * x), 0.1, points=measurement.subset(pool, 40))


def yacht_task() -> Task:
    """2x50 tanh, 277 data in 6 dimensions, all of them fixed measurement points."""
    x = np.random.default_rng(0).standard_normal((277, 6))
    return _task("uci", MLP((50, 50)), x, np.sin(x[:, 0]), 2.0)


def minibatch_task() -> Task:
    """2x100 tanh, 50,000 data in 8 dimensions, batch 128, 100 measurement points redrawn from the data."""
    x = np.random.default_rng(0).standard_normal((50_000, 8))
    points = measurement.subset(x, 100)
    return _task("minibatch", MLP((100, 100)), x, np.sin(x[:, 0]), 2.0, points=points, batch_size=128)


def _task(
    name: str,
    network: MLP,
    x: np.ndarray,
    y: np.ndarray,
    lengthscale: float,
    points: measurement.Measurement | None = None,
    batch_size: int | None = None,
) -> Task:
    likelihood, process = Gaussian(0.5), GaussianProcess(rbf(lengthscale))
    options: dict[str, Any] = {"likelihood": likelihood, "batch_size": batch_size}
    return Task(
        name,
        function_space(network, x, y, prior=process, measurement=points, **options),
        parameter_space(network, x, y, **options),
    )


def programs(task: Task, peers: bool) -> list[Program]:
    """All programs of a task."""
    function, parameter = task.function_space, task.parameter_space
    bare = BareGradient(as_schedule(LANGEVIN_STEP, "step_size"), as_schedule(1.0, "temperature"), None, None)
    ours = [
        sampler_program("fsgld", task.name, function, fsgld(LANGEVIN_STEP)),
        sampler_program("fsghmc", task.name, function, fsghmc(HAMILTONIAN_STEP)),
        sampler_program("sgld", task.name, parameter, sgld(LANGEVIN_STEP)),
        sampler_program("sghmc", task.name, parameter, sghmc(HAMILTONIAN_STEP)),
        sampler_program("bare-gradient", task.name, function, bare),
        sampler_program("bare-gradient-parameter", task.name, parameter, bare),
    ]
    if task.name != "1-d":
        return ours
    ours.append(sampler_program(f"fsgld-{MANY_CHAINS}-chains", task.name, function, fsgld(LANGEVIN_STEP), MANY_CHAINS))
    ours += [
        _fitted("bbb", task.name, parameter, variational.bbb()),
        _fitted("fbnn", task.name, function, variational.fbnn()),
        _fitted("ifbnn", task.name, function, variational.ifbnn()),
    ]
    ours += [_blackjax("blackjax-fsgld", task.name, function), _blackjax("blackjax-loop", task.name, function)]
    if peers:
        from peers import peer_programs  # in this folder

        ours += [Program(name, task.name, run) for name, run in peer_programs(function, LANGEVIN_STEP)]
    return ours


def sampler_program(name: str, task: str, posterior: Posterior, sampler: Sampler, chains: int = 1) -> Program:
    """The program that `sample` runs; a step of several chains counts as one iteration of each."""
    keys = chain_keys(fast_key(jax.random.key(0)), chains)
    positions = jnp.stack([posterior.init(key) for key in keys])
    states = _loop.start(_loop.start_keys(keys), posterior, sampler, positions)

    def run(steps: int) -> None:
        lengths, keeps, count = np.full(1, steps, np.int32), np.ones(1, bool), np.int32(1)
        jax.block_until_ready(_loop.run_steps(keys, posterior, sampler, _first, states, lengths, keeps, count))

    return Program(name, task, run, chains)


def _fitted(name: str, task: str, posterior: Posterior, method: variational.Approximation) -> Program:
    """The program that `fit` runs, with the method's default settings."""
    keys, rate = chain_keys(fast_key(jax.random.key(0)), 1), as_schedule(1e-8, "learning_rate")
    state = start(keys[0], posterior, method)

    def run(steps: int) -> None:
        jax.block_until_ready(train(keys, state, posterior, method, rate, np.int32(steps)))

    return Program(name, task, run)


def _first(target: Any, w: Any) -> Any:
    del target
    return w[0]


class BareGradient(Langevin):
    """The gradient alone, in the loop of the samplers."""

    def step(self, key: jax.Array, state: LangevinState, potential: Potential) -> LangevinState:
        """Add a tiny multiple of the gradient; otherwise the compiler would compute a constant gradient only once."""
        _, gradient = potential(key, state.position)
        return LangevinState(state.position + 1e-12 * gradient, state.step + 1, state.energy)


def _blackjax(name: str, task: str, posterior: Posterior) -> Program:
    """blackjax's SGLD on the same potential with JAX's default keys, as a scan or a Python loop of jitted steps."""
    import blackjax

    key, w = jax.random.key(0), posterior.init(jax.random.key(1))

    def step(posterior: Posterior, key: jax.Array, w: jax.Array) -> jax.Array:
        noise_key, gradient_key = jax.random.split(key)
        sampler = blackjax.sgld(lambda w, minibatch: -posterior.potential(minibatch, w)[1])
        return sampler.step(noise_key, w, gradient_key, LANGEVIN_STEP)

    one_step = eqx.filter_jit(step)

    @eqx.filter_jit
    def scan(posterior: Posterior, w: jax.Array, steps: Any) -> jax.Array:
        return jax.lax.fori_loop(0, steps, lambda t, w: step(posterior, jax.random.fold_in(key, t), w), w)

    def loop(steps: int) -> None:
        position = w
        for step_key in jax.random.split(key, steps):
            position = one_step(posterior, step_key, position)
        position.block_until_ready()

    if name == "blackjax-loop":
        return Program(name, task, loop)
    return Program(name, task, lambda steps: jax.block_until_ready(scan(posterior, w, np.int32(steps))))


def measure(timed: list[Program], repeats: int, report: Callable[[str], None] = lambda _: None) -> list[dict[str, Any]]:
    """Compile all programs, then run them in turns; returns medians and interquartile ranges."""
    steps = []
    for program in timed:
        report(f"compiling {program.task} {program.name}")
        program.run(2)
        began = time.perf_counter()
        program.run(20)
        steps.append(max(20, int(20 * SECONDS_PER_MEASUREMENT / (time.perf_counter() - began))))
    times: list[list[float]] = [[] for _ in timed]
    for repeat in range(repeats):
        report(f"measuring, round {repeat + 1} of {repeats}")
        for program, count, seconds in zip(timed, steps, times, strict=True):
            began = time.perf_counter()
            program.run(count)
            seconds.append(1e6 * (time.perf_counter() - began) / count / program.iterations_per_step)
    medians = {(p.task, p.name): statistics.median(seconds) for p, seconds in zip(timed, times, strict=True)}
    return [
        {
            "name": program.name,
            "task": program.task,
            "microseconds_per_iteration": medians[program.task, program.name],
            "spread": float(np.subtract(*np.percentile(seconds, [75, 25]))),
            "ratio_to_ours": medians[program.task, program.name] / medians[program.task, "fsgld"],
        }
        for program, seconds in zip(timed, times, strict=True)
    ]


FIRST_SAMPLE = """
import time
began = time.perf_counter(); import jax; jax_seconds = time.perf_counter() - began
began = time.perf_counter(); import fsgmcmc; own_seconds = time.perf_counter() - began
from fsgmcmc import *; all_seconds = time.perf_counter() - began
from fsgmcmc.experiments.extrapolation.config import Config
from fsgmcmc.experiments.extrapolation.run import first_sample
first_sample(Config())
print(jax_seconds, own_seconds, all_seconds)
"""


def startup() -> dict[str, float]:
    """Seconds of the import (alone and with every public name), and from the start of Python to the first sample."""
    began = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", FIRST_SAMPLE], capture_output=True, text=True, check=True)
    seconds = time.perf_counter() - began
    jax_seconds, own_seconds, all_seconds = map(float, done.stdout.split())
    return {
        "import_jax_seconds": jax_seconds,
        "import_fsgmcmc_seconds": jax_seconds + own_seconds,
        "import_every_name_seconds": jax_seconds + all_seconds,
        "first_sample_seconds": seconds,
    }


def machine() -> dict[str, Any]:
    """The machine and the versions behind the numbers."""
    return {
        "cores": os.cpu_count(),
        "processor": platform.processor() or platform.machine(),
        "python": platform.python_version(),
        "jax": jax.__version__,
        "backend": jax.default_backend(),
    }


def run(repeats: int = 25, peers: bool = False, report: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
    """Measure all tasks."""
    tasks = (extrapolation_task(), yacht_task(), minibatch_task())
    timed = [program for task in tasks for program in programs(task, peers)]
    records = measure(timed, repeats, report)
    report("measuring the start of a process")
    return {"records": records, "startup": startup(), "machine": machine()}


def table(document: dict[str, Any]) -> list[list[str]]:
    """The records as rows of text, with a header."""
    rows = [
        [
            record["task"],
            record["name"],
            f"{record['microseconds_per_iteration']:.0f}",
            f"{record['spread']:.0f}",
            f"{record['ratio_to_ours']:.2f}",
        ]
        for record in document["records"]
    ]
    return [["task", "name", "µs / iteration", "spread", "ratio to fsgld"], *rows]


def write(document: dict[str, Any], path: Path) -> None:
    """Write the document as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=2) + "\n")
