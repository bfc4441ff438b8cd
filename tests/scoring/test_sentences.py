"""Jobs with `--granularity sentence` and `--truncation window`: a row in is a row out."""

import csv
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pyarrow import parquet

from model import Prediction, Predictor
from model.tokenization.sentences import find_sentences
from model.tokenization.tokenizer import MAX_WINDOWS
from scoring.scorer import Scorer
from tests.builders import WORDS
from tests.matching import exactly
from tests.scoring.conftest import Run

LONG = " ".join(WORDS * 3) + ". Good."
TEXTS = ["A film. A dull plot!", LONG, "superb", '"Good," he said.\nNot bad. 🎬 Cold']
TOO_LONG = "good " * 32 * MAX_WINDOWS
MEMBERS = [
    *("start", "end", "label", "score", "probability_negative", "probability_positive"),
    *("token_count", "truncated"),
]
OPTIONS = ("--dtype", "float32", "--granularity", "sentence", "--truncation", "window")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """JSON Lines with four good rows and two that have no answer."""
    path = tmp_path / "in" / "rows.jsonl"
    path.parent.mkdir()
    rows = [*TEXTS[:2], " ", *TEXTS[2:], TOO_LONG]
    lines = [json.dumps({"id": number, "text": text}) for number, text in enumerate(rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def read_whole(predictor: Predictor, text: str) -> Prediction:
    return predictor.join(predictor.predict(predictor.encode_windows(text)))


def check(rows: list[dict[str, object]], predictor: Predictor) -> None:
    """Compares the rows of a part with the predictor's own answers."""
    assert [row["text"] for row in rows] == TEXTS
    for row in rows:
        text = str(row["text"])
        whole = read_whole(predictor, text)
        assert (row["label"], row["token_count"]) == (whole.label, whole.token_count)
        assert (row["windows"], row["truncated"]) == (whole.windows, False)
        assert row["score"] == pytest.approx(whole.score, abs=1e-5)
        sentences = row["sentences"]
        assert isinstance(sentences, list)
        spans = [*filter(None, find_sentences(text))]
        expected = [(span.start, span.end) for span in spans]
        assert [(each["start"], each["end"]) for each in sentences] == expected
        for each in sentences:
            assert list(each) == MEMBERS
            alone = read_whole(predictor, text[each["start"] : each["end"]])
            assert (each["label"], each["token_count"]) == (alone.label, alone.token_count)
            positive = alone.probabilities["positive"]
            assert each["probability_positive"] == pytest.approx(positive, abs=1e-5)


def test_a_part_has_a_list_of_sentences_for_each_row(
    run: Run, table: Path, tmp_path: Path, predictor: Predictor
) -> None:
    output = tmp_path / "out"
    assert run(table, "--output", output, *OPTIONS) == 0
    found = parquet.read_table(output / "part-00000.parquet")
    assert found.column_names == [
        *("id", "text", "label", "score", "probability_negative", "probability_positive"),
        *("token_count", "truncated", "windows", "sentences", "model_version"),
    ]
    check(found.to_pylist(), predictor)
    totals = json.loads((output / "SUCCESS.json").read_text())
    assert (totals["rows_in"], totals["rows_out"], totals["bad_rows"]) == (6, 4, 2)
    whole = [read_whole(predictor, text) for text in TEXTS]
    sentences = [
        read_whole(predictor, text[span.start : span.end])
        for text in TEXTS
        for span in [*filter(None, find_sentences(text))]
    ]
    assert totals["tokens"] == sum(each.token_count for each in (*whole, *sentences))
    bad = [json.loads(line) for line in (output / "bad-rows.jsonl").read_text().splitlines()]
    assert [row["row"] for row in bad] == [3, 6]
    assert bad[1]["reason"].startswith("the text takes 89 windows of 32 tokens")


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_in_the_form_of_the_input_sentences_are_json(
    run: Run, tmp_path: Path, predictor: Predictor, suffix: str
) -> None:
    path, output = tmp_path / f"rows.{suffix}", tmp_path / "out"
    if suffix == "jsonl":
        path.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    else:
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([["text"], *([text] for text in TEXTS)])
    assert run(path, "--output", output, "--format", "input", *OPTIONS) == 0
    lines = (output / f"part-00000.{suffix}").read_text(encoding="utf-8").splitlines(keepends=True)
    rows = list(map(json.loads, lines) if suffix == "jsonl" else csv.DictReader(lines))
    assert [row["text"] for row in rows] == TEXTS
    for row, text in zip(rows, TEXTS, strict=True):
        found = row["sentences"]
        sentences = found if isinstance(found, list) else json.loads(found)
        assert [list(each) for each in sentences] == [MEMBERS] * len(
            [*filter(None, find_sentences(text))]
        )
        assert int(row["windows"]) == read_whole(predictor, text).windows


def test_a_scorer_takes_lists_and_series_and_no_single_string(checkpoint_folder: Path) -> None:
    scorer = Scorer(
        checkpoint_folder, dtype="float32", truncation="window", granularity="sentence", threads=1
    )
    texts = [TEXTS[0], " ", LONG, None]
    listed = scorer.score(texts)
    assert list(listed.refused) == [1, 3]
    assert listed.refused[3] == "the text is missing: leave it out"
    assert [label in listed.names for label in listed.labels] == [True, False, True, False]
    assert listed.labels[1::2] == [None, None]
    assert np.isnan(listed.scores).tolist() == [False, True, False, True]
    assert np.isnan(listed.probabilities).all(axis=1).tolist() == [False, True, False, True]
    assert listed.windows[[0, 2]].tolist() == [1, 4]
    assert [len(sentences) for sentences in listed.sentences] == [2, 0, 2, 0]
    series = scorer.score(pd.Series(texts, index=range(len(texts), 0, -1)))
    np.testing.assert_array_equal(series.probabilities, listed.probabilities)
    assert len(scorer.score([]).label_ids) == 0
    message = "score takes a list of texts, got one string: write score([text])"
    with pytest.raises(TypeError, match=exactly(message)):
        scorer.score("A warm film")
