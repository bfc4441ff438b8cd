"""The whole benchmark, with a tiny checkpoint and short loads."""

from pathlib import Path

import pytest

from benchmarks import servers
from benchmarks.comparison import Comparison, Timing, compare_labels, read_predictions
from benchmarks.errors import AnswerError, BenchmarkError
from benchmarks.loads import Figures, Load
from benchmarks.programs import programs
from benchmarks.report import comparison_table
from benchmarks.servers import Program
from benchmarks.texts import SENTENCES
from tests.builders import tiny_checkpoint

QUICK = "tests.benchmarks.quick_server"
LOAD = Load("load", 2, sentences=3)
ATTENTION = Load("weights", 2, route="attention")


@pytest.fixture(autouse=True)
def watch_shortly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers are asked for less time whether they still compute."""
    monkeypatch.setattr(servers, "_WATCHED_SECONDS", 0.05)


def comparison(
    checkpoint: Path, folder: Path, *, repetitions: int = 1, reported: list[str] | None = None
) -> Comparison:
    lines = [] if reported is None else reported
    timing = Timing(repetitions, 0.2, 0.2)
    return Comparison(checkpoint, folder=folder, timing=timing, report=lines.append)


class FakeWrk:
    """Answers a load with figures of its duration: a request for each `seconds_each`."""

    rate = 60.0

    def __init__(self, seconds_each: float) -> None:
        self.asked: list[tuple[int, float]] = []
        self._seconds_each = seconds_each

    def __call__(
        self, _load: Load, *, texts: Path, port: int, first: int, seconds: float
    ) -> Figures:
        assert texts.is_file()
        assert port > 0
        self.asked.append((first, seconds))
        return Figures(self.rate, 1.0, 1.0, int(seconds / self._seconds_each))


def test_a_slow_server_gets_the_time_that_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrk = FakeWrk(seconds_each=0.14)
    monkeypatch.setattr("benchmarks.comparison.closed_loop", wrk)

    (run,) = comparison(tmp_path, tmp_path).run([Program("slow", QUICK)], [LOAD])["slow"]

    # Each of 2 connections must have 2 answers. No number is sent twice.
    assert [seconds for _, seconds in wrk.asked] == [0.2, 0.2, 0.4, 0.8]
    assert run.figures["load"].requests == 5
    steps = [first - wrk.asked[0][0] for first, _ in wrk.asked]
    assert steps == [0, (1 + 2) * 3, 2 * (1 + 2) * 3, 2 * (1 + 2) * 3 + (2 + 2) * 3]


def test_servers_are_measured_in_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.comparison.closed_loop", FakeWrk(seconds_each=0.04))
    reported: list[str] = []
    one, other = Program("one", QUICK, explains=True), Program("other", QUICK)

    runs = comparison(tmp_path, tmp_path, repetitions=2, reported=reported).run(
        [one, other], [LOAD, ATTENTION]
    )

    assert reported == [
        "repetition 1 of 2",
        "starting one",
        "starting other",
        "checking that all servers answer the same labels",
        "load: one",
        "load: other",
        "weights: one",
        "repetition 2 of 2",
        "starting other",
        "starting one",
        "checking that all servers answer the same labels",
        "load: other",
        "load: one",
        "weights: one",
    ]
    assert {name: len(each) for name, each in runs.items()} == {"one": 2, "other": 2}


@pytest.mark.slow
def test_the_service_is_measured_beside_a_peer_under_every_kind_of_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.comparison.SATURATION", LOAD)
    monkeypatch.setattr("benchmarks.comparison.closed_loop", FakeWrk(seconds_each=0.01))
    checkpoint = tiny_checkpoint(tmp_path / "tiny")
    ours, _, pipeline, *_ = programs(tmp_path, "cpu")
    loads = [LOAD, Load("open", share=0.5), ATTENTION]

    runs = comparison(checkpoint, tmp_path).run([ours, pipeline], loads)

    for name in ("headlight", "pipeline"):
        (run,) = runs[name]
        assert set(run.figures) == {load.name for load in loads}
        assert all(figures.rate > 0 for figures in run.figures.values())
        assert run.memory_bytes > 0
    assert runs["headlight"][0].figures["open"].requests == 6
    model = runs["headlight"][0].model
    assert model is not None
    assert model.rate > 0
    assert 0 <= model.share < 1
    table = comparison_table(runs, loads, ours="headlight").splitlines()
    assert {line.count("|") for line in table} == {4}
    (ratio,) = (line for line in table if line.startswith("| load: headlight is"))
    assert float(ratio.split("|")[-2]) == 1.0


def test_servers_that_disagree_are_not_measured(tmp_path: Path) -> None:
    reported: list[str] = []
    good, bad = Program("good", QUICK), Program("bad", QUICK, ("--label", "bad"))

    with pytest.raises(BenchmarkError, match=r"^the servers disagree about 200 of 200 sentences"):
        comparison(tmp_path, tmp_path, reported=reported).run([good, bad], [LOAD])

    assert reported[-1] == "checking that all servers answer the same labels"


def test_few_labels_and_those_that_rounding_may_swap_are_no_disagreement() -> None:
    body = (
        b'{"predictions": [{"label": "good", "probabilities": {"good": 0.51, "bad": 0.49}},'
        b' {"label": "good", "probabilities": {"good": 0.7, "bad": 0.3}}]}'
    )
    near, far = read_predictions(body)
    (bad,) = read_predictions(b'[{"label": "bad", "score": 1}]')
    assert (near.near, far.near, bad.near) == (True, False, False)
    same = [far] * (len(SENTENCES) - 1)

    compare_labels([near, *same], [bad, *same], peer="peer")
    compare_labels([far, *same], [*[bad] * 4, *same[3:]], peer="peer")
    with pytest.raises(BenchmarkError, match=r"headlight says good, peer says bad$"):
        compare_labels([far, *same], [*[bad] * 5, *same[4:]], peer="peer")
    with pytest.raises(BenchmarkError, match=r"^peer answered 199 of 200 sentences$"):
        compare_labels([far, *same], same, peer="peer")


@pytest.mark.parametrize("body", [b"", b"{}", b'["good"]', b'[{"score": 1}]'])
def test_an_answer_without_predictions_is_an_error(body: bytes) -> None:
    with pytest.raises(AnswerError, match=r"^the answer has no predictions: "):
        read_predictions(body)
