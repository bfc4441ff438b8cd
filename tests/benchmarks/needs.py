"""Skips tests without wrk; in continuous integration its absence must not hide."""

import os
import shutil

import pytest

needs_wrk = pytest.mark.skipif(
    shutil.which("wrk") is None and "CI" not in os.environ, reason="wrk is not installed"
)
