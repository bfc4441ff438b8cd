"""Forward passes that fail or take too long, a queue that is full, a model that does not load."""

import re
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path

import httpx
import pytest

from tests.end_to_end.problems import assert_problem, error
from tests.end_to_end.servers import RunningService, service, wait_until

Start = Callable[..., AbstractContextManager[RunningService]]
INTERNAL = (
    "The service failed to answer. Nothing is wrong with the request as far as is known; try "
    "again, and report the X-Request-ID to the operator of the service."
)

FULL_AT_128 = (
    *("--max-sentences", "4", "--max-queue-tokens", "128", "--max-batch-tokens", "32"),
    *("--trusted-proxies", "127.0.0.1"),
)
# All its connections have one share.
ONE_CLIENT = {"X-Forwarded-For": "192.0.2.1"}


@pytest.fixture
def start(checkpoint_folder: Path, tmp_path: Path) -> Start:
    """Starts a service that misbehaves as files in `tmp_path` say."""

    def start(*options: str, ready: bool = True) -> AbstractContextManager[RunningService]:
        program = ("-W", "error", "-m", "tests.end_to_end.misbehaving", str(tmp_path))
        return service(checkpoint_folder, tmp_path, *options, program=program, ready=ready)

    return start


@pytest.fixture(scope="module")
def shared(
    checkpoint_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningService]:
    """A service that behaves."""
    with service(checkpoint_folder, tmp_path_factory.mktemp("shared")) as running:
        yield running


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    """Threads of clients that wait."""
    with ThreadPoolExecutor(max_workers=16) as pool:
        yield pool


def predict(client: httpx.Client, *sentences: str) -> httpx.Response:
    """Posts sentences."""
    return client.post("/predict", json={"sentences": sentences})


def computed(folder: Path, kind: str = "computed") -> list[int]:
    """The number of texts of each pass that was computed, or of each fused one that has begun."""
    file = folder / kind
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
    with start(*FULL_AT_128) as running, running.client(**ONE_CLIENT) as client:
        (tmp_path / "pass").write_text("hold", encoding="ascii")
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


def test_while_nothing_has_room_requests_are_refused_before_they_are_read(
    start: Start, tmp_path: Path, pool: ThreadPoolExecutor
) -> None:
    with start(*FULL_AT_128) as running, running.client(**ONE_CLIENT) as client:
        (tmp_path / "pass").write_text("hold", encoding="ascii")
        waiting = [pool.submit(predict, client, *["good " * 30] * 4)]
        wait_until(lambda: running.metric("headlight_queue_tokens") == 96)
        waiting.append(pool.submit(predict, client, "good " * 30))
        wait_until(lambda: running.metric("headlight_queue_tokens") == 128)
        with running.client(**ONE_CLIENT) as kept:
            for method, path, content in (
                ("POST", "/predict", b"this is not even JSON"),
                ("POST", "/attention", b"x" * 100_000),
                ("GET", "/attention?nothing=right", b""),
            ):
                refused = kept.request(method, path, content=content)
                assert_problem(
                    refused,
                    503,
                    "overloaded",
                    "The service is overloaded",
                    "128 tokens are waiting, one usually has 1, and the queue holds 128: come back "
                    "later, or try another replica.",
                    retry_after=1,
                )
                assert refused.headers["cache-control"] == "no-store"
                assert refused.headers["x-content-type-options"] == "nosniff"
            named = kept.post("/predict", headers={"X-Request-ID": "mine"})
            assert (named.status_code, named.headers["x-request-id"]) == (503, "mine")
            # The connection goes on, and what does not wait for the network is answered.
            assert kept.get("/model").status_code == 200
            assert kept.get("/health/ready").status_code == 200
            closed = running.send(
                b"GET /attention HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
                b"X-Forwarded-For: 192.0.2.1\r\n\r\n"
            )
            assert closed.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
        refusals = 'headlight_requests_total{method="POST",route="/predict",status="503"}'
        assert running.metric(refusals) == 2
        assert '"request_id":"mine"' not in running.log.read_text("utf-8")  # never was a request
        (tmp_path / "pass").unlink()
        assert [future.result().status_code for future in waiting] == [200, 200]


def test_a_request_past_its_deadline_is_dropped(
    start: Start, tmp_path: Path, pool: ThreadPoolExecutor
) -> None:
    options = ("--request-timeout", "0.5", "--max-batch-tokens", "1")
    with start(*options) as running, running.client() as client:
        before = len(computed(tmp_path))
        (tmp_path / "pass").write_text("hold", encoding="ascii")
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


def test_a_client_may_want_its_answer_sooner(
    start: Start, tmp_path: Path, pool: ThreadPoolExecutor
) -> None:
    with start("--max-batch-tokens", "1") as running, running.client() as client:
        before = len(computed(tmp_path))
        (tmp_path / "pass").write_text("hold", encoding="ascii")
        first = pool.submit(predict, client, "one")
        wait_until(lambda: running.metric("headlight_queue_requests") == 1)
        hasty = client.post(
            "/predict", json={"sentences": ["two"]}, headers={"X-Request-Timeout": "0.25"}
        )
        assert_problem(
            hasty,
            504,
            "timeout",
            "The request took too long",
            "No answer was ready within 0.25 seconds, and the work was dropped: send fewer or "
            "shorter sentences at once, or try again later.",
        )
        (tmp_path / "pass").unlink()
        assert first.result().status_code == 200
        # More than the service allows is as if nothing were said.
        patient = client.get("/attention?sentence=three", headers={"X-Request-Timeout": "1000000"})
        assert patient.status_code == 200
        assert len(computed(tmp_path)) == before + 2  # two never was


