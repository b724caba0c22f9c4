"""`sample`: many chains of a sampler on a posterior.

A compiled program runs some steps of all chains; Python calls it again and again, and between the calls shows the
progress, moves the kept draws to the host, looks for diverged chains and writes the checkpoint. The key of chain c
at step t is fold_in(fold_in(key, c), t): how the steps are cut into calls changes nothing.
"""

import math
import warnings
from collections.abc import Callable, Iterator
from itertools import count, islice
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Float, PRNGKeyArray

from fsgmcmc import _checks, _storage
from fsgmcmc._compile import jit_once
from fsgmcmc._progress import Progress
from fsgmcmc.errors import DivergedChainError, DivergenceError
from fsgmcmc.inference import _loop
from fsgmcmc.inference._adam import AdamState
from fsgmcmc.inference._checkpoint import Checkpoint, Run, fingerprint, restored_tree
from fsgmcmc.inference._devices import chain_keys, devices_for
from fsgmcmc.inference._driver import run_chains
from fsgmcmc.inference.warm_up import BACK_OFF_FACTOR, WarmUp, warm_up as run_warm_up
from fsgmcmc.posterior.target import Energy, Target
from fsgmcmc.random import generator_key
from fsgmcmc.samplers.base import Sampler
from fsgmcmc.samplers.schedules import CyclicTemperature
from fsgmcmc.samples import Samples


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
        target: A posterior, an `Energy`, or a `Target` of your own.
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
    keys = chain_keys(run_key, chains)
    _check_target(target, start_key)
    positions = _starts(start_key, target, init, chains)
    _check_states(target, sampler, positions[0])
    initial = positions
    if not isinstance(warm_up, WarmUp | None):
        raise TypeError(f"warm_up must be WarmUp(...) or None, not {warm_up!r}")
    if warm_up is None and sampler.step_size.initial is None:
        warm_up = WarmUp(adam_steps=0, blocks=0)
    kept = _loop.Kept(collect)
    form = jax.eval_shape(lambda w: kept(target, w), positions[0])
    settings = {"thinning": thinning, "burn_in": burn_in, "chains": chains, "warm_up": warm_up, "kept": form}
    mark = ""
    if checkpoint is not None:
        mark = fingerprint((run_key, target, sampler, positions, target.host_arrays(), kept), settings)
    store = Checkpoint(checkpoint, checkpoint_seconds, mark)
    target = _shared_by_devices(target, chains)

    def started(sampler: Sampler, origin: Float[Array, "chains k"], back_offs: int = 0) -> Run:
        states = _loop.start(_loop.start_keys(keys), target, sampler, origin)
        return Run(sampler, origin, states, back_offs=back_offs)

    with Progress(progress, next(islice(kept_steps(), draws - 1, draws))) as bar:
        found = store.read()
        if found is not None and "origin" in found[0]:
            run = Run.restored(*found, sampler, lambda sampler: _loop.states_at(keys, target, sampler, positions))
        else:
            if warm_up is not None:
                adam = AdamState.at(positions)
                if found is not None:
                    adam = restored_tree("adam", found[0], adam)
                last = warm_up.adam_steps

                def adam_contents() -> tuple[dict[str, np.ndarray], dict[str, Any]]:
                    return _storage.numbered("adam", jax.tree.leaves(adam)), {"draws": 0}

                def watch(now: AdamState, steps_per_second: float) -> None:
                    nonlocal adam
                    adam = now
                    bar.show("warm-up", now.steps, target.throughput(steps_per_second, chains), of=last)
                    store.write(adam_contents, now=now.steps == last)

                bar.show("warm-up", adam.steps, of=last)
                on_device = target.device_subset(warm_key)
                try:
                    sampler, positions = run_warm_up(
                        warm_key, on_device, sampler, positions, warm_up, adam, watch, kept
                    )
                except KeyboardInterrupt:
                    store.write(adam_contents, now=True)
                    raise
                except DivergenceError as error:
                    _check_finite(on_device, initial, error)
                    raise
            run = started(sampler, positions)
            store.write(run.contents, now=True)  # a killed run does not warm up again
        while True:
            try:
                with target.feeder(run_key, chains) as feeder:
                    run_chains(run, keys, target, kept, kept_steps, draws, store, bar, feeder)
                break
            except DivergedChainError as error:
                if run.back_offs >= back_off:
                    _check_finite(target.device_subset(warm_key), initial, error)
                    raise
                warnings.warn(f"{error.summary}; starting over with half the step", UserWarning, stacklevel=2)
                run = started(run.sampler.with_scaled_step(BACK_OFF_FACTOR), run.origin, run.back_offs + 1)
            except KeyboardInterrupt:
                if not (keep_interrupted and run.draws):
                    raise
                break
            finally:
                store.write(run.contents, now=True)
    info = {"burn_in": burn_in, "thinning": thinning, "iterations": run.steps, "seconds": run.seconds}
    return _samples(run, target, kept, draws, info | {"interrupted": run.draws < draws})


def _shared_by_devices(target: Target, chains: int) -> Target:
    """Where the chains do not divide evenly across devices, the rows of a gradient do."""
    devices = jax.devices()
    if len(devices) == 1 or len(devices_for(chains)) > 1:
        return target
    return target.shard_rows(Mesh(np.array(devices), ("rows",)))


