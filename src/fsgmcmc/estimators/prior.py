"""The prior that an estimator's kernel stands for, in the standardised units of its network.

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
# The noise where nothing is fitted, in standard deviations of y.
NOISE = 0.3


class FittedPrior(NamedTuple):
    """A Gaussian process, the noise beside it, and the kernel: its word, or as given.

    The noise is in standard deviations of y; of labels it is the factor t of `fsgmcmc.priors.dirichlet`. `others` are
    further kernels that the rows do not exclude, each with its own process and noise, for predictions beyond the rows.
    """

    process: GaussianProcess
    noise: float
    kernel: str | Kernel
    others: "tuple[FittedPrior, ...]" = ()

    @property
    def beyond(self) -> "tuple[FittedPrior, ...]":
        """The processes beyond the rows: the others, or where a kernel was given itself."""
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
        chosen = select_kernel(x, y, epochs=EPOCHS, max_points=ROWS)
        others = tuple(
            FittedPrior(tried.prior, tried.noise if known is None else known, tried.kernel)
            for tried in chosen.tried
            if tried.kernel in BEYOND and not tried.is_noise
        )
        if known is None:
            return FittedPrior(chosen.fit.prior, float(chosen.fit.noise), chosen.kernel, others)
        kernel = chosen.kernel
    form = kernel_by_name(kernel, x.shape[1]) if isinstance(kernel, str) else kernel
    unit, centre = (1.0, 0.0) if words else (scale.y_std, scale.y_mean)
    process, found = GaussianProcess(form, centre), NOISE * unit if known is None else known
    if pretrained:
        process, fitted, *_ = pretrain(process, x, y, EPOCHS, noise=known, max_points=ROWS)
        found = float(fitted)
    if words:
        return FittedPrior(process, found, kernel, others)
    assert isinstance(process.kernel, Kernel)
    carried = InUnits(process.kernel, scale.x_std, scale.y_std)
    mean = (float(process.mean) - scale.y_mean) / scale.y_std
    return FittedPrior(GaussianProcess(carried, mean), found / scale.y_std, kernel)


def of_classes(
    kernel: str | Kernel, pretrained: bool, x: Any, labels: np.ndarray, classes: int, scale: Standardiser
) -> FittedPrior:
    """Of the logits: one process for each class with a kernel that they share, and means that are fitted."""
    words = isinstance(kernel, str)
    x = scale.x(x) if words else x - scale.x_mean

    def fit(kernel: str | Kernel, rows: int, epochs: int) -> Any:
        form = kernel_by_name(kernel, x.shape[1]) if isinstance(kernel, str) else kernel
        # A fixed kernel around the mean of the targets of each class.
        mean = dirichlet_targets(labels, classes)[0].mean(axis=0)
        return pretrain_classes(
            GaussianProcess(form, mean), x, labels, classes, epochs, noise_scale=None, max_points=rows
        )

    others: tuple[FittedPrior, ...] = ()
    if kernel == "auto":
        with one_blas_thread():
            tried = each_on_a_core(lambda word: fit(word, SCREENING_ROWS, SCREENING_EPOCHS), BEYOND)
        others = tuple(
            FittedPrior(each.prior, each.noise_scale, word) for word, each in zip(BEYOND, tried, strict=True)
        )
        evidence = {word: each.evidence for word, each in zip(BEYOND, tried, strict=True)}
        kernel = max(SINGLE, key=lambda word: evidence[word])
    found = fit(kernel, ROWS, EPOCHS if pretrained else 0)
    process = found.prior
    if not words:
        assert isinstance(process.kernel, Kernel)
        process = GaussianProcess(InUnits(process.kernel, scale.x_std, 1.0), process.mean)
    return FittedPrior(process, found.noise_scale, kernel, others)
