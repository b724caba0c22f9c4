"""The report page: plain text in, one HTML file without external files out.

`page.html.jinja` has the HTML. Autoescaping is on, so that column names, class names and file names stay text.
"""

import base64
import math
import re
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from jinja2 import Template
    from markupsafe import Markup


class Sign(NamedTuple):
    """A symbol, and the word that a screen reader reads."""

    symbol: str
    word: str


# A symbol and a word for each level, so that color is never the only sign.
SIGNS = {
    "good": Sign("✓", "good"),
    "caution": Sign("!", "caution"),
    "bad": Sign("✗", "problem"),
    "unknown": Sign("?", "unknown"),
}
OPTION = re.compile(r"--[a-z-]+(?: (?:\d+(?:,\d+)*|network))?")
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
# Numbers outside this range are written with a power of ten.
SMALLEST, LARGEST = 1e-4, 1e9


class Mark(NamedTuple):
    """The answer to one question: a level of `SIGNS`, a few words, and one or two sentences."""

    question: str
    level: str
    title: str
    text: str


class Picture(NamedTuple):
    """A figure as PNG, its caption, and its width in inches."""

    png: bytes
    caption: str
    width: float

    @property
    def base64(self) -> str:
        """The PNG as text, for a data URL."""
        return base64.b64encode(self.png).decode()


class Page(NamedTuple):
    """The content of a report, as plain text."""

    title: str
    subtitle: str
    headline: str
    marks: Sequence[Mark]
    pictures: Sequence[Picture]
    scores: Sequence[tuple[str, str, str]]
    extrapolation: Sequence[str]
    extrapolation_picture: Picture | None
    facts: Sequence[tuple[str, str]]
    notes: Sequence[str]
    sampling: Sequence[str]
    usage: Sequence[tuple[str, str]]


def number(value: float) -> str:
    """Three significant digits, or four from one thousand upwards.

    >>> [number(value) for value in (53.1056, 0.0301, 12345.6, -2.5e9, 0.0, float("inf"))]
    ['53.1', '0.0301', '12,350', '−2.5 × 10⁹', '0', 'infinite']
    """
    if not math.isfinite(value):
        return "not a number" if math.isnan(value) else "infinite"
    rounded = float(f"{value:.4g}" if abs(value) >= 1000 else f"{value:.3g}")
    sign, size = "−" if rounded < 0 else "", abs(rounded)
    if size == 0 or SMALLEST <= size < LARGEST:
        text = f"{size:,.0f}" if size >= 1000 else f"{size:.3g}"
        # The number is already rounded; one of this size needs no power of ten.
        return sign + (f"{size:.7f}".rstrip("0").rstrip(".") if "e" in text else text)
    digits, power = f"{size:.2e}".split("e")
    return f"{sign}{digits.rstrip('0').rstrip('.')} × 10{str(int(power)).translate(SUPERSCRIPTS)}"


def percent(share: float) -> str:
    r"""A share in percent with at most one decimal, and a non-breaking space.

    >>> percent(0.8977), percent(0.9)
    ('89.8\xa0%', '90\xa0%')
    """
    return f"{100 * share:.1f}".removesuffix(".0") + "\N{NO-BREAK SPACE}%"


def count(rows: int, noun: str = "row") -> str:
    """A number with its noun, in the plural where needed.

    >>> count(1), count(1234)
    ('1 row', '1,234 rows')
    """
    return f"{rows:,} {noun}{'' if rows == 1 else 's'}"


def render(page: Page) -> str:
    """The HTML of a page."""
    # A file name may contain bytes that are not valid text.
    return _template().render(page=page, signs=SIGNS).encode("utf-8", "replace").decode()


@cache
def _template() -> "Template":
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("fsgmcmc", "tabular"),
        autoescape=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    environment.filters["options"] = _mark_options
    return environment.get_template("page.html.jinja")


def _mark_options(text: str) -> "Markup":
    """Escaped text with its command-line options as code, which the style keeps on one line."""
    from markupsafe import Markup, escape

    # A plain string: the pieces of a `Markup` would be escaped again.
    return Markup(OPTION.sub(r"<code>\g<0></code>", str(escape(text))))
