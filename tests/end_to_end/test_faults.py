"""Passes that fail or hang, bad texts, a full queue, a model that does not load, lost devices."""

import re
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.builders import VOCABULARY, tiny_checkpoint
from tests.end_to_end.conftest import Start
from tests.end_to_end.misbehaving import patches
from tests.end_to_end.routes import (
    EXPLANATIONS,
    INFER,
    MANY,
    PREDICT,
    ROUTES,
    assert_members,
    assert_problem,
    predict,
    send,
)
from tests.end_to_end.servers import RunningService, local_service, service, shared, wait_until

LONG = "good " * 30  # 32 tokens
# All its connections have one share.
ONE_CLIENT = {"X-Forwarded-For": "192.0.2.1"}
WAITING, TOKENS = "headlight_queue_requests", "headlight_queue_tokens"
FAILURES = "headlight_forward_failures_total"


@dataclass(frozen=True, slots=True)
class Faulty:
    """A service and the folder that says how it misbehaves."""

    running: RunningService
    folder: Path

    def order(self, text: str) -> None:
        """Says what the next passes do."""
        (self.folder / "pass").write_text(text, encoding="ascii")

    def mend(self) -> None:
        (self.folder / "pass").unlink(missing_ok=True)

    def begun(self) -> list[int]:
        """The texts of each fused pass that began."""
        file = self.folder / "begun"
        return [int(line) for line in file.read_text("ascii").split()] if file.exists() else []


UNCOMPUTABLE, UNREADABLE = "cannot compute an answer for this text", "cannot read this text"
PANIC = "x" * 40
BAD = "superb"  # its embedding is too large to compute with
GOOD = ["a film", "the plot", "good", "a good film", "bad", "it is", "a bad plot"]


# With a word that overflows, and a tokenizer that panics.
_faulty = shared(
    *("--request-timeout", "600", "--max-batch-tokens", "200"),
    files={"poison": BAD, "tokenizer": ""},
    changes=patches,
)


@pytest.fixture
def faulty(_faulty: RunningService) -> Iterator[Faulty]:
    """In order for each test."""
    faulty = Faulty(_faulty, _faulty.log.parent)
    yield faulty
    faulty.mend()
    _faulty.wait_for(200)


def ask(client: httpx.Client, *sentences: str, **headers: str) -> httpx.Response:
    return send(client, PREDICT, *sentences, **headers)


def requests_with(status: int, route: str = "/predict", method: str = "POST") -> str:
    return f'headlight_requests_total{{method="{method}",route="{route}",status="{status}"}}'


def test_a_failed_pass_answers_500_and_the_service_heals_itself(faulty: Faulty) -> None:
    running = faulty.running
    failures = running.metric(FAILURES)
    with running.client() as client:
        faulty.order("fail")
        for route in ROUTES.values():
            response = send(client, route, "a good film")
            assert_problem(response, 500, "internal", foreign=route.foreign)
        assert_problem(client.get("/health/ready"), 503, "not-ready", says="every second")
        assert client.get("/health/live").json() == {"status": "live"}
        assert running.metric("headlight_ready") == 0
        assert running.metric(FAILURES) >= failures + len(ROUTES)
        faulty.mend()
        assert running.wait_for(200).json() == {"status": "ready"}
        assert running.metric("headlight_ready") == 1
        for route in ROUTES.values():
            assert send(client, route, "a good film").status_code == 200
        assert running.metric(TOKENS) == 0
    log = running.log.read_text("utf-8")
    assert "a forward pass failed" in log
    assert "good film" not in log


def scores(predictions: list[dict[str, Any]]) -> list[float]:
    return [each["score"] for each in predictions]


@pytest.mark.parametrize("index", [0, 3, 7])
def test_a_text_that_overflows_fails_by_itself(faulty: Faulty, index: int) -> None:
    running, log = faulty.running, faulty.running.log
    logged, failures = len(log.read_text("utf-8")), running.metric(FAILURES)
    with running.client() as client:
        expected = scores(predict(client, *GOOD))
        before = len(faulty.begun())
        texts = [*GOOD[:index], f"a {BAD} film", *GOOD[index:]]
        refused = ask(client, *texts)
        assert_problem(refused, 500, "internal", PREDICT.loc(index), says=UNCOMPUTABLE)
        found = predict(client, *texts, on_error="item")
        bad = found.pop(index)["error"]
        assert_members(bad, 500, "internal", PREDICT.loc(index), says=UNCOMPUTABLE)
        assert scores(found) == pytest.approx(expected, abs=1e-5)
        # One pass for each request: the row shows which text it was.
        assert faulty.begun()[before:] == [8, 8]
        assert client.get("/health/ready").status_code == 200
        assert running.metric(FAILURES) == failures
    said = log.read_text("utf-8")[logged:]
    assert said.count('"message":"texts failed alone"') == 2
    assert "logits of 1 of 8 texts are not finite numbers" in said
    assert BAD not in said


