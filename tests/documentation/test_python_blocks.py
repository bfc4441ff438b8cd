"""The Python of the pages runs, without a warning, and prints what the pages say."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.documentation.markdown import ROOT, all_blocks, pages
from tests.end_to_end.servers import environment

PAGES = [page for page in pages() if any(block.language == "python" for block in all_blocks(page))]


def test_there_are_such_pages() -> None:
    assert {page.name for page in PAGES} >= {"python.md", "checkpoint.md"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_python_of_a_page_prints_what_it_says(page: Path) -> None:
    program, expected = "", ""
    every = all_blocks(page)
    for block, following in zip(every, [*every[1:], None], strict=True):
        if block.language == "python":
            program += block.content
            expected += following.content if following and following.language == "text" else ""

    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=ROOT,
        env={**environment(), "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout == expected
