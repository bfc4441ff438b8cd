"""Slower readers and less memory than there should be."""

import json
import re
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
# However the path of a route is spelled, the guard of memory sees it; others are no routes.
SPELLINGS = {
    **dict.fromkeys(("/predict?a", "/predict#a", "/%70redict", "/%70%72edic%74?%3f"), 503),
    **dict.fromkeys(("http://other/predict", "HTTP://x:1/%70redict"), 503),
    **dict.fromkeys(("/predict%0A", "/%61ttention", "/v2/models/tiny/%69nfer"), 503),
    **dict.fromkeys(("//predict", "/predict/", "/./predict", "/a/../predict", "/PREDICT"), 404),
    **dict.fromkeys(("/%2570redict", "/predict;a", "/predict%00", "http://x//predict"), 404),
}


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
        with slow_readers(running.port, 40, rate=1, body=LARGE) as statuses:
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
    small_body = json.dumps(SMALL).encode()

    def fill(share: float) -> list[int]:
        (group / "memory.current").write_text(str(round(share * 1_000_000) + 100_000), "ascii")
        time.sleep(0.3)  # it is read four times a second
        asked = [
            client.get("/health/ready"),
            client.post("/predict", json=SMALL),
            client.post("/predict", content=large_body, headers=JSON),
            client.post("/predict", content=iter([small_body]), headers=JSON),  # of any length
            client.post("/predict", content=small_body, headers={**JSON, "content-encoding": "x"}),
            client.post("/attention", json=LARGE),
        ]
        return [response.status_code for response in asked]

    with start(changes=changes) as running, running.client() as client:
        assert fill(0.9) == [200, 200, 200, 200, 415, 200]
        assert fill(0.901) == [200, 200, 503, 503, 503, 503]
        assert fill(0.95) == [200, 200, 503, 503, 503, 503]
        assert fill(0.96) == [200, 503, 503, 503, 503, 503]
        refused = client.post("/predict", json=SMALL)
        assert_problem(refused, 503, "overloaded", says="96% of the memory is in use")
        assert refused.headers["retry-after"] == "2"
        assert running.refused() == {"memory": 14}
        for target, status in SPELLINGS.items():
            answer = running.send(
                b"POST %b HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n"
                b"Connection: close\r\n\r\n" % target.encode()
            )
            assert (target, int(answer[9:12])) == (target, status)
        # One that waited behind another is not seen by its head.
        asked = running.send(
            b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
            b"GET /attention?sentence=good HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        )
        assert re.findall(rb"HTTP/1.1 (\d+)", asked) == [b"200", b"503"]
        assert running.errors() == []
