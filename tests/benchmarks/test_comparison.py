"""The whole benchmark, with a tiny checkpoint and one short load."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.choice import OURS, PIPELINE
from benchmarks.comparison import Bench
from benchmarks.errors import MismatchError
from benchmarks.loads import Closed, Load, Mixed, Open
from benchmarks.measure import Timing
from benchmarks.servers import Program
from benchmarks.table import tables
from benchmarks.texts import own_texts
from tests.builders import tiny_checkpoint

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
    explaining = Program("one", QUICK, ONE.options, explains=True, alone=OURS.alone)

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
    assert {name: list(rates) for name, rates in comparison.limits.items()} == {"load": ["one"]}
    assert len(comparison.limits["load"]["one"]) == 2


def test_the_model_alone_sees_no_gpu_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environments: list[dict[str, str]] = []

    def run(
        command: list[str], *, env: dict[str, str], **_: object
    ) -> subprocess.CompletedProcess[str]:
        environments.append(env)
        return subprocess.CompletedProcess(command, 0, "5.0\n", "")

    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.setattr(subprocess, "run", run)

    assert bench(tmp_path, tmp_path, report=print)._limit(OURS, tmp_path / "texts") == 5.0
    assert [each["CUDA_VISIBLE_DEVICES"] for each in environments] == [""]


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
    assert tables(comparison, ours=OURS.name).count("headlight") == 6
