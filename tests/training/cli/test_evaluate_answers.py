"""`evaluate --errors` and `--predictions`: the rows and their answers, in every form."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from model import load_predictor, open_checkpoint
from model.errors import TableError
from tests.builders import tiny_checkpoint, tiny_config
from tests.labelled_files import write_rows
from tests.training.cli.test_evaluate import parse
from training.cli.evaluate import run
from training.errors import DataError

TEXTS = ("a good film", "a bad film", 'the "cast", is superb', "weak", "0012", "very dull")
LABELS = ("positive", "negative", "negative", "positive", "negative", "positive")
ROWS: list[tuple[object, object]] = list(zip(TEXTS, LABELS, strict=True))


def answers(folder: Path) -> list[dict[str, Any]]:
    """What the served predictor says of the rows, as they should be written."""
    predictor = load_predictor(open_checkpoint(folder), device="cpu", dtype="float32")
    served = predictor.predict([predictor.encode(text) for text in TEXTS])
    return [
        {
            "text": text,
            "label": label,
            "prediction": each.label,
            "score": each.score,
            **{f"probability_{name}": share for name, share in each.probabilities.items()},
        }
        for text, label, each in zip(TEXTS, LABELS, served, strict=True)
    ]


def read(path: Path) -> list[dict[str, Any]]:
    is_csv = path.suffix == ".csv"
    frame = pd.read_csv(path, dtype={"text": str}) if is_csv else pd.read_parquet(path)
    rows: list[dict[str, Any]] = frame.to_dict("records")
    return rows


def near(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows to compare with: batches of another size round differently."""
    return [
        {name: pytest.approx(x, abs=1e-6) if isinstance(x, float) else x for name, x in row.items()}
        for row in rows
    ]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_all_rows_and_the_wrong_ones_are_written(
    suffix: str, tmp_path: Path, checkpoint_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_rows(tmp_path / "rows.csv", ROWS)
    wrong, every = tmp_path / f"wrong{suffix}", tmp_path / f"all{suffix}"
    options = ("--errors", wrong, "--predictions", every)

    assert run(parse(path, "--checkpoint", checkpoint_folder, *options)) == 0

    expected = answers(checkpoint_folder)
    missed = [row for row in expected if row["label"] != row["prediction"]]
    missed.sort(key=lambda row: -row["score"])
    assert 1 < len(missed) < 6
    assert read(every) == near(expected)
    assert read(wrong) == near(missed)
    assert list(read(every)[0]) == list(expected[0])
    printed = capsys.readouterr().out
    assert printed.endswith(
        f"6 rows with predictions: {every}\n"
        f"{len(missed)} wrong of 6 rows, most certain first: {wrong}\n"
    )
    assert {each.name for each in tmp_path.iterdir()} == {"rows.csv", wrong.name, every.name}


def test_rows_of_several_files_name_theirs_and_the_classes_asked_for(tmp_path: Path) -> None:
    three = tiny_config(labels=("negative", "neutral", "positive"))
    folder = tiny_checkpoint(tmp_path / "three", config=three)
    first = write_rows(tmp_path / "a.tsv", [("good", "positive"), ("dull", "negative")])
    second = write_rows(tmp_path / "b.jsonl", [("weak", "negative")])
    target = tmp_path / "all.jsonl"
    options = ("--labels", "negative,positive", "--predictions", target)

    run(parse(first, second, "--checkpoint", folder, *options))

    rows = [json.loads(line) for line in target.read_text("utf-8").splitlines()]
    assert [row["file"] for row in rows] == [str(first), str(first), str(second)]
    assert [row["text"] for row in rows] == ["good", "dull", "weak"]
    names = ["file", "text", "label", "prediction", "score"]
    assert list(rows[0]) == [*names, "probability_negative", "probability_positive"]
    assert all(
        row["probability_negative"] + row["probability_positive"] == pytest.approx(1.0)
        for row in rows
    )


def test_one_file_is_not_written_twice(tmp_path: Path) -> None:
    path = tmp_path / "new.csv"
    with pytest.raises(DataError, match="is there already: name another file for --errors"):
        run(parse("a.tsv", "--checkpoint", "b", "--errors", path, "--predictions", path))


def test_tsv_refuses_what_it_cannot_hold(tmp_path: Path, checkpoint_folder: Path) -> None:
    path = write_rows(tmp_path / "rows.csv", [("good\tfilm", "positive"), ("dull", "negative")])
    target = tmp_path / "wrong.tsv"
    with pytest.raises(TableError, match="TSV cannot hold a value with a tab or a line break"):
        run(parse(path, "--checkpoint", checkpoint_folder, "--predictions", target))
    assert not target.exists()
    other = target.with_suffix(".csv")
    assert run(parse(path, "--checkpoint", checkpoint_folder, "--predictions", other)) == 0
    assert [row["text"] for row in read(other)] == ["good\tfilm", "dull"]
