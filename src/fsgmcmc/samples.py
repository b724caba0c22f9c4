"""Samples: draws of the parameters, and what they predict."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Shaped

from fsgmcmc import _checks, _storage
from fsgmcmc.likelihoods import LIKELIHOODS, Likelihood
from fsgmcmc.networks import NETWORKS, Network, as_network
from fsgmcmc.posterior import Position, Posterior
from fsgmcmc.posterior._flatten import Flattener
from fsgmcmc.priors import GaussianProcess
from fsgmcmc.priors.extrapolation import Extrapolation

# Function values (draws times rows) that one call of the network computes: bounds the memory of its activations. Images
# count as several, one for each so many pixels.
VALUES_PER_CALL = 1 << 16
PIXELS_PER_VALUE = 64


@dataclass(frozen=True)
class Samples:
    """What every inference method returns.

    Attributes:
        positions: Draws of w, (chains, draws, k), on the host; None when `collect` kept something else.
        energy: The last Ũ seen before each draw, (chains, draws): stochastic-gradient samplers evaluate it where they
            start a step, corrected ones where they end; of a variational method, Ũ at each draw.
        collected: What `collect` kept, leaves (chains, draws, …); None otherwise.
        network: The network of the posterior, None for a bare target.
        likelihood: Its likelihood.
        flattener: The map from w to parameters.
        inputs: Features of a row of x.
        outputs: Outputs of the network.
        info: Settings and cost of the run: iterations, seconds (of the steps, without warm-up and compilation), step
            size and the like.
        extrapolation: Processes that `predict` follows beyond the data; None is the network alone.
    """

    positions: Float[np.ndarray, "chains draws k"] | None
    energy: Float[np.ndarray, "chains draws"]
    collected: Any = None
    network: Network | None = None
    likelihood: Likelihood | None = None
    flattener: Flattener | None = None
    inputs: int | None = None
    outputs: int | None = None
    info: dict[str, Any] = field(default_factory=dict)
    extrapolation: Extrapolation | None = None

    @property
    def chains(self) -> int:
        """How many chains ran."""
        return self.energy.shape[0]

    @property
    def draws(self) -> int:
        """How many draws each chain gave."""
        return self.energy.shape[1]

    @property
    def params(self) -> Position:
        """The draws as the network's and the likelihood's own pytrees, leaves (chains, draws, …)."""
        flattener, positions = self._weights("params")
        return flattener.unflatten(positions)

    def functions(self, x: Any) -> Float[np.ndarray, "chains draws rows outputs"]:
        """f(x; w) for every draw, in blocks that bound the memory."""
        if self.network is None:
            raise ValueError("these are draws of a bare target: there is no network to evaluate")
        flattener, positions = self._weights("functions")
        x = _checks.matrix(x, "x")
        if x.shape[-1] != self.inputs:
            raise ValueError(f"x has {x.shape[-1]} features but the network was trained on {self.inputs}")
        flat = jnp.asarray(positions.reshape(-1, positions.shape[-1]))
        values_per_call = max(VALUES_PER_CALL // (1 if x.ndim == 2 else 1 + x[0].size // PIXELS_PER_VALUE), 1)
        rows = min(len(x), values_per_call)
        blocks = [
            np.asarray(_apply(self.network, flattener, flat, x[start : start + rows], values_per_call // rows))
            for start in range(0, len(x), rows)
        ]
        values = np.concatenate(blocks, axis=1)
        return values.reshape(*positions.shape[:2], *values.shape[1:])

    def predict(self, x: Any, *, noise: Any = None) -> Any:
        """The predictive distribution at the rows of x, all chains pooled.

        Args:
            x: New inputs (rows, features).
            noise: Standard deviation of the observations at x, where the likelihood had it row by row; of `StudentT`
                the scale.

        Returns:
            What the likelihood predicts: a `GaussianPrediction`, a `CategoricalPrediction` and so on.
        """
        return self.predict_from(self.functions(x), x, noise=noise)

    def predict_from(self, values: Float[np.ndarray, "chains draws rows outputs"], x: Any, *, noise: Any = None) -> Any:
        """`predict` for values of `functions` at x that are known already."""
        if self.likelihood is None:
            raise ValueError("these draws have no likelihood: see `functions`")
        if noise is not None and type(self.likelihood).for_row_noise is Likelihood.for_row_noise:
            raise ValueError(f"{type(self.likelihood).__name__} has no observation noise: leave noise out")
        own = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), self.params.likelihood)
        functions = values.reshape(-1, *values.shape[2:])
        if self.extrapolation is None:
            return self.likelihood.predict(functions, own, noise)
        return self.likelihood.predict_spread(*self.extrapolation.blend(x, functions), own, noise)

    def extrapolated(self, processes: Sequence[GaussianProcess], x: Any, y: Any, noise: Sequence[Any]) -> "Samples":
        """The same draws, whose predictions become those of processes given the rows (x, y) where no row is near.

        Arguments are those of `Extrapolation.of`; docs/what-is-sampled.md has the model. y has the values of the
        function: for class labels the targets and the noise of `fsgmcmc.priors.dirichlet_targets`.

        Example:
            >>> from fsgmcmc import MLP, Gaussian, GaussianProcess, parameter_space, rbf, sample, sgld
            >>> x = np.linspace(-1, 1, 20)
            >>> posterior = parameter_space(MLP((5,)), x, np.sin(x), likelihood=Gaussian(0.1))
            >>> samples = sample(0, posterior, sgld(), draws=10, burn_in=50, chains=2)
            >>> beyond = samples.extrapolated([GaussianProcess(rbf(0.5))], x, np.sin(x), noise=[0.1])
            >>> bool(beyond.predict([[9.0]]).epistemic.item() > 0.9)
            True
        """
        beyond = Extrapolation.of(processes, x, y, noise)
        inputs, outputs = beyond.x.shape[-1], beyond.y.shape[1]
        if (inputs, outputs) != (self.inputs, self.outputs):
            raise ValueError(
                f"x and y of the processes have {inputs} and {outputs} columns, but the network {self.inputs} inputs "
                f"and {self.outputs} outputs"
            )
        return replace(self, extrapolation=beyond)

    def to_arviz(self, x: Any = None) -> Any:
        """The draws for ArviZ: an `InferenceData` of its 0.x, a `DataTree` of its 1.x; needs `fsgmcmc[arviz]`.

        The group `posterior` has a variable for each array of weights, named by its path (`layers_0_weight`), and the
        likelihood's sampled parameters (`log_noise`, `log_df`) with the standard deviation `noise`. `sample_stats`
        has `energy`, the potential Ũ.

        Args:
            x: Points (rows, features); their function values are added as `f`, (chain, draw, point, output). Weights
                have symmetries, so R-hat and effective sample sizes are those of `f`.

        Example:
            >>> from fsgmcmc import MLP, Gaussian, parameter_space, sample, sgld
            >>> grid = np.linspace(-1, 1, 20)
            >>> posterior = parameter_space(MLP((5,)), grid, np.sin(grid), likelihood=Gaussian(0.1))
            >>> samples = sample(0, posterior, sgld(1e-5), draws=4, burn_in=0, chains=2, warm_up=None)
            >>> data = samples.to_arviz(x=grid)
            >>> data.posterior["layers_0_weight"].shape, data.posterior["f"].dims
            ((2, 4, 1, 5), ('chain', 'draw', 'point', 'output'))
        """
        from fsgmcmc._arviz import to_arviz

        return to_arviz(self, x)

    def save(self, path: str | os.PathLike) -> None:
        """Write the draws as arrays plus JSON; `load` reads them back without running code."""
        flattener, positions = self._weights("save")
        if self.extrapolation is not None:
            raise ValueError(
                "the processes of `extrapolated` are not saved: save the draws without them, or an estimator with "
                "save_model"
            )
        if self.likelihood is None:
            raise ValueError("draws of a bare target have no model to save; keep `positions` with numpy.save")
        likelihood = LIKELIHOODS.to_config(self.likelihood)
        if likelihood is None:
            raise ValueError(
                f"{type(self.likelihood).__name__} is not registered: decorate the class with "
                "fsgmcmc.likelihoods.register to save its draws"
            )
        meta = {
            "kind": "samples",
            "network": NETWORKS.to_config(self.network),
            "likelihood": likelihood,
            "shapes": [list(shape) for shape in flattener.shapes],
            "inputs": self.inputs,
            "outputs": self.outputs,
            "info": self.info,
        }
        _storage.write(path, {"positions": positions, "energy": self.energy}, meta)

    @classmethod
    def load(cls, path: str | os.PathLike, network: Any = None) -> "Samples":
        """Read saved draws. A network that is not registered is given again, as it was to the posterior."""
        arrays, meta = _storage.read(path, "samples")
        if network is None:
            if meta["network"] is None:
                raise ValueError(f"{path} was saved with a network that is not registered: pass it as network=")
            network = NETWORKS.from_config(meta["network"])
        likelihood = LIKELIHOODS.from_config(meta["likelihood"])
        samples = cls.of_arrays(
            arrays["positions"], arrays["energy"], network, likelihood, meta["inputs"], meta["outputs"], meta["info"]
        )
        assert samples.flattener is not None
        if [list(shape) for shape in samples.flattener.shapes] != meta["shapes"]:
            raise ValueError(f"the network given does not have the parameter shapes saved in {path}")
        return samples

    @classmethod
    def of_arrays(
        cls,
        positions: np.ndarray,
        energy: np.ndarray,
        network: Any,
        likelihood: Likelihood,
        inputs: int,
        outputs: int,
        info: dict[str, Any],
    ) -> "Samples":
        """Draws that were kept as plain arrays, of a network with so many inputs and outputs."""
        network = as_network(network)
        params = jax.eval_shape(lambda key: network.init(key, inputs, outputs), jax.random.key(0))
        flattener = Flattener.of(Position(params, likelihood.init()))
        if positions.shape[-1] != flattener.size:
            raise ValueError(
                f"the draws have {positions.shape[-1]} parameters each, network and likelihood have {flattener.size}"
            )
        return cls(
            positions,
            energy,
            network=network,
            likelihood=likelihood,
            flattener=flattener,
            inputs=inputs,
            outputs=outputs,
            info=info,
        )

    def _weights(self, purpose: str) -> tuple[Flattener, np.ndarray]:
        if self.positions is None:
            raise ValueError(f"{purpose} needs the weights, but this run kept only what `collect` returned")
        if self.flattener is None:
            raise ValueError(f"{purpose} needs a network, but these are draws of a bare target: see `positions`")
        return self.flattener, self.positions


class FunctionsAt(eqx.Module):
    """f(x; w) in blocks of rows; built by `functions_at`."""

    network: Network = eqx.field(static=True)
    x: Float[Array, "rows *features"]
    rows_per_call: int = eqx.field(static=True)

    def __call__(self, position: Position) -> Float[Array, "rows outputs"]:
        """The function values at these parameters."""
        rows, block = len(self.x), min(self.rows_per_call, len(self.x))
        # Whole blocks: the last row is repeated where they do not come out even.
        even = jnp.concatenate([self.x, jnp.repeat(self.x[-1:], -rows % block, axis=0)])
        blocks = even.reshape(-1, block, *self.x.shape[1:])
        values = jax.lax.map(lambda x: self.network.apply(position.network, x), blocks)
        return values.reshape(len(even), -1)[:rows]


def functions_at(posterior: Posterior, x: Any, rows_per_call: int = 500) -> FunctionsAt:
    """For `sample(collect=…)`: keep function values at x instead of weights, where these need too much memory.

    Example:
        >>> from fsgmcmc import MLP, Gaussian, parameter_space, sample, sgld
        >>> x = np.linspace(-1, 1, 20)
        >>> posterior = parameter_space(MLP((5,)), x, np.sin(x), likelihood=Gaussian(0.1))
        >>> collect = functions_at(posterior, [[0.0], [0.5]])
        >>> sample(0, posterior, sgld(), draws=3, burn_in=5, chains=2, collect=collect).collected.shape
        (2, 3, 2, 1)
    """
    if not isinstance(posterior, Posterior):
        raise TypeError(f"functions_at takes a posterior and inputs, not {type(posterior).__name__}")
    points = _checks.matrix(x, "x")
    if points.shape[1:] != posterior.data.rows.x.shape[1:]:
        raise ValueError(
            f"x has rows of shape {points.shape[1:]}, those of the posterior have {posterior.data.rows.x.shape[1:]}"
        )
    return FunctionsAt(posterior.network, jnp.asarray(points), _checks.count(rows_per_call, "rows_per_call"))


@eqx.filter_jit
def _apply(
    network: Network,
    flattener: Flattener,
    positions: Float[Array, "draws k"],
    x: Shaped[Any, "rows *features"],
    draws_per_call: int,
) -> Float[Array, "draws rows outputs"]:
    return jax.lax.map(
        lambda w: network.apply(flattener.unflatten(w).network, x), positions, batch_size=max(draws_per_call, 1)
    )
