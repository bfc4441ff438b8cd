"""What a replica says of its work and of its refusals: idle, busy, stuck, full, over a limit."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.end_to_end.servers import RunningService, service, wait_until

BACKLOG, OLDEST = "headlight_backlog_seconds", "headlight_queue_oldest_seconds"
Start = Callable[..., AbstractContextManager[RunningService]]


@pytest.fixture
def start(checkpoint_folder: Path, tmp_path: Path) -> Start:
    """Starts a service that misbehaves as files in `tmp_path` say."""

    def start(*options: str) -> AbstractContextManager[RunningService]:
        program = ("-W", "error", "-m", "tests.end_to_end.misbehaving", str(tmp_path))
        return service(checkpoint_folder, tmp_path, *options, program=program)

    return start


def refused(running: RunningService) -> dict[str, float]:
    """The reasons for which requests were refused."""
    prefix = "headlight_refused_requests_total{reason="
    lines = [line for line in running.metrics().splitlines() if line.startswith(prefix)]
    assert len(lines) == 9
    counts = {line.split('"')[1]: float(line.rsplit(" ", 1)[1]) for line in lines}
    return {reason: count for reason, count in counts.items() if count}


def ask(running: RunningService, *sentences: str) -> int:
    """Asks for predictions on a connection of its own, and returns the status."""
    with running.client() as client:
        return client.post("/predict", json={"sentences": sentences}).status_code


def test_a_replica_that_hangs_looks_full_until_it_goes_on(start: Start, tmp_path: Path) -> None:
    options = ("--request-timeout", "2", "--watchdog-seconds", "600")
    with start(*options) as running, ThreadPoolExecutor(1) as pool:
        assert (running.metric(BACKLOG), running.metric(OLDEST)) == (0, 0)
        (tmp_path / "pass").write_text("hold", encoding="ascii")
        waiting = pool.submit(ask, running, "good")
        wait_until(lambda: running.metric(OLDEST) > 0)
        wait_until(lambda: running.metric(BACKLOG) > 0)
        assert waiting.result(60) == 504
        assert running.metric(OLDEST) == 0  # nobody waits any more
        wait_until(lambda: running.metric(BACKLOG) == 2)  # and the lane is still taken
        (tmp_path / "pass").unlink()
        wait_until(lambda: running.metric(BACKLOG) == 0)
        assert ask(running, "good") == 200
        assert refused(running) == {}  # it was admitted, and missed its deadline


def test_a_full_queue_and_work_that_would_end_too_late_are_told_apart(
    start: Start, tmp_path: Path
) -> None:
    options = ("--max-sentences", "4", "--max-queue-tokens", "128", "--max-batch-tokens", "32")
    with start(*options) as running, ThreadPoolExecutor(16) as pool:
        (tmp_path / "pass").write_text("hold", encoding="ascii")
        text = "a " * 40  # 32 tokens, as many as a pass may hold
        statuses = [pool.submit(ask, running, text, text, text) for _ in range(16)]
        wait_until(lambda: refused(running).get("queue_full", 0) > 0)
        (tmp_path / "pass").unlink()
        found = [status.result(60) for status in statuses]
        wait_until(lambda: running.metric(BACKLOG) == 0)
        assert set(found) == {200, 503}
        assert sum(refused(running).values()) == found.count(503)
        assert set(refused(running)) <= {"queue_full", "deadline"}


def test_what_a_client_may_ask_is_told_from_what_the_replica_can_do(start: Start) -> None:
    with start("--rate-limit", "2/hour") as running:
        assert [ask(running, "good") for _ in range(4)] == [200, 200, 429, 429]
        assert refused(running) == {"rate_limit": 2}
    with start("--token-quota", "3/hour") as running:
        assert [ask(running, "good") for _ in range(2)] == [200, 429]
        assert refused(running) == {"quota": 1}


def test_requests_beyond_the_connections_are_counted(start: Start, tmp_path: Path) -> None:
    with (
        start("--max-connections", "1") as running,
        ThreadPoolExecutor(1) as pool,
        running.client() as first,
    ):
        (tmp_path / "pass").write_text("hold", encoding="ascii")
        waiting = pool.submit(first.post, "/predict", json={"sentences": ["good"]})
        wait_until((tmp_path / "begun").exists)
        assert ask(running, "good") == 503
        (tmp_path / "pass").unlink()
        assert waiting.result(60).status_code == 200
        lines = first.get("/metrics").text.splitlines()
        assert 'headlight_refused_requests_total{reason="connections"} 1.0' in lines
