"""Query strings of every kind: read whole and right, or refused as not valid."""

from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from model.errors import InputError
from model.text import check_text
from service.api.query import read_query
from service.api.schemas import AttentionRequest
from service.errors import InvalidRequestError


def read(query: bytes) -> AttentionRequest:
    """Reads a query for a model of two layers and three heads."""
    return read_query(
        query,
        AttentionRequest,
        repeatable=frozenset({"layer", "head"}),
        context={"layers": 2, "heads": 3},
    )


def is_sound(text: str) -> bool:
    """Whether the model takes a text."""
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
        sentence = read(query).sentence
    except InvalidRequestError as refused:
        places = {fault.loc[0] for fault in refused.errors}
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
    request = read(query.encode("ascii"))
    assert request.sentence == text
    assert (request.layer, request.head) == (layers or None, heads or None)


@pytest.mark.parametrize("number", ["2", "-1", "01x", "1e0", "", "9" * 30, "%2B1", "+1", "1_0"])
def test_other_layers_are_refused(number: str) -> None:
    with pytest.raises(InvalidRequestError):
        read(f"sentence=a&layer={number}".encode())
