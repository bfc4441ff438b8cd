"""Servers that many tests share; each test that changes a server starts its own."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.end_to_end.servers import RunningService, service


@pytest.fixture(scope="session")
def running(
    checkpoint_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningService]:
    """A service with small limits."""
    with service(
        checkpoint_folder,
        tmp_path_factory.mktemp("running"),
        *("--max-sentences", "40"),
        *("--max-body-bytes", "250000"),
        *("--max-batch-tokens", "64"),
        *("--max-attention-weights", "400"),
    ) as server:
        yield server


@pytest.fixture(scope="session")
def client(running: RunningService) -> Iterator[httpx.Client]:
    """A client of that service."""
    with running.client() as client:
        yield client
