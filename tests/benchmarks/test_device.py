"""The command that prints the speed and the parity of a device."""

import re
from pathlib import Path

import pytest
import torch

from benchmarks.device import main
from model.backends.device import computes_bfloat16

NUMBER = r"[0-9][0-9,]*"
LINE = re.compile(
    rf"(float32|bfloat16): {NUMBER} sentences/s \({NUMBER} to {NUMBER}\) at 64 tokens a pass; "
    r"one sentence [0-9.]+ ms; largest difference from float32 on the processor: "
    r"probabilities (\d\.\de[+-]\d\d), weights (\d\.\de[+-]\d\d)"
)


def test_it_prints_a_line_for_each_type(
    checkpoint_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--device", "cpu", "--texts", "20", "--max-batch-tokens", "64"]
    assert main([*options, "--checkpoint", str(checkpoint_folder)]) == 0

    head, *lines = capsys.readouterr().out.splitlines()
    assert head.startswith(f"cpu: processor, torch {torch.__version__}, checkpoint ")
    found = [LINE.fullmatch(line) for line in lines]
    assert all(found), lines
    dtypes = [match[1] for match in found if match]
    wanted = ["float32", "bfloat16"] if computes_bfloat16(torch.device("cpu")) else ["float32"]
    assert dtypes == wanted
    assert found[0] is not None
    assert max(float(found[0][2]), float(found[0][3])) < 1e-5


def test_a_device_that_is_not_there_is_told(
    checkpoint_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert main(["--device", "cuda", "--checkpoint", str(checkpoint_folder)]) == 1
    assert capsys.readouterr().err == (
        "benchmarks.device: device cuda was asked for, but torch finds 0 CUDA devices: use cpu or "
        "auto, or install torch with CUDA\n"
    )
