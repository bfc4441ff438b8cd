"""The command line of the benchmark: what it chooses, refuses, prints and ends."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from benchmarks.__main__ import main
from benchmarks.errors import BenchmarkError
from benchmarks.loads import LOADS, Load
from benchmarks.servers import choose_programs
from tests.end_to_end.servers import ROOT

ENGINES = ["onnxruntime-int8", "onnxruntime-fp32"]


@pytest.fixture
def peers(tmp_path: Path) -> Path:
    """A folder in which the peer with an environment looks installed."""
    python = tmp_path / "onnxruntime" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    return tmp_path


@pytest.mark.parametrize(
    ("is_native", "names"),
    [(False, ["headlight", *ENGINES]), (True, ["headlight", "headlight-bf16", *ENGINES])],
)
def test_servers_are_measured_whose_type_the_processor_computes_natively(
    peers: Path, monkeypatch: pytest.MonkeyPatch, is_native: bool, names: list[str]
) -> None:
    monkeypatch.setattr("benchmarks.servers.computes_bfloat16", lambda _device: is_native)
    chosen = choose_programs([], peers)
    assert [program.name for program in chosen] == names
    assert not any(program.sees_gpu for program in chosen)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("onnxruntime-int8", "onnxruntime-int8 is not installed in peers: run make benchmark"),
        ("other", "--servers other: is none of them: headlight-bf16, onnxruntime-int8, "),
    ],
)
def test_a_server_that_cannot_be_measured_is_an_error(name: str, message: str) -> None:
    with pytest.raises(BenchmarkError, match=f"^{message}"):
        choose_programs([name], Path("peers"))


def test_without_a_gpu_nothing_starts_on_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert main(["gpu"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("benchmark: device cuda was asked for, but torch finds 0 CUDA devices")


@pytest.mark.parametrize("has_transformers", [True, False])
def test_a_gpu_is_measured_with_a_processor_in_its_place(
    checkpoint_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    has_transformers: bool,
) -> None:
    if not has_transformers:
        monkeypatch.setattr("benchmarks.servers.find_spec", lambda _: None)
    chosen = (Load("bulk", 2, sentences=4), Load("weights", 1, route="attention"))
    monkeypatch.setitem(LOADS, "gpu", chosen)
    output = tmp_path / "made" / "gpu.json"
    options = ["--device", "cpu", "--checkpoint", str(checkpoint_folder), "--output", str(output)]

    assert main(["gpu", "--seconds", "0.5", *options]) == 0

    content = json.loads(output.read_text(encoding="utf-8"))
    head, _, title, _, *rows = capsys.readouterr().out.splitlines()
    assert json.loads(head) == content["machine"]
    assert content["machine"]["torch"] == torch.__version__
    by_hand = "by hand" if has_transformers else "by hand: transformers is not installed"
    assert [each.strip() for each in title.split("|")[2:4]] == ["headlight", by_hand]
    found = {row.split("|")[1].strip(): [*map(str.strip, row.split("|")[2:4])] for row in rows}
    assert bool(found["bulk: sentences/s"][1]) == has_transformers
    assert found["weights: p50, ms"][1] == ""
    for name in ("bulk: sentences/s", "weights: p50, ms", "slowest of the first answers, ms"):
        assert float(found[name][0]) > 0
    for name in ("the model, 1,024 texts at once: texts/s", "headlight-score: lines/s"):
        assert float(found[name][0]) == round(content["gpu"][name]) > 0


def test_a_signal_ends_the_servers_too(checkpoint_folder: Path, tmp_path: Path) -> None:
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "benchmarks", "--servers", "headlight-bf16"),
            *("--checkpoint", str(checkpoint_folder), "--output", str(tmp_path / "out.json")),
        ],
        stderr=subprocess.PIPE,
        cwd=ROOT,
        text=True,
    )
    assert process.stderr is not None
    assert process.stderr.readline() == "repetition 1 of 3\n"
    assert process.stderr.readline() == "starting headlight\n"
    assert process.stderr.readline() == "starting headlight-bf16\n"  # so the first one runs
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    started = children.read_text(encoding="ascii").split()
    assert started

    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)

    assert err == "benchmark: interrupted\n"
    assert process.returncode == 130
    assert not [child for child in started if Path(f"/proc/{child}").exists()]
