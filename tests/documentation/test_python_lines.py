"""The `python -c` lines of the pages print what the pages say."""

import shlex
import subprocess
import sys

import pytest

from tests.documentation.markdown import ROOT, Example, examples, pages
from tests.end_to_end.servers import environment

_PYTHON = ".venv/bin/python"
LINES = [
    pytest.param(example, id=f"{page.name}: {example.command[:90]}")
    for page in pages()
    for example in examples(page)
    if example.command.startswith(f"{_PYTHON} -c")
]


def test_there_are_such_lines() -> None:
    assert len(LINES) >= 3


@pytest.mark.parametrize("example", LINES)
def test_a_line_prints_what_the_page_says(example: Example) -> None:
    _, *arguments = shlex.split(example.command)

    done = subprocess.run(
        [sys.executable, "-W", "error", *arguments],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == example.output.strip()
