"""`headlight-score --labels`: columns of these only, and a job that goes on with the same."""

from pathlib import Path

import pytest

from model import load_predictor, open_checkpoint
from tests.builders import tiny_checkpoint, tiny_config, tiny_manifest
from tests.scoring.conftest import refusal, rows_of, run_here

THREE = ("negative", "neutral", "positive")


@pytest.fixture
def three(tmp_path: Path) -> Path:
    """A checkpoint of three classes with a temperature of its own for the pair."""
    manifest = tiny_manifest(labels=THREE, pair_temperature=0.75)
    return tiny_checkpoint(tmp_path / "three", config=tiny_config(labels=THREE), manifest=manifest)


def test_the_answers_are_among_the_labels(
    three: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "rows.csv"
    text = "the cast is superb. It was dull!"
    table.write_text(f"text\n{text}\n", encoding="utf-8")
    output = tmp_path / "out"
    given = [table, "--output", output, "--dtype", "float32", "--granularity", "sentence"]

    assert run_here(three, *given, "--labels", "positive,negative") == 0

    (row,) = rows_of(output)
    shares = ["probability_negative", "probability_positive"]
    predictor = load_predictor(open_checkpoint(three), device="cpu", dtype="float32")
    choice = predictor.info.choice(["negative", "positive"])
    assert choice.temperature == 0.75
    (whole,) = predictor.predict([predictor.encode(text)])
    expected = choice.narrow(whole)
    probabilities = [*expected.probabilities.values()]
    assert row["label"] == expected.label
    assert [row[name] for name in shares] == pytest.approx(probabilities, abs=1e-6)
    for each in (row, row["sentences"][0]):
        assert [name for name in each if name.startswith("probability")] == shares

    assert run_here(three, *given) == 1
    assert "--labels was negative,positive, is negative,neutral,positive" in refusal(capsys)
    assert run_here(three, *given, "--labels", "positive") == 1
    assert refusal(capsys) == (
        "--labels: give two or more different ones of the model's labels: negative, neutral, "
        "positive"
    )
    assert run_here(three, table, "--labels", "positive,negative", "--dtype", "float32") == 0
    header, scored = (tmp_path / "rows.scored.csv").read_text("utf-8").splitlines()
    assert (header, scored.split(",")[:2]) == ("text,label,score", [text, expected.label])
    assert float(scored.split(",")[2]) == pytest.approx(expected.score, abs=1e-5)
