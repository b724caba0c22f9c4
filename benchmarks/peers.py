"""Functional SGLD in other frameworks, for the benchmark of speed: eager PyTorch and `posteriors`.

They need the `bench` extra. Both use the arrays of our posterior and draw 40 of its 60 points at every step.
"""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from fsgmcmc.posterior import Posterior
from fsgmcmc.priors.functional import PooledPrior

MISSING = "the peers need the bench extra: pip install 'torch==2.13.0' and then '.[bench]'"


def peer_programs(posterior: Posterior, step_size: float) -> list[tuple[str, Callable[[int], None]]]:
    """Name and loop of each peer."""
    try:
        with warnings.catch_warnings(action="ignore", category=FutureWarning):
            import posteriors
            import torch
    except ImportError as error:
        raise ImportError(MISSING) from error
    prior = posterior.functional[0]
    assert isinstance(prior, PooledPrior)

    def tensor(values: Any) -> Any:
        return torch.tensor(np.asarray(values))

    x, y, pool = tensor(posterior.data.rows.x), tensor(posterior.data.rows.y), tensor(prior.measurement.pool)
    covariance, noise = tensor(prior.covariance), float(posterior.likelihood.noise)  # type: ignore[attr-defined]
    size, weak = prior.measurement.size, float(posterior.precision[0])
    layers = posterior.parameters(posterior.init(_key())).network
    start = {f"{i}.{name}": tensor(layer[name]) for i, layer in enumerate(layers) for name in layer}

    def apply(params: dict[str, Any], inputs: Any) -> Any:
        for i in range(len(layers)):
            inputs = inputs @ params[f"{i}.weight"] + params[f"{i}.bias"]
            inputs = torch.tanh(inputs) if i < len(layers) - 1 else inputs
        return inputs

    def log_posterior(params: dict[str, Any], batch: Any) -> tuple[Any, Any]:
        rows = torch.randperm(len(pool))[:size]
        values = apply(params, torch.cat([x, pool[rows]]))
        likelihood = -0.5 * (((y - values[: len(x)]) / noise) ** 2).sum()
        factor = torch.linalg.cholesky(covariance[rows[:, None], rows])
        white = torch.linalg.solve_triangular(factor, values[len(x) :], upper=False)
        weights = sum((leaf**2).sum() for leaf in params.values())
        return likelihood - 0.5 * (white**2).sum() - 0.5 * weak * weights, values

    def eager(steps: int) -> None:
        params = {name: leaf.clone().requires_grad_() for name, leaf in start.items()}
        for _ in range(steps):
            value, _ = log_posterior(params, None)
            gradients = torch.autograd.grad(value, list(params.values()))
            with torch.no_grad():
                for leaf, gradient in zip(params.values(), gradients, strict=True):
                    leaf += step_size * gradient + (2 * step_size) ** 0.5 * torch.randn_like(leaf)

    transform = posteriors.sgmcmc.sgld.build(log_posterior, lr=step_size, temperature=1.0)

    def with_posteriors(steps: int) -> None:
        state = transform.init(start)
        for _ in range(steps):
            state, _ = transform.update(state, None)

    return [("torch-fsgld", eager), ("posteriors-fsgld", with_posteriors)]


def _key() -> Any:
    import jax

    return jax.random.key(1)
