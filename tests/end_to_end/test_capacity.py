"""Slower readers and less memory than there should be."""

import json
import time
from pathlib import Path
from unittest import mock

import pytest

from model.backends import threads
from tests.end_to_end.conftest import Start
from tests.end_to_end.routes import JSON, assert_problem
from tests.end_to_end.servers import wait_until
from tests.resilience.readers import slow_readers

SMALL = {"sentences": ["good"]}
# The tiny model answers this with 13 MB, which is more than the kernel holds.
LARGE = {"sentences": ["good " * 30] * 256}


def test_slow_readers_take_no_more_than_their_share(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = 70_000_000
    monkeypatch.setattr("service.app.SENDING_BYTES", most)
    with start("--request-timeout", "600") as running, running.client() as answers:
        whole = answers.post("/attention", json=LARGE)
        assert whole.status_code == 200
        assert 12_000_000 < len(whole.content) < 14_000_000
        wait_until(lambda: running.metric("headlight_sending_bytes") == 0)
        with slow_readers(running.port, 40, rate=1, body=LARGE) as (statuses, _):
            wait_until(lambda: statuses.total() == 40)
            assert set(statuses) == {"200", "503"}
            assert 0 < running.metric("headlight_sending_bytes") <= most
            assert answers.post("/predict", json=SMALL).status_code == 200
            assert answers.get("/openapi.json").status_code == 200
            assert running.refused() == {"sending": statuses["503"]}
        # They have gone, and others can ask again.
        wait_until(lambda: running.metric("headlight_sending_bytes") == 0)
        assert answers.post("/attention", json=LARGE).status_code == 200
        assert running.errors() == []


def test_a_full_memory_refuses_the_large_first_and_never_health(
    start: Start, tmp_path: Path
) -> None:
    (tmp_path / "own").write_text("0::/app\n", "ascii")
    group = tmp_path / "app"
    group.mkdir()
    (group / "memory.max").write_text("1000000", "ascii")
    (group / "memory.stat").write_text("inactive_file 100000", "ascii")
    (group / "memory.current").write_text("0", "ascii")
    changes = mock.patch.multiple(threads, _ROOT=tmp_path, _OWN=tmp_path / "own")
    large_body = json.dumps(SMALL).ljust(70_000)

    def fill(share: float) -> list[int]:
        (group / "memory.current").write_text(str(round(share * 1_000_000) + 100_000), "ascii")
        time.sleep(0.3)  # it is read four times a second
        asked = [
            client.get("/health/ready"),
            client.post("/predict", json=SMALL),
            client.post("/predict", content=large_body, headers=JSON),
            client.post("/attention", json=LARGE),
        ]
        return [response.status_code for response in asked]

    with start(changes=changes) as running, running.client() as client:
        assert fill(0.92) == [200, 200, 503, 503]
        assert fill(0.96) == [200, 503, 503, 503]
        refused = client.post("/predict", json=SMALL)
        assert_problem(refused, 503, "overloaded", says="96% of the memory is in use")
        assert refused.headers["retry-after"] == "2"
        assert running.refused() == {"memory": 6}
        assert running.errors() == []
