"""Checkpoint folders that a test may change."""

from pathlib import Path

import pytest

from model.files import CONFIG, MANIFEST
from tests.model.folders import edit


@pytest.fixture
def foreign(folder: Path) -> Path:
    """As others write it: no manifest, and their mark in the configuration."""
    (folder / MANIFEST).unlink()
    edit(folder / CONFIG, transformers_version="5.0.0")
    return folder
