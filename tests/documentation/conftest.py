"""The service that the examples of the pages ask."""

from collections.abc import Iterator

import pytest

from tests.documentation.markdown import ROOT
from tests.end_to_end.servers import service


@pytest.fixture(scope="session")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a service with the checkpoint that ships, as the pages were written with."""
    checkpoint = ROOT / "checkpoints" / "default"
    options = ["--device", "cpu", "--dtype", "bfloat16", "--max-connections", "512"]
    # How much work a request may be depends on how fast the machine is, and on this.
    options += ["--request-timeout", "120"]
    with service(checkpoint, tmp_path_factory.mktemp("examples"), *options) as running:
        yield running.url
