"""Gaussian processes for classification, with transformed Dirichlet targets (Milios et al., 2018).

    α_ic = α₀ + 1[y_i = c],    s²_ic = log(1/α_ic + 1),    ỹ_ic = log α_ic − s²_ic / 2,    σ̃_ic = t s_ic

A label becomes a regression target with known noise for every class: for α₀ = 0.01 about −0.33 for the class of the row
and −6.91 for the others. One Gaussian process per class, with a constant mean, is fitted to these targets. It is a
prior for the logits of a network, and also a classifier.

The factor t is an addition of this library. It is 1 if similar rows have the same label. If they have different labels,
no smooth function is within the noise of the targets, and the fitted lengthscales become short; a larger t avoids this.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from fsgmcmc import _checks
from fsgmcmc.predictions import CategoricalPrediction
from fsgmcmc.priors.gaussian_process import GaussianProcess
from fsgmcmc.priors.pretraining import pretrain

# α₀; the smaller it is, the more informative is a label.
CONCENTRATION = 0.01
# Values of t, tried in this order as long as the evidence grows.
NOISE_SCALES = (1.0, 1.4, 2.0, 2.8, 4.0)


def dirichlet_targets(
    labels: ArrayLike, classes: int, concentration: float = CONCENTRATION, noise_scale: float = 1.0
) -> tuple[Float[np.ndarray, "n classes"], Float[np.ndarray, "n classes"]]:
    """ỹ and the standard deviations σ̃.

    Example:
        >>> targets, noise = dirichlet_targets([1], classes=2)
        >>> print(targets.round(2), noise.round(2))
        [[-6.91 -0.33]] [[2.15 0.83]]
    """
    _checks.positive(concentration, "concentration")
    _checks.positive(noise_scale, "noise_scale")
    classes = _checks.count(classes, "classes", least=2)
    alpha = concentration + np.eye(classes)[_checks.labels(labels, classes)]
    variance = np.log1p(1 / alpha)
    return np.log(alpha) - variance / 2, noise_scale * np.sqrt(variance)


class PretrainedClasses(NamedTuple):
    """The result of `pretrain_classes`.

    - `prior`: the Gaussian process of the logits, with a fitted kernel and a mean for each class.
    - `evidence`: log marginal likelihood of the transformed targets used.
    - `x`, `labels`: the rows used.
    - `concentration`: α₀.
    - `noise_scale`: t.
    - `draws`: processes whose numbers are as uncertain as the rows leave them.
    """

    prior: GaussianProcess
    evidence: float
    x: Float[np.ndarray, "n *features"]
    labels: Int[np.ndarray, " n"]
    concentration: float
    noise_scale: float
    draws: tuple[GaussianProcess, ...] = ()

    def classify(self, x_new: ArrayLike, draws: int = 100, seed: int = 0) -> CategoricalPrediction:
        """Predictions of the Gaussian processes without a network: draws of the logits, independent for each point."""
        x_new = _checks.matrix(x_new, "x_new")
        if x_new.shape[1:] != self.x.shape[1:]:
            raise ValueError(f"x_new has rows of shape {x_new.shape[1:]}, but the fit had {self.x.shape[1:]}")
        classes = np.size(self.prior.mean)
        targets = dirichlet_targets(self.labels, classes, self.concentration, self.noise_scale)
        exact = self.prior.condition(self.x, *targets)
        latent = exact.predict(x_new, noise=1.0)
        noise = np.random.default_rng(seed).standard_normal((_checks.count(draws, "draws"), *latent.mean.shape))
        return CategoricalPrediction(latent.mean + latent.epistemic * noise)


def pretrain_classes(
    prior: GaussianProcess,
    x: ArrayLike,
    labels: ArrayLike,
    classes: int,
    epochs: int = 500,
    *,
    concentration: float = CONCENTRATION,
    noise_scale: float | None = 1.0,
    starts: int = 2,
    max_points: int = 1000,
    draws: int = 0,
    seed: int = 0,
) -> PretrainedClasses:
    """Fit kernel and means to labels, by Dirichlet targets with known noise.

    Args:
        prior: The first start: one kernel for all classes, or a tuple with one for each class. If it has one mean, each
            class starts with the mean of the targets instead.
        x: Points (n, …).
        labels: Their classes, 0 … classes − 1.
        classes: Number of classes.
        epochs: Maximum number of L-BFGS iterations; 0 returns the start.
        concentration: α₀.
        noise_scale: t; None: it is selected by evidence.
        starts: Number of starts; see `pretrain`.
        max_points: Maximum number of rows.
        draws: Number of draws of the fitted numbers; see `pretrain`.
        seed: Seed of the rows and of the starts.

    Example:
        >>> from fsgmcmc.priors.kernels import rbf
        >>> x = np.linspace(-1, 1, 40)[:, None]
        >>> fit = pretrain_classes(GaussianProcess(rbf(0.5)), x, x[:, 0] > 0, classes=2, epochs=20)
        >>> fit.classify([[-0.9], [0.9]]).labels.tolist()
        [0, 1]
    """
    if not isinstance(prior, GaussianProcess):
        raise TypeError(f"prior must be a GaussianProcess, such as GaussianProcess(rbf()), not {prior!r}")
    x, labels = _checks.matrix(x, "x"), _checks.labels(labels, _checks.count(classes, "classes", least=2))
    _checks.same_length(x, labels, "x", "labels")
    rows = np.random.default_rng(seed).permutation(len(x))[: _checks.count(max_points, "max_points")]
    x, labels = x[rows], labels[rows]
    if np.size(prior.mean) == 1:
        centre = np.mean(dirichlet_targets(labels, classes, concentration)[0])
        prior = GaussianProcess(prior.kernel, np.full(classes, centre), prior.nugget, prior.embedding)

    def fitted(scale: float) -> PretrainedClasses:
        targets, noise = dirichlet_targets(labels, classes, concentration, scale)
        fit = pretrain(prior, x, targets, epochs, noise=noise, starts=starts, max_points=len(x), draws=draws, seed=seed)
        drawn = tuple(process for process, _ in fit.draws)
        return PretrainedClasses(fit.prior, fit.evidence, x, labels, concentration, scale, drawn)

    if noise_scale is not None:
        return fitted(noise_scale)
    best = fitted(NOISE_SCALES[0])
    for scale in NOISE_SCALES[1:]:
        wider = fitted(scale)
        if wider.evidence <= best.evidence:
            break
        best = wider
    return best
