"""Services that many tests share; a test that changes one starts its own."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.end_to_end.misbehaving import patches
from tests.end_to_end.servers import RunningService, local_service, service

Start = Callable[..., AbstractContextManager[RunningService]]


@pytest.fixture(scope="session")
def running(
    checkpoint_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningService]:
    """A service with small limits, a process of its own."""
    with service(
        checkpoint_folder,
        tmp_path_factory.mktemp("running"),
        *("--max-sentences", "40"),
        *("--max-body-bytes", "250000"),
        *("--max-batch-tokens", "64"),
        *("--max-attention-weights", "400"),
        *("--request-timeout", "50"),  # however busy the machine is
    ) as server:
        yield server


@pytest.fixture(scope="session")
def client(running: RunningService) -> Iterator[httpx.Client]:
    with running.client() as client:
        yield client


@pytest.fixture
def start(checkpoint_folder: Path, tmp_path: Path) -> Start:
    """Starts a service of this process; without `changes` it obeys files in `tmp_path`."""

    def start(*options: str, **named: Any) -> AbstractContextManager[RunningService]:  # noqa: ANN401
        named.setdefault("changes", patches(tmp_path))
        return local_service(checkpoint_folder, tmp_path, *options, **named)

    return start


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    """Threads of clients that wait."""
    with ThreadPoolExecutor(max_workers=16) as pool:
        yield pool
