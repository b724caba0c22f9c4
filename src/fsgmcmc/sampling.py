"""`sample`: many chains of a sampler on a posterior.

A compiled program advances all chains by some steps; Python calls it again and again, and between the calls shows the
progress, moves the kept draws to the host, looks for diverged chains and writes the checkpoint. The key of chain c
at step t is fold_in(fold_in(key, c), t): how the steps are cut into calls changes nothing.
"""

import contextlib
import math
import warnings
from collections.abc import Callable, Iterator
from itertools import count, islice
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Float, PRNGKeyArray

from fsgmcmc import _chains, _checks, _storage
from fsgmcmc._checkpoint import Checkpoint, Run, fingerprint, restored_tree
from fsgmcmc._descent import Descent
from fsgmcmc._progress import Progress
from fsgmcmc._ravel import Ravel
from fsgmcmc._run import DivergenceError, advance, rate
from fsgmcmc.posterior import Posterior
from fsgmcmc.random import generator_key
from fsgmcmc.samplers.base import Sampler, Target
from fsgmcmc.samplers.schedules import Phases
from fsgmcmc.samples import Samples
from fsgmcmc.streaming import Feeder
from fsgmcmc.warm_up import BACK_OFF_FACTOR, WarmUp, warm_up as run_warm_up


def sample(
    key: PRNGKeyArray | int,
    target: Any,
    sampler: Sampler,
    *,
    draws: int = 100,
    thinning: int = 10,
    burn_in: int = 1000,
    chains: int = 4,
    warm_up: WarmUp | None = WarmUp(),  # noqa: B008 (immutable)
    init: Any = None,
    collect: Callable[[Any], Any] | None = None,
    checkpoint: str | Path | None = None,
    checkpoint_seconds: float = 30.0,
    back_off: int = 2,
    generator: str | None = None,
    progress: bool = True,
    keep_interrupted: bool = False,
) -> Samples:
    """Run chains and keep every `thinning`-th state after the burn-in.

    Args:
        key: A JAX key or an integer seed; it fixes the result.
        target: A posterior, or anything with `init(key)` and `potential(key, w)` that is a pytree.
        sampler: What moves the chains, such as `fsgld()` or `fsghmc()`.
        draws: Draws to keep from each chain.
        thinning: Steps between two draws.
        burn_in: Steps before the first interval.
        chains: Chains, run together and spread over the devices.
        warm_up: How to find a good region and a stable step; None starts at once.
        init: Where chains start: a vector (k,) or one per chain (chains, k). By default the network's own starts.
        collect: A function of the parameters (`Position` for a posterior, w otherwise) whose value is kept instead
            of them, such as `functions_at(posterior, x)`.
        checkpoint: A file from which an interrupted run continues, bit for bit. A finished run can be given more
            `draws` later. Everything else must stay the same.
        checkpoint_seconds: How often it is written.
        back_off: How many times to start over with half the step when a chain diverges.
        generator: `"fast"` draws all randomness from `fsgmcmc.random`, `"jax"` from the generator of `key`. By default
            fast on a CPU, where noise is the larger part of the cost, and JAX's own on accelerators.
        progress: Show a progress bar where there is a terminal.
        keep_interrupted: End with the draws there are when Ctrl-C is pressed, `info["interrupted"]` then being true,
            instead of raising `KeyboardInterrupt`; it is raised still where there is no draw yet.

    Example:
        >>> from fsgmcmc import MLP, Gaussian, parameter_space, sgld
        >>> x = np.linspace(-1, 1, 20)
        >>> posterior = parameter_space(MLP((5,)), x, np.sin(x), likelihood=Gaussian(0.1))
        >>> samples = sample(0, posterior, sgld(), draws=10, burn_in=50, chains=2)
        >>> samples.predict(x).mean.shape
        (20, 1)
    """
    check_match(target, sampler)
    draws, thinning, chains = (
        _checks.count(value, name) for value, name in ((draws, "draws"), (thinning, "thinning"), (chains, "chains"))
    )
    burn_in, back_off = _checks.count(burn_in, "burn_in", least=0), _checks.count(back_off, "back_off", least=0)
    kept_steps = _kept_steps(sampler, burn_in, thinning)
    start_key, warm_key, run_key = jax.random.split(generator_key(_checks.as_key(key), generator), 3)
    keys = _chains.chain_keys(run_key, chains)
    positions = _starts(start_key, target, init, chains)
    if not isinstance(warm_up, WarmUp | None):
        raise TypeError(f"warm_up must be WarmUp(...) or None, not {warm_up!r}")
    if warm_up is None and sampler.step_size.initial is None:
        warm_up = WarmUp(adam_steps=0, blocks=0)
    kept = _what_is_kept(target, collect)
    form = jax.eval_shape(kept, positions[0])
    settings = {"thinning": thinning, "burn_in": burn_in, "chains": chains, "warm_up": warm_up, "kept": form}
    mark = ""
    if checkpoint is not None:
        mark = fingerprint((run_key, target, sampler, positions, _host_data(target), kept), settings)
    store = Checkpoint(checkpoint, checkpoint_seconds, mark)
    target = _over_devices(target, chains)

    def started(sampler: Sampler, origin: Float[Array, "chains k"], back_offs: int = 0) -> Run:
        return Run(sampler, origin, _chains.start(keys, target, sampler, origin), back_offs=back_offs)

    with Progress(progress, next(islice(kept_steps(), draws - 1, draws))) as bar:
        found = store.read()
        if found is not None and "origin" in found[0]:
            run = Run.restored(*found, sampler, lambda sampler: _chains.start(keys, target, sampler, positions))
        else:
            if warm_up is not None:
                descent = Descent.at(positions)
                if found is not None:
                    descent = restored_tree("descent", found[0], descent)
                last = warm_up.adam_steps

                def kept_descent() -> tuple[dict[str, np.ndarray], dict[str, Any]]:
                    return _storage.numbered("descent", jax.tree.leaves(descent)), {"draws": 0}

                def watch(now: Descent, steps_per_second: float) -> None:
                    nonlocal descent
                    descent = now
                    bar.show("warm-up", now.steps, rate(target, steps_per_second, keys), of=last)
                    store.write(kept_descent, now=now.steps == last)

                bar.show("warm-up", descent.steps, of=last)
                resident = _resident(target, warm_key)
                try:
                    sampler, positions = run_warm_up(warm_key, resident, sampler, positions, warm_up, descent, watch)
                except KeyboardInterrupt:
                    store.write(kept_descent, now=True)
                    raise
            run = started(sampler, positions)
            store.write(run.contents, now=True)  # a killed run does not warm up again
        while True:
            try:
                with _feeder(target, run_key, chains) as feeder:
                    advance(run, keys, target, kept, kept_steps, draws, store, bar, feeder)
                break
            except DivergenceError as error:
                if run.back_offs >= back_off:
                    raise
                warnings.warn(f"{error.what}; starting over with half the step", UserWarning, stacklevel=2)
                run = started(run.sampler.slowed(BACK_OFF_FACTOR), run.origin, run.back_offs + 1)
            except KeyboardInterrupt:
                if not (keep_interrupted and run.draws):
                    raise
                break
            finally:
                store.write(run.contents, now=True)
    info = {"burn_in": burn_in, "thinning": thinning, "iterations": run.steps, "seconds": run.seconds}
    return _samples(run, target, collect, draws, info | {"interrupted": run.draws < draws})


