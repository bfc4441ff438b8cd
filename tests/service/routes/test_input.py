"""Bodies and queries of every kind: read whole and right, or refused by a documented error."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterable
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from model.errors import InputError
from model.tokenization.tokenizer import check_text
from service.errors import (
    InvalidRequestError,
    MalformedJsonError,
    PayloadTooLargeError,
    ServiceError,
    UnsupportedMediaTypeError,
)
from service.queue.preparing import one_step
from service.routes.bodies import parse_json, read_query, validate
from service.routes.request_schemas import AttentionRequest, PredictRequest
from service.routes.requests import _INLINE_COST, _SMALL_CHARACTERS
from tests.service.routes.contexts import context_of, request_of

LIMIT = 200
LAYERS = {"layers": 3, "heads": 2}


def read(
    pieces: Iterable[bytes], content_type: str = "application/json", **headers: str
) -> PredictRequest:
    request = request_of(pieces, content_type=content_type, **headers)

    def check(value: object) -> PredictRequest:
        return validate(PredictRequest, value, source="body", context={"max_sentences": 3})

    return asyncio.run(context_of(request, LIMIT).read_json(check))


@pytest.mark.parametrize(("surplus", "inline"), [(0, True), (1, False)])
def test_the_event_loop_is_not_held_up_by_a_large_body(surplus: int, inline: bool) -> None:
    content = b"[]".ljust(_INLINE_COST + surplus)
    threads: list[threading.Thread] = []

    def check(value: object) -> object:
        threads.append(threading.current_thread())
        return value

    request = request_of([content], content_type="application/json")
    context = context_of(request, len(content))
    assert asyncio.run(context.read_json(check)) == []
    assert [thread is threading.main_thread() for thread in threads] == [inline]


async def test_large_texts_keep_no_small_one_waiting() -> None:
    context, hold = context_of(request_of([]), LIMIT), threading.Event()
    large = context.prepare(one_step(hold.wait), ["a" * _SMALL_CHARACTERS, "b"])
    waiting = asyncio.ensure_future(large)
    await asyncio.sleep(0)
    small = context.prepare(one_step(threading.get_ident), ["a" * _SMALL_CHARACTERS])
    assert await small != threading.get_ident()
    assert not waiting.done()
    hold.set()
    assert await waiting


@given(st.lists(st.binary(max_size=60), max_size=5))
@example([b'{"sentences": ["\xed\xa0\x80"]}'])
@example([b'{"sentences": [1e999999]}'])
@example([b'{"sentences": ["\\ud800"]}'])
@example([b'{"\\ud800": 1}'])
def test_any_bytes_are_read_or_refused(pieces: list[bytes]) -> None:
    try:
        assert isinstance(read(pieces), PredictRequest)
    except PayloadTooLargeError:
        assert len(b"".join(pieces)) > LIMIT
    except (MalformedJsonError, InvalidRequestError):
        pass


@given(
    st.lists(st.text(), min_size=1, max_size=3),
    st.sampled_from(["right", "left", "error", "window"]),
)
def test_what_fits_comes_through_as_it_was_sent(sentences: list[str], truncation: str) -> None:
    body = {"sentences": sentences, "truncation": truncation, "on_error": "item"}
    text = json.dumps(body, ensure_ascii=False).encode("utf-8", "surrogatepass")
    try:
        request = read([text])
    except PayloadTooLargeError:
        assert len(text) > LIMIT
    else:
        assert request.model_dump(exclude_unset=True) == body


def test_a_byte_order_mark_is_ignored() -> None:
    assert read([b'\xef\xbb\xbf{"sentences": ["a"]}']).sentences == ["a"]


@pytest.mark.parametrize(
    ("content_type", "encoding", "sound"),
    [
        ("application/json", "identity", True),
        ('application/problem+json; charset="utf-8"', "", True),
        ("application/json; charset=utf-16", "", False),
        ("application/jsonp", "", False),
        ("application/json, application/json", "", False),
        ("application/json", "GZIP", False),
    ],
)
def test_media_types(content_type: str, encoding: str, *, sound: bool) -> None:
    body = [b'{"sentences": ["a"]}']
    if sound:
        assert read(body, content_type, content_encoding=encoding).sentences == ["a"]
    else:
        with pytest.raises(UnsupportedMediaTypeError):
            read(body, content_type, content_encoding=encoding)


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b'{"a": 1, "a": 2} x', MalformedJsonError),
        (b'{"a": 1, "a": 2', MalformedJsonError),
        (b'{"sentences": ["a"], "sentences": ["b"]}', InvalidRequestError),
        (b'{"sentences": [{"a": 1, "a": 2}]}', InvalidRequestError),
    ],
)
def test_a_field_given_twice_is_reported_once_the_json_is_sound(
    body: bytes, error: type[ServiceError]
) -> None:
    with pytest.raises(error) as caught:
        read([body])
    assert ("twice" in str(caught.value)) is (error is InvalidRequestError)


@pytest.mark.parametrize(
    ("body", "error", "detail"),
    [
        (b"[" + b"[]," * 4 + b"{}]", InvalidRequestError, "has 11 values"),
        (
            b'{"a": ["\\"", 1, 2, 3, 4, 5, 6, 7, 8, "\\\\", 9]}',
            InvalidRequestError,
            "has 13 values",
        ),
        (b"[" + b"1," * 9999, InvalidRequestError, "has 10001 values"),
        ("[" + '"é",' * 9999, InvalidRequestError, "has 10001 values"),
        (b"[" * 20_000, MalformedJsonError, "nested too deep"),
        (b"," * 20_000, MalformedJsonError, "line 1, column 1"),
        (b"[1 2" + b",1" * 20_000, MalformedJsonError, "line 1, column 4"),
    ],
)
def test_too_many_values_are_counted_and_not_read(
    body: bytes | str, error: type[ServiceError], detail: str
) -> None:
    content = body.encode() if isinstance(body, str) else body
    with pytest.raises(error, match=detail):
        parse_json(content, 10)


Json = st.recursive(
    st.none() | st.integers(0, 99) | st.text('a,[]{}:"\\', max_size=9),
    lambda inner: (
        st.lists(inner, min_size=1)
        | st.dictionaries(st.text(',"\\', max_size=3), inner, min_size=1)
    ),
)


def count(value: object) -> int:
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(count, inside))


@given(Json)
def test_so_many_values_are_read_and_no_more(value: object) -> None:
    content, most = json.dumps(value).encode(), count(value)
    assert parse_json(content, most) == value
    with pytest.raises(InvalidRequestError, match=f"has {most} values"):
        parse_json(content, most - 1)


def read_parameters(query: bytes) -> AttentionRequest:
    return read_query(query, AttentionRequest, {"layers": 2, "heads": 3})


def is_sound(text: str) -> bool:
    try:
        check_text(text)
    except InputError:
        return False
    return True


@given(
    st.binary(max_size=80) | st.text("sentencelayrhd=&;%+0123456789-", max_size=60).map(str.encode)
)
@example(b"sentence=a&layer=%D9%A1")
@example(b"sentence=a&layer=1;layer=0")
def test_any_query_is_read_or_refused(query: bytes) -> None:
    try:
        sentence = read_parameters(query).sentence
    except InvalidRequestError as refused:
        places = {error.loc[0] for error in refused.errors}
    else:
        assert is_sound(sentence)
        return
    assert places == {"query"}


@given(
    st.text(min_size=1).filter(is_sound),
    st.sampled_from([quote, quote_plus]),
    st.lists(st.integers(0, 1), max_size=5),
    st.lists(st.integers(0, 2), max_size=5),
)
def test_every_text_can_be_sent(
    text: str, encode: Callable[[str], str], layers: list[int], heads: list[int]
) -> None:
    numbers = [f"layer={number}" for number in layers] + [f"head={number}" for number in heads]
    query = "&".join([f"sentence={encode(text)}", *numbers])
    request = read_parameters(query.encode("ascii"))
    assert request.sentence == text
    assert (request.layer, request.head) == (layers or None, heads or None)


@pytest.mark.parametrize("number", ["2", "-1", "1e0", "", "%2B1", "1_0"])
def test_other_layers_are_refused(number: str) -> None:
    with pytest.raises(InvalidRequestError):
        read_parameters(f"sentence=a&layer={number}".encode())
