"""Calls of the compiled loop: progress, draws, the check for divergence and the checkpoint happen between them."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Key

from fsgmcmc._progress import Progress
from fsgmcmc.errors import DivergedChainError
from fsgmcmc.inference import _chunking, _loop
from fsgmcmc.inference._checkpoint import Checkpoint, Run
from fsgmcmc.posterior.streaming import Feeder
from fsgmcmc.posterior.target import Target


def run_chains(
    run: Run,
    keys: Key[Array, " chains"],
    target: Target,
    kept: Callable[[Target, Any], Any],
    kept_steps: Callable[[], Iterator[int]],
    draws: int,
    store: Checkpoint,
    bar: Progress,
    feeder: Feeder | None,
) -> None:
    """Run the chains, in place, until they have their draws."""
    slots = _loop.buffer_slots(target, kept, run.origin.shape[1], len(keys))
    limit = np.asarray(target.energy_limit(_loop.start(_loop.start_keys(keys), target, run.sampler, run.origin).energy))

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
            _loop.run_steps(keys, target, run.sampler, kept, states, lengths, keeps, np.int32(len(plan)), feed)
        )
        return states, leaves, np.asarray(energy), lengths, time.monotonic()

    def plan_from(steps: int, done: int, most_steps: int) -> list[tuple[int, bool]]:
        return _loop.intervals(steps, islice(kept_steps(), done, draws), most_steps, slots)

    # No steps, to compile: so that the time taken afterwards is that of the steps.
    call(run.states, run.steps, [])
    # A feeder decides the steps of its calls; other calls take about half a second.
    steps_per_call, began = _chunking.FIRST_CALL_STEPS if feeder is None else feeder.steps, time.monotonic()
    plan = plan_from(run.steps, run.draws, steps_per_call)
    # One thread keeps the device busy; this one moves the draws of the call before to the host.
    with ThreadPoolExecutor(1) as device:
        waiting = device.submit(call, run.states, run.steps, plan)
        while plan:
            states, leaves, energy, lengths, ended = waiting.result()
            elapsed, began = ended - began, ended
            if feeder is None:
                steps_per_call = _chunking.next_steps(steps_per_call, elapsed)
            chosen = [slot for slot, (_, keeps) in enumerate(plan) if keeps]
            reached = run.steps + int(lengths.sum())
            plan = plan_from(reached, run.draws + len(chosen), steps_per_call)
            if plan:
                waiting = device.submit(call, states, reached, plan)
            _check_divergence(run, np.asarray(_loop.finite_chains(states)), energy <= limit[:, None], lengths)
            host = [np.asarray(leaf)[:, chosen] for leaf in jax.tree.leaves(leaves)]
            run.add(states, int(lengths.sum()), host, energy[:, chosen], elapsed)
            bar.show(
                "sampling" if run.draws else "burn-in", run.steps, target.throughput(lengths.sum() / elapsed, len(keys))
            )
            store.write(run.contents)


def _check_divergence(run: Run, finite: np.ndarray, low: np.ndarray, lengths: np.ndarray) -> None:
    """Chains must be finite, and have `low` energy (chains, slots) after every interval."""
    used = np.flatnonzero(lengths)
    healthy = finite & low[:, used].all(axis=1)
    if healthy.all():
        return
    chain = int(np.argmin(healthy))
    last = next((slot for slot in used if not low[chain, slot]), used[-1])
    step = run.steps + int(lengths[: last + 1].sum())
    raise DivergedChainError(chain, step, float(run.sampler.step_size(step)))
