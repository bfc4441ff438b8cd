"""The command line of the benchmark: what it chooses, refuses, prints and ends."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from benchmarks import lengths
from benchmarks.__main__ import _choose_loads, main
from benchmarks.errors import BenchmarkError
from benchmarks.limit import native_dtypes
from benchmarks.loads import loads
from benchmarks.programs import choose_programs
from model import open_checkpoint
from tests.end_to_end.servers import ROOT

needs_wrk = pytest.mark.skipif(
    shutil.which("wrk") is None and "CI" not in os.environ, reason="wrk is not installed"
)
BOTH = ["headlight", "pipeline", "litserve"]
ENGINES = ["openvino-int8", "openvino-fp32", "onnxruntime-int8", "onnxruntime-fp32"]


@pytest.fixture
def peers(tmp_path: Path) -> Path:
    """A folder in which every peer looks installed."""
    for name in ("litserve", "openvino", "onnxruntime"):
        (tmp_path / name / "bin").mkdir(parents=True)
        (tmp_path / name / "bin" / "python").touch()
    return tmp_path


@pytest.mark.parametrize(
    ("device", "is_native", "names"),
    [
        ("cpu", False, [*BOTH, *ENGINES]),
        (
            "cpu",
            True,
            [
                *("headlight", "headlight-bf16", "pipeline", "litserve", "litserve-bf16"),
                *("openvino-bf16", *ENGINES),
            ],
        ),
        ("cuda", False, [*BOTH, "litserve-fp16"]),
        ("cuda", True, [*BOTH, "litserve-bf16"]),
    ],
)
def test_servers_are_measured_whose_type_the_device_computes_natively(
    peers: Path, monkeypatch: pytest.MonkeyPatch, device: str, is_native: bool, names: list[str]
) -> None:
    monkeypatch.setattr("benchmarks.programs.computes_bfloat16", lambda _device: is_native)

    chosen = choose_programs([], peers, device)

    assert [program.name for program in chosen] == names
    assert {program.sees_gpu for program in chosen} == {device == "cuda"}
    assert {program.options[:2] == ("--device", "cuda") for program in chosen} == {device == "cuda"}
    (slow,) = choose_programs(["litserve-bf16"], peers, device)[1:]
    assert slow.options[-2:] == ("--dtype", "bfloat16")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("litserve", "litserve: not installed in peers; run make benchmark, or choose other"),
        ("litserve-fp16", "--servers litserve-fp16: not measured with --device cpu; choose from"),
    ],
)
def test_a_server_that_cannot_be_measured_is_an_error(name: str, message: str) -> None:
    with pytest.raises(BenchmarkError, match=f"^{message}"):
        choose_programs([name], Path("peers"), "cpu")


def test_a_load_brings_the_one_whose_rate_it_needs() -> None:
    names = [load.name for load in _choose_loads(["90 % of saturation"], "cpu")]

    assert names == ["1 sentence, 64 connections", "90 % of saturation"]
    assert _choose_loads([], "cuda") == list(loads("cuda"))
    with pytest.raises(BenchmarkError, match=r"^--loads 'x': not measured with --device cpu;"):
        _choose_loads(["x"], "cpu")


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--repetitions", "0", "must be a whole number of at least 1, got '0'"),
        ("--seconds", "inf", "must be a number of seconds above 0, got 'inf'"),
        ("--seconds", "long", "must be a number of seconds above 0, got 'long'"),
    ],
)
def test_a_wrong_option_is_refused(
    option: str, value: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main([option, value])

    assert caught.value.code == 2
    assert capsys.readouterr().err == (
        f"benchmarks: argument {option}: {message}; see benchmarks --help\n"
    )


@pytest.mark.parametrize("what", ["servers", "lengths", "device"])
def test_without_a_gpu_nothing_starts_on_one(
    what: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)

    assert main([what, "--device", "cuda"]) == 1

    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("benchmark: device cuda was asked for, but torch finds 0 CUDA devices")


def test_a_device_is_measured_without_a_server(
    checkpoint_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "made" / "device.json"
    options = ["--checkpoint", str(checkpoint_folder), "--output", str(output)]

    assert main(["device", "--seconds", "0.01", *options]) == 0

    content = json.loads(output.read_text(encoding="utf-8"))
    dtypes = [each["dtype"] for each in content["device"]]
    assert dtypes == native_dtypes("cpu")
    exact = content["device"][0]
    assert max(exact["probability_difference"], exact["weight_difference"]) < 1e-5
    assert exact["rate"] > 0
    assert content["machine"]["torch"] == torch.__version__
    head, _, *table = capsys.readouterr().out.splitlines()
    assert json.loads(head) == content["machine"]
    assert [line.split()[1] for line in table] == ["type", "-" * len(table[1].split()[1]), *dtypes]


@needs_wrk
@pytest.mark.slow
def test_lengths_are_measured_through_the_service(
    checkpoint_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(lengths, "LENGTHS", (20, 24))
    monkeypatch.setattr(lengths, "native_dtypes", lambda _device: ["float32"])
    output = tmp_path / "lengths.json"
    options = ["--checkpoint", str(checkpoint_folder), "--output", str(output)]

    assert main(["lengths", "--seconds", "1", *options]) == 0

    results = json.loads(output.read_text(encoding="utf-8"))["lengths"]
    assert [(each["dtype"], each["tokens"]) for each in results] == [
        ("float32", 20),
        ("float32", 24),
    ]
    first = results[0]
    line = capsys.readouterr().out.splitlines()[4]
    assert float(line.split()[3]) == pytest.approx(first["rate"] / first["cores"], abs=0.05)


def test_a_text_has_its_length_once_it_is_numbered(checkpoint_folder: Path) -> None:
    tokenizer = open_checkpoint(checkpoint_folder).tokenizer

    text = f"{lengths.text_of(tokenizer, 20)} 234567"
    assert len(tokenizer.encode(text).input_ids) == 20
    with pytest.raises(BenchmarkError, match=r"^a numbered text has at least \d+ tokens, got 2$"):
        lengths.text_of(tokenizer, 2)


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
