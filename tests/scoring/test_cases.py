"""Files like those that people bring are read right, by headlight-score and by fit."""

from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from model.errors import TableError
from model.tables.columns import Columns
from tests.scoring.conftest import Run, refusal, rows_of
from tests.scoring.test_one_file import table_of
from tests.shared_data import shared_case
from training.data.dataset import read_dataset

FINE = ["A fine film.", "A waste of time."]
FOUR = ["A warm, funny film.", "A waste of time.", "Superb cast.", "Dull and far too long."]


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        ("array.jsonl", FOUR),
        ("binary.parquet", FOUR),
        ("classlabel_swapped.parquet", FOUR),
        ("fit_zh.csv", None),
        ("gz_zeros.csv.gz", [f"Row {number} is a fine film." for number in range(3)]),
        ("semicolon.csv", FOUR),
        ("sep_semi.csv", FINE),
        ("spaces_header.csv", FINE),
        ("utf16.csv", FINE),
        ("lab_u2.csv", ["Text 0", "Text 1", "Text 2"]),
        ("strmix/b.parquet", FOUR[2:]),
    ],
)
def test_a_file_is_scored_and_read_by_fit(
    run: Run, tmp_path: Path, name: str, texts: list[str] | None
) -> None:
    path = shared_case(name)
    output = tmp_path / "out.parquet"

    assert run(path, "--output", output) == 0

    table = parquet.read_table(output).to_pydict()
    found = [text.decode() if isinstance(text, bytes) else text for text in table["text"]]
    assert found[: len(texts or [])] == (texts or [])
    assert set(table["label"]) <= {"negative", "positive"}
    if "input_label" in table:
        # This file has rows of one class only.
        labels = ("negative", "positive") if name == "gz_zeros.csv.gz" else None
        assert list(read_dataset([path], labels=labels).texts) == found


def test_the_names_of_classes_are_those_of_the_schema() -> None:
    dataset = read_dataset([shared_case("classlabel_swapped.parquet")])
    assert [dataset.labels[index] for index in dataset.label_ids] == ["positive", "negative"] * 2


def test_names_of_classes_keep_their_spelling() -> None:
    assert read_dataset([shared_case("lab_u2.csv")]).labels == ("100", "1E2", "2E5")
    with pytest.raises(TableError, match=r"labels '\\uff11' and 1 look alike"):
        read_dataset([shared_case("lab_u7.csv")])


@pytest.mark.parametrize(
    ("name", "bad", "reason"),
    [
        ("bad_utf8.parquet", {1}, "the text is not UTF-8"),
        ("m_group_null.parquet", {3, 4}, "the text is null"),
    ],
)
def test_a_bad_row_stays_without_an_answer(
    run: Run,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    bad: set[int],
    reason: str,
) -> None:
    assert run(shared_case(name), "--output", tmp_path / "out.parquet") == 0

    labels = parquet.read_table(tmp_path / "out.parquet")["label"].to_pylist()
    assert {number for number, label in enumerate(labels, start=1) if label is None} == bad
    assert reason in capsys.readouterr().out
    with pytest.raises(TableError):
        read_dataset([shared_case(name)], columns=Columns(label="text"))


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("dup_other.parquet", "two columns are named 'x': name each once"),
        ("m_header1252.csv", "such as --encoding cp1252"),
    ],
)
def test_a_file_that_is_refused_is_refused_in_one_line(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, fault: str
) -> None:
    assert run(shared_case(name), "--output", tmp_path / "out.csv") == 1

    assert refusal(capsys).endswith(fault)
    assert list(tmp_path.iterdir()) == []


def test_a_header_is_read_in_the_encoding_that_is_named(run: Run, tmp_path: Path) -> None:
    options = ("--output", tmp_path / "out.csv", "--encoding", "cp1252")
    assert run(shared_case("m_header1252.csv"), *options) == 0
    assert table_of(tmp_path / "out.csv")[0][:2] == ["text", "gr\u00f6\u00dfe"]


def test_the_column_is_found_as_the_file_spells_it(run: Run, tmp_path: Path) -> None:
    options = ("--output", tmp_path / "out.csv", "--text-column", "text ")
    assert run(shared_case("spaces_header.csv"), *options) == 0


def test_a_long_integer_keeps_its_digits(run: Run, tmp_path: Path) -> None:
    assert run(shared_case("bigint.jsonl"), "--output", tmp_path / "out.csv") == 0
    ids = [row[0] for row in table_of(tmp_path / "out.csv")]
    assert ids == ["id", "12345678901234567890123", "18446744073709551615"]


@pytest.mark.parametrize("folder", ["hive", "strmix"])
def test_a_folder_is_scored_in_parts(run: Run, tmp_path: Path, folder: str) -> None:
    assert run(shared_case(folder), "--output", tmp_path / "out") == 0

    rows: list[dict[str, Any]] = rows_of(tmp_path / "out")
    assert len(rows) == 4
    if folder == "hive":
        assert [(row["lang"], row["year"]) for row in rows] == [
            ("de", "2025"),
            ("de", "2025"),
            ("en", "2024"),
            ("en", "2024"),
        ]
