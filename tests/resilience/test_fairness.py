"""Beside every kind of legal work of one client, no request of the others is refused."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.servers import ROOT, RunningService, service
from tests.resilience.fairness import ATTACKS, ask_politely, attacking

pytestmark = pytest.mark.alone


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """The default model."""
    folder = tmp_path_factory.mktemp("fairness")
    with service(ROOT / "checkpoints" / "default", folder, "--dtype", "auto") as running:
        yield running


@pytest.mark.parametrize("names", [["256 steps"], ["256 long texts"], list(ATTACKS)])
def test_no_polite_request_is_refused(running: RunningService, names: list[str]) -> None:
    with attacking(running.port, names) as statuses:
        polite = ask_politely(running.port, clients=4, seconds=3.0)
    assert set(polite.statuses) == {200}
    assert polite.statuses.total() >= 4  # each client asked at least once
    # What never fits is refused at once, and the rest is answered or refused.
    assert set(statuses) <= {200, 422, 503, 504}


def test_a_test_that_looks_for_refusals_would_find_them(
    checkpoint_folder: Path, tmp_path: Path
) -> None:
    limit = ("--rate-limit", "1/hour")
    with service(checkpoint_folder, tmp_path, *limit) as running:
        polite = ask_politely(running.port, clients=2, seconds=0.5)
    assert polite.statuses[200] == 1
    assert polite.statuses[429] > 0
