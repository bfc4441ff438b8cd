"""Tables of attention: a line for each weight, as Python's own writer of CSV has it."""

import csv
import io
import re
import sys
from decimal import Decimal
from types import FrameType

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hypothesis_numpy
from numpy.typing import NDArray

from model import Prediction, Token
from service.formats.csv import COLUMNS, csv_lines, csv_table
from service.formats.views import View
from tests.matching import exactly

PREDICTION = Prediction("good", 0.75, {"bad": 0.25, "good": 0.75}, 3, truncated=False)

texts = st.lists(
    st.text(st.characters(codec="utf-8"), max_size=12)
    | st.sampled_from(['"', ",", "\n", "a,b", 'say "so"', "\r\n", "é", "\U0001f600", "##s"]),
    min_size=1,
    max_size=12,
)
weights = st.floats(0, 1, width=32) | st.sampled_from(
    [0.0, -0.0, 1.0, 1.0000001192092896, 1e-45, 1.1754943508222875e-38, 5e-09, 6e-09, 1e-08, 0.1]
)


def view_of(tokens: list[str], attention: NDArray[np.float32], name: str = "raw") -> View:
    """A view of layers from 9 and heads from 8, so that some numbers have two digits."""
    layers, heads = attention.shape[:2]
    return View(
        name,
        PREDICTION,
        [Token(text, 0, 1, special=False, word=place) for place, text in enumerate(tokens)],
        tuple(range(9, 9 + layers)),
        tuple(range(8, 8 + heads)),
        attention,
    )


FORMULA = [*map(chr, range(0x21)), *"=+-@\ufeff", *"\uff0b\uff0d\uff1d\uff20"]
DIVIDERS = [*";,|\t\r\n"]


def escaped(text: str) -> str:
    """The rule, character by character."""
    result = ""
    for place, character in enumerate(text):
        begins = place == 0 or text[place - 1] in DIVIDERS
        if begins and (character in [*FORMULA, "'"] or (place and character == '"')):
            result += "'"
        result += character
    return result


def restored(cell: str) -> str:
    """As docs/reference/http.md says."""
    return re.sub(r"(\A|[;,|\t\r\n])'", r"\1", cell)


def written(view: View, number: int) -> bytes:
    """The same by Python's own writer, weight by weight."""
    buffer = io.StringIO(newline="")
    table = csv.writer(buffer)
    names = [escaped(token.text) for token in view.tokens]
    for (layer, head, query, key), weight in np.ndenumerate(view.attention):
        places = [view.layer_names[layer], view.head_names[head], query, key]
        spelled = f"{abs(round(Decimal(float(weight)), 8)):.8f}"
        table.writerow([number, *places, names[query], names[key], spelled])
    return buffer.getvalue().encode("utf-8")


@given(texts, st.integers(1, 2), st.integers(1, 3), st.integers(0, 300), st.data())
def test_lines_are_those_of_the_standard_writer(
    tokens: list[str], layers: int, heads: int, number: int, data: st.DataObject
) -> None:
    size = len(tokens)
    shape = (layers, heads, size, size)
    attention = data.draw(hypothesis_numpy.arrays(np.float32, shape, elements=weights))
    view = view_of(tokens, attention)

    assert bytes(csv_lines(view, number)) == written(view, number)


@pytest.mark.parametrize("name", ["mean", "max+word", "rollout", "rollout+word"])
def test_lines_of_joined_maps(name: str) -> None:
    attention = np.random.default_rng(0).random((1, 1, 3, 3), np.float32)
    view = view_of(["one", 'two "2"', "three"], attention, name)

    assert bytes(csv_lines(view, 0)) == written(view, 0)


@pytest.mark.parametrize("size", [10, 11, 101])
def test_lines_of_many_words(size: int) -> None:
    attention = np.random.default_rng(size).random((2, 1, size, size), np.float32)
    view = view_of([f"word {place}" for place in range(size)], attention)

    assert bytes(csv_lines(view, 0)) == written(view, 0)


def test_a_table_has_a_header_and_the_lines_of_each_view() -> None:
    view = view_of(["ok"], np.ones((1, 1, 1, 1), np.float32))
    parts = [csv_lines(view, number) for number in range(2)]

    header = ",".join(COLUMNS).encode("ascii")
    assert csv_table(parts) == (
        header + b"\r\n0,9,8,0,0,ok,ok,1.00000000\r\n1,9,8,0,0,ok,ok,1.00000000\r\n"
    )


@pytest.mark.parametrize("weight", [np.nan, np.inf, -1e-6, 1.01])
def test_what_is_no_weight_is_refused(weight: float) -> None:
    with pytest.raises(
        ValueError, match=exactly("a weight of attention is not a number from 0 to 1")
    ):
        csv_lines(view_of(["ok"], np.full((1, 1, 1, 1), weight, np.float32)), 0)


def test_the_work_of_the_interpreter_grows_only_with_the_words() -> None:
    """Whatever it does for each weight, it does under the lock that all threads wait for."""

    def calls(layers: int) -> int:
        attention = np.full((layers, 4, size, size), 1 / size, np.float32)
        view = view_of([f"word {place}" for place in range(size)], attention)
        count = 0

        def note(frame: FrameType, event: str, argument: object) -> None:
            nonlocal count
            del frame, argument
            count += event in ("call", "c_call")

        before = sys.getprofile()
        sys.setprofile(note)
        try:
            csv_lines(view, 0)
        finally:
            sys.setprofile(before)
        return count

    size = 40
    few, many = calls(1), calls(5)
    assert few < 50 * size
    assert many - few < size * size / 4  # for 25,600 weights more


risky = st.text(st.sampled_from([*FORMULA, *DIVIDERS, *"'\"a1!"]), max_size=12)


@given(st.lists(risky, min_size=1, max_size=4))
@example(['=HYPERLINK("http://x")', "+1", "-1", "@SUM(1)", "\t=1", "\r=1", "\uff1d1"])
@example(['a;=1;"=1"', "a|=1", "a\n=1", "'=1", "''", "'", '"', "a;'=1"])
def test_no_text_is_a_formula_and_each_can_be_restored(tokens: list[str]) -> None:
    size = len(tokens)
    view = view_of(tokens, np.full((1, 1, size, size), 1 / size, np.float32))
    lines = bytes(csv_lines(view, 0)).decode("utf-8")

    rows = list(csv.reader(io.StringIO(lines, newline="")))
    assert [(restored(row[5]), restored(row[6])) for row in rows] == [
        (query, key) for query in tokens for key in tokens
    ]
    # Some spreadsheets divide at other characters, as their country does.
    for delimiter in ",;\t|":
        cells = csv.reader(io.StringIO(lines, newline=""), delimiter=delimiter)
        assert not [cell for row in cells for cell in row if cell[:1] in FORMULA]
