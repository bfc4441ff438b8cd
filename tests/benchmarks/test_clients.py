"""The client and its loads, against a real service and against servers that misbehave."""

import asyncio
import json
import os
import re
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import client, open_loop, wrk
from benchmarks.client import open_connection, predict_once
from benchmarks.errors import AnswerError, BenchmarkError
from benchmarks.loads import Closed
from benchmarks.texts import write_literals
from benchmarks.wrk import Figures
from tests.benchmarks import stub
from tests.end_to_end.servers import RunningService, service

SENTENCES = ["a good film", "a dull plot"]
Predict = Callable[[int, Sequence[str]], bytes]
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


def predict_kept(port: int, sentences: Sequence[str]) -> bytes:
    """Asks over a connection that could be kept."""

    async def ask() -> bytes:
        connection = await open_connection(port)
        try:
            return await connection.predict(sentences)
        finally:
            await connection.close()

    return asyncio.run(ask())


both_ways = pytest.mark.parametrize("predict", [predict_once, predict_kept])


def answered_sentences(running: RunningService) -> float:
    metrics = httpx.get(f"{running.url}/metrics").text
    found = re.search(r"^headlight_texts_total (\S+)$", metrics, re.MULTILINE)
    assert found is not None, metrics
    return float(found[1])


@both_ways
def test_one_request_gets_the_answer_of_the_service(
    running: RunningService, predict: Predict
) -> None:
    sentences = ["a good film", "ein dröger Film"]
    with running.client() as asking:
        expected = asking.post("/predict", json={"sentences": sentences}).json()

    assert json.loads(predict(running.port, sentences)) == expected


@both_ways
def test_a_refused_request_is_an_error_with_its_status(
    running: RunningService, predict: Predict
) -> None:
    with pytest.raises(AnswerError, match=r"^status 422, not 200: '.*invalid-request"):
        predict(running.port, [" "])


@both_ways
@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"", "the server closed the connection early"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n[]", "the server closed the connection"),
        (b"HTTP/1.1 200 OK\r\n\r\n[]", "the answer has no Content-Length"),
        (b"HTTP/1.1 500 No\r\ncontent-length: 4\r\n\r\noops", "status 500, not 200: 'oops'"),
    ],
)
def test_a_broken_answer_is_an_error(predict: Predict, answer: bytes, message: str) -> None:
    with answering(answer) as port, pytest.raises(AnswerError, match=message):
        predict(port, ["a good film"])


@pytest.mark.parametrize(
    ("predict", "message"),
    [
        (predict_kept, "the server closed the connection early"),
        (predict_once, "the answer has no Content-Length"),
    ],
)
def test_half_a_head_is_an_error(predict: Predict, message: str) -> None:
    with (
        answering(b"HTTP/1.1 200 OK\r\nContent-Le") as port,
        pytest.raises(AnswerError, match=f"^{message}"),
    ):
        predict(port, ["a good film"])


def test_asked_once_it_needs_no_event_loop(running: RunningService) -> None:
    """An interrupt that comes while a loop is made would leave half of one, which complains."""

    async def ask() -> bytes:
        return predict_once(running.port, ["a good film"])  # no loop can be run within this one

    assert json.loads(asyncio.run(ask()))["predictions"][0]["token_count"] > 0


def test_no_answer_in_time_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_PATIENCE", 0.1)

    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        pytest.raises(AnswerError, match=r"^no answer within 0\.1 s$"),
    ):
        predict_once(silent.getsockname()[1], ["a good film"])


@both_ways
def test_a_port_where_nothing_listens_is_an_error(predict: Predict) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

    with pytest.raises(AnswerError, match=rf"^no connection to port {port}: "):
        predict(port, ["a good film"])


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    path = tmp_path / "texts"
    write_literals(['a "good" film', "ein dröger Film \N{PILE OF POO}", "a\\b"], path)
    return path


@needs_wrk
@pytest.mark.parametrize(
    "load",
    [Closed("one", 1), Closed("many", 4, sentences=3), Closed("weights", 2, route="attention")],
    ids=lambda load: load.name,
)
def test_a_load_is_measured(running: RunningService, texts: Path, load: Closed) -> None:
    before = answered_sentences(running)
    found = wrk.run(load, texts=texts, port=running.port, first=1, seconds=1)
    sent = answered_sentences(running) - before

    assert 0 < found.p50 <= found.p99
    assert found.rate > 0
    # What is on its way at the end may be answered too, in part, and is not counted.
    assert found.requests * load.sentences <= sent
    assert sent <= (found.requests + load.connections) * load.sentences


