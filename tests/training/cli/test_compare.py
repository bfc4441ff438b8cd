"""`headlight-train compare`: from files to a report."""

import shlex
import signal
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from tests.training.tiny_runs import Refusal, signal_after, write_sentences
from training.__main__ import main
from training.compare.report import to_markdown
from training.compare.run import Comparison
from training.compare.variants import ALL
from training.measure.history import LossAndAccuracy

NAMES = {"report.md", "comparison.json", "curves.png", "gaps.png"}
PNG = b"\x89PNG\r\n\x1a\n"
SMALL = ("--seeds", "2", "--epochs", "2", "--threads", "1")


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All variants on rows of three classes, of which one word decides the label."""
    folder = tmp_path_factory.mktemp("compared")
    labels = ("negative", "neutral", "positive")
    rows = write_sentences(folder / "rows.tsv", rows=120, labels=labels)
    assert main(["compare", str(rows), "--output", str(folder / "out"), *SMALL]) == 0
    return folder / "out"


@pytest.fixture(scope="module")
def comparison(compared: Path) -> Comparison:
    return read(compared)


def read(folder: Path) -> Comparison:
    content = (folder / "comparison.json").read_text(encoding="utf-8")
    return TypeAdapter(Comparison).validate_json(content)


def test_the_report_is_whole(compared: Path, comparison: Comparison) -> None:
    assert {path.name for path in compared.iterdir()} == NAMES
    assert (compared / "report.md").read_text(encoding="utf-8") == to_markdown(comparison)
    for name in ("curves.png", "gaps.png"):
        assert (compared / name).read_bytes().startswith(PNG)


def test_every_variant_ran_with_every_seed(comparison: Comparison) -> None:
    assert [outcome.name for outcome in comparison.outcomes] == list(ALL)
    for outcome in comparison.outcomes[:-1]:
        assert [run.seed for run in outcome.runs] == [0, 1]
        assert all([point.epoch for point in run.history] == [1, 2] for run in outcome.runs)
        assert outcome.runs[0].training != outcome.runs[1].training
    assert (comparison.training_rows, comparison.validation_rows) == (96, 24)
    assert comparison.hold_out == "last"
    course, _, one, none, *_ = comparison.outcomes
    assert (course.parameters, one.parameters, none.parameters) == (*(324_971, 170_219, 118_535),)
    (first, _), (baseline,) = course.runs, comparison.outcomes[-1].runs
    last = first.history[-1]
    assert first.training == LossAndAccuracy(last.training_loss, last.training_accuracy)
    assert first.validation.accuracy == last.validation_accuracy
    assert baseline.training.accuracy == 1.0
    assert baseline.validation.accuracy > 0.6  # guessing is right for a third
    assert baseline.history == ()


def test_the_command_of_the_report_repeats_it(comparison: Comparison, tmp_path: Path) -> None:
    program, *words = shlex.split(comparison.command)
    assert program == "headlight-train"
    words[words.index("--output") + 1] = str(tmp_path / "again")
    assert main([*words, "--variants", "four-heads,tf-idf"]) == 0
    again = read(tmp_path / "again")
    before = {outcome.name: outcome for outcome in comparison.outcomes}
    for outcome in again.outcomes:
        for one, other in zip(outcome.runs, before[outcome.name].runs, strict=True):
            assert one.training == other.training
            assert one.validation == other.validation
    assert "--variants four-heads,tf-idf" in again.command


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--variants", "five-heads"], "--variants: there is no variant five-heads: choose from "),
        (["--variants", "tf-idf,tf-idf"], "--variants names a variant twice: name each once"),
        (["--seeds", "1"], "--seeds must be at least 2, got 1"),
        (["--validation-share", "0.9"], ": --validation-share: must be at most"),
    ],
)
def test_a_wrong_option_is_told(
    tmp_path: Path, refusal: Refusal, options: list[str], message: str
) -> None:
    rows = write_sentences(tmp_path / "rows.tsv", rows=20)
    assert message in refusal(["compare", str(rows), "--output", str(tmp_path / "out"), *options])
    assert not (tmp_path / "out").exists()


def test_a_report_is_not_replaced_unasked(compared: Path, refusal: Refusal) -> None:
    told = refusal(["compare", "unread.tsv", "--output", str(compared)])
    assert "holds a report already: choose another --output, or --overwrite it" in told


def test_other_files_are_left_alone(tmp_path: Path, refusal: Refusal) -> None:
    notes = tmp_path / "out" / "notes.txt"
    notes.parent.mkdir()
    notes.write_text("mine", encoding="utf-8")
    told = refusal(["compare", "unread.tsv", "--output", str(notes.parent), "--overwrite"])
    assert "holds other files than a report: choose another --output" in told
    assert notes.read_text(encoding="utf-8") == "mine"


def test_a_signal_ends_it_without_a_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = write_sentences(tmp_path / "rows.tsv", rows=40)
    signal_after(monkeypatch, 3, signal.SIGINT)
    assert main(["compare", str(rows), "--output", str(tmp_path / "out"), "--epochs", "9"]) == 130
    *_, last = capsys.readouterr().err.splitlines()
    assert last == "headlight-train: interrupted: run the same command again"
    assert not (tmp_path / "out").exists()
