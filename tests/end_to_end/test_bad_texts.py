"""Texts on which the network or the tokenizer breaks fail alone, and take no replica out."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path

import httpx
import pytest

from tests.builders import VOCABULARY, tiny_checkpoint
from tests.end_to_end.problems import assert_problem, error
from tests.end_to_end.servers import RunningService, service, wait_until
from tests.end_to_end.test_faults import INTERNAL, computed, predict

Start = Callable[..., AbstractContextManager[RunningService]]
ALONE = (
    "The model cannot compute an answer for this text. Trying again would fail too: leave the "
    "text out, and report the X-Request-ID to the operator of the service."
)
UNREADABLE = (
    "The tokenizer of the model cannot read this text. Trying again would fail too: leave the "
    "text out, and report the X-Request-ID to the operator of the service."
)
PANIC = "x" * 40
# The paths of explanations, each with what it needs beside the text.
EXPLANATIONS: dict[str, dict[str, int]] = {
    "/attention": {},
    "/attention/steps": {"layer": 0, "head": 0, "query": 1},
    "/attributions": {},
    "/importance": {},
}
GOOD = ["a film", "the plot", "good", "a good film", "bad", "it is", "a bad plot"]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """Starts a service that misbehaves as files in `tmp_path` say."""

    def start(*options: str) -> AbstractContextManager[RunningService]:
        program = ("-W", "error", "-m", "tests.end_to_end.misbehaving", str(tmp_path))
        checkpoint = tiny_checkpoint(tmp_path / "tiny")
        return service(checkpoint, tmp_path, *options, program=program)

    return start


def in_sentence(index: int, detail: str) -> list[dict[str, object]]:
    """The member `errors` of a problem with one sentence."""
    message = detail.split(".")[0]
    return [error("body", "sentences", index, msg=message[0].lower() + message[1:])]


def scores(response: httpx.Response) -> list[float]:
    """The score of each prediction."""
    assert response.status_code == 200, response.text
    return [item["score"] for item in response.json()["predictions"]]


@pytest.mark.parametrize("place", [0, 3, 7])
def test_a_text_that_overflows_fails_alone(start: Start, tmp_path: Path, place: int) -> None:
    (tmp_path / "poison").write_text("superb", encoding="ascii")
    with start("--max-batch-tokens", "200") as running, running.client() as client:
        expected = scores(predict(client, *GOOD))
        before = len(computed(tmp_path, "begun"))
        texts = [*GOOD[:place], "a superb film", *GOOD[place:]]
        refused = predict(client, *texts)
        assert_problem(
            refused, 500, "internal", "The service failed", ALONE, errors=in_sentence(place, ALONE)
        )
        by_item = client.post("/predict", json={"sentences": texts, "on_error": "item"})
        assert by_item.status_code == 200
        found = by_item.json()["predictions"]
        bad = found.pop(place)["error"]
        assert (bad["type"], bad["status"], bad["detail"]) == ("/problems/internal", 500, ALONE)
        assert [item["score"] for item in found] == pytest.approx(expected, abs=1e-5)
        # One pass for each request: the row shows which text it was.
        assert computed(tmp_path, "begun")[before:] == [8, 8]
        assert client.get("/health/ready").status_code == 200
        assert running.metric("headlight_forward_failures_total") == 0
    log = running.log.read_text("utf-8")
    assert log.count('"message":"texts failed alone"') == 2
    assert "logits of 1 of 8 texts are not finite numbers" in log
    assert "superb" not in log


def test_strangers_in_the_same_pass_are_answered(start: Start, tmp_path: Path) -> None:
    (tmp_path / "poison").write_text("superb", encoding="ascii")
    with (
        start("--max-batch-tokens", "200") as running,
        running.client() as client,
        ThreadPoolExecutor(max_workers=9) as pool,
    ):
        expected = scores(predict(client, *GOOD))
        before = len(computed(tmp_path, "begun"))
        (tmp_path / "pass").write_text("hold", encoding="ascii")
        held = pool.submit(predict, client, "it")
        wait_until(lambda: len(computed(tmp_path, "begun")) == before + 1)
        waiting = [pool.submit(predict, client, text) for text in [*GOOD, "superb"]]
        wait_until(lambda: running.metric("headlight_queue_requests") == 9)
        (tmp_path / "pass").unlink()
        assert held.result().status_code == 200
        *good, bad = [each.result() for each in waiting]
        assert computed(tmp_path, "begun")[before:] == [1, 8]
        assert [scores(each)[0] for each in good] == pytest.approx(expected, abs=1e-5)
        assert bad.json()["detail"] == ALONE
        assert client.get("/health/ready").status_code == 200


def test_a_text_that_makes_its_pass_fail_is_found_by_halves(start: Start, tmp_path: Path) -> None:
    with start("--max-batch-tokens", "200") as running, running.client() as client:
        expected = scores(predict(client, *GOOD))
        (tmp_path / "pass").write_text(f"bad {VOCABULARY.index('superb')}", encoding="ascii")
        before = len(computed(tmp_path, "begun"))
        texts = [*GOOD[:5], "superb", *GOOD[5:]]
        by_item = client.post("/predict", json={"sentences": texts, "on_error": "item"})
        found = by_item.json()["predictions"]
        assert found.pop(5)["error"]["detail"] == ALONE
        assert [item["score"] for item in found] == pytest.approx(expected, abs=1e-5)
        # The whole pass and three parts with the bad text fail; three parts without it work.
        assert sorted(computed(tmp_path, "begun")[before:]) == [1, 1, 2, 2, 4, 4, 8]
        assert client.get("/health/ready").status_code == 200


@pytest.mark.parametrize("path", list(EXPLANATIONS))
@pytest.mark.parametrize("fault", ["poison", "pass"])
def test_explanations_fail_alone_too(start: Start, tmp_path: Path, path: str, fault: str) -> None:
    if fault == "poison":
        (tmp_path / "poison").write_text("superb", encoding="ascii")
    with start() as running, running.client() as client:
        if fault == "pass":
            (tmp_path / "pass").write_text(f"bad {VOCABULARY.index('superb')}", encoding="ascii")
        place = EXPLANATIONS[path]
        bad = client.post(path, json={"sentence": "superb", **place})
        assert_problem(bad, 500, "internal", "The service failed", ALONE)
        assert client.get("/health/ready").status_code == 200
        assert client.post(path, json={"sentence": "good", **place}).status_code == 200
        assert running.metric("headlight_forward_failures_total") == 0


def test_a_panic_of_the_tokenizer_is_answered(start: Start, tmp_path: Path) -> None:
    (tmp_path / "tokenizer").touch()
    long = PANIC + " good" * 1000  # is tokenized on another thread
    with start() as running, running.client() as client:
        for text in (PANIC, long):
            refused = predict(client, "good", text)
            errors = in_sentence(1, UNREADABLE)
            assert_problem(
                refused, 500, "internal", "The service failed", UNREADABLE, errors=errors
            )
            by_item = client.post(
                "/predict", json={"sentences": ["good", text], "on_error": "item"}
            )
            first, second = by_item.json()["predictions"]
            assert "score" in first
            assert second["error"]["detail"] == UNREADABLE
            for path, place in EXPLANATIONS.items():
                explained = client.post(path, json={"sentence": text, **place})
                assert_problem(explained, 500, "internal", "The service failed", UNREADABLE)
        assert predict(client, "good").status_code == 200
        assert client.get("/health/ready").status_code == 200
        assert running.process.poll() is None
    lines = running.log.read_text("utf-8").splitlines()
    broke = [line for line in lines if "the tokenizer broke on a text" in line]
    assert len(broke) == 12
    assert all("(PanicException)" in line for line in broke)
    assert not any(PANIC in line for line in lines)


def test_when_every_text_fails_the_device_is_to_blame(start: Start, tmp_path: Path) -> None:
    with start("--max-batch-tokens", "200") as running, running.client() as client:
        before = len(computed(tmp_path, "begun"))
        (tmp_path / "pass").write_text("fail", encoding="ascii")
        refused = predict(client, *GOOD, "superb")
        assert_problem(refused, 500, "internal", "The service failed", INTERNAL)
        assert client.get("/health/ready").status_code == 503
        # Not more than 2 log2 N in halves, what was left then, and the text that is sound.
        assert len(computed(tmp_path, "begun")) - before <= 2 * 4 + 3 + 1
