"""How a report is set: one HTML file that needs nothing else.

A page is given as plain text. It becomes HTML here and nowhere else, so that whatever comes from outside is escaped.
"""

import base64
import html
import math
import re
from collections.abc import Iterable, Sequence
from string import Template
from typing import NamedTuple

# A sign and a word for each level, so that colour is never alone.
SIGNS = {"good": ("✓", "good"), "caution": ("!", "take care"), "bad": ("✗", "problem"), "unknown": ("?", "not known")}
OPTION = re.compile(r"--[a-z-]+(?: \d+)?")
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
# Numbers outside are written with a power of ten.
SMALLEST, LARGEST = 1e-4, 1e9


class Mark(NamedTuple):
    """The answer to one question: a level of `SIGNS`, a few words, and one or two sentences."""

    question: str
    level: str
    title: str
    text: str


class Picture(NamedTuple):
    """A figure as PNG, what it shows in words, and how wide it is, in inches."""

    png: bytes
    caption: str
    width: float


class Page(NamedTuple):
    """What a report says, as plain text."""

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
    """Three digits that count, or four of a number in the thousands and above.

    >>> [number(value) for value in (53.1056, 0.0301, 12345.6, -2.5e9, 0.0, float("inf"))]
    ['53.1', '0.0301', '12,350', '−2.5 × 10⁹', '0', 'infinite']
    """
    if not math.isfinite(value):
        return "not a number" if math.isnan(value) else "infinite"
    rounded = float(f"{value:.4g}" if abs(value) >= 1000 else f"{value:.3g}")
    sign, size = "−" if rounded < 0 else "", abs(rounded)
    if size == 0 or SMALLEST <= size < LARGEST:
        text = f"{size:,.0f}" if size >= 1000 else f"{size:.3g}"
        # Below a thousand rounding is done; no number of this size needs a power of ten.
        return sign + (f"{size:.7f}".rstrip("0").rstrip(".") if "e" in text else text)
    digits, power = f"{size:.2e}".split("e")
    return f"{sign}{digits.rstrip('0').rstrip('.')} × 10{str(int(power)).translate(SUPERSCRIPTS)}"


def percent(share: float) -> str:
    r"""A share in hundredths with one decimal at most, and a space at which no line breaks.

    >>> percent(0.8977), percent(0.9)
    ('89.8\xa0%', '90\xa0%')
    """
    return f"{100 * share:.1f}".removesuffix(".0") + "\N{NO-BREAK SPACE}%"


def count(rows: int, noun: str = "row") -> str:
    """A number of things.

    >>> count(1), count(1234)
    ('1 row', '1,234 rows')
    """
    return f"{rows:,} {noun}{'' if rows == 1 else 's'}"


def render(page: Page) -> str:
    """The HTML of a page."""
    picture = page.extrapolation_picture
    sampling = _paragraphs(page.sampling[:1]) + _items(page.sampling[1:])
    # Beside the figure, or where it would be: the two columns are then about equally long.
    sampling = f"<section><h2>Did the sampling work?</h2>{sampling}</section>"
    return _PAGE.substitute(
        style=_STYLE,
        title=_text(page.title),
        subtitle=_text(page.subtitle),
        headline=_text(page.headline),
        marks="".join(map(_mark, page.marks)),
        pictures=_section("pictures", map(_picture, page.pictures)),
        scores=_scores(page.scores),
        extrapolation=_paragraphs(page.extrapolation) + ("" if picture is None else _picture(picture)),
        left="" if picture else sampling,
        right=sampling if picture else "",
        facts="".join(f"<dt>{_text(name)}</dt><dd>{_text(value)}</dd>" for name, value in page.facts),
        notes=_items(page.notes),
        usage="".join(
            f"<div><pre><code>{_text(code)}</code></pre><p>{_text(what)}</p></div>" for code, what in page.usage
        ),
    )


