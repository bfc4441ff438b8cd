"""Passes that fail or take too long, a full queue, a model that does not load: for every kind."""

import re
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.builders import tiny_checkpoint
from tests.end_to_end.conftest import Start
from tests.end_to_end.kinds import EXPLANATIONS, INFER, KINDS, MANY, PREDICT, ask
from tests.end_to_end.misbehaving import patches
from tests.end_to_end.problems import assert_problem
from tests.end_to_end.servers import RunningService, local_service, service, wait_until

LONG = "good " * 30  # 32 tokens
# All its connections have one share.
ONE_CLIENT = {"X-Forwarded-For": "192.0.2.1"}
WAITING, TOKENS = "headlight_queue_requests", "headlight_queue_tokens"


@dataclass(frozen=True, slots=True)
class Faulty:
    """A service and the folder that says how it misbehaves."""

    running: RunningService
    folder: Path

    def order(self, text: str) -> None:
        """Says what the next passes do."""
        (self.folder / "pass").write_text(text, encoding="ascii")

    def mend(self) -> None:
        """Lets passes work again."""
        (self.folder / "pass").unlink(missing_ok=True)


@pytest.fixture(scope="module")
def _patient(checkpoint_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Faulty]:
    folder = tmp_path_factory.mktemp("patient")
    options = ("--request-timeout", "600", "--max-batch-tokens", "100")
    changes = patches(folder)
    with local_service(checkpoint_folder, folder, *options, changes=changes) as running:
        yield Faulty(running, folder)


@pytest.fixture
def faulty(_patient: Faulty) -> Iterator[Faulty]:
    """A patient service, which the next test finds in order."""
    yield _patient
    _patient.mend()
    _patient.running.wait_for(200)


def predict(client: httpx.Client, *sentences: str, **headers: str) -> httpx.Response:
    return ask(client, PREDICT, *sentences, **headers)


def computed(folder: Path, name: str = "computed") -> list[int]:
    """The texts of each pass that was computed, or of each fused one that has `begun`."""
    file = folder / name
    return [int(line) for line in file.read_text("ascii").splitlines()] if file.exists() else []


def requests_with(status: int, route: str = "/predict", method: str = "POST") -> str:
    return f'headlight_requests_total{{method="{method}",route="{route}",status="{status}"}}'


def test_a_failed_pass_answers_500_and_the_service_heals_itself(faulty: Faulty) -> None:
    running = faulty.running
    failures = running.metric("headlight_forward_failures_total")
    with running.client() as client:
        faulty.order("fail")
        for kind in KINDS.values():
            response = ask(client, kind, "a good film")
            assert_problem(response, 500, "internal", foreign=kind.foreign)
        assert_problem(client.get("/health/ready"), 503, "not-ready", says="every second")
        assert client.get("/health/live").json() == {"status": "live"}
        assert running.metric("headlight_ready") == 0
        assert running.metric("headlight_forward_failures_total") >= failures + len(KINDS)
        faulty.mend()
        assert running.wait_for(200).json() == {"status": "ready"}
        assert running.metric("headlight_ready") == 1
        for kind in KINDS.values():
            assert ask(client, kind, "a good film").status_code == 200
        assert running.metric(TOKENS) == 0
    log = running.log.read_text("utf-8")
    assert "a forward pass failed" in log
    assert "good film" not in log


