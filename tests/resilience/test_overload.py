"""Three times as many requests as can be answered: right answers at full speed, clean refusals."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.end_to_end.servers import RunningService, service
from tests.resilience.flood import Outcome, flood, saturate

# Each pass sleeps, so that what the service can do does not depend on what else this machine does.
PASS_SECONDS = 0.05
TEXTS_A_PASS = 4
REQUEST_TIMEOUT = 1.0
MEMORY = "headlight_process_resident_memory_bytes"
SENTENCES = [f"{first} {second}" for first in ("good", "bad") for second in ("film", "plot")]

pytestmark = pytest.mark.alone


class Overloaded:
    """What one service did in three phases."""

    def __init__(self, running: RunningService) -> None:
        with running.client() as client:
            self._scores = {sentence: score_of(client, sentence) for sentence in SENTENCES}
            self.saturated = saturate(
                running.port, SENTENCES, clients=40, seconds=3.0, is_right=self.is_right
            )
            memory = running.metric(MEMORY)
            self.flooded = flood(
                running.port,
                SENTENCES,
                rate=3 * self.saturated.served,
                seconds=6.0,
                is_right=self.is_right,
            )
            self.grown = running.metric(MEMORY) - memory
            self.after = client.post(
                "/predict",
                json={"sentences": SENTENCES[:1]},
                headers={"X-Request-Timeout": str(REQUEST_TIMEOUT / 2)},
            ).status_code
            self.queued = running.metric("headlight_queue_tokens")

    def is_right(self, sentence: str, prediction: dict[str, Any]) -> bool:
        """Whether it is what the sentence alone gets."""
        score: float = prediction["score"]
        return abs(score - self._scores[sentence]) < 1e-4


def score_of(client: httpx.Client, sentence: str) -> float:
    """What the service says of a sentence when nothing else is asked."""
    (prediction,) = client.post("/predict", json={"sentences": [sentence]}).json()["predictions"]
    score: float = prediction["score"]
    return score


@pytest.fixture(scope="module")
def overloaded(checkpoint_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Overloaded:
    """A service whose passes take a fixed time, through saturation and three times that."""
    folder = tmp_path_factory.mktemp("overloaded")
    (folder / "pass").write_text(str(PASS_SECONDS), encoding="ascii")
    program = ("-W", "error", "-m", "tests.end_to_end.misbehaving", str(folder))
    options = (
        "--max-batch-tokens",
        str(4 * TEXTS_A_PASS),
        "--request-timeout",
        str(REQUEST_TIMEOUT),
    )
    with service(checkpoint_folder, folder, *options, program=program) as running:
        return Overloaded(running)


def test_every_answer_is_right_or_a_clean_refusal(overloaded: Overloaded) -> None:
    for outcome in (overloaded.saturated, overloaded.flooded):
        assert outcome.wrong == {}
        assert outcome.statuses.total() == outcome.offered
    assert set(overloaded.saturated.statuses) == {200}
    assert overloaded.flooded.statuses[503] > 0


def test_it_goes_on_as_fast_as_it_can(overloaded: Overloaded) -> None:
    assert overloaded.flooded.served > 0.9 * overloaded.saturated.served


def test_who_is_let_in_is_answered_in_time(overloaded: Overloaded) -> None:
    flooded: Outcome = overloaded.flooded
    assert flooded.statuses[504] <= 0.02 * flooded.statuses[200]


def test_memory_does_not_grow_with_the_flood(overloaded: Overloaded) -> None:
    assert overloaded.grown < 30_000_000


def test_afterwards_all_is_as_before(overloaded: Overloaded) -> None:
    assert overloaded.after == 200
    assert overloaded.queued == 0
