"""Draws views of attention as heat maps with their tokens, and attributions as bars.

The picture needs no style sheet, no script and no font. Every cell names its query, key and weight,
so that the numbers can be read from it again.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

import numpy as np
from numpy.typing import NDArray

from model.explain.views import View
from model.types import Prediction, Token

MOST_CELLS = 20_000  # more would make a browser slow

_CELL = 14
_FONT = 11
_CHARACTER = 6.7  # of the monospaced font, at that size
_BOLD = 7.4
_NOTE = "Each row asks, each column is asked. Weights are not an explanation."
_GAP = 24
_MARGIN = 16
_LONGEST_TOKEN = 20
_BAR = 120.0
_INK, _FAINT, _COLOUR, _AGAINST = "#1a1a1a", "#8a8a8a", "#0b5cad", "#b4540a"
_MOST = 1 + 1e-6  # float32 can round the only weight of a row to a little more than 1
# XML 1.0 has no way to write these.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class Picture:
    """The maps of one sentence: elements drawn from (0, 0), and their size in pixels."""

    body: str
    width: float
    height: float


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class Shares:
    """What each part of a text adds to the log-odds f of a label."""

    prediction: Prediction
    label: str
    method: str
    tokens: tuple[Token, ...]
    attributions: NDArray[np.float64]  # one for each of `tokens`; 0 for special ones
    value: float  # f of the text
    baseline_value: float  # f of the baseline, or of an empty text

    @property
    def gap(self) -> float:
        """What the attributions do not add up to: f(text) - f(baseline), less their sum."""
        return self.value - self.baseline_value - float(self.attributions.sum())

    def to_svg(self) -> str:
        """Draws a bar for each token, word or sentence."""
        return svg_picture([_draw_bars(self)], title="Attributions").decode()

    _repr_svg_ = to_svg


def draw(view: View, source: str | None = None) -> Picture:
    """Draws one view, a row of maps for each layer; `source` names the model.

    Raises:
        ValueError: a weight of attention is not a number from 0 to 1.
    """
    labels = [_shortened(token.text) for token in view.tokens]
    room = max(_width(label) for label in labels) * _CHARACTER + 6
    side = room + _CELL * len(labels)
    largest = float(view.attention.max())
    if not (view.attention.min() >= 0 and largest <= _MOST):  # NaN is neither
        raise ValueError("a weight of attention is not a number from 0 to 1")
    lines = [_heading_of(view.prediction, source, view.name), _NOTE]
    titles = [_title(view, layer, head) for layer in view.layer_names for head in view.head_names]
    pitch = max(side, max(map(_width, titles)) * _BOLD) + _GAP
    rows, columns = view.attention.shape[:2]
    parts = list(_heading(lines, largest))
    top = 64.0
    for row, layer in enumerate(view.layer_names):
        for column, head in enumerate(view.head_names):
            shift = f"translate({column * pitch:.1f} {top + row * (side + _GAP + 16):.1f})"
            parts.append(f'<g transform="{shift}">')
            parts.append(_text(0, 10, _title(view, layer, head), weight="bold"))
            parts.append('<g transform="translate(0 16)">')
            parts += _axes(labels, room)
            names = "" if layer is None else f' data-layer="{layer}"'
            names += "" if head is None else f' data-head="{head}"'
            parts.append(
                f'<g transform="translate({room:.1f} {room:.1f})"{names} fill="{_COLOUR}">'
            )
            parts += _cells(view, view.attention[row, column], largest)
            parts.append("</g>")
            parts.append(
                f'<rect x="{room:.1f}" y="{room:.1f}" width="{side - room:.1f}" '
                f'height="{side - room:.1f}" fill="none" stroke="{_FAINT}" stroke-width="0.5"/>'
            )
            parts.append("</g></g>")
    height = top + rows * (side + _GAP + 16)
    width = max(columns * pitch, max(map(_width, lines)) * _CHARACTER)
    return Picture("\n".join(parts), width, height)


def _draw_bars(found: Shares) -> Picture:
    labels = [_shortened(token.text) for token in found.tokens]
    middle = max(map(_width, labels)) * _CHARACTER + 6 + _BAR
    largest = float(np.abs(found.attributions).max()) or 1.0
    lines = [
        _heading_of(found.prediction, found.method),
        f"What each adds to the log-odds of {found.label}: more to the right, less to the left.",
    ]
    parts = [_text(0, 10, lines[0]), _text(0, 26, lines[1], _FAINT)]
    top = 40.0
    for token, label, number in zip(found.tokens, labels, found.attributions.tolist(), strict=True):
        size = _BAR * abs(number) / largest
        parts.append(_text(middle - _BAR - 4, top + 11, label, anchor="end"))
        parts.append(
            f'<rect x="{middle - size * (number < 0):.1f}" y="{top + 1:.1f}" width="{size:.1f}" '
            f'height="{_CELL - 2}" fill="{_AGAINST if number < 0 else _COLOUR}" '
            f'data-attribution="{number:.8f}"><title>{_clean(token.text)}: {number:.8f}</title>'
            "</rect>"
        )
        parts.append(_text(middle + _BAR + 4, top + 11, f"{number:+.4f}"))
        top += _CELL
    width = max(middle + _BAR + 10 * _CHARACTER, max(map(_width, lines)) * _CHARACTER)
    return Picture("\n".join(parts), width, top)


def _heading_of(prediction: Prediction, *parts: str | None) -> str:
    result = f"{prediction.label} {prediction.score:.4f}"
    return " \u00b7 ".join([result, *filter(None, parts)])


def svg_picture(parts: Sequence[Picture], *, title: str = "Attention weights") -> bytes:
    """Stacks the pictures of all sentences into one."""
    width = max(part.width for part in parts) + 2 * _MARGIN
    height = sum(part.height for part in parts) + 2 * _MARGIN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" role="img" '
        f'font-family="ui-monospace, Menlo, Consolas, monospace" font-size="{_FONT}">',
        f"<title>{title}</title>",
        '<rect width="100%" height="100%" fill="#ffffff"/>',
    ]
    top = float(_MARGIN)
    for number, part in enumerate(parts):
        lines.append(f'<g transform="translate({_MARGIN} {top:.1f})" data-sentence="{number}">')
        lines += [part.body, "</g>"]
        top += part.height
    return "\n".join([*lines, "</svg>", ""]).encode("utf-8")


def _heading(lines: Sequence[str], largest: float) -> Iterator[str]:
    yield _text(0, 10, lines[0])
    yield _text(0, 26, lines[1], _FAINT)
    for step in range(10):
        opacity = (step + 1) / 10
        yield (
            f'<rect x="{step * 16}" y="34" width="16" height="10" fill="{_COLOUR}" '
            f'fill-opacity="{opacity:.1f}"/>'
        )
    yield _text(168, 43, f"0 to {largest:.4f}", _FAINT)


def _title(view: View, layer: int | None, head: int | None) -> str:
    reduce = view.name.partition("+")[0]
    layers = _numbers("layer", view.layers) if layer is None else f"layer {layer}"
    if head is not None:
        return f"{layers}, head {head}"
    return f"{layers}, {reduce} of {_numbers('head', view.heads)}"


def _numbers(kind: str, numbers: Sequence[int]) -> str:
    if len(numbers) == 1:
        return f"{kind} {numbers[0]}"
    if list(numbers) == list(range(numbers[0], numbers[-1] + 1)):
        return f"{kind}s {numbers[0]} to {numbers[-1]}"
    return f"{kind}s {', '.join(map(str, numbers))}"


def _axes(labels: Sequence[str], room: float) -> Iterator[str]:
    for index, label in enumerate(labels):
        middle = room + _CELL * index + _CELL / 2
        yield _text(room - 4, middle + 4, label, anchor="end")
        yield (
            f'<text transform="translate({middle + 4:.1f} {room - 4:.1f}) rotate(-90)" '
            f'fill="{_INK}">{_clean(label)}</text>'
        )


def _cells(view: View, weights: NDArray[np.float32], largest: float) -> Iterator[str]:
    """A square for each weight [W, W]."""
    # Held apart: two words from right to left would change places around the arrow.
    names = [f"\u2068{_clean(token.text)}\u2069" for token in view.tokens]
    for query, row in enumerate(weights.tolist()):
        yield f'<g data-query="{query}">'
        for key, number in enumerate(row):
            weight = f"{number:.8f}"
            yield (
                f'<rect x="{_CELL * key}" y="{_CELL * query}" width="{_CELL}" height="{_CELL}" '
                f'fill-opacity="{number / largest:.3f}" data-key="{key}" data-weight="{weight}">'
                f"<title>{names[query]} \u2192 {names[key]}: {weight}</title></rect>"
            )
        yield "</g>"


def _text(
    x: float, y: float, text: str, colour: str = _INK, *, anchor: str = "start", weight: str = ""
) -> str:
    bold = f' font-weight="{weight}"' if weight else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" text-anchor="{anchor}"{bold}>'
        f"{_clean(text)}</text>"
    )


def _clean(text: str) -> str:
    return escape(_NOT_XML.sub("\ufffd", text))


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_TOKEN else f"{text[: _LONGEST_TOKEN - 1]}\u2026"


def _width(text: str) -> int:
    """Columns of a monospaced font that a text takes."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)
