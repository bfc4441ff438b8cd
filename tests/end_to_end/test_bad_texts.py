"""Texts on which the network or the tokenizer breaks fail by themselves, and stop no replica."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.builders import VOCABULARY
from tests.end_to_end.kinds import EXPLANATIONS, KINDS, MANY, PREDICT, ask
from tests.end_to_end.misbehaving import patches
from tests.end_to_end.problems import assert_members, assert_problem
from tests.end_to_end.servers import RunningService, local_service
from tests.end_to_end.test_faults import Faulty, computed, predict

UNCOMPUTABLE, UNREADABLE = "cannot compute an answer for this text", "cannot read this text"
PANIC = "x" * 40
BAD = "superb"  # its embedding is too large to compute with
GOOD = ["a film", "the plot", "good", "a good film", "bad", "it is", "a bad plot"]


@pytest.fixture(scope="module")
def _poisoned(
    checkpoint_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningService]:
    folder = tmp_path_factory.mktemp("poisoned")
    (folder / "poison").write_text(BAD, encoding="ascii")
    (folder / "tokenizer").touch()
    options = ("--request-timeout", "600", "--max-batch-tokens", "200")
    with local_service(checkpoint_folder, folder, *options, changes=patches(folder)) as running:
        yield running


@pytest.fixture
def faulty(_poisoned: RunningService) -> Iterator[Faulty]:
    """A service with a word that overflows and a tokenizer that panics; ready for the next test."""
    faulty = Faulty(_poisoned, _poisoned.log.parent)
    yield faulty
    faulty.mend()
    _poisoned.wait_for(200)


def scores(response: httpx.Response) -> list[float]:
    """The score of each prediction."""
    assert response.status_code == 200, response.text
    return [item["score"] for item in response.json()["predictions"]]


def by_item(client: httpx.Client, *texts: str) -> list[dict[str, dict[str, object]]]:
    """Predictions, with problems in the places of texts that fail."""
    response = client.post("/predict", json={"sentences": texts, "on_error": "item"})
    assert response.status_code == 200
    found: list[dict[str, dict[str, object]]] = response.json()["predictions"]
    return found


@pytest.mark.parametrize("index", [0, 3, 7])
def test_a_text_that_overflows_fails_by_itself(faulty: Faulty, index: int) -> None:
    running, log = faulty.running, faulty.running.log
    logged = len(log.read_text("utf-8"))
    with running.client() as client:
        expected = scores(predict(client, *GOOD))
        before = len(computed(faulty.folder, "begun"))
        texts = [*GOOD[:index], f"a {BAD} film", *GOOD[index:]]
        refused = predict(client, *texts)
        assert_problem(refused, 500, "internal", PREDICT.loc(index), says=UNCOMPUTABLE)
        found = by_item(client, *texts)
        bad = found.pop(index)["error"]
        assert_members(bad, 500, "internal", PREDICT.loc(index), says=UNCOMPUTABLE)
        assert [item["score"] for item in found] == pytest.approx(expected, abs=1e-5)
        # One pass for each request: the row shows which text it was.
        assert computed(faulty.folder, "begun")[before:] == [8, 8]
        assert client.get("/health/ready").status_code == 200
        assert running.metric("headlight_forward_failures_total") == 0
    said = log.read_text("utf-8")[logged:]
    assert said.count('"message":"texts failed alone"') == 2
    assert "logits of 1 of 8 texts are not finite numbers" in said
    assert BAD not in said


def test_a_text_that_makes_its_pass_fail_is_found_by_halves(faulty: Faulty) -> None:
    with faulty.running.client() as client:
        expected = scores(predict(client, *GOOD))
        faulty.order(f"bad {VOCABULARY.index('dull')}")
        before = len(computed(faulty.folder, "begun"))
        found = by_item(client, *GOOD[:5], "dull", *GOOD[5:])
        bad = found.pop(5)["error"]
        assert_members(bad, 500, "internal", PREDICT.loc(5), says=UNCOMPUTABLE)
        assert [item["score"] for item in found] == pytest.approx(expected, abs=1e-5)
        # The whole pass and three parts with the bad text fail; three parts without it work.
        assert sorted(computed(faulty.folder, "begun")[before:]) == [1, 1, 2, 2, 4, 4, 8]
        assert client.get("/health/ready").status_code == 200
        for kind in EXPLANATIONS.values():
            assert_problem(ask(client, kind, "dull"), 500, "internal", says=UNCOMPUTABLE)
            assert client.get("/health/ready").status_code == 200
            assert ask(client, kind, "good").status_code == 200


@pytest.mark.parametrize(
    ("text", "says"),
    # A long text is tokenized on another thread.
    [(BAD, UNCOMPUTABLE), (PANIC, UNREADABLE), (f"{PANIC} {'good ' * 1000}", UNREADABLE)],
    ids=["overflow", "panic", "panic on another thread"],
)
def test_every_kind_names_the_text(faulty: Faulty, text: str, says: str) -> None:
    failures = faulty.running.metric("headlight_forward_failures_total")
    with faulty.running.client() as client:
        for name, kind in KINDS.items():
            refused = ask(client, kind, *["good", text] if name in MANY else [text])
            loc = [kind.loc(1)] if name in MANY else []
            assert_problem(refused, 500, "internal", *loc, says=says, foreign=kind.foreign)
        first, second = by_item(client, "good", text)
        assert "score" in first
        assert_members(second["error"], 500, "internal", PREDICT.loc(1), says=says)
        assert client.get("/health/ready").status_code == 200
    assert faulty.running.metric("headlight_forward_failures_total") == failures
    lines = faulty.running.log.read_text("utf-8").splitlines()
    broke = [line for line in lines if "the tokenizer broke on a text" in line]
    assert all("(PanicException)" in line for line in broke)
    assert not any(PANIC in line for line in lines)
    assert bool(broke) or says is UNCOMPUTABLE
