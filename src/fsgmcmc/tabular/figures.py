"""The figures of a report, as PNG."""

import io
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy  # submodules are loaded at first use

from fsgmcmc import metrics
from fsgmcmc.plotting import BAND, INK, REFERENCE
from fsgmcmc.predictions import CategoricalPrediction, RegressionPrediction

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Two image pixels for each pixel of the page, which has about 100 per inch.
DOTS_PER_INCH = 200
# Inches.
HEIGHT, NARROW, WIDE, LOW = 2.95, 3.6, 5.0, 2.2
STYLE = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.edgecolor": "#8a909a"}
# Share of calibrated models that lie within the band of sampling error.
CHANCE = 0.99
MOST_ROWS = 150
MOST_POINTS = 1000
# Largest number of classes for which a confusion matrix has counts, and for which it has class names.
MOST_COUNTED, MOST_NAMED = 12, 25
# Average number of rows in a bin of a reliability diagram, and the largest number of bins.
ROWS_PER_BIN, MOST_BINS = 20, 10
PALE = "#8a909a"


def expected(rows: int, probability: float) -> tuple[int, int]:
    """Central range of the number of rows, out of `rows`, in which an event of this probability occurs.

    >>> expected(100, 0.9)
    (82, 97)
    """
    lower, upper = scipy.stats.binom.interval(CHANCE, rows, min(max(probability, 0.0), 1.0))
    # SciPy returns −1 as the lower end for probability zero.
    return max(int(lower), 0), int(upper)


def coverage_figure(prediction: RegressionPrediction, y: np.ndarray) -> bytes:
    """Observed against nominal coverage of central intervals."""
    # y lies in the central interval of a level exactly when |2 F(y) − 1| does not exceed it.
    needed = np.abs(2 * prediction.cdf(y)[:, 0] - 1)
    levels = np.linspace(0.02, 0.98, 49)
    lower, upper = np.transpose([expected(len(y), level) for level in levels]) / len(y)

    def draw(axes: "Axes") -> None:
        axes.fill_between(100 * levels, 100 * lower, 100 * upper, color=PALE, alpha=0.22, lw=0, label="sampling error")
        axes.plot([0, 100], [0, 100], color=PALE, lw=1, ls="--", label="ideal")
        axes.plot(100 * levels, 100 * (needed[:, None] <= levels).mean(axis=0), color=BAND, lw=1.8, label="this model")
        marked = np.array([0.5, 0.9, 0.95])
        axes.plot(100 * marked, 100 * (needed[:, None] <= marked).mean(axis=0), "o", color=BAND, ms=4.5)
        axes.set(xlabel="nominal coverage, %", ylabel="observed coverage, % of rows", xlim=(0, 100), ylim=(0, 101))
        _legend(axes)

    return _png(draw, NARROW)


