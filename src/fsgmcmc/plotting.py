"""Figures shared by experiments and reports; matplotlib is imported only for type checking."""

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK = "#222222"
BAND = "#4c72b0"
REFERENCE = "#c44e52"


def function_panel(
    axes: "Axes",
    grid: np.ndarray,
    prediction: Any,
    *,
    data: tuple[np.ndarray, np.ndarray],
    truth: np.ndarray | None = None,
    reference: Any = None,
    title: str = "",
) -> None:
    """Plot a one-dimensional function: mean, bands of one and two standard deviations, data, truth, a reference band.

    Args:
        axes: The axes of the panel.
        grid: Inputs (n,).
        prediction: Anything with `mean` and `epistemic` of shape (n, 1).
        data: Inputs and targets of the training data.
        truth: Noise-free function on the grid.
        reference: Another prediction; its band of two standard deviations is outlined.
        title: Title of the panel.
    """
    mean, std = prediction.mean[:, 0], prediction.epistemic[:, 0]
    for width, shade in ((2, 0.18), (1, 0.32)):
        label = f"± {width} sd"
        axes.fill_between(grid, mean - width * std, mean + width * std, color=BAND, alpha=shade, lw=0, label=label)
    axes.plot(grid, mean, color=BAND, lw=1.8, label="mean")
    if reference is not None:
        centre, spread = reference.mean[:, 0], reference.epistemic[:, 0]
        for sign, label in ((-2, "exact GP ± 2 sd"), (2, "_")):
            axes.plot(grid, centre + sign * spread, color=REFERENCE, lw=1.0, ls="--", label=label)
    if truth is not None:
        axes.plot(grid, truth, color=INK, lw=1.0, ls=":", label="truth")
    axes.plot(*data, "o", color=INK, ms=3.5, label="data")
    axes.set_title(title, fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
