"""The warm-up: from a random start to a good region, with a preconditioner and a step that are then frozen.

    1. Adam minimises the potential of `target.for_optimisation()`: a posterior holds the parameters of its likelihood
       and has Gaussian noise there. Then `target.after_optimisation` raises the noise to the residuals.
    2. Optionally the diagonal of the curvature becomes a preconditioner.
    3. The largest curvature and the gradient's noise give the step of the sampler, by its own rule.
    4. The sampler itself runs in blocks; after each the curvature is measured again, and the step may only shrink. A
       block in which a chain diverges is run again with half the step.

All chains share the sampler that comes out: the step suits the stiffest of them.
"""

import warnings
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PRNGKeyArray

from fsgmcmc import _checks
from fsgmcmc._compile import jit_once
from fsgmcmc.errors import DivergedWarmUpError
from fsgmcmc.inference._adam import AdamState, Watch, run_adam
from fsgmcmc.inference._devices import chain_keys
from fsgmcmc.inference._loop import Kept, buffer_slots, finite_chains, run_steps, start
from fsgmcmc.posterior.target import Target
from fsgmcmc.samplers.base import Sampler
from fsgmcmc.samplers.curvature import diagonal_preconditioner, measure


@dataclass(frozen=True)
class WarmUp:
    """How to warm up.

    Attributes:
        adam_steps: Steps of Adam; 0 starts the sampler where the network does.
        learning_rate: Adam's at its start; it falls along a cosine to a twentieth.
        precondition: Adapt a diagonal preconditioner.
        blocks: Times the sampler runs and the curvature is measured again.
        block_steps: Steps of the sampler in each block.
    """

    adam_steps: int = 1000
    learning_rate: float = 1e-2
    precondition: bool = False
    blocks: int = 3
    block_steps: int = 100

    def __post_init__(self) -> None:
        _checks.positive(self.learning_rate, "learning_rate")
        for name in ("adam_steps", "blocks", "block_steps"):
            _checks.count(getattr(self, name), name, least=0)


# Below this part of the step that curvature allows, a warning says that the gradient's noise limits it.
NOISE_FACTOR_LIMIT = 0.05
# How much shorter steps become when a chain diverges, and how often within a block: the curvature may grow
# along the way.
BACK_OFF_FACTOR = 0.5
BACK_OFFS = 6


def warm_up(
    key: PRNGKeyArray,
    target: Target,
    sampler: Sampler,
    positions: Float[Array, "chains k"],
    settings: WarmUp,
    adam: AdamState | None = None,
    watch: Watch = lambda *_: None,
    kept: Kept = Kept(),  # noqa: B008 (immutable)
) -> tuple[Sampler, Float[Array, "chains k"]]:
    """The adapted sampler, and the position of each chain.

    Adam resumes from the state `adam` where there is one, and calls `watch` with its states. `kept` is what the draws
    that follow will keep.
    """
    by_rule = sampler.step_size.initial is None
    adapts = settings.precondition and sampler.preconditioner is None
    if settings.adam_steps:
        adam_key, key = jax.random.split(key)
        adam = AdamState.at(positions) if adam is None else adam
        objective = target.for_optimisation()
        positions = run_adam(adam_key, objective, adam, settings.adam_steps, settings.learning_rate, watch)
        _check(np.isfinite(positions), "Adam", f"a learning_rate below {settings.learning_rate:g}")
        positions = _after_optimisation(target, positions)
    if not (by_rule or adapts):
        return sampler, positions
    if by_rule:
        sampler = sampler.with_step(jnp.float32(jnp.inf))
    for block in range(settings.blocks + 1):
        measure_key, run_key = jax.random.split(jax.random.fold_in(key, block))
        # Each time of the same form, so that one program serves all blocks.
        sampler = sampler.with_preconditioner(None) if adapts else sampler
        sampler, noise_factor = _adapt(measure_key, target, sampler, positions, adapts, by_rule)
        step_size = np.asarray(sampler.step_size.initial)
        if not (np.isfinite(step_size) and step_size > 0):
            raise DivergedWarmUpError(
                f"{type(sampler).__name__} measured a step of {step_size}: the curvature of the potential is zero or "
                "not finite, or its stable_step is wrong; standardise the data, or give a step_size"
            )
        if block < settings.blocks:
            block_of = (chain_keys(run_key, len(positions)), target)
            moved, sound = _run_block(*block_of, sampler, kept, positions, settings.block_steps)
            for _ in range(BACK_OFFS if by_rule else 0):
                if sound.all():
                    break
                sampler = sampler.with_scaled_step(BACK_OFF_FACTOR)
                moved, sound = _run_block(*block_of, sampler, kept, positions, settings.block_steps)
            _check(sound, "the sampler", f"a step_size below {float(sampler.step_size(0)):g}")
            positions = moved
    if float(noise_factor) < NOISE_FACTOR_LIMIT:
        warnings.warn(
            f"the noise of the stochastic gradient allows only {float(noise_factor):.1g} of the step that the "
            "curvature would: chains will move slowly; a larger batch_size or more measurement points help",
            UserWarning,
            stacklevel=3,
        )
    return sampler, positions