def test_a_text_that_makes_its_pass_fail_is_found_by_halves(faulty: Faulty) -> None:
    with faulty.running.client() as client:
        expected = scores(predict(client, *GOOD))
        faulty.order(f"bad {VOCABULARY.index('dull')}")
        before = len(faulty.begun())
        found = predict(client, *GOOD[:5], "dull", *GOOD[5:], on_error="item")
        bad = found.pop(5)["error"]
        assert_members(bad, 500, "internal", PREDICT.loc(5), says=UNCOMPUTABLE)
        assert scores(found) == pytest.approx(expected, abs=1e-5)
        # The whole pass and three parts with the bad text fail; three parts without it work.
        assert sorted(faulty.begun()[before:]) == [1, 1, 2, 2, 4, 4, 8]
        for route in EXPLANATIONS.values():
            assert_problem(send(client, route, "dull"), 500, "internal", says=UNCOMPUTABLE)
            assert client.get("/health/ready").status_code == 200
            assert send(client, route, "good").status_code == 200


@pytest.mark.parametrize(
    ("text", "says"),
    # A long text is tokenized on another thread.
    [(BAD, UNCOMPUTABLE), (PANIC, UNREADABLE), (f"{PANIC} {'good ' * 1000}", UNREADABLE)],
    ids=["overflow", "panic", "panic on another thread"],
)
def test_every_route_names_the_text(faulty: Faulty, text: str, says: str) -> None:
    failures = faulty.running.metric(FAILURES)
    with faulty.running.client() as client:
        for name, route in ROUTES.items():
            refused = send(client, route, *["good", text] if name in MANY else [text])
            loc = [route.loc(1)] if name in MANY else []
            assert_problem(refused, 500, "internal", *loc, says=says, foreign=route.foreign)
        assert client.get("/health/ready").status_code == 200
    assert faulty.running.metric(FAILURES) == failures
    lines = faulty.running.log.read_text("utf-8").splitlines()
    broke = [line for line in lines if "the tokenizer broke on a text" in line]
    assert all("(PanicException)" in line for line in broke)
    assert not any(PANIC in line for line in lines)
    assert bool(broke) or says is UNCOMPUTABLE


def test_a_full_queue_refuses_every_route(
    start: Start, tmp_path: Path, pool: ThreadPoolExecutor
) -> None:
    """First after its body is read, then by its head, when nothing has room."""
    options = ("--max-sentences", "4", "--max-queue-tokens", "128", "--max-batch-tokens", "32")
    patient = ("--request-timeout", "600", "--trusted-proxies", "127.0.0.1")
    with start(*options, *patient) as running, running.client(**ONE_CLIENT) as client:
        version = client.get("/model").json()["version"]
        (tmp_path / "pass").write_text("hold", encoding="ascii")
        # 128 tokens, of which the first 32 go at once
        waiting = [pool.submit(ask, client, *[LONG] * 4)]
        wait_until(lambda: running.metric(TOKENS) == 96)
        says = "96 tokens are waiting, the request has 64, and the queue holds 128"
        for route in MANY.values():
            refused = send(client, route, LONG, LONG)
            assert_problem(refused, 503, "overloaded", says=says, foreign=route.foreign)
        integral = client.post("/attributions", json={"sentence": "a good film", "steps": 6})
        assert_problem(integral, 503, "overloaded", says="the request has 40,")
        assert running.refused() == {"queue_full": len(MANY) + 1}
        waiting.append(pool.submit(ask, client, LONG))  # this one still fits
        wait_until(lambda: running.metric(TOKENS) == 128)
        counted = running.metric(requests_with(503))
        lines = running.log.read_text("utf-8").count('"status":503')
        says = "128 tokens are waiting, one usually has "
        for route in ROUTES.values():
            refused = client.post(route.path, content=b"not even JSON")
            # What comes to /predict has no form before its body is read.
            foreign = route.path not in ("/predict", *(x.path for x in EXPLANATIONS.values()))
            assert_problem(refused, 503, "overloaded", says=says, foreign=foreign)
        assert running.metric(requests_with(503)) == counted + 2
        assert_problem(client.get("/attention?nothing=right"), 503, "overloaded", says=says)
        versioned = INFER.replace("/infer", f"/versions/{version}/infer")
        assert client.post(versioned, content=b"not even JSON").status_code == 503
        route_name = "/v2/models/{model}/versions/{version}/infer"
        assert running.metric(requests_with(503, route_name)) == 1
        # By its head alone: none has a line in the log.
        assert running.log.read_text("utf-8").count('"status":503') == lines
        # The connection goes on, and what does not wait for the network is answered.
        assert client.get("/model").status_code == 200
        assert client.get("/health/ready").status_code == 200
        (tmp_path / "pass").unlink()
        assert [future.result().status_code for future in waiting] == [200, 200]
        assert (running.metric(TOKENS), running.metric(WAITING)) == (0, 0)


