"""The command that prints the times and gaps of attributions."""

import re
from pathlib import Path

import pytest

from benchmarks.derivatives import main
from tests.builders import MAX_LENGTH

NUMBER = r"\d+\.\d"
TIME = re.compile(rf"\| (\d+) \| ([^|]+) \| {NUMBER} \({NUMBER} to {NUMBER}\) \| ({NUMBER}) \|")


def test_it_prints_times_and_gaps(
    checkpoint_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--checkpoint", str(checkpoint_folder), "--rounds", "2"]) == 0

    head, *lines = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"checkpoint [0-9a-f]{12}, predictions in \w+, threads 1, rounds 2", head)
    times = [match for line in lines if (match := TIME.fullmatch(line))]
    ways = ["prediction", "gradient x input", "importance of heads"]
    ways.append("integrated gradients, 8 nodes")
    assert [(int(match[1]), match[2]) for match in times] == [
        (length, way) for length in (20, MAX_LENGTH) for way in ways
    ]
    assert [match[3] for match in times if match[2] == "prediction"] == ["1.0", "1.0"]
    gaps = [line.split(" | ") for line in lines[-4:]]
    assert [row[0] for row in gaps] == ["| 8", "| 16", "| 32", "| 64"]
    # The error of the quadrature falls with its nodes.
    assert float(gaps[3][2].strip(" |")) <= float(gaps[0][2].strip(" |")) + 1e-6


def test_a_checkpoint_that_is_not_there_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--checkpoint", str(tmp_path / "none")]) == 1

    assert capsys.readouterr().err.startswith("benchmarks.derivatives: ")
