"""Features of a Gaussian process inside a network: the process is then part of the prior on the weights.

    f(x) = g(x; w) + m + φ(x) β,    φ(x) = k(x, Z) Q Λ^{-1/2},    K(Z, Z) = Q Λ Qᵀ,    β ~ N(0, I)

m + φ(x) β is a draw of the process projected on its leading eigenfunctions at the points Z: at Z it has the covariance
Q Λ Qᵀ of the eigenvalues that are kept. The network g adds what the process cannot express.
"""

import hashlib
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray
from numpy.typing import ArrayLike

from fsgmcmc import _checks
from fsgmcmc.networks import Network, as_network
from fsgmcmc.priors.gaussian_process import GaussianProcess, in_float64
from fsgmcmc.priors.kernels import evaluate
from fsgmcmc.priors.weights import WEAK_PRECISION

# Eigenvalues below this share of the largest are left out: in float32 their features would be rounding errors.
SMALLEST_EIGENVALUE = 1e-5


@dataclass(frozen=True)
class PriorFeatures(Network):
    """A network plus features of a Gaussian process; built by `prior_features`.

    Attributes:
        network: g.
        process: The Gaussian process.
        points: Z, (points, features).
        projection: Q Λ^{-1/2}, (points, features of the process).
        digest: Of the numbers; networks with equal ones share compiled programs.
    """

    network: Network
    process: GaussianProcess = field(compare=False)
    points: np.ndarray = field(compare=False)
    projection: np.ndarray = field(compare=False)
    digest: str

    @property
    def reverse_only(self) -> bool:  # type: ignore[override]
        """That of the network."""
        return self.network.reverse_only

    def init(self, key: PRNGKeyArray, inputs: int, outputs: int) -> dict[str, Any]:
        """The start of the network, and β ~ N(0, 0.1)."""
        network_key, beta_key = jax.random.split(key)
        beta = WEAK_PRECISION**0.5 * jax.random.normal(beta_key, (self.projection.shape[1], outputs))
        return {"network": self.network.init(network_key, inputs, outputs), "beta": beta}

    def apply(self, params: dict[str, Any], x: Float[Array, "batch *features"]) -> Float[Array, "batch outputs"]:
        """g(x) + m + φ(x) β."""
        mean = jnp.asarray(self.process.mean, x.dtype)
        return self.network.apply(params["network"], x) + mean + self.features(x) @ params["beta"]

    def features(self, x: Float[Array, "batch *features"]) -> Float[Array, "batch count"]:
        """φ(x)."""
        if x.shape[1:] != self.points.shape[1:]:
            raise ValueError(f"x has rows of shape {x.shape[1:]}, the points of the features {self.points.shape[1:]}")
        embedded, points = self.process.embed(x), self.process.embed(jnp.asarray(self.points, x.dtype))
        return evaluate(self.process.kernel, embedded, points) @ jnp.asarray(self.projection, x.dtype)

    def fan_in(self, params: dict[str, Any]) -> dict[str, Any]:
        """That of the network, and 1 for β."""
        return {"network": self.network.fan_in(params["network"]), "beta": 1}

    def variance(self, params: dict[str, Any]) -> dict[str, Any]:
        """That of the network, and 0.1 for β, which is N(0, 1) under `weak_weights()`."""
        return {"network": self.network.variance(params["network"]), "beta": WEAK_PRECISION}


def prior_features(network: Any, process: GaussianProcess, x: ArrayLike, count: int = 64) -> PriorFeatures:
    """A network that has the leading eigenfunctions of a process at the points x beside it.

    Use it in parameter space with `prior=weak_weights()`: the prior of f is then the process, plus a network with weak
    weights. In one dimension such a posterior has the mean and the spread of the exact process within a few per cent,
    and its chains mix better. Where the process describes the data poorly, the predictions follow it all the same: it
    is an option, not a default. With as many features as rows the features alone explain the targets.

    Args:
        network: A network, as for `parameter_space`.
        process: A Gaussian process with one kernel.
        x: Points Z that cover the region of interest, such as the training inputs, (points, features). Far from them
            the features vanish, if the kernel is stationary.
        count: Features at most.

    Example:
        >>> from fsgmcmc import MLP, Gaussian, GaussianProcess, parameter_space, rbf, weak_weights
        >>> x = np.linspace(-1, 1, 50)
        >>> network = prior_features(MLP((20,), initial="fan_in"), GaussianProcess(rbf(0.3)), np.linspace(-2, 2, 80))
        >>> posterior = parameter_space(network, x, np.sin(9 * x), prior=weak_weights(), likelihood=Gaussian(0.1))
        >>> phi = network.features(jnp.asarray(x[:, None]))
        >>> bool(np.allclose(phi @ phi.T, GaussianProcess(rbf(0.3)).gram(x[:, None]), atol=1e-3))
        True
    """
    if not isinstance(process, GaussianProcess):
        raise TypeError(f"process must be a GaussianProcess, such as GaussianProcess(rbf()), not {process!r}")
    if isinstance(process.kernel, tuple):
        raise ValueError("features need one kernel that all outputs share, but the process has one for each")
    points = _checks.matrix(x, "x")
    count = _checks.count(count, "count")
    values, vectors = np.linalg.eigh(in_float64(GaussianProcess.gram, process, np.float64(points)))
    kept = np.argsort(-values)[:count]
    kept = kept[values[kept] > SMALLEST_EIGENVALUE * values[-1]]
    projection = (vectors[:, kept] / np.sqrt(values[kept])).astype(np.float32)
    leaves, structure = jax.tree.flatten(process)
    content = hashlib.sha256(str(structure).encode())
    for leaf in (*leaves, points, projection):
        content.update(np.ascontiguousarray(leaf).tobytes())
    return PriorFeatures(as_network(network), process, points, projection, content.hexdigest())