def _text(text: str) -> str:
    # The name of a file may hold bytes that are no text.
    return html.escape(text.encode("utf-8", "replace").decode(), quote=True)


def _paragraphs(texts: Iterable[str]) -> str:
    return "".join(f"<p>{_text(text)}</p>" for text in texts)


def _items(texts: Sequence[str]) -> str:
    # An option of a command is not broken over two lines.
    items = (OPTION.sub(r"<code>\g<0></code>", _text(text)) for text in texts)
    return f"<ul>{''.join(f'<li>{item}</li>' for item in items)}</ul>" if texts else ""


def _section(name: str, parts: Iterable[str]) -> str:
    content = "".join(parts)
    return f'<section class="{name}">{content}</section>' if content else ""


def _mark(mark: Mark) -> str:
    sign, word = SIGNS[mark.level]
    return (
        f'<div class="mark {mark.level}"><p class="question">{_text(mark.question)}</p>'
        f'<p class="verdict"><span class="sign" role="img" aria-label="{word}">{sign}</span>'
        f"<b>{_text(mark.title)}</b></p><p>{_text(mark.text)}</p></div>"
    )


def _picture(picture: Picture) -> str:
    data = base64.b64encode(picture.png).decode()
    return (
        f'<figure style="flex: {picture.width:g} 1 {60 * picture.width:.0f}px">'
        f'<img alt="{_text(picture.caption)}" src="data:image/png;base64,{data}">'
        f"<figcaption>{_text(picture.caption)}</figcaption></figure>"
    )


def _scores(scores: Sequence[tuple[str, str, str]]) -> str:
    if not scores:
        return ""
    rows = "".join(
        f'<tr><th scope="row">{_text(name)}</th><td class="value">{_text(value)}</td><td>{_text(meaning)}</td></tr>'
        for name, value, meaning in scores
    )
    head = '<tr><th scope="col">Score</th><th scope="col">Value</th><th scope="col">What it means</th></tr>'
    return f"<section><h2>How sure it is</h2><table><thead>{head}</thead><tbody>{rows}</tbody></table></section>"


