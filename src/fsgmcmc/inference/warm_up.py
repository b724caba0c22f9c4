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

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key, PRNGKeyArray

from fsgmcmc import _checks
from fsgmcmc._compile import jit_loop
from fsgmcmc.errors import DivergedWarmUpError
from fsgmcmc.inference._adam import AdamState, Watch, run_adam
from fsgmcmc.inference._devices import across_cores, across_devices, chain_keys
from fsgmcmc.inference._loop import checked_energy
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
) -> tuple[Sampler, Float[Array, "chains k"]]:
    """The adapted sampler, and the position of each chain.

    Adam resumes from the state `adam` where there is one, and calls `watch` with its states.
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
            keys, steps = chain_keys(run_key, len(positions)), jnp.int32(settings.block_steps)
            moved, sound = across_cores(_run, (keys, positions), target, sampler, steps)
            for _ in range(BACK_OFFS if by_rule else 0):
                if np.asarray(sound).all():
                    break
                sampler = sampler.with_scaled_step(BACK_OFF_FACTOR)
                moved, sound = across_cores(_run, (keys, positions), target, sampler, steps)
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


@eqx.filter_jit
def _after_optimisation(target: Target, positions: Float[Array, "chains k"]) -> Float[Array, "chains k"]:
    return jax.lax.map(target.after_optimisation, positions)


@eqx.filter_jit
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


@jit_loop
def _run(
    keys: Key[Array, " chains"], positions: Any, target: Target, sampler: Sampler, steps: Any
) -> tuple[Float[Array, "chains k"], Bool[Array, " chains"]]:
    """Positions of the chains, and which of them have not diverged."""

    def chain(shared: tuple, steps: Any, chain_key: PRNGKeyArray, w: Array) -> tuple[Array, Array]:
        target, sampler = shared
        init_key, run_key = jax.random.split(chain_key)

        def step(t: Any, state: Any) -> Any:
            return sampler.step(jax.random.fold_in(run_key, t), state, target.potential)

        start = sampler.init(init_key, w, target.potential)
        end = jax.lax.fori_loop(0, steps, step, start)
        low = checked_energy(target, end) <= target.energy_limit(start.energy)
        return end.position, low & jnp.all(jnp.isfinite(end.position))

    return across_devices(chain, (target, sampler), steps, keys, positions)


def _check(sound: Any, phase: str, remedy: str) -> None:
    if not np.asarray(sound).all():
        raise DivergedWarmUpError(f"{phase} diverged in the warm-up; try {remedy}")