@jit_once
def _after_optimisation(target: Target, positions: Float[Array, "chains k"]) -> Float[Array, "chains k"]:
    return jax.lax.map(target.after_optimisation, positions)


@jit_once
def _adapt(
    key: PRNGKeyArray, target: Target, sampler: Sampler, positions: Any, adapts: bool, by_rule: bool
) -> tuple[Sampler, Any]:
    diagonal_key, curvature_key = jax.random.split(key)
    if adapts:
        diagonals = jax.vmap(lambda key, w: diagonal_preconditioner(key, target, w))(
            chain_keys(diagonal_key, len(positions)), positions
        )
        sampler = sampler.with_preconditioner(1.0 / jnp.mean(1.0 / diagonals, axis=0))
    if by_rule:
        curvature = jax.vmap(lambda key, w: measure(key, target, w, sampler.root))(
            chain_keys(curvature_key, len(positions)), positions
        )
        quiet = curvature._replace(gradient_noise=jnp.zeros_like(curvature.gradient_noise))
        stable, without_noise = (
            jnp.min(jax.vmap(lambda c: sampler.stable_step(c, positions.shape[1]))(measured))
            for measured in (curvature, quiet)
        )
        return sampler.with_step(jnp.minimum(stable, sampler.step_size(0))), stable / without_noise
    return sampler, jnp.float32(1)


@jax.jit
def _split(keys: Key[Array, " chains"]) -> tuple[Key[Array, " chains"], Key[Array, " chains"]]:
    pairs = jax.vmap(jax.random.split)(keys)
    return pairs[:, 0], pairs[:, 1]


def _run_block(
    keys: Key[Array, " chains"], target: Target, sampler: Sampler, kept: Kept, positions: Any, steps: int
) -> tuple[Float[Array, "chains k"], np.ndarray]:
    """Positions of the chains after some steps, and which of them have not diverged."""
    init_keys, run_keys = _split(keys)
    first = start(init_keys, target, sampler, positions)
    lengths = np.zeros(buffer_slots(target, kept, positions.shape[1], len(keys)), np.int32)
    lengths[0] = steps
    # The program of `sample`, which is compiled once for both.
    states, _, energy = run_steps(run_keys, target, sampler, kept, first, lengths, lengths < 0, np.int32(1))
    low = np.asarray(energy)[:, 0] <= np.asarray(target.energy_limit(first.energy))
    return states.position, low & np.asarray(finite_chains(states))


def _check(sound: Any, phase: str, remedy: str) -> None:
    if not np.asarray(sound).all():
        raise DivergedWarmUpError(f"{phase} diverged in the warm-up; try {remedy}")
