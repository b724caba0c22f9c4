"""The contract of a likelihood p(y | f), with the parameters it may have of its own.

Required of a subclass:

    log_prob(params, f, y)           log p(y_i | f_i) for every row, outputs summed
    predict(functions, params, noise=None)
                                     the prediction for function draws (draws, rows, outputs)

With defaults:

    predict_spread(functions, spread, params, noise=None)
                                     the same for functions with Gaussian errors, as beyond the data
    targets(y), outputs(y)           y as an array, and how many outputs the network needs
    init(), log_prior(params)        its own sampled parameters, by default none
    latent_targets(y)                values of f near which y is likely; a prior is pre-trained on them
    with_gaussian_noise(), fit_noise(…), is_plausible(…), for_row_noise(), with_noise(…), noise_std(…)
                                     for likelihoods with observation noise
    to_config(), from_config(config) the constructor's arguments as JSON, for saving

A likelihood is an `equinox.Module`: arrays are leaves, everything else is static.
"""

from dataclasses import fields
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy  # submodules are loaded at first use
from jaxtyping import Array, Bool, Float

from fsgmcmc import _checks
from fsgmcmc._registry import Registry

# Errors of the function for which `predict_spread` evaluates the likelihood, at least.
LEAST_ERRORS = 100


class Likelihood(eqx.Module):
    """The base class of all likelihoods; a subclass defines `log_prob` and `predict`."""

    def log_prob(self, params: Any, f: Float[Array, "n outputs"], y: Array) -> Float[Array, " n"]:
        """log p(y_i | f_i) for every row i, summed over outputs."""
        raise NotImplementedError(f"{type(self).__name__} must define log_prob(params, f, y)")

    def predict(self, functions: np.ndarray, params: Any, noise: Any = None) -> Any:
        """The prediction for function draws.

        Args:
            functions: f at the new rows, (draws, rows, outputs).
            params: The likelihood's own parameters, leaves (draws, …).
            noise: Standard deviation of the new observations, for likelihoods that have it row by row.
        """
        raise NotImplementedError(f"{type(self).__name__} must define predict(functions, params, noise)")

    def predict_spread(self, functions: np.ndarray, spread: np.ndarray, params: Any, noise: Any = None) -> Any:
        """The prediction for functions with Gaussian errors, f ~ N(functions, spread²); both (draws, rows, outputs).

        By default a fixed normal number for each draw and output stands for the error, the same at all rows. If there
        are fewer than 100 draws, each is repeated with several errors, so that there are at least 100 in all.
        """
        repeats = -(-LEAST_ERRORS // len(functions))
        functions, spread = (np.repeat(values, repeats, axis=0) for values in (functions, spread))
        params = jax.tree.map(lambda leaf: np.repeat(np.asarray(leaf), repeats, axis=0), params)
        errors = _stratified_normals(len(functions) // repeats, repeats, functions.shape[2])
        return self.predict(functions + spread * errors[:, None], params, noise)

    def targets(self, y: Any) -> np.ndarray:
        """`y` checked and in standard shape: by default a float matrix (rows, outputs)."""
        y = _checks.matrix(y, "y")
        if y.ndim != 2:
            raise ValueError(f"y must have shape (rows,) or (rows, outputs), got {y.shape}")
        return y

    def outputs(self, y: Any) -> int:
        """Outputs that the network needs: by default one per column of y."""
        return y.shape[1]

    def init(self) -> Any:
        """Own parameters at the start, a pytree of float arrays; () when there are none."""
        return ()

    def log_prior(self, params: Any) -> Float[Array, ""]:
        """Log density of the own parameters, up to a constant."""
        del params
        return jnp.float32(0)

    def latent_targets(self, y: Float[np.ndarray, "n outputs"]) -> np.ndarray:
        """Values of f near which y is likely; an estimator fits its Gaussian process to them."""
        return y

    def for_row_noise(self) -> "Likelihood":
        """The likelihood of data whose noise is known row by row."""
        raise ValueError(f"{type(self).__name__} has no observation noise: leave noise out")

    def with_noise(self, noise: Float[Array, "n *outputs"]) -> "Likelihood":
        """The likelihood of rows with this noise."""
        del noise
        raise ValueError(f"{type(self).__name__} has no observation noise: leave noise out")

    def with_gaussian_noise(self) -> "Likelihood":
        """What Adam optimises: the likelihood with Gaussian instead of heavy-tailed noise."""
        return self

    def fit_noise(
        self, params: Any, f: Float[Array, "n outputs"], y: Array, weights: Float[Array, " n"] | None = None
    ) -> Any:
        """Own parameters for the residuals that Adam has left; by default unchanged."""
        del f, y, weights
        return params

    def is_plausible(self, params: Any, y: Array) -> Bool[Array, ""]:
        """False for own parameters that only a diverged chain reaches."""
        del params, y
        return jnp.bool_(True)

    def noise_std(self, params: Any) -> Float[Array, "..."] | None:
        """Standard deviation of the noise, or None where the likelihood has none."""
        del params
        return None

    def to_config(self) -> dict[str, Any]:
        """The fields as JSON; where they are not the constructor's arguments, override it."""
        return {field.name: _plain(getattr(self, field.name)) for field in fields(self)}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "Likelihood":
        """The likelihood that `to_config` described; lists become tuples."""
        return cls(**{name: tuple(value) if isinstance(value, list) else value for name, value in config.items()})


def _stratified_normals(draws: int, repeats: int, outputs: int) -> Float[np.ndarray, "errors outputs"]:
    """The normal quantiles of (i + ½) / errors in an order of its own for each output.

    Of the errors of one draw, which are adjacent, one is in each of `repeats` intervals of equal probability.
    """
    rng = np.random.default_rng(0)
    levels = np.tile(scipy.special.ndtri((np.arange(repeats * draws) + 0.5) / (repeats * draws)), (outputs, 1))
    of_draws = rng.permuted(levels.reshape(outputs, repeats, draws), axis=2).swapaxes(1, 2)
    return rng.permuted(of_draws, axis=2).reshape(outputs, -1).T


def _plain(value: Any) -> Any:
    return np.asarray(value).tolist() if isinstance(value, jax.Array | np.ndarray | np.generic) else value


LIKELIHOODS: Registry[Likelihood] = Registry("likelihood", Likelihood)
# Use it as a decorator: `Samples.save` and `save_model` then write the likelihood by its name and configuration.
register = LIKELIHOODS.register
