"""The whole benchmark, with a tiny checkpoint and short loads."""

import os
import signal
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import pytest

from benchmarks import client, servers
from benchmarks.client import _requests, closed_loop, predict_once
from benchmarks.comparison import Comparison, compare_labels, read_labels
from benchmarks.errors import BenchmarkError
from benchmarks.loads import SENTENCES, Figures, Load
from benchmarks.report import comparison_table
from benchmarks.servers import Program, gpu_programs, serve
from tests.builders import tiny_checkpoint
from tests.end_to_end.servers import RunningService, service

QUICK = "tests.benchmarks.quick_server"
LOAD = Load("load", 2, sentences=3)
ATTENTION = Load("weights", 2, route="attention")


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


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n[]", "no answer from port"),
        (b"HTTP/1.1 500 No\r\ncontent-length: 4\r\n\r\noops", "status 500, not 200: 'oops'"),
    ],
)
def test_a_broken_answer_is_an_error(answer: bytes, message: str) -> None:
    with answering(answer) as port, pytest.raises(BenchmarkError, match=message):
        predict_once(port, ["a good film"])


def test_no_answer_in_time_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_ANSWER_SECONDS", 0.1)
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        pytest.raises(BenchmarkError, match=r"^no answer within 0\.1 s$"),
    ):
        predict_once(silent.getsockname()[1], ["a good film"])


@pytest.mark.parametrize("load", [LOAD, ATTENTION], ids=lambda load: load.name)
def test_a_load_counts_what_was_answered(running: RunningService, load: Load) -> None:
    before = running.metric("headlight_texts_total")
    figures = closed_loop(load, port=running.port, first=1, warm_up=0.1, seconds=1)
    sent = running.metric("headlight_texts_total") - before
    assert 0 < figures.p50 <= figures.p99
    assert figures.rate > 0
    # Those of the warm-up, and requests in flight at the end, may be answered too.
    assert 0 < figures.requests * load.sentences <= sent
    refused = Load("too many", 1, sentences=1000)
    with pytest.raises(BenchmarkError, match=r"^too many: status 422, not 200: "):
        closed_loop(refused, port=running.port, first=1, warm_up=0, seconds=1)


def test_several_processes_share_the_connections_and_send_no_text_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_CORES_A_PROCESS", 0.5)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    with serve(Program("quick", QUICK), tmp_path, tmp_path) as server:
        figures = closed_loop(LOAD, port=server.port, first=1, warm_up=0, seconds=1)
    assert figures.requests >= 2
    sent = [request for first in (1, 2) for request in islice(_requests(LOAD, first, 2), 50)]
    assert len(set(sent)) == 100


