"""`fit --folds`: figures of rows that took no part, then the checkpoint."""

import contextlib
import io
import json
import os
import re
import shutil
import signal
from pathlib import Path
from statistics import mean, stdev

import pytest

from model.files import WEIGHTS
from tests.training.tiny_runs import Refusal, arguments, signal_after, write_sentences
from training.__main__ import main
from training.data.dataset import Dataset, read_dataset
from training.data.validation_split import split_folds, split_validation

THREE = ("negative", "neutral", "positive")


def command(folder: Path, output: str, *options: str) -> list[str]:
    learning = ("--epochs", "2", "--learning-rate", "0.02", "--dropout", "0")
    made = arguments(folder, output, *learning, *options)
    write_sentences(folder / "rows.tsv", rows=90, labels=THREE)
    return made


def record(folder: Path, output: str) -> list[dict[str, float]]:
    content = json.loads((folder / f"{output}.run" / "folds.json").read_text())
    found: list[dict[str, float]] = content["folds"]
    return [{name: fold[name] for name in fold if name != "seconds"} for fold in found]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that never stopped; its output is `out`."""
    folder = tmp_path_factory.mktemp("whole")
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        assert main(command(folder, "out", "--folds", "3")) == 0
    (folder / "printed.txt").write_text(printed.getvalue(), encoding="utf-8")
    return folder


def test_each_fold_mean_and_deviation_are_told(whole: Path) -> None:
    lines = (whole / "printed.txt").read_text(encoding="utf-8").splitlines()
    told = [line for line in lines if line.startswith("fold ")]
    found = record(whole, "out")
    assert [int(fold["rows"]) for fold in found] == [30, 30, 30]
    for line, fold in zip(told, found, strict=True):
        assert line.startswith(
            f"fold {fold['fold']} of 3: accuracy {fold['accuracy']:.2%}, macro F1 "
            f"{fold['macro_f1']:.4f}, log-loss {fold['log_loss']:.4f} (30 rows; epoch "
        )
    accuracy, f1, loss = (
        [fold[name] for fold in found] for name in ("accuracy", "macro_f1", "log_loss")
    )
    line = (
        f"3 folds: accuracy {mean(accuracy):.2%} ± {stdev(accuracy):.2%}, macro F1 "
        f"{mean(f1):.4f} ± {stdev(f1):.4f}, log-loss {mean(loss):.4f} ± {stdev(loss):.4f} "
        "(mean and standard deviation)"
    )
    # Once after the folds, and once at the end.
    assert [place for place, each in enumerate(lines) if each == line] == [
        lines.index(told[-1]) + 1,
        len(lines) - 2,
    ]
    assert lines[-1] == f"checkpoint: {whole / 'out'}"
    assert sorted(path.name for path in (whole / "out.run").iterdir()) == [
        "folds.json",
        "history.jsonl",
        "history.png",
    ]


def write_part(path: Path, part: Dataset) -> str:
    lines = [
        f"{text}\t{part.labels[label_id]}"
        for text, label_id in zip(part.texts, part.label_ids, strict=True)
    ]
    path.write_text("\n".join(["sentence\tlabel", *lines]) + "\n")
    return str(path)


def test_a_fold_is_measured_as_rows_that_fit_has_never_seen(whole: Path, tmp_path: Path) -> None:
    """The same figures as those of `fit` on files of these rows."""
    fold = record(whole, "out")[1]
    rest, inside = split_folds(read_dataset([whole / "rows.tsv"]), count=3, seed=0)[1]
    training, validation = split_validation(rest, which="random", share=0.1, seed=0)
    typed = command(tmp_path, "out")
    typed[1] = write_part(tmp_path / "training.tsv", training)
    files = ["--validation", write_part(tmp_path / "validation.tsv", validation)]
    files += ["--evaluate", write_part(tmp_path / "inside.tsv", inside)]
    assert main([*typed, *files]) == 0

    _, measured = json.loads((tmp_path / "out" / "headlight.json").read_text())["metrics"]
    names = ("rows", "accuracy", "log_loss")
    assert [measured[name] for name in names] == [fold[name] for name in names]


def test_an_interrupted_run_goes_on_and_keeps_its_folds(
    tmp_path: Path,
    whole: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    typed = command(tmp_path, "out", "--folds", "3")
    with monkeypatch.context() as patched:
        signal_after(patched, 12, signal.SIGTERM)
        assert main(typed) == 128 + signal.SIGTERM
    said = capsys.readouterr()
    assert said.err.splitlines()[-1] == (
        "headlight-train: interrupted after fold 1 of 3; the state is saved: run the same "
        "command with --resume to go on"
    )
    assert (tmp_path / "out.run" / "fold-2" / "state").is_dir()
    assert not (tmp_path / "out").exists()

    assert main(typed) == 1
    assert capsys.readouterr().err == (
        f"headlight-train: {tmp_path / 'out.run'} holds folds of a run: resume it with "
        "--resume, or discard it with --overwrite\n"
    )
    assert main([*typed, "--resume"]) == 0
    assert len(re.findall(r"^fold ", capsys.readouterr().out, re.MULTILINE)) == 3
    assert record(tmp_path, "out") == record(whole, "out")
    assert (tmp_path / "out" / WEIGHTS).read_bytes() == (whole / "out" / WEIGHTS).read_bytes()


def test_an_interrupted_checkpoint_goes_on_without_the_folds_again(
    tmp_path: Path, whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    typed = command(tmp_path, "out", "--folds", "3")
    with monkeypatch.context() as patched:
        patched.setattr("training.cli.fit.epoch_line", _interrupting)
        assert main(typed) == 130
    before = (tmp_path / "out.run" / "folds.json").read_bytes()

    assert main([*typed, "--resume"]) == 0

    assert (tmp_path / "out.run" / "folds.json").read_bytes() == before
    assert (tmp_path / "out" / WEIGHTS).read_bytes() == (whole / "out" / WEIGHTS).read_bytes()


def _interrupting(history: object, *, epochs: int) -> str:
    del history, epochs
    os.kill(os.getpid(), signal.SIGINT)
    return "epoch"


def test_other_rows_are_another_run(tmp_path: Path, whole: Path, refusal: Refusal) -> None:
    typed = command(tmp_path, "out", "--folds", "3")
    run_dir = tmp_path / "out.run"
    run_dir.mkdir()
    shutil.copy(whole / "out.run" / "folds.json", run_dir)
    rows = tmp_path / "rows.tsv"
    rows.write_text(rows.read_text() + "one more\tpositive\n")

    assert refusal([*typed, "--resume"]).startswith(
        f"{run_dir / 'folds.json'}: the interrupted run was another one: training_data: "
    )


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--folds", "1"), "--folds must be at least 2, got 1"),
        (("--folds", "3", "--validation", "x.tsv"), "--validation names the rows to validate by,"),
        (("--folds", "3", "--extend", "2"), "--extend continues one run: leave it out, or leave "),
    ],
)
def test_senseless_combinations_are_refused(
    tmp_path: Path, refusal: Refusal, options: tuple[str, ...], told: str
) -> None:
    assert refusal(command(tmp_path, "out", *options)).startswith(told)
    assert not (tmp_path / "out.run").exists()
