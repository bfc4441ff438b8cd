"""The public files that some tests read, which lie beside the project where there are any."""

import os
from pathlib import Path

import pytest

_FOLDER = Path(__file__).parents[2] / "shared" / "data"


def shared_file(name: str) -> Path:
    """A file of labelled text; without it the test that asks is skipped, in CI it fails.

    Args:
        name: its path in the folder of the files.
    """
    path = _FOLDER / name
    if not path.is_file():
        reason = f"the public file {name} is not beside the project (see docs/guides/training.md)"
        (pytest.fail if "CI" in os.environ else pytest.skip)(reason)
    return path
