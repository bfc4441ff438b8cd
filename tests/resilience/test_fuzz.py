"""A seeded part of what `make fuzz` sends."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.servers import RunningService, service
from tests.resilience.fuzz import OPTIONS, fuzz_documents, fuzz_requests


@pytest.fixture(scope="module")
def running(
    checkpoint_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningService]:
    """The service that is sent all of it; nothing of it is logged."""
    with service(checkpoint_folder, tmp_path_factory.mktemp("fuzzed"), *OPTIONS) as running:
        yield running
    assert running.errors() == []
    assert "plot" not in running.log.read_text("utf-8")


def test_requests_of_any_bytes_are_answered_or_refused(running: RunningService) -> None:
    statuses, faults = fuzz_requests(running, range(1200))
    assert faults == []
    # The requests are not so wrong that nothing behind the first check was reached.
    for status in ("200", "400", "404", "405", "406", "415", "422"):
        assert statuses[status] > 0
    for route in ("/attention", "/attributions", "/importance"):
        answered = f'headlight_requests_total{{method="POST",route="{route}",status="200"}}'
        assert running.metric(answered) > 10


def test_what_the_document_allows_is_answered_as_it_says(running: RunningService) -> None:
    sent, faults = fuzz_documents(running, 200, seed=0)
    assert faults == []
    assert sent > 200