def reliability_figure(prediction: CategoricalPrediction, y: np.ndarray) -> bytes:
    """Accuracy of the most probable class against its probability, with the number of rows."""
    bins = int(np.clip(len(y) // ROWS_PER_BIN, 4, MOST_BINS))
    found = metrics.reliability(prediction, y, bins)
    filled = found.rows > 0
    rows, sure, right = found.rows[filled], found.confidence[filled], found.accuracy[filled]
    chance = np.array([expected(n, p) for n, p in zip(rows.tolist(), sure.tolist(), strict=True)]) / rows[:, None]

    def draw(axes: "Axes") -> None:
        axes.plot([0, 100], [0, 100], color=PALE, lw=1, ls="--", label="ideal")
        axes.vlines(100 * sure, *(100 * chance.T), color=PALE, alpha=0.3, lw=8, label="sampling error")
        axes.plot(100 * sure, 100 * right, "o-", color=BAND, lw=1.2, ms=5.5, label="this model")
        for n, x, height in zip(rows, sure, right, strict=True):
            below = height > 0.12
            place = (0, -8 if below else 8)
            axes.annotate(
                f"{n:,}", (100 * x, 100 * height), place, textcoords="offset points", color=INK, fontsize=7.5,
                ha="center", va="top" if below else "bottom",
            )  # fmt: skip
        axes.set(xlabel="confidence, %", ylabel="accuracy, %", ylim=(-3, 105))
        axes.set_xlim(max(100 * sure.min() - 12, -3), 105)
        _legend(axes)

    return _png(draw, NARROW)


def interval_figure(prediction: RegressionPrediction, y: np.ndarray, target: str) -> bytes:
    """90 % intervals and true values of some rows."""
    lower, upper = (end[:, 0] for end in prediction.interval(0.9))
    order = np.argsort(prediction.mean[:, 0], kind="stable")
    if len(order) > MOST_ROWS:
        order = order[np.linspace(0, len(order) - 1, MOST_ROWS).round().astype(int)]
    lower, upper, mean, truth = lower[order], upper[order], prediction.mean[order, 0], y[order]
    place, missed = np.arange(1, len(order) + 1), (truth < lower) | (truth > upper)

    def draw(axes: "Axes") -> None:
        thick = float(np.clip(300 / len(order), 1.2, 9.0))
        axes.vlines(place, lower, upper, color=BAND, alpha=0.3, lw=thick, label="90 % interval")
        axes.plot(place, mean, "_", color=BAND, ms=thick + 1.5, mew=1.4, label="prediction")
        _dots(axes, place, truth, missed, "true value", "true value outside")
        which = "held-out rows" if len(order) == len(y) else f"{MOST_ROWS} of the held-out rows"
        axes.set(xlabel=f"{which}, from the lowest to the highest prediction", xlim=(0, len(order) + 1))
        axes.set_ylabel(_label(target, 40), parse_math=False)
        axes.set_xticks([])
        _legend(axes)

    return _png(draw, WIDE)


def confusion_figure(prediction: CategoricalPrediction, y: np.ndarray, classes: Sequence[str]) -> bytes:
    """Number of rows for each pair of true and predicted class."""
    counts = np.zeros((len(classes), len(classes)), dtype=int)
    np.add.at(counts, (y, prediction.labels), 1)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)

    def draw(axes: "Axes") -> None:
        from matplotlib.colors import LinearSegmentedColormap

        shade = LinearSegmentedColormap.from_list("share", ["#ffffff", BAND])
        # The square root makes single rows visible.
        axes.imshow(shares**0.5, cmap=shade, vmin=0, vmax=1, aspect="auto" if len(classes) <= MOST_COUNTED else "equal")
        axes.spines[:].set_visible(len(classes) > MOST_COUNTED)
        axes.tick_params(length=0)
        axes.set(xlabel="predicted", ylabel="true")
        names, places = [_label(name, 16) for name in classes], range(len(classes))
        axes.set_xticks([])
        axes.set_yticks([])
        if len(classes) <= MOST_COUNTED:
            turned: dict[str, Any] = {"rotation": 40, "ha": "right", "rotation_mode": "anchor"}
            axes.set_xticks(places, names, parse_math=False, fontsize=8.5, **(turned if len(classes) > 4 else {}))
            axes.set_yticks(places, names, parse_math=False, fontsize=8.5)
        elif len(classes) <= MOST_NAMED:
            axes.set_yticks(places, names, parse_math=False, fontsize=6.5)
            axes.set(xlabel="predicted, in the same order")
        else:
            axes.set(xlabel="predicted, in alphabetical order", ylabel="true, in alphabetical order")
        if len(classes) <= MOST_COUNTED:
            for (row, column), n in np.ndenumerate(counts):
                wrong = row != column and n
                color = "white" if shares[row, column] > 0.4 else REFERENCE if wrong else INK if n else PALE
                axes.text(
                    column, row, f"{n:,}", ha="center", va="center", color=color, weight="bold" if wrong else None
                )

    return _png(draw, WIDE)


def novelty_figure(
    novelty: np.ndarray,
    height: np.ndarray,
    wrong: np.ndarray,
    names: Sequence[str],
    reach: np.ndarray | None = None,
) -> bytes:
    """Rows by their novelty; those above 1 extrapolate.

    Args:
        novelty: How far the rows lie from the training rows.
        height: Value on the vertical axis.
        wrong: Rows that are marked as errors.
        names: Labels of the vertical axis, of other rows and of errors.
        reach: Half the interval width of each row, if there are intervals.
    """
    order = np.unique(np.linspace(0, len(novelty) - 1, MOST_POINTS).round().astype(int))

    def draw(axes: "Axes") -> None:
        far = 1.15 * max(float(novelty.max()), 1.0)
        axes.axvspan(1.0, far, color=PALE, alpha=0.14, lw=0)
        if reach is not None:
            axes.plot(novelty[order], reach[order], "_", color=BAND, alpha=0.7, ms=5, label="half the interval")
        _dots(axes, novelty[order], height[order], wrong[order], names[1], names[2])
        top = max(float(each.max()) for each in (height, reach) if each is not None)
        axes.set(
            xlabel="distance from the training rows (above 1: extrapolates)", ylabel=names[0], xlim=(-0.03 * far, far)
        )
        axes.set_ylim(-0.02 * top, 1.06 * top or 1.0)
        _legend(axes)

    return _png(draw, NARROW + 0.6, LOW)


def _dots(axes: "Axes", x: np.ndarray, y: np.ndarray, wrong: np.ndarray, right_name: str, wrong_name: str) -> None:
    size, alpha = (3.0, 0.9) if len(x) <= 2 * MOST_ROWS else (2.2, 0.6)
    axes.plot(x[~wrong], y[~wrong], "o", color=INK, ms=size, mew=0, alpha=alpha, label=right_name)
    axes.plot(x[wrong], y[wrong], "D", color=REFERENCE, ms=1.3 * size, mew=0, alpha=alpha, label=wrong_name)


def _legend(axes: "Axes") -> None:
    """Above the axes, in one line."""
    axes.legend(
        frameon=False, loc="lower right", bbox_to_anchor=(1.02, 1), borderaxespad=0.2, ncols=4, fontsize=8,
        columnspacing=1.2, handlelength=1.4, handletextpad=0.5,
    )  # fmt: skip


def _png(draw: Callable[["Axes"], None], width: float, height: float = HEIGHT) -> bytes:
    import matplotlib.style
    from matplotlib.figure import Figure

    # The report does not depend on the user's matplotlib settings.
    with matplotlib.style.context(["default", STYLE], after_reset=True):
        fig = Figure(figsize=(width, height), layout="constrained")
        draw(fig.subplots())
        file = io.BytesIO()
        fig.savefig(file, format="png", dpi=DOTS_PER_INCH)
    return file.getvalue()


def _label(text: str, most: int) -> str:
    """A name as a label: one line, not too long, without characters that the font lacks."""
    line = " ".join(text.split())
    line = line if len(line) <= most else line[: most - 1] + "…"
    return "".join(sign if ord(sign) in _drawable() else "?" for sign in line)


@cache
def _drawable() -> frozenset[int]:
    from matplotlib.font_manager import FontProperties, findfont, get_font

    return frozenset(get_font(findfont(FontProperties(family="DejaVu Sans"))).get_charmap())
