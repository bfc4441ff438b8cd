"""Estimates how large an answer with attention becomes, before anything is computed.

Each estimate is an upper bound, and at most about half more than the truth. It follows the writers:
if one of them changes, so must its estimate.

Legend: W tokens or words of a text.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Form = Literal["json", "npz", "svg", "tensors"]

# While the largest form, a list in JSON, is made; the texts of tokens are little beside weights.
MOST_BYTES_PER_WEIGHT = 32

# Of the parts that every answer has for each sentence: model, prediction, numbers of layers.
_HEAD = 2_000
_FLOAT = 4
# json: of a weight, of the brackets round a row, of a token beside its text.
_JSON_WEIGHT, _JSON_ROW, _JSON_TOKEN = 12, 8, 100
# Of a number of steps with its comma, such as -1.1754944e-38.
_STEP = 16
# What NumPy works with while it writes.
_JSON_MAKING = 600_000
# A control character takes six bytes in JSON, and any other at most four.
_JSON_CHARACTER = 6
# npz: of the names and headers of all arrays, of the numbers of a token, of a character.
_NPZ_HEAD, _NPZ_TOKEN, _NPZ_CHARACTER = 6_000, 16, 4
# svg: of a cell beside its texts, of a token on both axes, of a row, of a map.
_SVG_CELL, _SVG_AXES, _SVG_ROW, _SVG_MAP = 185, 260, 40, 800
# An ampersand takes five bytes in XML, and no character more.
_SVG_CHARACTER = 5
# While a picture is drawn, each cell is a string of its own, of wide characters; then all are
# joined, and written as UTF-8.
_SVG_MAKING = 7
# tensors: of the length before the text of a token, of a character, and of all other outputs. While
# they are made, there are the weights, the same in little-endian order, and the whole body.
_TENSORS_LENGTH, _TENSORS_CHARACTER, _TENSORS_HEAD, _TENSORS_MAKING = 4, 4, 4_000, 3
# Beside a row of thumbnails: the strongest key and its weight, in JSON, and as Python numbers.
_JSON_STRONGEST, _MAKING_STRONGEST = 24, 120


@dataclass(frozen=True, slots=True)
class Size:
    """The weights of an answer, and its bytes at most: finished, and while it is being made."""

    weights: int
    answer: int
    making: int


def estimate_steps(numbers: int, texts: Sequence[str]) -> Size:
    """Estimates an answer of `/attention/steps` by its numbers and the texts of its tokens."""
    answer = _HEAD + numbers * _STEP + _spelled(texts, _JSON_TOKEN, _JSON_CHARACTER)
    return Size(numbers, answer, 2 * answer)


def estimate_size(
    form: Form,
    sentences: Sequence[Sequence[str]],
    *,
    maps: int,
    float_bytes: int,
    listed: bool,
    sides: Sequence[int] | None = None,
) -> Size:
    """Estimates the size of an answer.

    Args:
        form: of the answer; `tensors` are bytes of the Open Inference Protocol.
        sentences: the texts of the tokens, or of the words, of each sentence.
        maps: layers times heads.
        float_bytes: bytes of a weight in npz, 4 or 2.
        listed: whether the parts of several sentences are joined.
        sides: rows of the thumbnails of each sentence, in json and npz; None for whole maps.
    """
    is_thumbnail = sides is not None
    sides = [len(texts) for texts in sentences] if sides is None else sides
    weights = maps * sum(side**2 for side in sides)
    strongest = maps * sum(map(len, sentences)) if is_thumbnail else 0
    if form == "npz":
        answer = weights * float_bytes + sum(map(_npz_texts, sentences))
        answer += strongest * (_FLOAT + float_bytes)
        # The arrays, and the archive, which grows by copying.
        return Size(weights, answer, (weights + 2 * strongest) * _FLOAT + answer * 13 // 4)
    if form == "svg":
        answer = sum(_HEAD + maps * _svg_map(texts) for texts in sentences)
        return Size(weights, answer, answer * _SVG_MAKING)
    if form == "tensors":
        answer = _TENSORS_HEAD + weights * _FLOAT
        answer += sum(_spelled(texts, _TENSORS_LENGTH, _TENSORS_CHARACTER) for texts in sentences)
        return Size(weights, answer, answer * _TENSORS_MAKING)
    rows = maps * sum(sides)
    answer = weights * _JSON_WEIGHT + rows * _JSON_ROW + strongest * _JSON_STRONGEST
    answer += sum(_HEAD + _spelled(texts, _JSON_TOKEN, _JSON_CHARACTER) for texts in sentences)
    held = weights * _FLOAT + strongest * _MAKING_STRONGEST
    return Size(weights, answer, held + answer * (2 if listed else 1) + _JSON_MAKING)


def _spelled(texts: Sequence[str], each: int, character: int) -> int:
    return sum(each + character * len(text) for text in texts)


def _npz_texts(texts: Sequence[str]) -> int:
    # An array of strings gives each the room of the longest.
    longest = max(map(len, texts))
    return _NPZ_HEAD + len(texts) * (_NPZ_TOKEN + _NPZ_CHARACTER * longest)


def _svg_map(texts: Sequence[str]) -> int:
    """All cells of a map, which name both texts, and its axes."""
    spelled = _spelled(texts, 0, _SVG_CHARACTER)
    cells = len(texts) * (2 * spelled + _SVG_CELL * len(texts))
    return _SVG_MAP + cells + 2 * spelled + len(texts) * (_SVG_AXES + _SVG_ROW)
