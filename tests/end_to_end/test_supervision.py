"""Devices that are lost, and lanes that end: health tells of it, and nobody waits for ever."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path

import httpx
import pytest

from tests.builders import tiny_checkpoint
from tests.end_to_end.problems import assert_problem
from tests.end_to_end.servers import RunningService, service, wait_until
from tests.end_to_end.test_faults import INTERNAL, computed, predict

Start = Callable[..., AbstractContextManager[RunningService]]
LOST = "The device cpu is lost to this process: it has to be restarted."
NO_LANE = "A thread that computes ended again and again: the process has to be restarted."


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """Starts a service that misbehaves as files in `tmp_path` say."""

    def start(*options: str, ready: bool = True) -> AbstractContextManager[RunningService]:
        program = ("-W", "error", "-m", "tests.end_to_end.misbehaving", str(tmp_path))
        checkpoint = tiny_checkpoint(tmp_path / "tiny")
        return service(checkpoint, tmp_path, *options, program=program, ready=ready)

    return start


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    """Threads of clients that wait."""
    with ThreadPoolExecutor(max_workers=16) as pool:
        yield pool


def assert_over(client: httpx.Client, running: RunningService, reason: str) -> None:
    """Only another process can go on, and everyone is told so."""
    for path in ("/health/live", "/health/ready"):
        health = client.get(path)
        assert_problem(health, 503, "not-ready", "The model is not ready", reason, retry_after=1)
    assert running.metric("headlight_ready") == 0
    for response in (
        predict(client, "good"),
        client.post("/attention", json={"sentence": "good"}),
        client.post("/importance", json={"sentence": "good"}),
    ):
        assert_problem(response, 503, "not-ready", "The model is not ready", reason, retry_after=1)


@pytest.mark.parametrize(
    ("stage", "path"),
    [
        ("prepare", "/attention"),
        ("predict", "/predict"),
        ("explain", "/attention"),
        ("to_host", "/predict"),
        ("gradients", "/attributions"),
        ("gradients", "/importance"),
    ],
)
def test_a_lost_device_turns_liveness_off(
    start: Start, tmp_path: Path, stage: str, path: str
) -> None:
    with start() as running, running.client() as client:
        (tmp_path / "lost").write_text(stage, encoding="ascii")
        body = {"sentences": ["good"]} if path == "/predict" else {"sentence": "good"}
        assert_problem(
            client.post(path, json=body), 500, "internal", "The service failed", INTERNAL
        )
        assert_over(client, running, LOST)
        (tmp_path / "lost").unlink()
        assert_over(client, running, LOST)  # for ever
    log = running.log.read_text("utf-8")
    assert log.count('"message":"the device is lost"') == 1


def test_a_device_that_is_lost_in_a_probe(start: Start, tmp_path: Path) -> None:
    with start() as running, running.client() as client:
        (tmp_path / "pass").write_text("fail", encoding="ascii")
        (tmp_path / "lost").write_text("nowhere", encoding="ascii")
        assert predict(client, "good").status_code == 500
        assert client.get("/health/live").status_code == 200
        (tmp_path / "lost").write_text("probe", encoding="ascii")
        running.wait_for(503, "/health/live")
        assert_over(client, running, LOST)


def test_a_device_that_is_lost_in_the_warm_up(start: Start, tmp_path: Path) -> None:
    (tmp_path / "lost").write_text("warm_up", encoding="ascii")
    with start(ready=False) as running, running.client() as client:
        running.wait_for(503, "/health/live")
        assert_over(client, running, LOST)


def test_when_the_device_is_lost_nobody_waits(
    start: Start, tmp_path: Path, pool: ThreadPoolExecutor
) -> None:
    with start("--max-batch-tokens", "1") as running, running.client() as client:
        before = len(computed(tmp_path, "begun"))
        (tmp_path / "pass").write_text("hold", encoding="ascii")
        first = pool.submit(predict, client, "good")
        wait_until(lambda: len(computed(tmp_path, "begun")) == before + 1)
        waiting = [pool.submit(predict, client, "good") for _ in range(5)]
        wait_until(lambda: running.metric("headlight_queue_requests") == 6)
        (tmp_path / "lost").write_text("predict", encoding="ascii")
        (tmp_path / "pass").unlink()
        assert first.result().status_code == 500
        # The lane may have taken the next one before the event loop heard of the first.
        answers = [each.result() for each in waiting]
        assert {answer.status_code for answer in answers[1:]} == {503}
        assert {answer.json()["detail"] for answer in answers[1:]} == {LOST}
        assert answers[0].status_code in {500, 503}


def test_a_lane_that_ends_is_replaced(start: Start, tmp_path: Path) -> None:
    with start("--threads", "2") as running, running.client() as client:
        (tmp_path / "pass").write_text("exit", encoding="ascii")
        for _ in range(2):
            assert_problem(predict(client, "good"), 500, "internal", "The service failed", INTERNAL)
            assert client.get("/health/live").status_code == 200
        (tmp_path / "pass").unlink()
        assert predict(client, *["good"] * 8).status_code == 200
        assert client.get("/health/ready").status_code == 200
        assert running.metric("headlight_queue_tokens") == 0
    log = running.log.read_text("utf-8")
    assert log.count('"message":"a lane ended unasked","exception":"Exit"') == 2


@pytest.mark.parametrize("fault", ["take", "pass"])
def test_a_lane_that_ends_again_and_again_turns_health_off(
    start: Start, tmp_path: Path, pool: ThreadPoolExecutor, fault: str
) -> None:
    with start("--threads", "1") as running, running.client() as client:
        (tmp_path / fault).write_text("exit", encoding="ascii")
        answers = [pool.submit(predict, client, "good").result() for _ in range(4)]
        assert {answer.status_code for answer in answers[:3]} <= {500, 503}
        assert answers[3].status_code == 503
        assert_over(client, running, NO_LANE)
    log = running.log.read_text("utf-8")
    # One ordinary lane and two extra ones, of which none ends more than three times.
    assert 3 <= log.count('"message":"a lane ended unasked"') <= 9
    assert running.process.returncode == 0


def test_a_choice_of_texts_that_fails_once_costs_no_lane(start: Start, tmp_path: Path) -> None:
    with start() as running, running.client() as client:
        (tmp_path / "take").write_text("once", encoding="ascii")
        assert_problem(predict(client, "good"), 500, "internal", "The service failed", INTERNAL)
        for _ in range(3):
            assert predict(client, "good", "bad").status_code == 200
        assert client.get("/health/live").status_code == 200
        assert client.get("/health/ready").status_code == 200
        assert running.metric("headlight_queue_tokens") == 0


def test_readiness_waits_for_the_path_that_failed(start: Start, tmp_path: Path) -> None:
    failing = "The last forward pass failed; the service probes itself every second."
    with start() as running, running.client() as client:
        (tmp_path / "explicit").write_text("fail", encoding="ascii")
        assert client.post("/attention", json={"sentence": "good"}).status_code == 500
        assert client.get("/health/ready").json()["detail"] == failing
        assert predict(client, "good").status_code == 200
        assert client.get("/health/ready").json()["detail"] == failing
        wait_until(lambda: running.log.read_text("utf-8").count('"a probe failed"') >= 2)
        assert client.get("/health/ready").status_code == 503
        (tmp_path / "explicit").unlink()
        assert running.wait_for(200).json() == {"status": "ready"}
        assert client.post("/attention", json={"sentence": "good"}).status_code == 200
