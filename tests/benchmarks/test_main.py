"""The command line of the benchmark: what it chooses, refuses, prints and ends."""

import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
import torch

from benchmarks import machine
from benchmarks.__main__ import main
from benchmarks.choice import OURS, chosen_loads, chosen_programs
from benchmarks.comparison import Bench, Comparison, Run
from benchmarks.loads import LOADS
from tests.end_to_end.servers import ROOT

needs_wrk = pytest.mark.skipif(
    shutil.which("wrk") is None and "CI" not in os.environ, reason="wrk is not installed"
)


@needs_wrk
def test_a_peer_that_is_not_installed_is_named(
    tmp_path: Path, checkpoint_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--checkpoint", str(checkpoint_folder), "--peers", str(tmp_path)]

    assert main([*options, "--servers", "litserve"]) == 1

    assert capsys.readouterr().err == (
        f"benchmark: litserve: not installed in {tmp_path}: run make benchmark, which does that, "
        "or choose others with --servers\n"
    )


@pytest.mark.parametrize("is_native", [True, False])
def test_what_a_processor_computes_slowly_is_measured_when_asked_for_alone(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    is_native: bool,
) -> None:
    for name in ("litserve", "bentoml", "openvino", "onnxruntime"):
        (tmp_path / name / "bin").mkdir(parents=True)
        (tmp_path / name / "bin" / "python").touch()
    for name in ("computes_bfloat16", "computes_int8"):
        monkeypatch.setattr(f"benchmarks.choice.{name}", lambda _device: is_native)

    every = [program.name for program in chosen_programs([], tmp_path)]
    asked = [program.name for program in chosen_programs(["litserve-bf16"], tmp_path)]

    assert asked == ["headlight", "litserve-bf16"]
    fast = ["headlight", "pipeline", "litserve", "bentoml"]
    slow = ["headlight-int8", "litserve-bf16", "onnxruntime-int8", "openvino-bf16", "openvino-int8"]
    assert sorted(every) == sorted(fast + slow * is_native)
    assert capsys.readouterr().err == (
        "" if is_native else f"left out, as this processor computes it slowly: {', '.join(slow)}\n"
    )


@pytest.mark.parametrize("option", ["--sentences", "--reviews"])
@needs_wrk
def test_texts_of_one_kind_alone_are_refused(
    checkpoint_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    options = ["--checkpoint", str(checkpoint_folder), "--servers", "pipeline"]

    assert main([*options, option, str(tmp_path / "texts.tsv")]) == 1

    assert capsys.readouterr().err == (
        "benchmark: --sentences and --reviews go together: give both or neither\n"
    )


def test_a_load_brings_the_one_whose_rate_it_needs() -> None:
    assert [load.name for load in chosen_loads(["half of saturation"])] == [
        "1 sentence, 64 connections",
        "half of saturation",
    ]
    assert chosen_loads([]) == list(LOADS)


@needs_wrk
def test_a_checkpoint_that_is_missing_is_one_clear_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = tmp_path / "missing"

    assert main(["--checkpoint", str(missing), "--servers", "pipeline"]) == 1

    out, err = capsys.readouterr()
    assert out == ""
    *reported, last = err.splitlines()
    assert reported == ["repetition 1 of 3", "starting headlight"]
    assert last.startswith(f"benchmark: headlight did not start: --checkpoint: {missing}: ")


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--repetitions", "0", "must be a whole number of at least 1, got '0'"),
        ("--repetitions", "two", "must be a whole number of at least 1, got 'two'"),
        ("--seconds", "0", "must be a number of seconds above 0, got '0'"),
        ("--seconds", "inf", "must be a number of seconds above 0, got 'inf'"),
        ("--warm-up", "long", "must be a number of seconds above 0, got 'long'"),
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


@pytest.mark.parametrize(
    ("features", "dtype"),
    [
        (["avx512_bf16"], "bfloat16"),
        # The record of the default checkpoint allows it.
        (["avx512_vnni"], "int8"),
        ([], "float32"),
    ],
)
def test_the_report_begins_with_what_its_figures_hold_for(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    features: list[str],
    dtype: str,
) -> None:
    comparison = Comparison((), {"headlight": [Run(2.0, None, {})]}, {})
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: dict.fromkeys(features, True))
    monkeypatch.setattr(machine, "processor", lambda _: "EPYC (R) 9")
    monkeypatch.setattr("benchmarks.wrk.check_installed", lambda: None)
    monkeypatch.setattr("benchmarks.__main__.chosen_programs", lambda *_: [OURS])
    monkeypatch.setattr(Bench, "run", lambda *_: comparison)

    assert main([]) == 0

    assert capsys.readouterr().out.splitlines()[:3] == [
        "Asked: sentences from templates of our own.",
        f"On {os.cpu_count()} cores of EPYC (R) 9, no GPU; headlight in {dtype}; "
        f"Python {platform.python_version()}, torch {torch.__version__}.",
        "",
    ]


def servers(parent: int) -> list[str]:
    """The ids of the processes of the service that a process has started, by any of its threads."""
    found: list[str] = []
    for path in Path(f"/proc/{parent}/task").glob("*/children"):
        with suppress(OSError):  # a thread or a process that ended meanwhile
            for child in path.read_text(encoding="ascii").split():
                words = Path(f"/proc/{child}/cmdline").read_text(encoding="utf-8").split("\0")
                found += [child] * (words[1:3] == ["-m", "service"])
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc")
@needs_wrk
def test_told_to_end_it_ends_its_server_too(checkpoint_folder: Path) -> None:
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "benchmarks", "--servers", "pipeline"),
            *("--checkpoint", str(checkpoint_folder)),
        ],
        stderr=subprocess.PIPE,
        cwd=ROOT,
        text=True,
    )
    assert process.stderr is not None
    assert process.stderr.readline() == "repetition 1 of 3\n"
    assert process.stderr.readline() == "starting headlight\n"
    started: list[str] = []
    until = time.monotonic() + 30
    while not started and time.monotonic() < until:
        started = servers(process.pid)
    assert started

    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)

    assert err == "benchmark: interrupted\n"
    assert process.returncode == 130
    assert not [child for child in started if Path(f"/proc/{child}").exists()]