def test_a_full_queue_refuses_every_kind(
    start: Start, tmp_path: Path, pool: ThreadPoolExecutor
) -> None:
    """First after its body is read, then by its head, when nothing has room."""
    options = ("--max-sentences", "4", "--max-queue-tokens", "128", "--max-batch-tokens", "32")
    patient = ("--request-timeout", "600", "--trusted-proxies", "127.0.0.1")
    with start(*options, *patient) as running, running.client(**ONE_CLIENT) as client:
        version = client.get("/model").json()["version"]
        (tmp_path / "pass").write_text("hold", encoding="ascii")
        # 128 tokens, of which the first 32 go at once
        waiting = [pool.submit(predict, client, *[LONG] * 4)]
        wait_until(lambda: running.metric(TOKENS) == 96)
        says = "96 tokens are waiting, the request has 64, and the queue holds 128"
        for kind in MANY.values():
            refused = ask(client, kind, LONG, LONG)
            assert_problem(refused, 503, "overloaded", says=says, foreign=kind.foreign)
        integral = client.post("/attributions", json={"sentence": "a good film", "steps": 6})
        assert_problem(integral, 503, "overloaded", says="the request has 40,")
        assert running.refused() == {"queue_full": len(MANY) + 1}
        waiting.append(pool.submit(predict, client, LONG))  # this one still fits
        wait_until(lambda: running.metric(TOKENS) == 128)
        counted = running.metric(requests_with(503))
        lines = running.log.read_text("utf-8").count('"status":503')
        says = "128 tokens are waiting, one usually has "
        for kind in KINDS.values():
            refused = client.post(kind.path, content=b"not even JSON")
            # What comes to /predict has no form before its body is read.
            foreign = kind.path not in ("/predict", *(each.path for each in EXPLANATIONS.values()))
            assert_problem(refused, 503, "overloaded", says=says, foreign=foreign)
            assert refused.headers["cache-control"] == "no-store"
            assert refused.headers["x-content-type-options"] == "nosniff"
        assert running.metric(requests_with(503)) == counted + 2
        assert_problem(client.get("/attention?nothing=right"), 503, "overloaded", says=says)
        versioned = INFER.replace("/infer", f"/versions/{version}/infer")
        assert client.post(versioned, content=b"not even JSON").status_code == 503
        route = "/v2/models/{model}/versions/{version}/infer"
        assert running.metric(requests_with(503, route)) == 1
        named = client.post("/predict", headers={"X-Request-ID": "mine"})
        assert (named.status_code, named.headers["x-request-id"]) == (503, "mine")
        # By its head alone: none has a line in the log.
        assert running.log.read_text("utf-8").count('"status":503') == lines
        # The connection goes on, and what does not wait for the network is answered.
        assert client.get("/model").status_code == 200
        assert client.get("/health/ready").status_code == 200
        closed = running.send(
            b"GET /attention HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
            b"X-Forwarded-For: 192.0.2.1\r\n\r\n"
        )
        assert closed.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
        (tmp_path / "pass").unlink()
        assert [future.result().status_code for future in waiting] == [200, 200]
        assert (running.metric(TOKENS), running.metric(WAITING)) == (0, 0)


def test_requests_past_their_deadlines_are_dropped(
    start: Start, tmp_path: Path, pool: ThreadPoolExecutor
) -> None:
    with start("--max-batch-tokens", "1") as running, running.client() as client:
        before = len(computed(tmp_path))
        (tmp_path / "pass").write_text("hold", encoding="ascii")
        # More than the service allows is as if nothing were said.
        first = pool.submit(predict, client, "one", **{"X-Request-Timeout": "1000000"})
        wait_until(lambda: running.metric(WAITING) == 1)
        hasty = {"X-Request-Timeout": "0.5"}
        late = [pool.submit(ask, client, kind, "two", **hasty) for kind in KINDS.values()]
        for kind, answer in zip(KINDS.values(), late, strict=True):
            says = "No answer was ready within 0.5 seconds"
            assert_problem(answer.result(), 504, "timeout", says=says, foreign=kind.foreign)
        assert running.metric(TOKENS) == 0
        (tmp_path / "pass").unlink()
        assert first.result().status_code == 200
        assert predict(client, "four").status_code == 200
        assert len(computed(tmp_path)) == before + 2  # the others never were


def test_every_request_has_the_deadline_of_the_service(start: Start, tmp_path: Path) -> None:
    with start("--request-timeout", "0.5") as running, running.client() as client:
        (tmp_path / "pass").write_text("hold", encoding="ascii")
        assert_problem(predict(client, "good"), 504, "timeout", says="within 0.5 seconds")


@pytest.mark.parametrize("value", ["", "0", "0.0", "-1", "1e3", "soon", "nan", "inf", "1,5", "5 s"])
def test_a_time_that_is_none_is_refused(client: httpx.Client, value: str) -> None:
    headers = {"X-Request-Timeout": value}
    refused = predict(client, "good", **headers)
    assert_problem(refused, 422, "invalid-request", ("header", "X-Request-Timeout"))
    assert client.get("/health/ready", headers=headers).status_code == 200