def _over_devices(target: Target, chains: int) -> Target:
    """Where chains cannot be shared out to the devices, the rows of a gradient are."""
    devices = jax.devices()
    if not isinstance(target, Posterior) or len(devices) == 1 or len(_chains.devices_for(chains)) > 1:
        return target
    return target.over(Mesh(np.array(devices), ("rows",)))


def _host_data(target: Target) -> tuple[np.ndarray, ...]:
    if not isinstance(target, Posterior) or target.source is None:
        return ()
    return target.source.x, target.source.y


def _feeder(target: Target, key: PRNGKeyArray, chains: int) -> contextlib.AbstractContextManager[Feeder | None]:
    if not isinstance(target, Posterior) or target.source is None:
        return contextlib.nullcontext()
    return Feeder(target.source, target.rows_per_step, _number(key), chains)


def _resident(target: Target, key: PRNGKeyArray) -> Target:
    """The target, or where its data stay on the host one whose data lie on the device."""
    if not isinstance(target, Posterior) or target.source is None:
        return target
    return target.resident(_number(key))


def _number(key: PRNGKeyArray) -> int:
    return int(jax.random.bits(key))


def _kept_steps(sampler: Sampler, burn_in: int, thinning: int) -> Callable[[], Iterator[int]]:
    """The steps after which draws are kept, in order and without end."""
    phases = sampler.temperature
    if isinstance(phases, Phases):
        period = range(burn_in + thinning, burn_in + math.lcm(thinning, phases.length) + 1, thinning)
        if not any(sampler.samples_at(step) for step in period):
            raise ValueError(
                f"with thinning={thinning} and burn_in={burn_in} no draw falls into a sampling phase of the cycles of "
                f"{phases.length} steps; let thinning divide the cycle and burn_in be a multiple of it"
            )
        return lambda: (step for step in count(burn_in + thinning, thinning) if sampler.samples_at(step))
    return lambda: count(burn_in + thinning, thinning)


