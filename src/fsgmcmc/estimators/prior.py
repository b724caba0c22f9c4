"""The prior that the kernel of an estimator gives, in the standardised units of its network.

A word has numbers in standard deviations of the data; a tinygp kernel has them in the units of the data, and is carried
over:

    k̃(x̃, x̃') = k(s x̃, s x̃') / s_y²

in inputs that are measured from their mean: a linear kernel is a line through the middle of the data, not through the
year zero. Stationary kernels are the same everywhere.
"""

from typing import Any, NamedTuple

import numpy as np
from tinygp.kernels import Kernel

from fsgmcmc._threads import each_on_a_core, one_blas_thread
from fsgmcmc.data.standardiser import Standardiser
from fsgmcmc.priors import GaussianProcess, kernel_by_name, pretrain, pretrain_classes, select_kernel
from fsgmcmc.priors.dirichlet import dirichlet_targets
from fsgmcmc.priors.kernels import InUnits
from fsgmcmc.priors.selection import SCREENING_EPOCHS, SCREENING_ROWS, SINGLE

# Rows of the fit, and its iterations.
ROWS = 700
EPOCHS = 100
# Kernels beyond the rows where none was given: smooth and rough functions, with and without a linear trend.
BEYOND = ("rbf", "matern32", "matern52", "linear", "rbf + linear", "matern32 + linear", "matern52 + linear")
# Draws of the numbers of each of these kernels, and of a kernel that was given.
DRAWS, DRAWS_OF_ONE = 2, 4
# The noise where nothing is fitted, in standard deviations of y.
NOISE = 0.3


class FittedPrior(NamedTuple):
    """A Gaussian process, the noise beside it, and the kernel: its word, or as given.

    The noise is in standard deviations of y; of labels it is the factor t of `fsgmcmc.priors.dirichlet`. `others` are
    for predictions beyond the rows: processes with other kernels and other numbers that the rows do not exclude.
    """

    process: GaussianProcess
    noise: float
    kernel: str | Kernel
    others: "tuple[FittedPrior, ...]" = ()

    @property
    def beyond(self) -> "tuple[FittedPrior, ...]":
        """The processes beyond the rows: the others, or where nothing was fitted itself."""
        return self.others or (self,)


def of_targets(
    kernel: str | Kernel, pretrained: bool, x: Any, y: Any, noise: float | None, scale: Standardiser
) -> FittedPrior:
    """Of a regression: x and y are in the units of the data, and so is a noise that is known."""
    words, known = isinstance(kernel, str), noise
    others: tuple[FittedPrior, ...] = ()
    x = scale.x(x) if words else x - scale.x_mean
    if words:
        y, known = scale.y(y), None if noise is None else noise / scale.y_std
    if kernel == "auto":
        chosen = select_kernel(x, y, epochs=EPOCHS, max_points=ROWS, draws=DRAWS)
        others = tuple(
            FittedPrior(process, float(noise) if known is None else known, tried.kernel)
            for tried in chosen.tried
            if tried.kernel in BEYOND and not tried.is_noise
            for process, noise in tried.draws
        )
        if known is None:
            return FittedPrior(chosen.fit.prior, float(chosen.fit.noise), chosen.kernel, others)
        kernel = chosen.kernel
    form = kernel_by_name(kernel, x.shape[1]) if isinstance(kernel, str) else kernel
    unit, centre = (1.0, 0.0) if words else (scale.y_std, scale.y_mean)

    def standardised(process: GaussianProcess, noise: Any) -> FittedPrior:
        if words:
            return FittedPrior(process, float(noise), kernel)
        assert isinstance(process.kernel, Kernel)
        carried = InUnits(process.kernel, scale.x_std, scale.y_std)
        mean = (float(process.mean) - scale.y_mean) / scale.y_std
        return FittedPrior(GaussianProcess(carried, mean), float(noise) / scale.y_std, kernel)

    process = GaussianProcess(form, centre)
    if not pretrained:
        return standardised(process, NOISE * unit if known is None else known)
    fit = pretrain(process, x, y, EPOCHS, noise=known, max_points=ROWS, draws=0 if others else DRAWS_OF_ONE)
    others = others or tuple(standardised(*drawn) for drawn in fit.draws)
    return standardised(fit.prior, fit.noise)._replace(others=others)


def of_classes(
    kernel: str | Kernel, pretrained: bool, x: Any, labels: np.ndarray, classes: int, scale: Standardiser
) -> FittedPrior:
    """Of the logits: one process for each class with a kernel that they share, and means that are fitted."""
    words = isinstance(kernel, str)
    x = scale.x(x) if words else x - scale.x_mean

    def fit(kernel: str | Kernel, rows: int, epochs: int, draws: int = 0) -> Any:
        form = kernel_by_name(kernel, x.shape[1]) if isinstance(kernel, str) else kernel
        # A fixed kernel around the mean of the targets of each class.
        mean = dirichlet_targets(labels, classes)[0].mean(axis=0)
        return pretrain_classes(
            GaussianProcess(form, mean), x, labels, classes, epochs, noise_scale=None, max_points=rows, draws=draws
        )

    def standardised(process: GaussianProcess, noise: float) -> FittedPrior:
        if not words:
            assert isinstance(process.kernel, Kernel)
            process = GaussianProcess(InUnits(process.kernel, scale.x_std, 1.0), process.mean)
        return FittedPrior(process, noise, kernel)

    others: tuple[FittedPrior, ...] = ()
    if kernel == "auto":
        with one_blas_thread():
            tried = each_on_a_core(lambda word: fit(word, SCREENING_ROWS, SCREENING_EPOCHS, DRAWS), BEYOND)
        others = tuple(
            FittedPrior(process, each.noise_scale, word)
            for word, each in zip(BEYOND, tried, strict=True)
            for process in each.draws
        )
        evidence = {word: each.evidence for word, each in zip(BEYOND, tried, strict=True)}
        kernel = max(SINGLE, key=lambda word: evidence[word])
    draws = 0 if others or not pretrained else DRAWS_OF_ONE
    found = fit(kernel, ROWS, EPOCHS if pretrained else 0, draws)
    others = others or tuple(standardised(process, found.noise_scale) for process in found.draws)
    return standardised(found.prior, found.noise_scale)._replace(others=others)
