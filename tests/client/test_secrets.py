"""The key and the sentences stay out of `repr`, by which tools record variables of a failure."""

from collections.abc import Iterator
from types import TracebackType

import pytest

from headlight_client import HeadlightError, calls
from headlight_client.answers import Answer
from headlight_client.config import ClientConfig
from headlight_client.exchange import exchange, run
from tests.client.conftest import Ask
from tests.client.played import Clock, Played
from tests.client.scripted import Reply, predicted, problem, scripted

KEY, SENTENCE = "a-secret-key", "a private sentence"


def test_what_a_call_goes_through() -> None:
    config = ClientConfig("http://there", api_key=KEY, timeout=1.0, retries=0)
    call = calls.predict([SENTENCE], truncation="right", on_error="request")
    played = Played(Clock(), lambda _: Answer(200, {}, predicted("good").content))
    run(exchange(call, config, played))
    (request,) = played.sends
    assert request.headers["Authorization"] == f"Bearer {KEY}"
    assert SENTENCE.encode() in request.content
    answer = Answer(200, {}, SENTENCE.encode())
    for value in (config, config.headers, call, request, request.headers, answer):
        assert KEY not in repr(value)
        assert SENTENCE not in repr(value)


def frames(error: BaseException | None) -> Iterator[tuple[str, str, str]]:
    """Of an error and its causes: file, name and `repr` of each variable of the package."""
    while error is not None:
        traceback: TracebackType | None = error.__traceback__
        while traceback is not None:
            frame = traceback.tb_frame
            if "headlight_client" in frame.f_code.co_filename:
                for name, value in frame.f_locals.items():
                    yield frame.f_code.co_filename, name, repr(value)
            traceback = traceback.tb_next
        error = error.__cause__ or error.__context__


@pytest.mark.parametrize(
    "reply",
    [Reply(0), Reply(200, SENTENCE.encode()), predicted("a", "b"), problem(503, "overloaded")],
    ids=["broken", "unreadable", "too many", "refused"],
)
def test_the_variables_of_a_failure(ask: Ask, reply: Reply) -> None:
    with scripted([reply]) as server, pytest.raises(HeadlightError) as caught:
        ask(server.url, "predict", [SENTENCE], options={"api_key": KEY, "retries": 0})
    recorded = list(frames(caught.value))
    assert {name for _, name, _ in recorded} >= {"call", "config", "request"}
    # What the caller passed is the caller's own.
    shown = [each for each in recorded if each[1] not in ("sentences", "self")]
    assert not [each for each in shown if KEY in each[2] or SENTENCE in each[2]]