def _starts(key: PRNGKeyArray, target: Target, init: Any, chains: int) -> Float[Array, "chains k"]:
    if init is None:
        # A program of its own: networks that differ only in where they start would share another.
        start = eqx.filter_jit(lambda target, key: target.init(key))
        return jnp.stack([start(target, chain_key) for chain_key in _chains.chain_keys(key, chains)])
    positions = _checks.finite(init, "init")
    size = jax.eval_shape(target.init, key).shape[0]
    if positions.shape not in ((size,), (chains, size)):
        raise ValueError(f"init must have shape ({size},) or ({chains}, {size}), got {positions.shape}")
    return jnp.broadcast_to(positions, (chains, size))


def check_match(target: Any, sampler: Sampler) -> None:
    """Refuse samplers that cannot sample this target, before anything is compiled."""
    if not isinstance(sampler, Sampler):
        raise TypeError(f"sampler must be one of fsgmcmc's, such as fsgld(), not {type(sampler).__name__}")
    if not isinstance(target, Target):
        raise TypeError(f"target must be a posterior or have init and potential, not {type(target).__name__}")
    if not isinstance(target, Posterior):
        return
    if sampler.preconditioner is not None and sampler.preconditioner.shape != (target.size,):
        raise ValueError(f"the preconditioner has shape {sampler.preconditioner.shape}, not ({target.size},)")
    if sampler.space == "function" and not target.functional:
        raise ValueError(
            "this sampler is for function space, but the posterior has only a weight prior: use sgld or sghmc"
        )
    if sampler.space == "parameter" and target.functional:
        raise ValueError(
            "this sampler is for parameter space, but the posterior has a functional prior: use fsgld or fsghmc"
        )
    if sampler.needs_deterministic and not target.is_deterministic:
        raise ValueError(
            "a Metropolis-corrected sampler needs the same potential at every step: "
            "leave batch_size out and use a fixed set of measurement points"
        )


class _Kept(eqx.Module):
    """What is kept of w; a module, so that arrays in `collect` are arguments of a program and not constants in it."""

    collect: Callable[[Any], Any] | None
    ravel: Ravel | None = eqx.field(static=True)

    def __call__(self, w: Any) -> Any:
        if self.collect is None:
            return w
        return self.collect(w if self.ravel is None else self.ravel.unravel(w))


def _what_is_kept(target: Any, collect: Callable[[Any], Any] | None) -> _Kept:
    return _Kept(collect, target.ravel if isinstance(target, Posterior) else None)


def _samples(run: Run, target: Any, collect: Callable | None, draws: int, info: dict[str, Any]) -> Samples:
    leaves, energy = run.stacked()
    leaves, energy = [leaf[:, :draws] for leaf in leaves], energy[:, :draws]
    info |= {"sampler": type(run.sampler).__name__, "step_size": run.sampler.initial_step}
    positions, collected = (leaves[0], None) if collect is None else (None, None)
    if collect is not None:
        structure = jax.tree.structure(jax.eval_shape(_what_is_kept(target, collect), run.origin[0]))
        collected = jax.tree.unflatten(structure, leaves)
    if not isinstance(target, Posterior):
        return Samples(positions, energy, collected, info=info)
    return Samples.of_posterior(target, positions, energy, collected, info)