def _kept_steps(sampler: Sampler, burn_in: int, thinning: int) -> Callable[[], Iterator[int]]:
    """The steps after which draws are kept, in order and without end."""
    phases = sampler.temperature
    if isinstance(phases, CyclicTemperature):
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
        return jnp.stack([_init(target, chain_key) for chain_key in chain_keys(key, chains)])
    positions = _checks.finite(init, "init")
    size = jax.eval_shape(target.init, key).shape[0]
    if positions.shape not in ((size,), (chains, size)):
        raise ValueError(f"init must have shape ({size},) or ({chains}, {size}), got {positions.shape}")
    return jnp.broadcast_to(positions, (chains, size))


@jit_once
def _init(target: Target, key: PRNGKeyArray) -> Float[Array, " k"]:
    return target.init(key)


def check_match(target: Any, sampler: Any) -> None:
    """Refuse samplers that cannot sample this target, before anything is compiled."""
    if not isinstance(sampler, Sampler):
        raise TypeError(f"sampler must be a Sampler, such as fsgld(), not {type(sampler).__name__}")
    if not isinstance(target, Target):
        raise TypeError(
            f"target must be a posterior, an Energy or your own subclass of Target, not {type(target).__name__}"
        )
    target.check_sampler(sampler)
    if sampler.step_size.initial is None and type(sampler).stable_step is Sampler.stable_step:
        raise ValueError(
            f"{type(sampler).__name__} has no rule for its step size: give a step_size, or define "
            "stable_step(curvature, size)"
        )


def _check_target(target: Target, key: PRNGKeyArray) -> None:
    """A target of the user's own must start at a vector and have one energy and its gradient there."""
    if type(target).__module__.startswith("fsgmcmc.") and not isinstance(target, Energy):
        return
    name, contract = type(target).__name__, "docs/own-sampler.md has the contract"
    w = jax.eval_shape(target.init, key)
    if not hasattr(w, "shape") or len(w.shape) != 1 or not jnp.issubdtype(w.dtype, jnp.floating):
        raise TypeError(f"init of {name} must return a vector of floats (k,), not {w}; {contract}")
    try:
        energy, gradient = jax.eval_shape(target.potential, key, w)
        shapes = energy.shape, gradient.shape
    except (TypeError, ValueError, AttributeError) as error:
        raise TypeError(f"potential of {name} must return the energy and its gradient: {error}; {contract}") from error
    if shapes != ((), w.shape):
        raise TypeError(
            f"potential of {name} must return one energy () and a gradient {w.shape}, not shapes {shapes[0]} and "
            f"{shapes[1]}; {contract}"
        )


def _check_states(target: Target, sampler: Sampler, position: Float[Array, " k"]) -> None:
    """A sampler of the user's own must keep the form of its state, with the fields that the loop reads."""
    if type(sampler).__module__.startswith("fsgmcmc."):
        return
    name, key = type(sampler).__name__, jax.random.key(0)
    # The step size may be unknown yet.
    sampler = sampler.with_step(1.0)
    state = jax.eval_shape(lambda w: sampler.init(key, w, target.potential), position)
    missing = [field for field in ("position", "step", "energy") if not hasattr(state, field)]
    if missing:
        raise TypeError(f"the state of {name} lacks {', '.join(missing)}; docs/own-sampler.md has the contract")
    after = jax.eval_shape(lambda state: sampler.step(key, state, target.potential), state)
    forms = [
        (jax.tree.structure(each), [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(each)])
        for each in (state, after)
    ]
    if forms[0] != forms[1]:
        raise TypeError(f"step of {name} returns {after}, which is not of the form of its state, {state}")
    if state.position.shape != position.shape or state.energy.shape or state.step.shape:
        raise TypeError(f"the state of {name} must have a position {position.shape} and one step and energy: {state}")
    first = sampler.init(key, position, target.potential)
    if int(sampler.step(key, first, target.potential).step) != int(first.step) + 1:
        raise ValueError(f"step of {name} must count: its state has step + 1 afterwards")


def _check_finite(target: Target, positions: Float[Array, "chains k"], error: DivergenceError) -> None:
    """A potential that is not finite at the start is not a matter of the step size."""
    energies = [float(target.potential(jax.random.key(0), w)[0]) for w in positions]
    if not np.isfinite(energies).all():
        raise ValueError(
            f"the potential is {energies[int(np.argmin(np.isfinite(energies)))]} where a chain starts: the network, "
            "log_prob or log_prior is not finite there"
        ) from error


def _samples(run: Run, target: Target, kept: _loop.Kept, draws: int, info: dict[str, Any]) -> Samples:
    leaves, energy = run.stacked()
    leaves, energy = [leaf[:, :draws] for leaf in leaves], energy[:, :draws]
    info |= {"sampler": type(run.sampler).__name__, "step_size": run.sampler.initial_step}
    if kept.collect is None:
        return target.samples(leaves[0], energy, None, info)
    structure = jax.tree.structure(jax.eval_shape(lambda w: kept(target, w), run.origin[0]))
    return target.samples(None, energy, jax.tree.unflatten(structure, leaves), info)
