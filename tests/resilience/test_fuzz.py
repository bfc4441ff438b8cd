"""A seeded part of what `make fuzz` sends; see tests.resilience.fuzz."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.servers import RunningService, service
from tests.resilience.fuzz import OPTIONS, fuzz_documents, fuzz_requests
from tests.resilience.slow import ENDS


@pytest.fixture(scope="module")
def running(
    checkpoint_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningService]:
    """The service that is sent all of it."""
    with service(checkpoint_folder, tmp_path_factory.mktemp("fuzzed"), *OPTIONS) as running:
        yield running


def test_requests_of_any_bytes_are_answered_or_refused(running: RunningService) -> None:
    statuses, faults = fuzz_requests(running, range(2000))
    assert faults == []
    # The requests are not so wrong that nothing behind the first check was reached.
    for status in ("200", "400", "404", "405", "406", "415", "422"):
        assert statuses[status] > 0
    for route in ("/attention", "/attributions", "/importance"):
        asked = f'headlight_requests_total{{method="POST",route="{route}",status="200"}}'
        assert running.metric(asked) > 20
    assert sum(statuses[end] for end in ENDS) > 0


def test_what_the_document_allows_is_answered_as_it_says(running: RunningService) -> None:
    sent, faults = fuzz_documents(running, 400, seed=0)
    assert faults == []
    assert sent > 400


def test_nothing_of_it_is_logged(running: RunningService) -> None:
    assert running.errors() == []
    assert "plot" not in running.log.read_text("utf-8")
