"""`evaluate --record-baseline`, and what `fit` records, from texts to the counts in the folder."""

from pathlib import Path

import pytest

from model import load_predictor, open_checkpoint
from tests.labelled_files import write_rows
from training.__main__ import main
from training.data.dataset import read_dataset
from training.data.validation_split import split_validation
from training.measure.counts import count_baseline
from training.measure.inference import predict_probabilities

TEXTS = ["a good film", "\u2603 dull", "very long " * 40, "weak", "superb"]


def evaluate(folder: Path, *options: object) -> int:
    given = ["evaluate", *options, "--checkpoint", folder, "--threads", 1]
    return main([str(argument) for argument in given])


def counted(folder: Path, texts: list[str], sets: list[str]) -> dict[str, object]:
    checkpoint = open_checkpoint(folder)
    predictor = load_predictor(checkpoint, device="cpu", dtype="float32")
    answers = predict_probabilities(predictor, texts)
    baseline = count_baseline(answers, labels=checkpoint.config.labels, sets=sets)
    of_weights = {"weights_sha256": checkpoint.weights_sha256}
    return baseline.model_copy(update=of_weights).model_dump()


def recorded(folder: Path) -> dict[str, object]:
    baseline = open_checkpoint(folder).manifest.baseline
    assert baseline is not None
    return baseline.model_dump()


def test_the_texts_of_all_files_are_counted_together(
    tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "my").mkdir()
    first = write_rows(tmp_path / "my" / "a.tsv", [(text, 1) for text in TEXTS[:3]])
    second = write_rows(tmp_path / "my" / "b.tsv", [(text, 0) for text in TEXTS[3:]])

    assert evaluate(folder, first, second, "--record-baseline") == 0

    found = recorded(folder)
    assert found == counted(folder, TEXTS, ["my/a", "my/b"])
    thresholds = open_checkpoint(folder).manifest.thresholds
    assert thresholds is not None
    assert (thresholds.sets, thresholds.rows) == (("my/a", "my/b"), 5)
    assert thresholds.texts == {"negative": 2, "positive": 3}
    assert thresholds.weights_sha256 == found["weights_sha256"]
    assert thresholds.by_threshold[0].answers == {
        label: sum(counts)
        for label, counts in found["scores"].items()  # type: ignore[attr-defined]
    }
    assert (found["rows"], found["truncated"], found["unknown_tokens"]) == (5, 1, 1)
    assert capsys.readouterr().out.endswith("\nbaseline and thresholds of 5 texts recorded\n")


def test_fit_records_its_validation_rows(fitted: Path) -> None:
    rows = read_dataset([fitted / "rows.tsv"])
    _, validation = split_validation(rows, which="random", share=0.1, seed=0)
    output = fitted / "out"
    assert recorded(output) == counted(output, list(validation.texts), ["validation"])