def test_a_pass_that_does_not_end_turns_liveness_off_and_hinders_nothing_else(
    checkpoint_folder: Path, tmp_path: Path, pool: ThreadPoolExecutor
) -> None:
    (tmp_path / "watchdog").touch()  # after a second
    options = ("--request-timeout", "2", "--drain-seconds", "0.1")
    program = ("-W", "error", "-m", "tests.end_to_end.misbehaving", str(tmp_path))
    with (
        service(checkpoint_folder, tmp_path, *options, program=program) as running,
        running.client() as client,
    ):
        assert client.get("/health/live").status_code == 200
        (tmp_path / "pass").write_text("600", encoding="ascii")
        waiting = [pool.submit(predict, client, "good") for _ in range(3)]
        live = running.wait_for(503, "/health/live")
        assert_problem(live, 503, "not-ready", says="has not ended for 1 seconds")
        assert client.get("/health/ready").json()["detail"] == live.json()["detail"]
        assert client.get("/model").status_code == 200
        assert running.metric("headlight_ready") == 0
        assert [future.result().status_code for future in waiting] == [504] * 3
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(20) == 70
    log = running.log.read_text("utf-8")
    assert log.count('"message":"a forward pass does not end"') == 1
    assert '"message":"ended with a forward pass that does not end"' in log


def test_while_the_model_loads(start: Start, tmp_path: Path) -> None:
    (tmp_path / "load").write_text("hold 0", encoding="ascii")
    with start(ready=False) as running, running.client() as client:
        for kind in KINDS.values():
            refused = ask(client, kind, "good")
            says = "still loading"
            assert_problem(refused, 503, "not-ready", says=says, foreign=kind.foreign)
        for path in ("/health/ready", "/model"):
            assert_problem(client.get(path), 503, "not-ready")
        own = ("/v2/health/ready", "/v2/models/tiny/ready")
        for path in ("/health", "/ping", "/info", "/v1/models", *own):
            assert_problem(client.get(path), 503, "not-ready", foreign=True)
        # The checkpoint says the last one.
        for path in ("/health/live", "/version", "/v2/health/live", "/v2/models/tiny"):
            assert client.get(path).status_code == 200
        assert running.metric("headlight_ready") == 0
        (tmp_path / "load").unlink()
        running.wait_for(200, "/ping")
        running.wait_for(200, "/v2/health/ready")
        for kind in KINDS.values():
            assert ask(client, kind, "good").status_code == 200


def test_a_model_that_fails_to_load(start: Start, tmp_path: Path) -> None:
    (tmp_path / "load").write_text("fail", encoding="ascii")
    failed = "The model could not be loaded; the log of the service says why."
    with start(ready=False) as running, running.client() as client:
        wait_until(lambda: client.get("/health/ready").json()["detail"] == failed)
        assert_problem(predict(client, "good"), 503, "not-ready", says=failed)
        assert client.get("/health/live").status_code == 200
        (info,) = re.findall(r"^headlight_model_info.*$", running.metrics(), re.MULTILINE)
    assert re.fullmatch(
        r'headlight_model_info\{device="cpu",dtype="float32",name=".+",version="\w+"\} 0\.0', info
    )
    log = running.log.read_text("utf-8")
    assert '"message":"the model could not be loaded","fault":"told to fail"' in log


def test_a_folder_that_is_replaced_meanwhile_changes_no_answer(tmp_path: Path) -> None:
    folder = tiny_checkpoint(tmp_path / "tiny")
    with local_service(folder, tmp_path) as running, running.client() as client:
        version = client.get("/model").json()["version"]
        before = [ask(client, kind, "a good film").json() for kind in EXPLANATIONS.values()]
        tiny_checkpoint(folder, seed=1)
        after = [ask(client, kind, "a good film").json() for kind in EXPLANATIONS.values()]
        assert after == before
        assert {answer["model"]["version"] for answer in before} == {version}
        assert client.get("/health/ready").status_code == 200
