"""What other systems' paths share: bodies, which texts were cut, places, and whose problems."""

import asyncio
import gzip
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model import Prediction
from service.app import COMPAT_ROUTERS
from service.compat.base import truncated_header
from service.compat.tensors import read_content, unpack
from service.errors import MalformedJsonError, PayloadTooLargeError, UnsupportedMediaTypeError
from service.settings import FAMILIES
from tests.service.routes.contexts import context_of, request_of

LIMIT = 1000
JSON, BYTES = "application/json", "application/octet-stream"


def read(content: bytes, **headers: str) -> bytes:
    context = context_of(request_of([content], **headers), LIMIT)
    return asyncio.run(read_content(context, JSON, BYTES))


def test_gzip_is_unpacked_and_another_encoding_refused() -> None:
    packed = gzip.compress(b"content")
    assert read(packed, content_encoding=" GZIP") == b"content"
    with pytest.raises(UnsupportedMediaTypeError) as raised:
        read(packed, content_encoding="gzip, br")
    assert raised.value.headers == {"Accept-Encoding": "gzip"}


@given(st.binary(max_size=2 * LIMIT), st.integers(0, 9))
def test_what_fits_is_unpacked_and_what_does_not_is_refused(content: bytes, level: int) -> None:
    packed = gzip.compress(content, level)
    if len(content) <= LIMIT:
        assert unpack(packed, LIMIT) == content
    else:
        with pytest.raises(PayloadTooLargeError) as raised:
            unpack(packed, LIMIT)
        assert raised.value.detail.startswith("The body is longer than it may be once it is unp")


def test_a_bomb_is_refused_without_being_unpacked() -> None:
    bomb = gzip.compress(bytes(10_000_000))
    tracemalloc.start()
    with pytest.raises(PayloadTooLargeError):
        unpack(bomb, LIMIT)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 500_000


@given(st.binary(min_size=1, max_size=100), st.data())
def test_only_one_whole_member_is_unpacked(content: bytes, data: st.DataObject) -> None:
    packed = gzip.compress(content)
    cut = data.draw(st.integers(0, len(packed) - 1))
    for wrong_body, words in (
        (packed[:cut], "ends too early"),
        (packed + content, "Something follows"),
        (b"x" + packed, "The body is not gzip"),
    ):
        with pytest.raises(MalformedJsonError, match=words):
            unpack(wrong_body, LIMIT)


def prediction(*, truncated: bool) -> Prediction:
    return Prediction("good", 0.75, {"bad": 0.25, "good": 0.75}, 3, truncated=truncated)


@given(st.lists(st.booleans(), max_size=300))
def test_the_header_names_what_was_cut(cut: list[bool]) -> None:
    header = truncated_header([prediction(truncated=each) for each in cut])
    indices = [str(index) for index, each in enumerate(cut) if each]
    more = [f"+{len(indices) - 100}"] if len(indices) > 100 else []
    named = [*indices[:100], *more]
    assert header == ({"X-Headlight-Truncated": ",".join(named)} if named else {})


def test_each_family_has_its_router_in_the_order_of_the_settings() -> None:
    assert list(COMPAT_ROUTERS) == list(FAMILIES)
