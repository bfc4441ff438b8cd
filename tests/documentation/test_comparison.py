"""The page on the comparison says what the reports say, and the reports what was measured."""

import re
from pathlib import Path

import pytest

from tests.documentation.markdown import ROOT, blocks
from training.__main__ import _parser
from training.compare.comparison import Comparison, from_json
from training.compare.report import to_markdown

PAGE = ROOT / "docs" / "comparison.md"
FOLDERS = [ROOT / "docs" / name for name in ("comparison", "comparison-random")]
_FIGURE = re.compile(r"\d+\.\d+(?: ± \d+\.\d+)?")


def read(folder: Path) -> Comparison:
    return from_json((folder / "comparison.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_report_holds_what_was_measured(folder: Path) -> None:
    assert (folder / "report.md").read_text(encoding="utf-8") == to_markdown(read(folder))
    assert {path.name for path in folder.iterdir()} == {
        "report.md",
        "comparison.json",
        "curves.png",
        "gaps.png",
    }


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_report_has_at_least_five_seeds(folder: Path) -> None:
    for outcome in read(folder).outcomes:
        assert len(outcome.runs) >= 5 or not outcome.runs[0].history


def test_every_figure_of_the_page_is_in_a_report() -> None:
    reports = "".join((folder / "report.md").read_text(encoding="utf-8") for folder in FOLDERS)
    known = set(_FIGURE.findall(reports)) | {
        figure.lstrip("+-") for figure in re.findall(r"[+-]\d+\.\d+ ± \d+\.\d+", reports)
    }

    figures = _FIGURE.findall(PAGE.read_text(encoding="utf-8"))

    assert len(figures) > 25
    assert [figure for figure in figures if figure not in known] == []


def test_the_commands_of_the_page_are_those_of_the_reports() -> None:
    (block,) = blocks(PAGE, "bash")
    for line, folder in zip(block.content.splitlines(), FOLDERS, strict=True):
        program, *words = line.split()
        assert program == ".venv/bin/headlight-train"
        _, *recorded = read(folder).command.split()
        assert vars(_parser().parse_args(words)) == vars(_parser().parse_args(recorded))