def test_requests_past_their_deadlines_are_dropped(
    start: Start, tmp_path: Path, pool: ThreadPoolExecutor
) -> None:
    def computed() -> int:
        return len((tmp_path / "computed").read_text("ascii").splitlines())

    with start("--max-batch-tokens", "1") as running, running.client() as client:
        before = computed()
        (tmp_path / "pass").write_text("hold", encoding="ascii")
        # More than the service allows is as if nothing were said.
        first = pool.submit(ask, client, "one", **{"X-Request-Timeout": "1000000"})
        wait_until(lambda: running.metric(WAITING) == 1)
        hasty = {"X-Request-Timeout": "0.5"}
        late = [pool.submit(send, client, route, "two", **hasty) for route in ROUTES.values()]
        for route, answer in zip(ROUTES.values(), late, strict=True):
            says = "No answer was ready within 0.5 seconds"
            assert_problem(answer.result(), 504, "timeout", says=says, foreign=route.foreign)
        assert running.metric(TOKENS) == 0
        (tmp_path / "pass").unlink()
        assert first.result().status_code == 200
        assert ask(client, "four").status_code == 200
        assert computed() == before + 2  # the others never were


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
        # Each has the deadline of the service.
        waiting = [pool.submit(ask, client, "good") for _ in range(3)]
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
        for route in ROUTES.values():
            refused = send(client, route, "good")
            says = "still loading"
            assert_problem(refused, 503, "not-ready", says=says, foreign=route.foreign)
        assert client.get("/health/ready").status_code == 503  # answered, and not refused
        assert running.refused() == {"not_ready": len(ROUTES)}
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


def test_a_model_that_fails_to_load(start: Start, tmp_path: Path) -> None:
    (tmp_path / "load").write_text("fail", encoding="ascii")
    failed = "The model could not be loaded; the log of the service says why."
    with start(ready=False) as running, running.client() as client:
        wait_until(lambda: client.get("/health/ready").json()["detail"] == failed)
        assert_problem(ask(client, "good"), 503, "not-ready", says=failed)
        assert client.get("/health/live").status_code == 200
        (info,) = re.findall(r"^headlight_model_info.*$", running.metrics(), re.MULTILINE)
    assert re.fullmatch(
        r'headlight_model_info\{device="cpu",dtype="float32",name=".+",version="\w+"\} 0\.0', info
    )
    log = running.log.read_text("utf-8")
    assert '"message":"the model could not be loaded","fault":"made to fail"' in log


def test_a_folder_that_is_replaced_meanwhile_changes_no_answer(tmp_path: Path) -> None:
    folder = tiny_checkpoint(tmp_path / "tiny")
    with local_service(folder, tmp_path) as running, running.client() as client:
        version = client.get("/model").json()["version"]
        before = [send(client, route, "a good film").json() for route in EXPLANATIONS.values()]
        tiny_checkpoint(folder, seed=1)
        after = [send(client, route, "a good film").json() for route in EXPLANATIONS.values()]
        assert after == before
        assert {answer["model"]["version"] for answer in before} == {version}
        assert client.get("/health/ready").status_code == 200


NO_WORKER = "stopped unexpectedly too often"
ENDED = '"message":"worker thread stopped unexpectedly; restarting it"'
LOST = "The device cpu is lost to this process: it has to be restarted."


def assert_over(client: httpx.Client, running: RunningService, reason: str) -> None:
    """Asserts that only another process can go on, and that every client hears so."""
    for path in ("/health/live", "/health/ready"):
        assert_problem(client.get(path), 503, "not-ready", says=reason)
    assert running.metric("headlight_ready") == 0
    for name in ("predict", "attention", "importance"):
        assert_problem(send(client, ROUTES[name], "good"), 503, "not-ready", says=reason)


@pytest.mark.parametrize(
    ("stage", "name"),
    [
        ("predict", "predict"),
        ("explain", "attention"),
        ("gradients", "importance"),
        ("probe", "predict"),
    ],
)
def test_a_lost_device_turns_liveness_off(
    start: Start, tmp_path: Path, stage: str, name: str
) -> None:
    with start() as running, running.client() as client:
        if stage == "probe":
            (tmp_path / "pass").write_text("fail", encoding="ascii")
        else:
            (tmp_path / "lost").write_text(stage, encoding="ascii")
        assert_problem(send(client, ROUTES[name], "good"), 500, "internal")
        if stage == "probe":
            assert client.get("/health/live").status_code == 200
            (tmp_path / "lost").write_text(stage, encoding="ascii")
            running.wait_for(503, "/health/live")
        assert_over(client, running, LOST)
        (tmp_path / "lost").unlink()
        assert_over(client, running, LOST)  # for ever
    log = running.log.read_text("utf-8")
    assert log.count('"message":"the device is lost"') == 1


def test_a_worker_that_ends_again_and_again_turns_health_off(start: Start, tmp_path: Path) -> None:
    with start("--threads", "1") as running, running.client() as client:
        (tmp_path / "pass").write_text("exit", encoding="ascii")
        answers = [ask(client, "good") for _ in range(4)]
        assert {answer.status_code for answer in answers[:3]} <= {500, 503}
        assert answers[3].status_code == 503
        assert_over(client, running, NO_WORKER)
    # One ordinary worker and two extra ones, of which none ends more than three times.
    assert 3 <= running.log.read_text("utf-8").count(ENDED) <= 9