@pytest.mark.parametrize("value", ["", "0", "0.0", "-1", "1e3", "soon", "nan", "inf", "1,5", "5 s"])
def test_a_time_that_is_none_is_refused(shared: RunningService, value: str) -> None:
    with shared.client() as client:
        headers = {"X-Request-Timeout": value}
        fault = "must be a number of seconds above 0, such as 2.5, given once"
        assert_problem(
            client.post("/predict", json={"sentences": ["good"]}, headers=headers),
            422,
            "invalid-request",
            "The request is not valid",
            f"X-Request-Timeout: {fault}.",
            errors=[error("header", "X-Request-Timeout", msg=fault)],
        )
        assert client.get("/health/ready", headers=headers).status_code == 200


def test_what_could_not_be_answered_in_time_is_refused_at_once(
    start: Start, tmp_path: Path, pool: ThreadPoolExecutor
) -> None:
    options = ("--max-batch-tokens", "1", "--request-timeout", "60")
    with start(*options) as running, running.client() as client:
        (tmp_path / "pass").write_text("0.25", encoding="ascii")  # 12 tokens a second
        waiting = [pool.submit(predict, client, "good") for _ in range(14)]
        computing = len(computed(tmp_path)) + 8  # by then the rate is known
        wait_until(lambda: len(computed(tmp_path)) >= computing)
        refused = client.post(
            "/predict", json={"sentences": ["bad"]}, headers={"X-Request-Timeout": "0.3"}
        )
        assert refused.status_code == 503
        assert refused.json()["type"] == "/problems/overloaded"
        assert "can be computed in the time that it has" in refused.json()["detail"]
        assert [future.result().status_code for future in waiting] == [200] * 14


def test_a_batch_that_memory_does_not_hold_is_computed_in_halves(
    start: Start, tmp_path: Path
) -> None:
    with start("--max-batch-tokens", "100") as running, running.client() as client:
        texts = ["good", "bad", "a film", "the plot", "good good"]
        whole = predict(client, *texts)
        before = computed(tmp_path)
        (tmp_path / "pass").write_text("room 2", encoding="ascii")
        scores = [each["score"] for each in whole.json()["predictions"]]
        halved = predict(client, *texts).json()["predictions"]
        assert [each["score"] for each in halved] == pytest.approx(scores, abs=1e-5)
        assert computed(tmp_path)[len(before) :] == [2, 1, 2]
        assert client.get("/health/ready").status_code == 200
        assert running.metric("headlight_forward_failures_total") == 0
        (tmp_path / "pass").write_text("room 0", encoding="ascii")
        assert predict(client, *texts).status_code == 500
        assert client.get("/health/ready").status_code == 503
    log = running.log.read_text("utf-8")
    assert '"message":"a pass ran out of memory: once more in halves","texts":5' in log


def test_a_pass_that_does_not_end_turns_liveness_off_and_hinders_nothing_else(
    start: Start, tmp_path: Path, pool: ThreadPoolExecutor
) -> None:
    options = ("--watchdog-seconds", "1", "--request-timeout", "2", "--drain-seconds", "0.1")
    with start(*options) as running, running.client() as client:
        assert client.get("/health/live").status_code == 200
        (tmp_path / "pass").write_text("600", encoding="ascii")
        waiting = [pool.submit(predict, client, "good") for _ in range(3)]
        stuck = "A forward pass has not ended for 1 seconds: the process has to be restarted."
        live = running.wait_for(503, "/health/live")
        assert_problem(live, 503, "not-ready", "The model is not ready", stuck, retry_after=1)
        assert client.get("/health/ready").json()["detail"] == stuck
        assert client.get("/model").status_code == 200
        assert running.metric("headlight_ready") == 0
        assert [future.result().status_code for future in waiting] == [504] * 3
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(20) == 70
    log = running.log.read_text("utf-8")
    assert log.count('"message":"a forward pass does not end"') == 1
    assert '"message":"ended with a forward pass that does not end"' in log


def test_a_client_that_left_costs_nothing(
    start: Start, tmp_path: Path, pool: ThreadPoolExecutor
) -> None:
    with start("--max-batch-tokens", "1") as running, running.client() as client:
        before = len(computed(tmp_path))
        (tmp_path / "pass").write_text("hold", encoding="ascii")
        first = pool.submit(predict, client, "one")
        wait_until(lambda: running.metric("headlight_queue_requests") == 1)
        impatient = httpx.Client(base_url=running.url, timeout=0.2)
        with impatient, pytest.raises(httpx.ReadTimeout):
            predict(impatient, "two")
        unanswered = 'headlight_requests_total{method="POST",route="/predict",status="499"}'
        wait_until(lambda: unanswered in running.metrics())
        (tmp_path / "pass").unlink()
        assert first.result().status_code == 200
        assert predict(client, "three").status_code == 200
        assert len(computed(tmp_path)) == before + 2
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
        (info,) = re.findall(r"^headlight_model_info.*$", client.get("/metrics").text, re.MULTILINE)
    assert re.fullmatch(
        r'headlight_model_info\{device="cpu",dtype="float32",name=".+",version="\w+"\} 0\.0', info
    )
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
