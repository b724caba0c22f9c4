"""A run advanced call by call: progress, draws, judgement and checkpoint between the calls."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Key

from fsgmcmc import _chains, _pace
from fsgmcmc._checkpoint import Checkpoint, Run
from fsgmcmc._progress import Progress
from fsgmcmc.posterior import Posterior
from fsgmcmc.samplers.base import Target
from fsgmcmc.streaming import Feeder
from fsgmcmc.warm_up import BACK_OFF_FACTOR


class DivergenceError(RuntimeError):
    """A chain turned non-finite, or its energy rose beyond all reason.

    Attributes:
        chain: Which one.
        step: By which step.
        step_size: The step size there.
    """

    def __init__(self, chain: int, step: int, step_size: float) -> None:
        self.chain, self.step, self.step_size = chain, step, step_size
        self.what = f"chain {chain} diverged by step {step} with step size {step_size:.3g}"
        super().__init__(
            f"{self.what}; try step_size={BACK_OFF_FACTOR * step_size:.2g}, or leave it out to have it measured"
        )


def advance(
    run: Run,
    keys: Key[Array, " chains"],
    target: Target,
    kept: Callable[[Any], Any],
    kept_steps: Callable[[], Iterator[int]],
    draws: int,
    store: Checkpoint,
    bar: Progress,
    feeder: Feeder | None,
) -> None:
    """Advance the run, in place, until it has its draws."""
    slots = _chains.buffer_slots(kept, run.origin.shape[1], len(keys))
    highest = np.asarray(_chains.highest_energy(target, _chains.start(keys, target, run.sampler, run.origin).energy))

    def call(states: Any, first: int, plan: list[tuple[int, bool]]) -> tuple:
        lengths = np.zeros(slots, np.int32)
        keeps = np.zeros(slots, bool)
        for slot, planned in enumerate(plan):
            lengths[slot], keeps[slot] = planned
        feed = None
        if feeder is not None:
            feed = feeder.take(first)
            feeder.prepare(first + int(lengths.sum()))
        states, leaves, energy = jax.block_until_ready(
            _chains.advance(keys, target, run.sampler, kept, states, lengths, keeps, np.int32(len(plan)), feed)
        )
        return states, leaves, np.asarray(energy), lengths, time.monotonic()

    def plan_from(steps: int, done: int, most_steps: int) -> list[tuple[int, bool]]:
        return _chains.intervals(steps, islice(kept_steps(), done, draws), most_steps, slots)

    # No steps, to compile: so that the time taken afterwards is that of the steps.
    call(run.states, run.steps, [])
    # Calls of steps that are fed have as many as the feeder brings; the others take about half a second.
    steps_per_call, began = _pace.FIRST_CALL_STEPS if feeder is None else feeder.steps, time.monotonic()
    plan = plan_from(run.steps, run.draws, steps_per_call)
    # One thread keeps the device busy; this one moves the draws of the call before to the host.
    with ThreadPoolExecutor(1) as device:
        waiting = device.submit(call, run.states, run.steps, plan)
        while plan:
            states, leaves, energy, lengths, ended = waiting.result()
            elapsed, began = ended - began, ended
            if feeder is None:
                steps_per_call = _pace.paced(steps_per_call, elapsed)
            chosen = [slot for slot, (_, keeps) in enumerate(plan) if keeps]
            reached = run.steps + int(lengths.sum())
            plan = plan_from(reached, run.draws + len(chosen), steps_per_call)
            if plan:
                waiting = device.submit(call, states, reached, plan)
            _check_sound(run, np.asarray(_chains.finite_chains(states)), energy <= highest[:, None], lengths)
            host = [np.asarray(leaf)[:, chosen] for leaf in jax.tree.leaves(leaves)]
            run.add(states, int(lengths.sum()), host, energy[:, chosen], elapsed)
            bar.show("sampling" if run.draws else "burn-in", run.steps, rate(target, lengths.sum() / elapsed, keys))
            store.write(run.contents)


def rate(target: Target, steps_per_second: float, keys: Key[Array, " chains"]) -> str:
    """Steps a second, and where rows are pictures how many of them all chains see."""
    if not isinstance(target, Posterior) or target.x.ndim == 2:
        return f"{steps_per_second:,.0f} steps/s"
    images = steps_per_second * len(keys) * target.rows_per_step
    return f"{steps_per_second:,.1f} steps/s, {images:,.0f} images/s"


def _check_sound(run: Run, finite: np.ndarray, low: np.ndarray, lengths: np.ndarray) -> None:
    """Chains must be finite, and `low` in energy (chains, slots) after every interval."""
    used = np.flatnonzero(lengths)
    sound = finite & low[:, used].all(axis=1)
    if sound.all():
        return
    chain = int(np.argmin(sound))
    last = next((slot for slot in used if not low[chain, slot]), used[-1])
    step = run.steps + int(lengths[: last + 1].sum())
    raise DivergenceError(chain, step, float(run.sampler.step_size(step)))
