"""What a real service refuses, as both clients tell it."""

from collections.abc import Mapping, Sequence
from typing import Any

import httpx
import numpy as np
import pytest

from headlight_client import (
    Client,
    FieldError,
    InvalidRequestError,
    ItemError,
    Prediction,
    ProblemError,
    UnauthorizedError,
)
from tests.client.conftest import Ask
from tests.end_to_end.servers import RunningService
from tests.matching import exactly

Named = Mapping[str, Any]

KEY = {"api_key": "the-key"}
BLANK = (
    "the text is blank: send at least one character that is not white space, a control or a "
    "format character"
)


def test_a_bad_sentence_gets_an_error_in_its_place(ask: Ask, running: RunningService) -> None:
    texts = ["good", " ", "half \ud83c of a pair", "bad"]
    found = ask(running.url, "predict", texts, on_error="item", options=KEY)

    assert [type(each) for each in found] == [Prediction, ItemError, ItemError, Prediction]
    assert found[1] == ItemError(
        type="invalid-request",
        status=422,
        title="The request is not valid",
        detail=f"sentences[1]: {BLANK}.",
        errors=(FieldError(("body", "sentences", 1), BLANK),),
    )
    assert found[2].errors[0].loc == ("body", "sentences", 2)
    assert found[2].errors[0].msg.startswith("the text is not valid Unicode: lone surrogate at")
    assert [found[0], found[3]] == ask(running.url, "predict", ["good", "bad"], options=KEY)


def test_a_missing_value_is_a_bad_sentence(ask: Ask, running: RunningService) -> None:
    texts = ["good", float("nan"), None, "bad"]
    found = ask(running.url, "predict", texts, on_error="item", options=KEY)

    assert [type(each) for each in found] == [Prediction, ItemError, ItemError, Prediction]
    assert [found[at].errors for at in (1, 2)] == [
        (FieldError(("body", "sentences", at), "the item is not a string: send text"),)
        for at in (1, 2)
    ]
    assert [found[0], found[3]] == ask(running.url, "predict", ["good", "bad"], options=KEY)


def test_a_bad_sentence_refuses_all(ask: Ask, running: RunningService) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        ask(running.url, "predict", ["good", " "], options=KEY)

    error = caught.value
    assert str(error) == f"422 invalid-request: sentences[1]: {BLANK}."
    assert (error.type, error.status) == ("invalid-request", 422)
    assert error.title == "The request is not valid"
    assert error.detail == f"sentences[1]: {BLANK}."
    assert error.errors == (FieldError(("body", "sentences", 1), BLANK),)
    assert error.retry_after is None
    assert error.request_id is not None
    assert len(error.request_id) == 32


@pytest.mark.parametrize(
    ("method", "given", "named", "kind"),
    [
        ("attentions", [["good"] * 6], {}, "invalid-request"),
        ("predict", [[]], {}, "invalid-request"),
        ("predict", [["good " * 40]], {"truncation": "error"}, "text-too-long"),
        ("attention", ["good"], {"layers": [2]}, "invalid-request"),
        ("attention", ["good"], {"layers": []}, "invalid-request"),
        ("attention", ["good " * 21], {}, "too-many-weights"),
        ("attentions", [["good", ""]], {}, "invalid-request"),
    ],
)
def test_what_the_service_refuses(
    ask: Ask, running: RunningService, method: str, given: Sequence[object], named: Named, kind: str
) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        ask(running.url, method, *given, **named, options=KEY)

    assert caught.value.type == kind


@pytest.mark.parametrize(
    ("options", "detail"),
    [
        ({}, "This service needs an API key: send `Authorization: Bearer <key>`."),
        (
            {"api_key": "another"},
            "The API key is not valid here: check it, or ask the operator of the service for one.",
        ),
    ],
)
def test_a_key_is_needed(ask: Ask, running: RunningService, options: Named, detail: str) -> None:
    with pytest.raises(UnauthorizedError) as caught:
        ask(running.url, "predict", ["good"], options=options)

    assert caught.value.type == "unauthorized"
    assert caught.value.detail == detail
    assert "another" not in str(caught.value)


def test_a_wrong_path(ask: Ask, running: RunningService) -> None:
    with pytest.raises(ProblemError) as caught:
        ask(f"{running.url}/sentiment", "predict", ["good"], options=KEY)

    assert type(caught.value) is ProblemError
    assert (caught.value.type, caught.value.status) == ("not-found", 404)


@pytest.mark.parametrize("method", ["predict", "attentions"])
def test_one_string_is_no_list_of_sentences(ask: Ask, running: RunningService, method: str) -> None:
    with pytest.raises(TypeError, match=exactly("sentences is one string: put it in a list")):
        ask(running.url, method, "good", options=KEY)


@pytest.mark.parametrize("several", [["good"], ("good",), {"good"}, np.array(["good"])])
@pytest.mark.parametrize(
    ("method", "instead"),
    [
        ("attention", "use attentions for several"),
        ("attributions", "call it once for each"),
        ("importance", "call it once for each"),
    ],
)
def test_several_are_no_sentence(ask: Ask, method: str, instead: str, several: Any) -> None:  # noqa: ANN401
    kind = type(several).__name__
    with pytest.raises(
        TypeError, match=exactly(f"{method} takes one sentence, got a {kind}: {instead}")
    ):
        ask("http://127.0.0.1:9", method, several)


def test_the_service_takes_the_name_of_a_call(running: RunningService) -> None:
    got: list[httpx.Response] = []
    with (
        httpx.Client(event_hooks={"response": [got.append]}) as http,
        pytest.raises(InvalidRequestError) as caught,
    ):
        Client(running.url, api_key="the-key", http_client=http).predict([" "])

    (response,) = got
    sent = response.request.headers["X-Request-ID"]
    assert response.headers["X-Request-ID"] == sent == caught.value.request_id
