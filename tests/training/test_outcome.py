"""What a run says: line by line in the command, with advice, and as warnings in Python."""

import re
from pathlib import Path

import pytest

from model import load_predictor, open_checkpoint
from tests.builders import tiny_checkpoint, tiny_config
from tests.training.tiny_runs import Refusal, arguments, write_sentences
from training.__main__ import main


def test_a_run_from_scratch_tells_all_it_does(fitted: Path) -> None:
    number = r"\d+\.\d{4}"
    expected = [
        r"216 rows to learn from: negative 108 \(50\.0%\), positive 108 \(50\.0%\)",
        r"24 rows to validate on: negative 12 \(50\.0%\), positive 12 \(50\.0%\)",
        r"warning: 216 rows are few for a network that begins with random weights \(below 20,000\)"
        r": a pretrained one is more accurate\. Begin with checkpoints/default, and "
        r"leave the preset and what you chose for random weights out",
        *(
            rf"epoch {epoch}/3: training loss {number}, accuracy \d+\.\d\d%; validation loss "
            rf"{number}, accuracy \d+\.\d\d%(; best)?"
            for epoch in (1, 2, 3)
        ),
        r"trained 3 of 3 epochs in \d+ s; keeps the weights of epoch \d",
        r"temperature \d+\.\d{3}",
        rf"validation: accuracy \d+\.\d\d% \(95 % interval \d+\.\d\d% to \d+\.\d\d%, 24 rows\), "
        rf"macro F1 {number}, log-loss {number}, ECE {number}",
        r"  recall: negative \d+\.\d\d% of 12, positive \d+\.\d\d% of 12",
        r"  to beat: always negative 50\.00%, TF-IDF with logistic regression \d+\.\d\d%",
        rf"{fitted.name}/other: accuracy .*",
        r"  recall: .* of 50",
        rf"checkpoint: {re.escape(str(fitted))}/out",
    ]
    told = (fitted / "printed.txt").read_text(encoding="utf-8").splitlines()
    told = [line for line in told if not line.startswith("warning: ") or "random weights" in line]
    for line, pattern in zip(told, expected, strict=True):
        assert re.fullmatch(pattern, line), line


def test_the_checkpoint_that_a_run_begins_with_is_to_beat(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labels = ("positive", "negative")  # in another order than those of the rows
    origin = tiny_checkpoint(tmp_path / "origin", config=tiny_config(labels=labels))
    held_out = write_sentences(tmp_path / "held-out.tsv", rows=40, seed=3)
    options = ("--validation", str(held_out), "--init-from", str(origin), "--epochs", "1")
    command = arguments(tmp_path, "out", *options)
    command[command.index("--preset") + 1] = "finetune"
    assert main(command) == 0
    lines = capsys.readouterr().out.splitlines()

    predictor = load_predictor(open_checkpoint(origin), device="cpu", dtype="float32")
    rows = [line.split("\t") for line in held_out.read_text("utf-8").splitlines()[1:]]
    right = [predictor.predict([predictor.encode(text)])[0].label == label for text, label in rows]
    share = sum(right) / 40
    (to_beat,) = (line for line in lines if line.startswith("  to beat: "))
    assert to_beat.startswith(
        f"  to beat: always negative 50.00%, {origin} before training {share:.2%}, TF-IDF with "
    )


def test_of_other_classes_the_regression_on_features_is_the_baseline(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labels = ("negative", "neutral", "mixed")
    origin = tiny_checkpoint(tmp_path / "origin", config=tiny_config(labels=labels))
    command = arguments(tmp_path, "out", "--init-from", str(origin), "--epochs", "1")
    command[command.index("--preset") + 1] = "finetune"
    assert main(command) == 0
    told = capsys.readouterr().out
    assert "begins with logistic regression on the features of its first weights\n" in told
    assert f", logistic regression on the features of {origin} before training " in told
    assert "random weights" not in told


def test_a_name_of_the_hub_without_its_mark_gets_it(
    tmp_path: Path, refusal: Refusal, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = write_sentences(tmp_path / "rows.tsv")
    monkeypatch.chdir(tmp_path)
    start = ["fit", str(rows), "--output", "out", "--init-from"]
    advice = "does not exist: give the path of a checkpoint folder"
    for name in ("bert-base-uncased", "organisation/name"):
        hint = f"or hf:{name} if it is a name on the hub"
        assert refusal([*start, name]) == f"{name}: {advice}, {hint}"
    (tmp_path / "checkpoints").mkdir()
    for path in ("checkpoints/defualt", str(tmp_path / "none"), "a/b/c"):
        assert refusal([*start, path]) == f"{path}: {advice}"
