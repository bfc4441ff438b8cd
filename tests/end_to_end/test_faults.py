"""Forward passes that fail or take too long, a queue that is full, a model that does not load."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path

import httpx
import pytest

from tests.end_to_end.problems import assert_problem
from tests.end_to_end.servers import RunningService, service, wait_until

Start = Callable[..., AbstractContextManager[RunningService]]
INTERNAL = (
    "The service failed to answer. Nothing is wrong with the request as far as is known; try "
    "again, and give the X-Request-ID to whoever runs the service."
)


@pytest.fixture
def start(checkpoint_folder: Path, tmp_path: Path) -> Start:
    """Starts a service that misbehaves as files in `tmp_path` say."""

    def start(*options: str, ready: bool = True) -> AbstractContextManager[RunningService]:
        program = ("-W", "error", "-m", "tests.end_to_end.misbehaving", str(tmp_path))
        return service(checkpoint_folder, tmp_path, *options, program=program, ready=ready)

    return start


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    """Threads of clients that wait."""
    with ThreadPoolExecutor(max_workers=16) as pool:
        yield pool


def predict(client: httpx.Client, *sentences: str) -> httpx.Response:
    """Posts sentences."""
    return client.post("/predict", json={"sentences": sentences})


def computed(folder: Path) -> list[int]:
    """The number of texts of each pass that was computed."""
    file = folder / "computed"
    return [int(line) for line in file.read_text("ascii").splitlines()] if file.exists() else []


def test_a_failed_pass_answers_500_and_the_service_heals_itself(
    start: Start, tmp_path: Path
) -> None:
    with start() as running, running.client() as client:
        (tmp_path / "pass").write_text("fail", encoding="ascii")
        response = predict(client, "good", "bad")
        assert_problem(response, 500, "internal", "The service failed", INTERNAL)
        assert_problem(
            client.get("/health/ready"),
            503,
            "not-ready",
            "The model is not ready",
            "The last forward pass failed; the service probes itself every second.",
            retry_after=1,
        )
        assert client.get("/health/live").json() == {"status": "live"}
        assert running.metric("headlight_ready") == 0
        assert running.metric("headlight_forward_failures_total") == 1
        assert client.get("/attention?sentence=a").status_code == 500
        (tmp_path / "pass").unlink()
        assert running.wait_for(200).json() == {"status": "ready"}
        assert running.metric("headlight_ready") == 1
        assert predict(client, "good", "bad").status_code == 200


def test_a_request_that_works_heals_too(start: Start, tmp_path: Path) -> None:
    with start() as running, running.client() as client:
        (tmp_path / "pass").write_text("fail", encoding="ascii")
        assert predict(client, "good").status_code == 500
        (tmp_path / "pass").unlink()
        assert predict(client, "good").status_code == 200
        assert client.get("/health/ready").status_code == 200


def test_a_full_queue_refuses_with_a_time_to_come_back(
    start: Start, tmp_path: Path, pool: ThreadPoolExecutor
) -> None:
    options = ("--max-sentences", "4", "--max-queue-tokens", "128", "--max-batch-tokens", "32")
    with start(*options) as running, running.client() as client:
        (tmp_path / "pass").write_text("1", encoding="ascii")
        four_long = ["good " * 30] * 4  # 128 tokens, of which the first 32 go at once
        waiting: list[Future[httpx.Response]] = [pool.submit(predict, client, *four_long)]
        wait_until(lambda: running.metric("headlight_queue_tokens") == 96)
        refused = predict(client, *four_long[:2])
        retry_after = int(refused.headers["retry-after"])
        assert_problem(
            refused,
            503,
            "overloaded",
            "The service is overloaded",
            "96 tokens are waiting, the request has 64, and the queue holds 128: come back later, "
            "or try another replica.",
            retry_after=retry_after,
        )
        assert retry_after >= 1
        waiting.append(pool.submit(predict, client, *four_long[:1]))  # this one still fits
        (tmp_path / "pass").unlink()
        assert [future.result().status_code for future in waiting] == [200, 200]
        assert running.metric("headlight_queue_tokens") == 0
        assert running.metric("headlight_queue_requests") == 0


def test_a_request_past_its_deadline_is_dropped(
    start: Start, tmp_path: Path, pool: ThreadPoolExecutor
) -> None:
    options = ("--request-timeout", "0.5", "--max-batch-tokens", "1")
    with start(*options) as running, running.client() as client:
        before = len(computed(tmp_path))
        (tmp_path / "pass").write_text("1.5", encoding="ascii")
        waiting = [pool.submit(predict, client, text) for text in ("one", "two", "three")]
        for future in waiting:
            assert_problem(
                future.result(),
                504,
                "timeout",
                "The request took too long",
                "No answer was ready within 0.5 seconds, and the work was dropped: send fewer "
                "or shorter sentences at once, or try again later.",
            )
        (tmp_path / "pass").unlink()
        assert running.metric("headlight_queue_tokens") == 0
        wait_until(lambda: len(computed(tmp_path)) == before + 1)
        assert predict(client, "four").status_code == 200
        assert len(computed(tmp_path)) == before + 2  # two and three never were


def test_a_client_that_left_costs_nothing(
    start: Start, tmp_path: Path, pool: ThreadPoolExecutor
) -> None:
    with start("--max-batch-tokens", "1") as running, running.client() as client:
        before = len(computed(tmp_path))
        (tmp_path / "pass").write_text("1", encoding="ascii")
        first = pool.submit(predict, client, "one")
        wait_until(lambda: running.metric("headlight_queue_requests") == 1)
        impatient = httpx.Client(base_url=running.url, timeout=0.2)
        with impatient, pytest.raises(httpx.ReadTimeout):
            predict(impatient, "two")
        assert first.result().status_code == 200
        (tmp_path / "pass").unlink()
        assert predict(client, "three").status_code == 200
        assert len(computed(tmp_path)) == before + 2
        unanswered = 'headlight_requests_total{method="POST",route="/predict",status="499"}'
        assert running.metric(unanswered) == 1


def test_while_the_model_loads(start: Start, tmp_path: Path) -> None:
    (tmp_path / "load").write_text("2", encoding="ascii")
    loading = "The model is still loading: come back in a moment."
    with start(ready=False) as running, running.client() as client:
        assert client.get("/health/live").json() == {"status": "live"}
        for response in (
            client.get("/health/ready"),
            predict(client, "good"),
            client.get("/attention?sentence=a"),
            client.get("/model"),
        ):
            assert_problem(
                response,
                503,
                "not-ready",
                "The model is not ready",
                loading,
                retry_after=1,
            )
        assert running.metric("headlight_ready") == 0
        running.wait_for(200)
        assert predict(client, "good").status_code == 200


def test_a_model_that_fails_to_load(start: Start, tmp_path: Path) -> None:
    (tmp_path / "load").write_text("fail", encoding="ascii")
    failed = "The model could not be loaded; the log of the service says why."
    with start(ready=False) as running, running.client() as client:
        wait_until(lambda: client.get("/health/ready").json()["detail"] == failed)
        assert_problem(
            predict(client, "good"),
            503,
            "not-ready",
            "The model is not ready",
            failed,
            retry_after=1,
        )
        assert client.get("/health/live").status_code == 200
    log = running.log.read_text("utf-8")
    assert '"message":"the model could not be loaded","fault":"told to fail"' in log


def test_bad_requests_disturb_no_one(start: Start, pool: ThreadPoolExecutor) -> None:
    with start() as running, running.client() as client:
        mixed = [
            pool.submit(predict, client, *(["good"] if number % 2 else [" "]))
            for number in range(40)
        ]
        answers = [future.result().status_code for future in mixed]
    assert answers == [422, 200] * 20
