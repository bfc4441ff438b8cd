"""Tensors of the Open Inference Protocol: what one side writes, the other reads, and no more."""

import struct
import sys
import tracemalloc
from math import prod
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.compat.tensors import (
    HEADER,
    Output,
    cut_tensors,
    read_bytes,
    read_nested,
    split_body,
    write_body,
)
from service.errors import FieldError, InvalidRequestError

LOC = ("inputs", 0, "data")

texts = st.text(st.characters(exclude_categories=["Cs"]))
shapes = st.one_of(
    st.tuples(st.integers(1, 5)),
    st.tuples(st.integers(1, 5), st.just(1)),
    st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 2)),
)


@st.composite
def tensors(draw: st.DrawFn) -> tuple[tuple[int, ...], list[str]]:
    shape = draw(shapes)
    return shape, draw(st.lists(texts, min_size=prod(shape), max_size=prod(shape)))


def pack(*elements: bytes) -> memoryview:
    return memoryview(b"".join(struct.pack("<I", len(each)) + each for each in elements))


def refused(call: Any, *arguments: object) -> FieldError:  # noqa: ANN401
    """The one error for which a call refuses its arguments."""
    with pytest.raises(InvalidRequestError) as caught:
        call(*arguments)
    (error,) = caught.value.errors
    assert caught.value.detail.endswith(f"{error.msg}.")
    return error


@given(tensors())
def test_json_may_be_nested_as_the_shape_is(tensor: tuple[tuple[int, ...], list[str]]) -> None:
    shape, elements = tensor
    nested = np.array(elements, np.object_).reshape(shape).tolist()
    assert read_nested(nested, shape, LOC) == elements
    assert read_nested(elements, shape, LOC) == elements


def test_bytes_are_little_endian_and_in_row_major_order() -> None:
    numbers = np.asfortranarray(np.array([[1.0, 2.0], [3.0, -4.5]], ">f4"))
    body, headers = write_body({"id": "7"}, [Output("n", "FP32", (2, 2), numbers, binary=True)])
    assert body[int(headers[HEADER]) :] == struct.pack("<4f", 1.0, 2.0, 3.0, -4.5)
    flat, headers = write_body(
        {"id": "7"}, [Output("n", "FP32", (2, 2), numbers.astype("f4"), binary=False)]
    )
    assert orjson.loads(flat) == {
        "id": "7",
        "outputs": [{"name": "n", "datatype": "FP32", "shape": [2, 2], "data": [1, 2, 3, -4.5]}],
    }
    assert headers == {}


@given(st.binary(max_size=60), st.lists(st.integers(0, 2**62), max_size=4))
def test_any_bytes_give_texts_or_a_clean_error(content: bytes, shape: list[int]) -> None:
    tracemalloc.start()
    try:
        found = read_bytes(memoryview(content), shape, LOC)
    except InvalidRequestError as error:
        assert len(error.errors) == 1  # noqa: PT017 - it may also be read
    else:
        assert pack(*(text.encode() for text in found)) == content
        assert len(found) == prod(shape)
    finally:
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert most < 200_000


def test_an_inflated_length_is_refused() -> None:
    content = memoryview(struct.pack("<I", 2**32 - 1) + b"good")
    assert refused(read_bytes, content, (1,), LOC).msg == (
        "element 0 says that it has 4294967295 bytes, but 4 are left: write each as its length in "
        "4 bytes, little-endian, and its content"
    )
    assert refused(read_bytes, pack(b"good"), (2**60,), LOC).msg == (
        f"its shape means {2**60} elements, but its bytes hold 1"
    )


def test_bytes_that_are_no_text_are_refused_by_their_place() -> None:
    error = refused(read_bytes, pack(b"good", b"caf\xe9 \xff"), (2,), LOC)
    assert error == FieldError(("body", *LOC, 1), "is not UTF-8: its byte 3 does not belong there")
    # Half of a surrogate pair has no UTF-8.
    assert refused(read_bytes, pack(b"\xed\xb2\x80"), (1,), LOC).loc == ("body", *LOC, 0)


@pytest.mark.parametrize(
    ("data", "shape"),
    [
        (["a", "b"], (3,)),
        ([["a", "b"]], (2, 1)),
        ([["a"], "b"], (2, 1)),
        ([[["a"]], [["b"]]], (2, 2)),
        (None, (1,)),
        ([["a"]], (2**60, 2**60)),
    ],
)
def test_json_of_another_shape_is_refused(data: object, shape: tuple[int, ...]) -> None:
    assert refused(read_nested, data, shape, LOC) == FieldError(
        ("body", *LOC),
        f"must be a list of {prod(shape)} elements, or lists in lists, as its shape says",
    )


def test_deeply_nested_json_is_refused() -> None:
    data: list[object] = []
    for _ in range(sys.getrecursionlimit() * 2):
        data = [data]
    assert refused(read_nested, data, (1,), LOC).loc == ("body", *LOC)


@pytest.mark.parametrize("sizes", [[3], [5], [], [2**62, None]])
def test_sizes_that_are_not_those_of_the_bytes_are_refused(sizes: list[int | None]) -> None:
    total = sum(size or 0 for size in sizes)
    assert refused(cut_tensors, memoryview(b"1234"), sizes) == FieldError(
        ("body", "inputs"),
        f"binary_data_size is {total} bytes in all, but 4 follow the JSON: give the size of every "
        f"input that is sent as bytes, and the length of the JSON in {HEADER}",
    )


@pytest.mark.parametrize("given", [["-1"], ["\u0662"], ["2", "2"], ["9" * 19]])
def test_a_header_that_is_no_length_is_refused(given: list[str]) -> None:
    assert refused(split_body, b"{}", given) == FieldError(
        ("header", HEADER), "must be the number of bytes of the JSON, given once"
    )


def test_a_header_longer_than_the_body_is_refused() -> None:
    assert refused(split_body, b"{}", ["3"]).msg == (
        "says 3 bytes, but the body has 2: give those of its JSON"
    )
    for content, length, expected in (
        (b"{}", ["2"], (b"{}", b"")),
        (b"{}1", ["2"], (b"{}", b"1")),
        (b"{}1", [], (b"{}1", b"")),
    ):
        head, behind = split_body(content, length)
        assert (head, bytes(behind)) == expected
