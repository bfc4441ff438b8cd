"""The clients, against a real service and against servers that misbehave."""

import json
import os
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks import client
from benchmarks.client import open_loop, predict_once
from benchmarks.errors import AnswerError
from benchmarks.loads import Figures, Load
from benchmarks.texts import write_literals
from benchmarks.wrk import closed_loop
from tests.benchmarks import stub
from tests.end_to_end.servers import RunningService, service

SENTENCES = ["a good film", "a dull plot"]
# Its absence must not hide in continuous integration.
needs_wrk = pytest.mark.skipif(
    shutil.which("wrk") is None and "CI" not in os.environ, reason="wrk is not installed"
)


@pytest.fixture(scope="module")
def running(
    checkpoint_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningService]:
    with service(checkpoint_folder, tmp_path_factory.mktemp("benchmarks")) as server:
        yield server


@contextmanager
def answering(answer: bytes) -> Iterator[int]:
    """A server that reads one request, sends these bytes and closes; the block gets its port."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer_once() -> None:
            connection, _ = listening.accept()
            with connection:
                while not connection.recv(65536).endswith(b"}"):
                    pass
                connection.sendall(answer)

        thread = threading.Thread(target=answer_once)
        thread.start()
        yield listening.getsockname()[1]
        thread.join()


def open_load(port: int, *, rate: float, warm_up: float = 0.0, seconds: float = 1.0) -> Figures:
    return open_loop(
        rate, sentences=SENTENCES, port=port, first=1, warm_up=warm_up, seconds=seconds
    )


def test_one_request_gets_the_answer_of_the_service(running: RunningService) -> None:
    sentences = ["a good film", "ein dröger Film"]
    with running.client() as asking:
        expected = asking.post("/predict", json={"sentences": sentences}).json()

    assert json.loads(predict_once(running.port, sentences)) == expected


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"", "no answer from port"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n[]", "no answer from port"),
        (b"HTTP/1.1 200 OK\r\n\r\n[]", "the answer has no Content-Length"),
        (b"HTTP/1.1 500 No\r\ncontent-length: 4\r\n\r\noops", "status 500, not 200: 'oops'"),
    ],
)
def test_a_broken_answer_is_an_error(answer: bytes, message: str) -> None:
    with answering(answer) as port, pytest.raises(AnswerError, match=message):
        predict_once(port, ["a good film"])


def test_no_answer_in_time_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_ANSWER_SECONDS", 0.1)

    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        pytest.raises(AnswerError, match=r"^no answer within 0\.1 s$"),
    ):
        predict_once(silent.getsockname()[1], ["a good film"])


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    path = tmp_path / "texts"
    write_literals(['a "good" film', "ein dröger Film \N{PILE OF POO}", "a\\b"], path)
    return path


@needs_wrk
@pytest.mark.parametrize(
    "load",
    [Load("many", 4, sentences=3), Load("weights", 2, route="attention")],
    ids=lambda load: load.name,
)
def test_a_closed_loop_counts_what_was_answered(
    running: RunningService, texts: Path, load: Load
) -> None:
    before = running.metric("headlight_texts_total")
    figures = closed_loop(load, texts=texts, port=running.port, first=1, seconds=1)
    sent = running.metric("headlight_texts_total") - before

    assert 0 < figures.p50 <= figures.p99
    assert figures.rate > 0
    # Requests in flight at the end may be answered too, and are not counted.
    assert figures.requests * load.sentences <= sent
    assert sent <= (figures.requests + load.connections) * load.sentences


@needs_wrk
def test_a_closed_loop_that_is_refused_is_an_error(running: RunningService, texts: Path) -> None:
    load = Load("too many", 1, sentences=1000)

    with pytest.raises(AnswerError, match=r"^too many: [1-9]\d* of \d+ requests failed$"):
        closed_loop(load, texts=texts, port=running.port, first=1, seconds=1)


def test_an_open_loop_waits_for_no_answer_and_counts_from_when_a_request_was_due() -> None:
    """No request is answered before the last one is sent, which a closed loop never sends."""
    sentences: list[str] = []
    all_sent = threading.Event()

    def answer_after_the_last(sentence: str) -> None:
        sentences.append(sentence)
        if len(sentences) == 20:
            all_sent.set()
        all_sent.wait(30)

    with stub.answering(answer_after_the_last) as port:
        figures = open_load(port, rate=40.0, warm_up=0.25, seconds=0.25)

    # The warm-up is not counted: the first request after it is due at 0.25 s, the last at 0.475 s.
    assert (len(set(sentences)), figures.requests) == (20, 10)
    assert figures.p99 >= 0.475 - 0.25
    assert 0.475 - 0.375 <= figures.p50 <= figures.p99
    assert figures.rate <= 40.0


@pytest.mark.parametrize("status", [422, None])
def test_a_broken_answer_ends_an_open_loop(status: int | None) -> None:
    with stub.answering(lambda _: status) if status else answering(b"") as port:  # noqa: SIM117
        with pytest.raises(AnswerError, match=r"^an open-loop request failed: "):
            open_load(port, rate=1.0)
