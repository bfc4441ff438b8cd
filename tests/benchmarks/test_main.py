"""The command line of the benchmark: what it chooses, refuses, prints and ends."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from benchmarks.__main__ import main
from benchmarks.device import native_dtypes
from benchmarks.errors import BenchmarkError
from benchmarks.servers import choose_programs
from tests.benchmarks.needs import needs_wrk
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
    ("device", "is_native", "names"),
    [
        ("cpu", False, ["headlight", "pipeline", *ENGINES]),
        ("cpu", True, ["headlight", "headlight-bf16", "pipeline", *ENGINES]),
        ("cuda", True, ["headlight", "pipeline"]),
    ],
)
def test_servers_are_measured_whose_type_the_device_computes_natively(
    peers: Path, monkeypatch: pytest.MonkeyPatch, device: str, is_native: bool, names: list[str]
) -> None:
    monkeypatch.setattr("benchmarks.servers.computes_bfloat16", lambda _device: is_native)

    chosen = choose_programs([], device, peers)

    assert [program.name for program in chosen] == names
    assert {program.sees_gpu for program in chosen} == {device == "cuda"}
    assert {program.options[:2] == ("--device", "cuda") for program in chosen} == {device == "cuda"}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("onnxruntime-int8", "onnxruntime-int8 is not installed in peers: run make benchmark"),
        ("other", "--servers other: not measured on cpu; choose from headlight-bf16, pipeline, "),
    ],
)
def test_a_server_that_cannot_be_measured_is_an_error(name: str, message: str) -> None:
    with pytest.raises(BenchmarkError, match=f"^{message}"):
        choose_programs([name], "cpu", Path("peers"))


@pytest.mark.parametrize("what", ["servers", "device"])
def test_without_a_gpu_nothing_starts_on_one(
    what: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)

    assert main([what, "--device", "cuda"]) == 1

    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("benchmark: device cuda was asked for, but torch finds 0 CUDA devices")


def test_a_device_is_measured_without_a_server(
    checkpoint_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("benchmarks.device.LENGTHS", (16, 20))
    output = tmp_path / "made" / "device.json"
    options = ["--checkpoint", str(checkpoint_folder), "--output", str(output)]

    assert main(["device", "--seconds", "0.01", *options]) == 0

    content = json.loads(output.read_text(encoding="utf-8"))
    found = [(each["dtype"], each["tokens"]) for each in content["device"]]
    assert found == [(dtype, tokens) for dtype in native_dtypes("cpu") for tokens in (16, 20)]
    assert all(each["rate"] > 0 and each["latency"] > 0 for each in content["device"])
    assert content["machine"]["torch"] == torch.__version__
    head, _, title, _, *rows = capsys.readouterr().out.splitlines()
    assert json.loads(head) == content["machine"]
    assert title.split("|")[1].strip() == "type"
    assert len(rows) == len(found)


@needs_wrk
def test_a_signal_ends_the_servers_too(checkpoint_folder: Path, tmp_path: Path) -> None:
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "benchmarks", "--servers", "pipeline"),
            *("--checkpoint", str(checkpoint_folder), "--output", str(tmp_path / "out.json")),
        ],
        stderr=subprocess.PIPE,
        cwd=ROOT,
        text=True,
    )
    assert process.stderr is not None
    assert process.stderr.readline() == "repetition 1 of 3\n"
    assert process.stderr.readline() == "starting headlight\n"
    assert process.stderr.readline() == "starting pipeline\n"  # so the first one runs
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    started = children.read_text(encoding="ascii").split()
    assert started

    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)

    assert err == "benchmark: interrupted\n"
    assert process.returncode == 130
    assert not [child for child in started if Path(f"/proc/{child}").exists()]
