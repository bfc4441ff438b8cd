"""The command that prints the times and gaps of attributions."""

import re
import statistics
from pathlib import Path

import pytest
import torch

from benchmarks.derivatives import main
from benchmarks.texts import SENTENCES
from model import load_predictor, open_checkpoint
from model.explain.attribution import attribute
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
    predictor = load_predictor(
        open_checkpoint(checkpoint_folder), device=torch.device("cpu"), dtype=torch.float32
    )
    texts = [predictor.encode(text, with_tokens=True) for text in SENTENCES[:20]]
    for line, nodes in zip(lines[-4:], (8, 16, 32, 64), strict=True):
        gaps = [abs(attribute(predictor.gradients, text, steps=nodes).gap) for text in texts]
        assert line == f"| {nodes} | {statistics.median(gaps):.2g} | {max(gaps):.2g} |"


def test_a_checkpoint_that_is_not_there_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--checkpoint", str(tmp_path / "none")]) == 1

    assert capsys.readouterr().err.startswith("benchmarks.derivatives: ")
