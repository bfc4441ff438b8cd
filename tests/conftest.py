"""What all suites share: how hypothesis runs, and one checkpoint folder that nobody changes."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

from tests.builders import tiny_checkpoint

# No deadline: a slow machine is no failure. The same cases every time where nobody looks on.
settings.register_profile("headlight", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("headlight")


@pytest.fixture(scope="session")
def checkpoint_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny checkpoint; write another with `tiny_checkpoint` to change one."""
    return tiny_checkpoint(tmp_path_factory.mktemp("checkpoints") / "tiny")
