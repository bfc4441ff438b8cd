"""That a load is measured whole and alone, on servers that go on with what nobody waits for."""

import http.client
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks import measure
from benchmarks.client import predict_once
from benchmarks.errors import AnswerError
from benchmarks.loads import Closed, Mixed, Open
from benchmarks.measure import Measurement, Meter, Timing
from benchmarks.processes import ProcessTree
from benchmarks.servers import Server
from benchmarks.texts import own_texts
from benchmarks.wrk import Figures
from tests.benchmarks.stub import RefusedError, answering

PASS_SECONDS = 0.1
# Characters: of the texts of our own, a sentence has fewer and a review more.
LONG = 200
CLOSED = Closed("closed", 4)
MIXED = Mixed("both", Closed("short", 2), Closed("long", 4, texts="reviews"))

pytestmark = [
    pytest.mark.skipif(
        shutil.which("wrk") is None and "CI" not in os.environ, reason="wrk is not installed"
    ),
    pytest.mark.alone,
    pytest.mark.slow,
]


@pytest.fixture
def meter(tmp_path: Path) -> Iterator[Meter]:
    with ThreadPoolExecutor(1) as client:
        yield Meter(own_texts(), folder=tmp_path, timing=Timing(1, 1, 2), client=client)


@contextmanager
def serving(handle: Callable[[str], object]) -> Iterator[Server]:
    with answering(handle) as port:
        yield Server(port, 0.0, ProcessTree(os.getpid()))


@contextmanager
def queueing(asked: list[str]) -> Iterator[Server]:
    """A server with one worker: everything takes its time and its turn, and is written down."""
    with ThreadPoolExecutor(1) as worker:

        def wait_for_turn(sentence: str) -> None:
            asked.append(sentence)
            worker.submit(time.sleep, PASS_SECONDS).result()

        with serving(wait_for_turn) as server:
            yield server


def passes_waited(server: Server) -> float:
    """How many passes a sentence waits for, its own among them."""
    begin = time.perf_counter()
    predict_once(server.port, ["a good film"])
    return (time.perf_counter() - begin) / PASS_SECONDS


def test_settling_waits_until_all_is_done_that_was_asked_before() -> None:
    left = 8
    with queueing([]) as server:
        begin = time.perf_counter()
        for _ in range(left):
            client = http.client.HTTPConnection("127.0.0.1", server.port)
            client.request("POST", "/predict", b'{"sentences": ["a dull plot"]}')
            client.close()
        server.settle()

    assert time.perf_counter() - begin >= (left + 1) * PASS_SECONDS


def test_a_warm_up_does_not_count_nor_what_it_leaves_behind(meter: Meter) -> None:
    with queueing([]) as server:
        found = meter.measure(CLOSED, server, number=1, before={}).figures
        waited = passes_waited(server)

    # Behind those of the warm-up it would be twice as long, and so behind those of the load.
    assert found.p99 / PASS_SECONDS < 1.5 * CLOSED.connections
    assert waited < CLOSED.connections


def test_short_texts_are_warm_beside_long_ones_which_leave_nothing_behind(meter: Meter) -> None:
    asked: list[str] = []
    with queueing(asked) as server:
        found = meter.measure(MIXED, server, number=1, before={})
        waited = passes_waited(server)

    long = [place for place, sentence in enumerate(asked) if len(sentence) > LONG]
    short = [sentence for sentence in asked[long[0] : long[-1]] if len(sentence) <= LONG]
    assert found.undisturbed is not None
    # Those of the warm-up too, besides the two sentences that wait and what is not answered.
    assert len(short) > found.figures.requests + 2 + 2 * MIXED.short.connections
    assert len(set(asked)) == len(asked)
    assert waited < MIXED.long.connections


def test_a_load_at_a_fixed_rate_is_warm_and_says_what_was_asked(meter: Meter) -> None:
    asked: list[str] = []
    before = {CLOSED.name: Measurement(Figures(20.0, 0.1, 0.2))}
    with serving(asked.append) as server:
        found = meter.measure(Open("half", 0.5, CLOSED.name), server, number=2, before=before)

    assert found.asked == 10.0
    assert (len(asked), found.figures.requests) == (30, 20)
    assert len(set(asked)) == len(asked)


def test_long_texts_that_are_refused_are_an_error(meter: Meter) -> None:
    def refuse_long(sentence: str) -> None:
        if len(sentence) > LONG:
            raise RefusedError

    with (
        serving(refuse_long) as server,
        pytest.raises(AnswerError, match=r"^long: (\d+) of \1 requests failed$"),
    ):
        meter.measure(MIXED, server, number=1, before={})


@pytest.mark.parametrize("starved", ["short", "long"])
def test_answers_that_are_too_few_beside_each_other_are_an_error(
    meter: Meter, monkeypatch: pytest.MonkeyPatch, starved: str
) -> None:
    monkeypatch.setattr(measure, "_MOST_SECONDS", 2.0)
    beside = threading.Event()

    def starve(sentence: str) -> None:
        is_long = len(sentence) > LONG
        if is_long:
            beside.set()
        if beside.is_set() and is_long == (starved == "long"):
            time.sleep(6.0 if is_long else 1.5)
        else:
            time.sleep(PASS_SECONDS)

    with (
        serving(starve) as server,
        pytest.raises(AnswerError, match=r"^both: too few answers for its connections in 2 s$"),
    ):
        meter.measure(MIXED, server, number=1, before={})
