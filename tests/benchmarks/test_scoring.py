"""How fast files are scored: what is measured, and what is printed."""

import re
from pathlib import Path

import pytest

from benchmarks.scoring import __main__ as command
from benchmarks.scoring.measuring import Alone, Scored

NUMBER = r"[0-9][0-9,]*"


def test_it_prints_rates_and_their_ratios(
    checkpoint_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--rows", "60", "--part-bytes", "300", "--repetitions", "1", "--workers", "1"]

    assert command.main([*options, "--checkpoint", str(checkpoint_folder)]) == 0

    head, *lines = capsys.readouterr().out.splitlines()
    assert head.startswith("On ")
    assert [line.split("|")[2].strip() for line in lines[2:6]] == [
        "headlight-score",
        "with its start and plan",
        "the model alone",
        "its passes alone",
    ]
    assert re.fullmatch(
        rf"1 workers: [0-9.]+ \({NUMBER}[^)]*\) of the model alone, [0-9.]+ \({NUMBER}[^)]*\) of "
        "its passes alone",
        lines[-1],
    )


def test_ratios_are_those_of_each_repetition() -> None:
    found = {
        1: [(Scored(100, 2.0, 90.0), Alone(100.0, 120.0)), (Scored(100, 1.0, 50.0), Alone(50, 60))],
        2: [(Scored(100, 1.0, 171.0), Alone(190.0, 200)), (Scored(100, 1.0, 100.0), Alone(80, 90))],
    }

    table, _, ratios = command._report(found).partition("\n\n")

    assert [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()][
        2:4
    ] == [
        ["1", "headlight-score", "70", "50 to 90"],
        ["1", "with its start and plan", "75", "50 to 100"],
    ]
    assert ratios.splitlines() == [
        "1 workers: 0.950 (0.900 to 1.000) of the model alone, 0.792 (0.750 to 0.833) of its "
        "passes alone",
        "2 workers: 1.075 (0.900 to 1.250) of the model alone, 0.983 (0.855 to 1.111) of its "
        "passes alone",
        "2 workers: 1.95 (1.900 to 2.000) times the rows of one",
    ]


def test_too_few_parts_and_cores_are_told(
    checkpoint_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fixed = ["--rows", "3", "--repetitions", "1", "--checkpoint", str(checkpoint_folder)]

    assert command.main([*fixed, "--workers", "1"]) == 1
    assert capsys.readouterr().err == (
        "benchmarks.scoring: 1 parts are too few for 1 workers: make --part-bytes smaller, or the "
        "file larger\n"
    )
    assert command.main([*fixed, "--workers", "9999"]) == 1
    assert "benchmarks.scoring: --workers 9999: there are " in capsys.readouterr().err
