"""The client and its loads, against a real service and against servers that misbehave."""

import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.client import predict_once
from benchmarks.errors import AnswerError
from benchmarks.load import Load, measure, percentile
from benchmarks.sentences import SENTENCES, numbered
from tests.end_to_end.servers import RunningService, service


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


def answered_sentences(running: RunningService) -> float:
    metrics = httpx.get(f"{running.url}/metrics").text
    found = re.search(r"^headlight_texts_total (\S+)$", metrics, re.MULTILINE)
    assert found is not None, metrics
    return float(found[1])


def test_one_request_gets_the_answer_of_the_service(running: RunningService) -> None:
    sentences = ["a good film", "a dull plot"]
    with running.client() as client:
        expected = client.post("/predict", json={"sentences": sentences}).json()

    assert json.loads(predict_once(running.port, sentences)) == expected


def test_a_refused_request_is_an_error_with_its_status(running: RunningService) -> None:
    with pytest.raises(AnswerError, match=r"^status 422, not 200: '.*invalid-request"):
        predict_once(running.port, [" "])


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"", "the server closed the connection early"),
        (b"HTTP/1.1 200 OK\r\nContent-Le", "the server closed the connection early"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n[]", "the server closed the connection"),
        (b"HTTP/1.1 200 OK\r\n\r\n[]", "the answer has no Content-Length"),
        (b"HTTP/1.1 500 No\r\ncontent-length: 4\r\n\r\noops", "status 500, not 200: 'oops'"),
    ],
)
def test_a_broken_answer_is_an_error(answer: bytes, message: str) -> None:
    with answering(answer) as port, pytest.raises(AnswerError, match=message):
        predict_once(port, ["a good film"])


def test_a_port_where_nothing_listens_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

    with pytest.raises(AnswerError, match=rf"^no connection to port {port}: "):
        predict_once(port, ["a good film"])


@pytest.mark.parametrize(
    "load", [Load(connections=1, sentences=1), Load(connections=4, sentences=3)]
)
def test_a_load_is_measured(running: RunningService, load: Load) -> None:
    before = answered_sentences(running)
    found = measure(load, port=running.port, first=1, warm_up=0.1, seconds=1.0)
    sent = answered_sentences(running) - before

    counted = found.sentences_per_second * 1.0
    assert counted % load.sentences == 0
    # Those of the warm-up and those answered after the window are not counted.
    assert load.sentences <= counted < sent
    assert sent % load.sentences == 0
    assert 0 < found.p50 <= found.p99


def test_a_window_without_an_answer_is_an_error(running: RunningService) -> None:
    load = Load(connections=1, sentences=1)

    with pytest.raises(
        AnswerError,
        match=r"^1 sentence at 1 connection: no answer within 1e-09 s; raise --seconds$",
    ):
        measure(load, port=running.port, first=1, warm_up=0.0, seconds=1e-9)


def test_a_broken_answer_ends_the_measurement() -> None:
    load = Load(connections=1, sentences=1)

    with answering(b"") as port, pytest.raises(AnswerError, match="closed the connection early"):
        measure(load, port=port, first=1, warm_up=0.0, seconds=30.0)


@pytest.mark.parametrize(
    ("percent", "expected"), [(1, 15), (5, 15), (30, 20), (40, 20), (50, 35), (99, 50), (100, 50)]
)
def test_percentiles_are_by_nearest_rank(percent: float, expected: float) -> None:
    assert percentile([50, 15, 40, 20, 35], percent) == expected


@given(st.lists(st.floats(0, 1e6), min_size=1), st.integers(1, 100))
def test_a_percentile_is_the_smallest_value_with_so_many_below(
    values: list[float], percent: int
) -> None:
    found = percentile(values, percent)

    assert sum(value <= found for value in values) * 100 >= percent * len(values)
    assert sum(value < found for value in values) * 100 < percent * len(values)


def test_no_sentence_comes_twice() -> None:
    assert len(set(SENTENCES)) == 200
    sentences = numbered(7)
    drawn = [next(sentences) for _ in range(1000)]

    assert drawn[0] == f"{SENTENCES[7]} 7"
    assert len(set(drawn)) == 1000


def test_a_load_says_what_it_is() -> None:
    assert str(Load(connections=1, sentences=1)) == "1 sentence at 1 connection"
    assert str(Load(connections=4, sentences=32)) == "32 sentences at 4 connections"
