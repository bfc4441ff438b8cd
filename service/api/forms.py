"""The forms that attention is answered in: what makes each of a view, and how much it may hold."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Any

from model import ModelInfo
from service.api.schemas import FormName
from service.formats.answers import JSON, attention_body
from service.formats.csv import csv_lines, csv_table
from service.formats.npz import npz_archive, npz_arrays
from service.formats.svg import MOST_CELLS, draw, svg_picture
from service.formats.views import View

CSV = "text/csv"
NPZ = "application/x-npz"
SVG = "image/svg+xml"
# The name that `format` takes, by media type; the first is answered if anything is welcome.
FORMS: dict[str, FormName] = {JSON: "json", NPZ: "npz", CSV: "csv", SVG: "svg"}

# A line of CSV is several times as long as a number of JSON.
_CSV_SHARE = 4
# Bytes that the texts of tokens may take in an answer that has them more than once.
MOST_TEXT = 20_000_000
_CHARACTER = 4  # bytes, in an array


@dataclass(frozen=True, slots=True)
class Form:
    """One form, for one request.

    Args:
        name: as `format` takes it.
        media_type: of the answer.
        part: makes the part of one sentence of its view and its number; called where the network
            runs, not on the event loop.
        whole: puts the parts of all sentences together.
        most_weights: that an answer may hold.
        text_size: bytes that the texts of tokens will take if they are ASCII, of their lengths in
            characters and the number of maps over them.
    """

    name: FormName
    media_type: str
    part: Callable[[View, int], Any]
    whole: Callable[[Sequence[Any]], bytes | memoryview]
    most_weights: int
    text_size: Callable[[Sequence[int], int], int]


def make_form(
    name: FormName, info: ModelInfo, *, dtype: str, several: bool, max_weights: int
) -> Form:
    """What makes answers of one form.

    Args:
        name: of the form.
        info: of the model that answers.
        dtype: of the arrays of `npz`.
        several: whether the answer is a list, of one sentence too.
        max_weights: the most numbers in an answer of any form.
    """
    if name == "npz":
        return Form(
            name,
            NPZ,
            lambda view, _: npz_arrays(info, view, dtype=dtype),
            partial(npz_archive, numbered=several),
            max_weights,
            _padded,
        )
    if name == "csv":
        most = max_weights // _CSV_SHARE
        return Form(name, f"{CSV}; charset=utf-8", csv_lines, csv_table, most, _at_each_weight)
    if name == "svg":
        most = min(max_weights, MOST_CELLS)
        return Form(name, SVG, lambda view, _: draw(info, view), svg_picture, most, _at_each_weight)
    whole: Callable[[Sequence[memoryview]], bytes | memoryview] = (
        _json_list if several else itemgetter(0)
    )
    return Form(name, JSON, lambda view, _: attention_body(info, view), whole, max_weights, _once)


def _once(lengths: Sequence[int], maps: int) -> int:
    del lengths, maps
    return 0  # they are part of the request, whose size has a limit


def _padded(lengths: Sequence[int], maps: int) -> int:
    """An array of strings gives each the room of the longest."""
    del maps
    return _CHARACTER * len(lengths) * max(lengths)


def _at_each_weight(lengths: Sequence[int], maps: int) -> int:
    """A row and a column name each weight."""
    return 2 * maps * len(lengths) * sum(lengths)


def _json_list(parts: Sequence[memoryview]) -> bytes:
    return b"[" + b",".join(parts) + b"]"
