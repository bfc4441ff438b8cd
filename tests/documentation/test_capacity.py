"""docs/guides/capacity.md has every option, and its commands run."""

import argparse
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.capacity import __main__ as calculator
from benchmarks.capacity import measuring
from tests.documentation.markdown import ROOT, code, examples, rows
from tests.end_to_end.servers import environment

PAGE = ROOT / "docs" / "guides" / "capacity.md"
TABLES = {
    "option": calculator.parser(),
    "option of `python -m benchmarks.capacity.measuring`": measuring.parser(),
}


def _spelled(action: argparse.Action) -> str:
    if action.required:
        return "required"
    value = action.default
    if isinstance(value, Path):
        return str(value.relative_to(ROOT) if value.is_absolute() else value)
    return " ".join(value) if isinstance(value, (list, tuple)) else str(value)


@pytest.mark.parametrize("header", TABLES)
def test_every_option_is_described(header: str) -> None:
    table = [cells for cells in rows(PAGE, header, "default") if cells[0].startswith("`--")]
    options = {
        action.option_strings[-1]: _spelled(action)
        for action in TABLES[header]._actions
        if action.option_strings and action.dest != "help"
    }

    assert [code(option) for option, *_ in table] == list(options)
    for option, default, *_ in table:
        if default not in ("what ships", "that of the service where it was measured"):
            assert code(default) == options[code(option)]


def test_the_calculator_answers_the_question_of_the_page() -> None:
    (example,) = examples(PAGE)
    python, *words = shlex.split(example.command)
    assert python == "python"

    done = subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert "replicas " in done.stdout


def test_make_measures_and_writes_the_page() -> None:
    make = shutil.which("make")
    if make is None:
        pytest.skip("make is not installed")
    done = subprocess.run(
        [make, "capacity", "--dry-run"], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert "-m benchmarks.capacity.measuring" in done.stdout
    assert "-m benchmarks.capacity.page" in done.stdout