_PAGE = Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>$style</style>
</head>
<body>
<main>
<header><h1>$title</h1><p class="subtitle">$subtitle</p></header>
<p class="headline">$headline</p>
<section class="marks">$marks</section>
$pictures
$scores
<div class="columns">
<div><section><h2>Where it extrapolates</h2>$extrapolation</section>$left</div>
<div><section><h2>What was fitted</h2><dl>$facts</dl>$notes</section>$right</div>
</div>
<section><h2>How to use it</h2><div class="columns">$usage</div></section>
</main>
</body>
</html>
""")

_STYLE = """
:root { color-scheme: light; --ink: #222; --muted: #5b6270; --line: #e3e6ea; --blue: #4c72b0; }
* { box-sizing: border-box; }
body { margin: 0; background: #fff; color: var(--ink); font: 14px/1.45 system-ui, -apple-system, "Segoe UI", Roboto,
  "Helvetica Neue", Arial, sans-serif; overflow-wrap: anywhere; -webkit-text-size-adjust: 100%; }
main { max-width: 940px; margin: 0 auto; padding: 28px 24px; }
h1 { font-size: 26px; line-height: 1.2; font-weight: 650; margin: 0; letter-spacing: -0.01em; }
h2 { font-size: 15px; font-weight: 650; margin: 0 0 6px; padding-top: 10px; border-top: 1px solid var(--line); }
p { margin: 0 0 8px; }
.subtitle { color: var(--muted); margin: 2px 0 14px; }
.headline { font-size: 18px; line-height: 1.4; border-left: 4px solid var(--blue); padding: 2px 0 2px 14px;
  margin: 0 0 16px; }
.marks { display: grid; grid-template-columns: repeat(auto-fit, minmax(230px, 1fr)); gap: 12px; margin-bottom: 16px; }
.mark { --tone: var(--muted); background: #f7f8fa; border-radius: 6px; padding: 10px 12px 4px;
  border-top: 3px solid var(--tone); print-color-adjust: exact; -webkit-print-color-adjust: exact; }
.good { --tone: #2e7d4f; } .caution { --tone: #946200; } .bad { --tone: #b3373c; }
.question { color: var(--muted); font-size: 12px; margin-bottom: 2px; }
.verdict { margin-bottom: 4px; color: var(--tone); }
.sign { display: inline-block; width: 1.4em; height: 1.4em; line-height: 1.4em; margin-right: 6px; border-radius: 50%;
  background: var(--tone); color: #fff; text-align: center; font-weight: 700; font-size: 12px; }
.pictures { display: flex; flex-wrap: wrap; gap: 8px 20px; margin-bottom: 12px; }
figure { margin: 0; min-width: 0; }
img { display: block; width: 100%; height: auto; }
figcaption { color: var(--muted); font-size: 12px; line-height: 1.4; margin: 2px 0 6px; }
table { border-collapse: collapse; width: 100%; font-size: 13px; margin-bottom: 14px; }
th, td { text-align: left; vertical-align: baseline; padding: 3px 12px 3px 0; border-bottom: 1px solid var(--line); }
tbody tr:last-child > * { border-bottom: 0; }
thead th { color: var(--muted); font-weight: 500; font-size: 12px; }
tbody th { font-weight: 500; width: 25%; }
.value { font-variant-numeric: tabular-nums; font-weight: 650; white-space: nowrap; }
.columns { display: grid; grid-template-columns: 1fr 1fr; gap: 0 28px; }
.columns > * { min-width: 0; margin-bottom: 8px; } .columns section { margin-bottom: 8px; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 2px 14px; margin: 0 0 8px; }
dt { color: var(--muted); } dd { margin: 0; }
ul { margin: 0 0 8px; padding-left: 18px; } li { margin-bottom: 3px; }
code { font-size: 12px; font-family: ui-monospace, "SF Mono", Menlo, Consolas, monospace; }
li code { white-space: nowrap; }
pre { margin: 0 0 2px; padding: 6px 10px; background: #f3f5f8; border-radius: 4px; white-space: pre-wrap; }
@media screen and (max-width: 640px) {
  main { padding: 16px 14px; } h1 { font-size: 22px; } .headline { font-size: 16px; }
  .columns { grid-template-columns: 1fr; }
  thead { display: none; } tr { display: grid; grid-template-columns: 1fr auto; padding: 5px 0;
    border-bottom: 1px solid var(--line); } tbody tr:last-child { border: 0; }
  tbody th, td { border: 0; padding: 0; width: auto; } td:last-child { grid-column: 1 / -1; color: var(--muted); }
}
@media print {
  @page { size: A4; margin: 8mm 11mm; }
  body { font-size: 7.6pt; line-height: 1.26; } main { max-width: none; padding: 0; }
  h1 { font-size: 15pt; } h2 { font-size: 8.6pt; padding-top: 4px; margin-bottom: 2px; } .headline { font-size: 10pt; }
  p, ul, dl { margin-bottom: 3px; } .subtitle, .headline, .marks, table { margin-bottom: 6px; }
  table, figcaption, .question, code { font-size: 7.2pt; } .sign { font-size: 6.5pt; }
  .marks { grid-template-columns: repeat(3, 1fr); } .mark { padding: 5px 8px 2px; }
  .pictures { gap: 4px 14px; margin-bottom: 2px; flex-wrap: nowrap; } figcaption { margin: 0 0 3px; line-height: 1.25; }
  th, td { padding: 1px 10px 1px 0; } thead th { font-size: 7.2pt; } pre { padding: 3px 8px; }
  .columns > *, .columns section { margin-bottom: 3px; } .columns figure { width: 82%; }
  .mark, figure, tr, pre { break-inside: avoid; }
}
"""
