"""The whole benchmark, with a tiny checkpoint and one short load; and its command line."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from benchmarks.__main__ import OURS, PIPELINE, chosen_loads, chosen_programs, main
from benchmarks.comparison import Bench
from benchmarks.errors import MismatchError
from benchmarks.loads import LOADS as BENCHMARK_LOADS
from benchmarks.loads import Closed, Load, Mixed, Open
from benchmarks.measure import Timing
from benchmarks.servers import Program
from benchmarks.table import tables
from benchmarks.texts import own_texts
from tests.builders import tiny_checkpoint
from tests.end_to_end.servers import ROOT

QUICK = "tests.benchmarks.quick_server"
ONE = Program("one", QUICK, ("--label", "good"))
OTHER = Program("other", QUICK, ("--label", "good"))
LOAD = Closed("load", 2, sentences=3)
LOADS: tuple[Load, ...] = (
    LOAD,
    Closed("weights", 2, route="attention"),
    Mixed("both", Closed("short", 2), Closed("long", 1, texts="reviews")),
    Open("half", 0.05, "load"),
)
needs_wrk = pytest.mark.skipif(
    shutil.which("wrk") is None and "CI" not in os.environ, reason="wrk is not installed"
)


def bench(
    checkpoint: Path, folder: Path, *, report: Callable[[str], None], repetitions: int = 1
) -> Bench:
    return Bench(
        checkpoint,
        own_texts(),
        folder=folder,
        timing=Timing(repetitions, 1, 1),
        max_batch_tokens=512,
        report=report,
    )


@needs_wrk
@pytest.mark.alone
@pytest.mark.slow
def test_a_slow_server_gets_the_time_that_it_needs(checkpoint_folder: Path, tmp_path: Path) -> None:
    slow = Program("slow", QUICK, ("--label", "good", "--seconds", "0.7"))

    comparison = bench(checkpoint_folder, tmp_path, report=lambda _: None).run([ONE, slow], [LOAD])

    (run,) = comparison.runs["slow"]
    figures = run.measurements["load"].figures
    assert figures.requests >= 2 * LOAD.connections
    assert figures.p50 >= 0.7
    # What is on its way at the end, a third of all, must not be missing in the rate.
    assert 0.8 < figures.rate * figures.p50 / (LOAD.connections * LOAD.sentences) < 1.05


@needs_wrk
@pytest.mark.slow
def test_servers_are_measured_in_turns(checkpoint_folder: Path, tmp_path: Path) -> None:
    reported: list[str] = []
    explaining = Program("one", QUICK, ONE.options, explains=True)

    comparison = bench(checkpoint_folder, tmp_path, report=reported.append, repetitions=2).run(
        [explaining, OTHER], LOADS[:2]
    )

    assert reported == [
        "repetition 1 of 2",
        "starting one",
        "starting other",
        "checking that all answer the same labels",
        "load: one",
        "load: other",
        "weights: one",
        "repetition 2 of 2",
        "starting other",
        "starting one",
        "checking that all answer the same labels",
        "load: other",
        "load: one",
        "weights: one",
    ]
    assert {name: len(runs) for name, runs in comparison.runs.items()} == {"one": 2, "other": 2}
    assert {name: len(rates) for name, rates in comparison.limits.items()} == {"load": 2}


def test_servers_that_disagree_are_not_measured(tmp_path: Path) -> None:
    reported: list[str] = []

    with pytest.raises(MismatchError, match=r"^the servers disagree about 200 of 200 sentences"):
        bench(tmp_path, tmp_path, report=reported.append).run(
            [ONE, Program("other", QUICK, ("--label", "bad"))], LOADS
        )

    assert reported[-1] == "checking that all answer the same labels"


@needs_wrk
@pytest.mark.slow
def test_the_service_is_measured_beside_a_peer_under_every_kind_of_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    checkpoint = tiny_checkpoint(tmp_path / "tiny")

    comparison = bench(checkpoint, tmp_path, report=print).run([OURS, PIPELINE], LOADS)

    for name in ("headlight", "pipeline"):
        (run,) = comparison.runs[name]
        assert set(run.measurements) == {"load", "weights", "both", "half"}
        assert run.start_seconds > 0
        assert all(each.figures.rate > 0 for each in run.measurements.values())
        assert run.measurements["both"].undisturbed is not None
    assert tables(comparison, ours=OURS.name).count("headlight") == 5


def test_a_peer_that_is_not_installed_is_named(
    tmp_path: Path, checkpoint_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if shutil.which("wrk") is None:
        pytest.skip("wrk is not installed")
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
    for name in ("litserve", "bentoml"):
        (tmp_path / name / "bin").mkdir(parents=True)
        (tmp_path / name / "bin" / "python").touch()
    for name in ("computes_bfloat16", "computes_int8"):
        monkeypatch.setattr(f"benchmarks.__main__.{name}", lambda _device: is_native)

    every = [program.name for program in chosen_programs([], tmp_path)]
    asked = [program.name for program in chosen_programs(["litserve-bf16"], tmp_path)]

    assert asked == ["headlight", "litserve-bf16"]
    slow = ["headlight-int8", "litserve-bf16"]
    assert every == [
        name
        for name in ("headlight", slow[0], "pipeline", "litserve", slow[1], "bentoml")
        if is_native or name not in slow
    ]
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
    assert chosen_loads([]) == list(BENCHMARK_LOADS)


def test_a_checkpoint_that_is_missing_is_one_clear_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = tmp_path / "missing"

    assert main(["--checkpoint", str(missing), "--servers", "pipeline"]) == 1

    out, err = capsys.readouterr()
    assert out == ""
    *reported, last = err.splitlines()
    assert reported == ["repetition 1 of 3", "starting headlight"]
    assert last.startswith(f"benchmark: headlight did not start: HEADLIGHT_CHECKPOINT: {missing}: ")


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
