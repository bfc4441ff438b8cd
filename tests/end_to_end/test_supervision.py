"""Devices that are lost, and workers that end: health reports it, and nobody waits for ever."""

from pathlib import Path

import httpx
import pytest

from tests.end_to_end.conftest import Start
from tests.end_to_end.kinds import KINDS, ask
from tests.end_to_end.problems import assert_problem
from tests.end_to_end.servers import RunningService, wait_until
from tests.end_to_end.test_faults import predict

LOST = "The device cpu is lost to this process: it has to be restarted."
NO_WORKER = "stopped unexpectedly too often"
ENDED = '"message":"worker thread stopped unexpectedly; restarting it"'


def assert_over(client: httpx.Client, running: RunningService, reason: str) -> None:
    """Asserts that only another process can go on, and that every client hears so."""
    for path in ("/health/live", "/health/ready"):
        assert_problem(client.get(path), 503, "not-ready", says=reason)
    assert running.metric("headlight_ready") == 0
    for name in ("predict", "attention", "importance"):
        assert_problem(ask(client, KINDS[name], "good"), 503, "not-ready", says=reason)


@pytest.mark.parametrize(
    ("stage", "name"),
    [
        ("predict", "predict"),
        ("explain", "attention"),
        ("to_host", "predict"),
        ("gradients", "attributions"),
        ("gradients", "importance"),
    ],
)
def test_a_lost_device_turns_liveness_off(
    start: Start, tmp_path: Path, stage: str, name: str
) -> None:
    with start() as running, running.client() as client:
        (tmp_path / "lost").write_text(stage, encoding="ascii")
        assert_problem(ask(client, KINDS[name], "good"), 500, "internal")
        assert_over(client, running, LOST)
        (tmp_path / "lost").unlink()
        assert_over(client, running, LOST)  # for ever
    log = running.log.read_text("utf-8")
    assert log.count('"message":"the device is lost"') == 1


def test_a_device_that_is_lost_in_a_probe(start: Start, tmp_path: Path) -> None:
    with start() as running, running.client() as client:
        (tmp_path / "pass").write_text("fail", encoding="ascii")
        assert predict(client, "good").status_code == 500
        assert client.get("/health/live").status_code == 200
        (tmp_path / "lost").write_text("probe", encoding="ascii")
        running.wait_for(503, "/health/live")
        assert_over(client, running, LOST)


def test_a_worker_that_ends_again_and_again_turns_health_off(start: Start, tmp_path: Path) -> None:
    with start("--threads", "1") as running, running.client() as client:
        (tmp_path / "pass").write_text("exit", encoding="ascii")
        answers = [predict(client, "good") for _ in range(4)]
        assert {answer.status_code for answer in answers[:3]} <= {500, 503}
        assert answers[3].status_code == 503
        assert_over(client, running, NO_WORKER)
    # One ordinary worker and two extra ones, of which none ends more than three times.
    assert 3 <= running.log.read_text("utf-8").count(ENDED) <= 9


def test_readiness_waits_for_the_path_that_failed(start: Start, tmp_path: Path) -> None:
    with start() as running, running.client() as client:
        (tmp_path / "explicit").write_text("fail", encoding="ascii")
        assert ask(client, KINDS["attention"], "good").status_code == 500
        assert_problem(client.get("/health/ready"), 503, "not-ready", says="probes itself")
        assert predict(client, "good").status_code == 200
        assert client.get("/health/ready").status_code == 503
        wait_until(lambda: running.log.read_text("utf-8").count('"a probe failed"') >= 2)
        assert client.get("/health/ready").status_code == 503
        (tmp_path / "explicit").unlink()
        assert running.wait_for(200).json() == {"status": "ready"}
        assert ask(client, KINDS["attention"], "good").status_code == 200
