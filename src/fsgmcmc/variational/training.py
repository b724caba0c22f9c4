"""`fit`: train a variational method, then draw from its q.

A compiled program takes several Adam steps, and Python calls it repeatedly. Between the calls it shows the progress,
extends the learning curve, checks for non-finite values and writes the checkpoint. The key of step t is
fold_in(key, t), so the number of steps per call does not change the result.
"""

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PRNGKeyArray

from fsgmcmc import _checks, _storage
from fsgmcmc._compile import jit_loop
from fsgmcmc._progress import Progress
from fsgmcmc.errors import DivergedFitError
from fsgmcmc.inference._checkpoint import Checkpoint, fingerprint, restored_tree
from fsgmcmc.posterior import Posterior, Streamed
from fsgmcmc.random import generator_key
from fsgmcmc.samplers.schedules import Schedule, as_schedule
from fsgmcmc.samples import Samples
from fsgmcmc.variational.base import Approximation, draw_positions

# Points of the learning curve; each is the mean loss over the steps of one call of the program.
CURVE = 200


class State(NamedTuple):
    """What is trained, the moments of Adam, and the number of steps taken."""

    trained: Any
    moments: Any
    step: Array


@dataclass
class Fit:
    """The state of a fit on the host, its duration and its learning curve."""

    state: State
    seconds: float = 0.0
    curve: list[float] = field(default_factory=list)

    @property
    def steps(self) -> int:
        """Steps taken."""
        return int(self.state.step[0])

    def contents(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """The fit as arrays and JSON, for a checkpoint."""
        return _storage.numbered("state", jax.tree.leaves(self.state)), {"seconds": self.seconds, "curve": self.curve}


def fit(
    key: PRNGKeyArray | int,
    posterior: Any,
    method: Any,
    *,
    steps: int = 10_000,
    learning_rate: Any = 1e-3,
    draws: int = 100,
    checkpoint: str | Path | None = None,
    checkpoint_seconds: float = 30.0,
    generator: str | None = None,
    progress: bool = True,
    keep_interrupted: bool = False,
) -> Samples:
    """Train a variational method with Adam, then draw from its q.

    Args:
        key: A JAX key or an integer seed; it fixes the result.
        posterior: The target: from `parameter_space` for `bbb`, from `function_space` for `fbnn` and `ifbnn`.
        method: `bbb()`, `fbnn()` or `ifbnn()`.
        steps: Gradient steps.
        learning_rate: Learning rate of Adam, a number or a schedule.
        draws: Independent draws of q to return, as one chain.
        checkpoint: A file from which an interrupted fit resumes, bit for bit.
        checkpoint_seconds: Seconds between two writes of the checkpoint.
        generator: As in `sample`.
        progress: Show a progress bar if there is a terminal.
        keep_interrupted: As in `sample`: after Ctrl-C, draw from the current q.

    Returns:
        Samples whose `energy` is Ũ at each draw and whose `info` has the learning curve: `loss`, the mean loss of each
        block of steps, and `loss_steps`, the last step of each block. Losses are −ELBO up to a constant, except for
        `fbnn`: its divergence has no closed form, and the loss is the expected misfit alone.

    Example:
        >>> from fsgmcmc import MLP, Gaussian, parameter_space
        >>> from fsgmcmc.variational import bbb, fit
        >>> x = np.linspace(-1, 1, 20)
        >>> posterior = parameter_space(MLP((5,)), x, np.sin(x), likelihood=Gaussian(0.1))
        >>> samples = fit(0, posterior, bbb(), steps=200, draws=10)
        >>> samples.predict(x).mean.shape
        (20, 1)
    """
    if not isinstance(posterior, Posterior):
        raise TypeError(f"posterior must be built by function_space or parameter_space, not {type(posterior).__name__}")
    if not isinstance(method, Approximation):
        raise TypeError(f"method must be bbb(), fbnn() or ifbnn(), not {type(method).__name__}")
    if isinstance(posterior.data, Streamed):
        raise ValueError("variational methods do not stream data: build the posterior without stream=True")
    method.check(posterior)
    steps, draws = _checks.count(steps, "steps"), _checks.count(draws, "draws")
    schedule = as_schedule(learning_rate, "learning_rate")
    if schedule.initial is None:
        raise ValueError("learning_rate must be a number or a schedule with an initial value")
    init_key, run_key, draw_key, energy_key = jax.random.split(generator_key(_checks.as_key(key), generator), 4)
    first = start(init_key, posterior, method)
    mark = fingerprint((first, run_key, posterior, method, schedule), {"steps": steps, "curve": CURVE})
    store = Checkpoint(checkpoint, checkpoint_seconds, mark)
    with Progress(progress, steps) as bar:
        found = store.read()
        if found is None:
            run = Fit(first)
        else:
            run = Fit(restored_tree("state", found[0], first), found[1]["seconds"], found[1]["curve"])
        try:
            _train_on(run, run_key[None], posterior, method, schedule, steps, store, bar)
        except KeyboardInterrupt:
            if not (keep_interrupted and run.steps):
                raise
        finally:
            store.write(run.contents, now=True)
    q = method.approximation(jax.tree.map(lambda leaf: leaf[0], run.state.trained))
    positions = jax.vmap(posterior.flattener.flatten)(draw_positions(draw_key, posterior, q, draws))
    energy = np.asarray(_energies(energy_key, posterior, positions))
    info = {"method": type(method).__name__, "iterations": run.steps, "seconds": run.seconds}
    info |= {"loss": run.curve, "loss_steps": _ends(steps)[: len(run.curve)], "learning_rate": float(schedule(0))}
    info["interrupted"] = run.steps < steps
    return posterior.samples(np.asarray(positions)[None], energy[None], None, info)


def _ends(steps: int) -> list[int]:
    """The last step of each call."""
    return sorted({steps * (index + 1) // CURVE for index in range(CURVE)} - {0})


def _train_on(
    run: Fit,
    keys: Key[Array, " one"],
    posterior: Posterior,
    method: Approximation,
    schedule: Schedule,
    steps: int,
    store: Checkpoint,
    bar: Progress,
) -> None:
    """Train to the last step; `run` changes in place."""
    train(keys, run.state, posterior, method, schedule, jnp.int32(0))  # zero steps: only compiles
    for end in _ends(steps):
        if end <= run.steps:
            continue
        count, began = end - run.steps, time.monotonic()
        state, loss = jax.block_until_ready(train(keys, run.state, posterior, method, schedule, jnp.int32(count)))
        elapsed = time.monotonic() - began
        if not (np.isfinite(np.asarray(loss)).all() and bool(_finite(state.trained))):
            raise DivergedFitError(end, float(schedule(end - 1)), float(schedule(0)))
        run.state, run.seconds, run.curve = state, run.seconds + elapsed, [*run.curve, float(loss[0]) / count]
        bar.show("training", end, f"loss {run.curve[-1]:,.4g}, {count / elapsed:,.0f} steps/s")
        store.write(run.contents)


def start(key: PRNGKeyArray, posterior: Posterior, method: Approximation) -> State:
    """The state before the first step, with a leading axis of length one for `jit_loop`.

    It is not compiled, because networks that differ only in their initial weights share compiled programs.
    """
    import optax

    trained = method.init(key, posterior)
    state = State(trained, optax.scale_by_adam().init(trained), jnp.int32(0))
    return jax.tree.map(lambda leaf: leaf[None], state)


@jit_loop
def train(
    keys: Key[Array, " one"], states: State, posterior: Posterior, method: Approximation, schedule: Schedule, count: Any
) -> tuple[State, Float[Array, " one"]]:
    """The state after `count` more steps, and the sum of their losses."""
    import optax

    adam = optax.scale_by_adam()
    key, state = keys[0], jax.tree.map(lambda leaf: leaf[0], states)

    def step(_: Any, carry: tuple[State, Array]) -> tuple[State, Array]:
        (trained, moments, t), total = carry
        loss, gradient = method.objective(jax.random.fold_in(key, t), posterior, trained)
        update, moments = adam.update(gradient, moments)
        rate = schedule(t)
        trained = jax.tree.map(lambda leaf, change: leaf - rate * change, trained, update)
        return State(trained, moments, t + 1), total + loss.astype(total.dtype)

    state, total = jax.lax.fori_loop(0, count, step, (state, jnp.float32(0)))
    return jax.tree.map(lambda leaf: leaf[None], state), total[None]


@jax.jit
def _finite(trained: Any) -> Array:
    return jnp.all(jnp.stack([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(trained)]))


@eqx.filter_jit
def _energies(key: PRNGKeyArray, posterior: Posterior, positions: Float[Array, "draws k"]) -> Float[Array, " draws"]:
    return jax.lax.map(lambda w: posterior.energy(key, w), positions)
