"""The whole benchmark, with a tiny checkpoint and one short load; and its command line."""

import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from benchmarks.comparison import OURS, PEER, run
from benchmarks.errors import MismatchError
from benchmarks.load import Load
from benchmarks.servers import Program
from benchmarks.table import table
from tests.builders import tiny_checkpoint
from tests.end_to_end.servers import ROOT

QUICK = "tests.benchmarks.quick_server"
ONE = Program("one", QUICK, ("--label", "good"))
OTHER = Program("other", QUICK, ("--label", "good"))
LOAD = Load(connections=2, sentences=3)


def test_servers_are_measured_in_turns(tmp_path: Path) -> None:
    reported: list[str] = []

    comparison = run(
        tmp_path,
        folder=tmp_path,
        repetitions=2,
        warm_up=0.1,
        seconds=0.5,
        report=reported.append,
        loads=[LOAD, LOAD],
        ours=ONE,
        peer=OTHER,
    )

    assert reported == [
        "checking that both answer the same labels",
        "one, 1 of 2",
        "other, 1 of 2",
        "other, 2 of 2",
        "one, 2 of 2",
    ]
    assert comparison.loads == (LOAD, LOAD)
    for runs in (comparison.ours, comparison.peers):
        assert [len(each.measurements) for each in runs] == [2, 2]


def test_servers_that_disagree_are_not_measured(tmp_path: Path) -> None:
    reported: list[str] = []

    with pytest.raises(MismatchError, match=r"^the servers disagree about 200 of 200 sentences"):
        run(
            tmp_path,
            folder=tmp_path,
            repetitions=1,
            warm_up=0.1,
            seconds=0.1,
            report=reported.append,
            ours=ONE,
            peer=Program("other", QUICK, ("--label", "bad")),
        )

    assert len(reported) == 1


@pytest.mark.slow
def test_the_service_is_measured_beside_its_peer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")

    comparison = run(
        tiny_checkpoint(tmp_path / "tiny"),
        folder=tmp_path,
        repetitions=1,
        warm_up=0.2,
        seconds=1.0,
        report=print,
        loads=[LOAD],
    )

    for runs in (comparison.ours, comparison.peers):
        assert len(runs) == 1
        assert runs[0].measurements[0].sentences_per_second > 0
        assert runs[0].start_seconds > 0
    assert table(comparison, ours=OURS.name, peer=PEER.name).count("headlight") == 3


def test_a_checkpoint_that_is_missing_is_one_clear_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = tmp_path / "missing"

    assert main(["--checkpoint", str(missing)]) == 1

    out, err = capsys.readouterr()
    assert out == ""
    first, second = err.splitlines()
    assert first == "checking that both answer the same labels"
    assert second.startswith(
        f"benchmark: headlight did not start: HEADLIGHT_CHECKPOINT: {missing}: "
    )


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--repetitions", "0", "must be a whole number from 1 on, got '0'"),
        ("--repetitions", "two", "must be a whole number from 1 on, got 'two'"),
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
    assert capsys.readouterr().err.endswith(f"argument {option}: {message}\n")


def children(parent: int) -> list[str]:
    """The ids of the processes that a process has started, whichever of its threads did."""
    found: list[str] = []
    for path in Path(f"/proc/{parent}/task").glob("*/children"):
        with suppress(OSError):  # a thread that ended meanwhile
            found += path.read_text(encoding="ascii").split()
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc")
def test_told_to_end_it_ends_its_server_too(checkpoint_folder: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks", "--checkpoint", str(checkpoint_folder)],
        stderr=subprocess.PIPE,
        cwd=ROOT,
        text=True,
    )
    assert process.stderr is not None
    assert process.stderr.readline() == "checking that both answer the same labels\n"
    started: list[str] = []
    until = time.monotonic() + 30
    while not started and time.monotonic() < until:
        started = children(process.pid)
    assert started

    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)

    assert err == "benchmark: interrupted\n"
    assert process.returncode == 130
    assert not [child for child in started if Path(f"/proc/{child}").exists()]
