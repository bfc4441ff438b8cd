"""Gradients that fail, take too long, or cannot be computed any more; and who waits beside them."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path

import httpx
import numpy as np
import pytest

from tests.builders import tiny_checkpoint
from tests.end_to_end.problems import assert_problem
from tests.end_to_end.servers import RunningService, service, wait_until
from tests.end_to_end.test_faults import INTERNAL, computed

Start = Callable[..., AbstractContextManager[RunningService]]
PATHS = ("/attributions", "/importance")

FULL_AT_128 = (
    *("--max-sentences", "4", "--max-queue-tokens", "128", "--max-batch-tokens", "32"),
    *("--trusted-proxies", "127.0.0.1"),
)
# All its connections have one share.
ONE_CLIENT = {"X-Forwarded-For": "192.0.2.1"}


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


def ask(client: httpx.Client, path: str, **fields: object) -> httpx.Response:
    """Posts a sentence."""
    return client.post(path, json={"sentence": "a good film", **fields})


def test_a_failed_pass_answers_500_and_the_service_heals_itself(
    start: Start, tmp_path: Path
) -> None:
    with start() as running, running.client() as client:
        for path in PATHS:
            (tmp_path / "pass").write_text("fail", encoding="ascii")
            failed = ask(client, path)
            assert_problem(failed, 500, "internal", "The service failed", INTERNAL)
            assert client.get("/health/ready").status_code == 503
            assert running.metric("headlight_ready") == 0
            (tmp_path / "pass").unlink()
            assert running.wait_for(200).json() == {"status": "ready"}
            assert ask(client, path).status_code == 200
        assert running.metric("headlight_forward_failures_total") >= 2
        assert running.metric("headlight_queue_tokens") == 0
    log = running.log.read_text("utf-8")
    assert "a forward pass failed" in log
    assert "good film" not in log


def test_a_deadline_in_the_middle_drops_what_is_left(start: Start, tmp_path: Path) -> None:
    # A pass for each node, and each takes a tenth of a second.
    options = ("--max-batch-tokens", "5", "--request-timeout", "30")
    with start(*options) as running, running.client() as client:
        assert ask(client, "/attributions", steps=2).status_code == 200
        before = len(computed(tmp_path))
        (tmp_path / "pass").write_text("0.1", encoding="ascii")
        late = client.post(
            "/attributions",
            json={"sentence": "a good film", "steps": 200},
            headers={"X-Request-Timeout": "0.6"},
        )
        assert_problem(
            late,
            504,
            "timeout",
            "The request took too long",
            "No answer was ready within 0.6 seconds, and the work was dropped: send fewer or "
            "shorter sentences at once, or try again later.",
        )
        assert running.metric("headlight_queue_tokens") == 0
        (tmp_path / "pass").unlink()
        assert ask(client, "/attributions", steps=3).status_code == 200
        assert client.post("/predict", json={"sentences": ["good"]}).status_code == 200
        # Some of its 201 passes, then 4 and 1 more.
        assert before + 2 + 5 <= len(computed(tmp_path)) < before + 100
        assert client.get("/health/ready").status_code == 200


def test_a_client_that_left_costs_no_more(start: Start, tmp_path: Path) -> None:
    with start("--max-batch-tokens", "5") as running:
        (tmp_path / "pass").write_text("0.1", encoding="ascii")
        impatient = httpx.Client(base_url=running.url, timeout=0.4)
        with impatient, pytest.raises(httpx.ReadTimeout):
            ask(impatient, "/attributions", steps=200)
        wait_until(lambda: running.metric("headlight_queue_tokens") == 0)
        (tmp_path / "pass").unlink()
        with running.client() as client:
            assert ask(client, "/attributions", steps=3).status_code == 200
        assert len(computed(tmp_path)) < 150
        left = 'headlight_requests_total{method="POST",route="/attributions",status="499"}'
        assert running.metric(left) == 1


def test_others_are_answered_while_a_long_one_is_computed(
    start: Start, tmp_path: Path, pool: ThreadPoolExecutor
) -> None:
    with start("--max-batch-tokens", "5") as running, running.client() as client:
        (tmp_path / "pass").write_text("0.05", encoding="ascii")
        long = pool.submit(ask, client, "/attributions", steps=60)
        wait_until(lambda: running.metric("headlight_queue_tokens") > 0)
        for _ in range(5):
            assert client.post("/predict", json={"sentences": ["good"]}).status_code == 200
        assert ask(client, "/importance").status_code == 200
        assert not long.done()
        (tmp_path / "pass").unlink()
        assert long.result().status_code == 200


def test_two_that_come_first_at_once(start: Start, pool: ThreadPoolExecutor) -> None:
    with start("--threads", "2", "--max-batch-tokens", "20") as running, running.client() as client:
        asked = [pool.submit(ask, client, path) for path in PATHS * 3]
        answers = [each.result() for each in asked]
        assert [answer.status_code for answer in answers] == [200] * 6
        for path, answer in zip(PATHS * 3, answers, strict=True):
            found, alone = answer.json(), ask(client, path).json()
            name = path.removeprefix("/")
            np.testing.assert_allclose(found[name], alone[name], rtol=0, atol=1e-6)


def test_what_the_queue_cannot_hold_now_is_refused(
    start: Start, tmp_path: Path, pool: ThreadPoolExecutor
) -> None:
    with start(*FULL_AT_128) as running, running.client(**ONE_CLIENT) as client:
        (tmp_path / "pass").write_text("hold", encoding="ascii")
        waiting = pool.submit(
            client.post, "/predict", json={"sentences": ["good " * 30] * 4}
        )  # 128 tokens, of which the first 32 go at once
        wait_until(lambda: running.metric("headlight_queue_tokens") == 96)
        refused = ask(client, "/attributions", steps=6)
        assert refused.status_code == 503
        assert refused.json()["detail"].startswith("96 tokens are waiting, the request has 40, ")
        (tmp_path / "pass").unlink()
        assert waiting.result().status_code == 200
        assert ask(client, "/attributions", steps=6).status_code == 200


def test_while_nothing_has_room_they_are_refused_before_they_are_read(
    start: Start, tmp_path: Path, pool: ThreadPoolExecutor
) -> None:
    with start(*FULL_AT_128) as running, running.client(**ONE_CLIENT) as client:
        (tmp_path / "pass").write_text("hold", encoding="ascii")
        body = {"sentences": ["good " * 30] * 4}
        waiting = [pool.submit(client.post, "/predict", json=body)]
        wait_until(lambda: running.metric("headlight_queue_tokens") == 96)
        waiting.append(pool.submit(client.post, "/predict", json={"sentences": ["good " * 30]}))
        wait_until(lambda: running.metric("headlight_queue_tokens") == 128)
        for method, path in (
            ("POST", "/attributions"),
            ("GET", "/attributions?nothing=right"),
            ("POST", "/importance"),
        ):
            refused = client.request(method, path, content=b"not JSON")
            assert refused.status_code == 503
            assert refused.json()["type"] == "/problems/overloaded"
        (tmp_path / "pass").unlink()
        assert [future.result().status_code for future in waiting] == [200, 200]


def test_while_the_model_loads(start: Start, tmp_path: Path) -> None:
    (tmp_path / "load").write_text("2", encoding="ascii")
    with start(ready=False) as running, running.client() as client:
        for path in PATHS:
            assert_problem(
                ask(client, path),
                503,
                "not-ready",
                "The model is not ready",
                "The model is still loading: come back in a moment.",
                retry_after=1,
            )
        running.wait_for(200)
        assert [ask(client, path).status_code for path in PATHS] == [200, 200]


def test_a_folder_that_is_replaced_meanwhile_changes_no_answer(
    start: Start, tmp_path: Path
) -> None:
    with start() as running, running.client() as client:
        version = client.get("/model").json()["version"]
        served = client.post("/predict", json={"sentences": ["good"]}).json()
        before = [ask(client, path).json() for path in PATHS]
        tiny_checkpoint(tmp_path / "tiny", seed=1)
        assert [ask(client, path).json() for path in PATHS] == before
        assert {answer["model"]["version"] for answer in before} == {version}
        assert client.post("/predict", json={"sentences": ["good"]}).json() == served
        assert client.get("/health/ready").status_code == 200
