"""The public files that some tests read, which lie beside the project where there are any."""

import os
from pathlib import Path

import pytest

_FOLDER = Path(__file__).parents[2] / "shared"


def shared_file(name: str) -> Path:
    """A file of labelled text; without it the test that asks is skipped, in CI it fails.

    Args:
        name: its path in the folder of the files.
    """
    return _beside(Path("data", name), "see docs/guides/training.md")


def shared_case(name: str) -> Path:
    """A small file of a kind that people bring, or a folder of them; as `shared_file`."""
    return _beside(Path("cases", name), "tests make files of the same kinds too")


def _beside(name: Path, hint: str) -> Path:
    path = _FOLDER / name
    if not path.exists():
        reason = f"the public file {name} is not beside the project ({hint})"
        (pytest.fail if "CI" in os.environ else pytest.skip)(reason)
    return path