def test_a_server_answers_while_it_is_awake_until_the_block_ends(
    checkpoint_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADLIGHT_API_KEYS", "left-out")
    program = Program("headlight", "service", ("--dtype", "float32", "--threads", "1"))
    with serve(program, checkpoint_folder, tmp_path) as server, ThreadPoolExecutor(1) as client:
        assert server.start_seconds > 0
        assert 50_000_000 < server.memory_bytes() < 5_000_000_000
        server.signal(signal.SIGSTOP)
        waiting = client.submit(predict_once, server.port, ["a good film"])
        with pytest.raises(TimeoutError):
            waiting.result(timeout=0.5)
        with server.awake():
            assert b"probabilities" in waiting.result()

    with pytest.raises(BenchmarkError, match="no answer from port"):
        predict_once(server.port, ["a good film"])
    with pytest.raises(ProcessLookupError):
        os.killpg(server.leader, 0)


def test_a_server_that_does_not_start_is_an_error_with_its_last_line(tmp_path: Path) -> None:
    program, missing = Program("headlight", "service"), tmp_path / "missing"
    with pytest.raises(BenchmarkError) as caught, serve(program, missing, tmp_path):
        pytest.fail("it started")
    message = str(caught.value)
    assert message.startswith("headlight: no answer from port ")
    assert f"its last line: --checkpoint: {missing}: " in message


def test_no_settings_reach_a_server_and_no_gpu_unless_it_is_measured() -> None:
    inherited = {"CUDA_VISIBLE_DEVICES": "1", "HEADLIGHT_PORT": "1", "OTEL_X": "1", "PATH": "/"}
    hidden = {"CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1", "PATH": "/"}
    assert servers.environment(inherited) == hidden
    assert servers.environment(inherited, sees_gpu=True) == {**hidden, "CUDA_VISIBLE_DEVICES": "1"}


def fake_load(load: Load, *, port: int, first: int, warm_up: float, seconds: float) -> Figures:
    """Answers as many requests as a load has connections."""
    assert min(port, first, warm_up, seconds) > 0
    return Figures(60.0, 1.0, 1.0, load.connections)


@pytest.fixture
def reported() -> list[str]:
    return []


@pytest.fixture
def comparison(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reported: list[str]) -> Comparison:
    monkeypatch.setattr("benchmarks.comparison.closed_loop", fake_load)
    checkpoint = tiny_checkpoint(tmp_path / "tiny")
    return Comparison(checkpoint, folder=tmp_path, seconds=0.2, report=reported.append)


def test_servers_are_measured_in_turns(comparison: Comparison, reported: list[str]) -> None:
    one, other = Program("one", QUICK, explains=True), Program("other", QUICK)
    runs = comparison.run([one, other], [LOAD, ATTENTION], 2)
    assert reported == [
        *("repetition 1 of 2", "starting one", "starting other"),
        *("checking that all servers answer the same labels", "load: one", "load: other"),
        *("weights: one", "repetition 2 of 2", "starting other", "starting one"),
        *("checking that all servers answer the same labels", "load: other", "load: one"),
        "weights: one",
    ]
    assert {name: len(each) for name, each in runs.items()} == {"one": 2, "other": 2}


@pytest.mark.slow
def test_the_service_is_measured_beside_a_server_by_hand(comparison: Comparison) -> None:
    runs = comparison.run(gpu_programs("cpu"), [LOAD, ATTENTION], 1)
    for name, names in (("headlight", {"load", "weights"}), ("by hand", {"load"})):
        (run,) = runs[name]
        assert set(run.figures) == names
        assert run.memory_bytes > 0
        assert run.first_seconds > 0
    table = comparison_table(runs, [LOAD, ATTENTION]).splitlines()
    assert {line.count("|") for line in table} == {4}
    (ratio,) = (line for line in table if line.startswith("| load: headlight is"))
    assert [float(each) for each in ratio.split("|")[2:4]] == [1.0, 1.0]


def test_servers_that_disagree_are_not_measured(
    comparison: Comparison, reported: list[str]
) -> None:
    good, bad = Program("good", QUICK), Program("bad", QUICK, ("--label", "bad"))
    with pytest.raises(BenchmarkError, match=r"^the servers disagree about 200 of 200 sentences"):
        comparison.run([good, bad], [LOAD], 1)
    assert reported[-1] == "checking that all servers answer the same labels"


def test_few_other_labels_are_no_disagreement() -> None:
    assert read_labels(b'{"predictions": [{"label": "good", "score": 1}]}') == ["good"]
    good = ["good"] * len(SENTENCES)
    compare_labels(good, ["bad"] * 8 + good[8:], peer="peer")
    with pytest.raises(BenchmarkError, match=r"headlight says good, peer says bad$"):
        compare_labels(good, ["bad"] * 9 + good[9:], peer="peer")
    with pytest.raises(BenchmarkError, match=r"^peer answered 199 of 200 sentences$"):
        compare_labels(good, good[1:], peer="peer")


@pytest.mark.parametrize("body", [b"", b"{}", b'["good"]', b'[{"score": 1}]'])
def test_an_answer_without_predictions_is_an_error(body: bytes) -> None:
    with pytest.raises(BenchmarkError, match=r"^the answer has no predictions: "):
        read_labels(body)