@needs_wrk
def test_a_load_that_is_refused_is_an_error(running: RunningService, texts: Path) -> None:
    load = Closed("too many", 1, sentences=1000)

    with pytest.raises(AnswerError, match=r"^too many: [1-9]\d* of \d+ requests failed$"):
        wrk.run(load, texts=texts, port=running.port, first=1, seconds=1)


def test_without_the_client_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")

    with pytest.raises(BenchmarkError, match=r"^wrk, the client, is not installed: apt-get"):
        wrk.check_installed()


def asked_in_the_open(
    port: int, *, rate: float, warm_up: float = 0.0, seconds: float = 1.0
) -> Figures:
    return open_loop.run(
        rate, sentences=SENTENCES, port=port, first=1, warm_up=warm_up, seconds=seconds
    )


def test_an_open_loop_asks_the_service_one_sentence_at_a_time(running: RunningService) -> None:
    before = answered_sentences(running)
    found = asked_in_the_open(running.port, rate=40.0)

    assert answered_sentences(running) - before == found.requests == 40
    assert 0 < found.p50 <= found.p99


def test_an_open_loop_asks_at_its_rate_however_slowly_it_is_answered() -> None:
    arrived: list[float] = []

    def answer_late(_: str) -> None:
        arrived.append(time.perf_counter())
        time.sleep(1.0)

    with stub.answering(answer_late) as port:
        found = asked_in_the_open(port, rate=20.0)

    arrived.sort()
    # The first may be late; all before the first answer, as each is due at its own moment.
    assert 0.5 < arrived[-1] - arrived[0] < 1.5
    assert arrived[9] - arrived[0] < 0.75 * (arrived[-1] - arrived[0])
    # Twenty in the second in which they were due and the one that the last answer took.
    assert found.rate < 12.0


def test_the_rate_of_an_open_loop_is_that_of_the_answers() -> None:
    with ThreadPoolExecutor(1) as worker:

        def wait_for_turn(_: str) -> None:
            worker.submit(time.sleep, 0.025).result()

        with stub.answering(wait_for_turn) as port:
            found = asked_in_the_open(port, rate=80.0)

    assert found.rate < 40.0
    # The last one waits for all but itself, less the second in which they came.
    assert found.p99 > 0.9


def test_the_rate_of_an_open_loop_that_is_answered_in_time_is_what_was_asked() -> None:
    with stub.answering(lambda _: None) as port:
        found = asked_in_the_open(port, rate=0.5, seconds=2.0)

    assert (found.rate, found.requests) == (0.5, 1)


def test_the_warm_up_of_an_open_loop_does_not_count() -> None:
    asked: list[str] = []

    def warm_up(sentence: str) -> None:
        asked.append(sentence)
        if len(asked) <= 10:
            time.sleep(1.0)

    with stub.answering(warm_up) as port:
        found = asked_in_the_open(port, rate=10.0, warm_up=1.0)

    assert (len(asked), len(set(asked)), found.requests) == (20, 20, 10)
    assert found.p99 < 1.0


def test_a_broken_answer_ends_an_open_loop() -> None:
    with answering(b"") as port, pytest.raises(AnswerError, match="closed the connection early"):
        asked_in_the_open(port, rate=1.0)


@pytest.mark.parametrize(
    ("percent", "expected"), [(1, 15), (5, 15), (30, 20), (40, 20), (50, 35), (99, 50), (100, 50)]
)
def test_percentiles_are_by_nearest_rank(percent: float, expected: float) -> None:
    assert open_loop.percentile([50, 15, 40, 20, 35], percent) == expected


@given(st.lists(st.floats(0, 1e6), min_size=1), st.integers(1, 100))
def test_a_percentile_is_the_smallest_value_with_so_many_below(
    values: list[float], percent: int
) -> None:
    found = open_loop.percentile(values, percent)

    assert sum(value <= found for value in values) * 100 >= percent * len(values)
    assert sum(value < found for value in values) * 100 < percent * len(values)
