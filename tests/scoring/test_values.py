"""The values of kept columns stay as the file has them, in every form of a part."""

import json
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from tests.scoring.conftest import Run, refusal, rows_of


@pytest.mark.parametrize("form", ["parquet", "input"])
def test_numbers_of_json_keep_their_value(run: Run, tmp_path: Path, form: str) -> None:
    long = 12345678901234567890123
    lines = [
        f'{{"text": "good", "id": {long}, "share": NaN, "more": [-Infinity, {long}, null]}}',
        '{"text": "bad", "id": 7, "share": 0.5, "more": "null\\ud83d"}',
    ]
    path, output = tmp_path / "rows.jsonl", tmp_path / "out"
    path.write_text("\n".join(lines), encoding="utf-8")

    assert run(path, "--output", output, "--format", form) == 0

    first, second = rows_of(output)
    share, more = first["share"], first["more"]
    ids = (first["id"], second["id"])
    if form == "parquet":
        more, ids = json.loads(more), (int(ids[0]), int(ids[1]))
    assert (share != share, second["share"]) == (True, 0.5)
    assert more == [float("-inf"), long, None]
    assert ids == (long, 7)


@pytest.mark.parametrize(("form", "bad"), [("parquet", 1), ("input", 0)])
def test_half_of_a_surrogate_pair_is_kept_where_a_part_can_hold_it(
    run: Run, tmp_path: Path, form: str, bad: int
) -> None:
    path, output = tmp_path / "rows.jsonl", tmp_path / "out"
    path.write_text('{"text": "good", "id": "\\ud83d"}\n{"text": "bad", "id": "b"}\n')

    assert run(path, "--output", output, "--format", form) == 0

    assert [row["id"] for row in rows_of(output)] == ["\ud83d", "b"][bad:]
    reasons = (output / "bad-rows.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["reason"] for line in reasons] == [
        "the column 'id' holds a value that cannot be written, such as half of a surrogate pair"
    ] * bad


def test_the_form_of_the_input_keeps_its_delimiter(run: Run, tmp_path: Path) -> None:
    path, output = tmp_path / "rows.csv", tmp_path / "out"
    path.write_bytes("sep=;\ntext ;id\nna\u00efve; 1,5\n".encode("cp1252"))
    options = ("--output", output, "--format", "input", "--encoding", "cp1252")

    assert run(path, *options, "--text-column", "text ", "--columns", "id ,text") == 0

    header, row = (output / "part-00000.csv").read_text(encoding="utf-8").splitlines()
    assert header.startswith("id;text;label;score;")
    assert row.startswith(" 1,5;na\u00efve;")
    # The same command again, however the columns are spelled.
    assert run(path, *options, "--text-column", "text", "--columns", "id,text") == 0


def test_another_encoding_or_delimiter_is_another_job(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, output = tmp_path / "rows.csv", tmp_path / "out"
    path.write_bytes("text,id\nna\u00efve,1\n".encode("cp1252"))
    assert run(path, "--output", output, "--encoding", "cp1252") == 0

    assert run(path, "--output", output, "--delimiter", ";") == 1

    assert capsys.readouterr().err.splitlines()[-1] == (
        f"headlight-score: {output}: holds a job that began otherwise: --encoding was cp1252, is "
        "left out; --delimiter was ',', is ';': choose another --output, or start again with "
        "--overwrite"
    )


def test_string_columns_of_every_kind_are_one_type(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    texts = pyarrow.array(["good", "bad"])
    for name, column in {
        "a": texts,
        "b": texts.cast(pyarrow.large_string()),
        "c": texts.dictionary_encode(),
        "d": texts.cast(pyarrow.string_view()),
    }.items():
        parquet.write_table(pyarrow.table({"text": column}), folder / f"{name}.parquet")

    assert run(folder, "--output", tmp_path / "out") == 0

    parts = [parquet.read_table(path) for path in sorted((tmp_path / "out").glob("*.parquet"))]
    assert [part["text"].to_pylist() for part in parts] == [["good", "bad"]] * 4
    assert {part.schema.field("text").type for part in parts} == {pyarrow.string()}


def write(path: Path, values: pyarrow.Array) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    texts = ["good", "bad"][: len(values)]
    parquet.write_table(pyarrow.table({"text": texts, "n": values}), path)


def test_columns_widen_to_hold_the_values_of_all_files(run: Run, tmp_path: Path) -> None:
    write(tmp_path / "in" / "a.parquet", pyarrow.array([-128, 127], pyarrow.int8()))
    write(tmp_path / "in" / "b.parquet", pyarrow.array([2**62, -(2**62)]))

    assert run(tmp_path / "in", "--output", tmp_path / "out") == 0

    parts = sorted((tmp_path / "out").glob("part-*"))
    types = [parquet.read_schema(part).field("n").type for part in parts]
    assert types == [pyarrow.int64(), pyarrow.int64()]
    assert [row["n"] for row in rows_of(tmp_path / "out")] == [-128, 127, 2**62, -(2**62)]


def test_columns_that_no_type_holds_are_refused(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "in" / "a.parquet", pyarrow.array([1]))
    write(tmp_path / "in" / "b.parquet", pyarrow.array(["x"]))

    assert run(tmp_path / "in", "--output", tmp_path / "out") == 1
    assert refusal(capsys).endswith(
        "the column 'n' is string, in "
        f"{tmp_path / 'in' / 'a.parquet'} it is int64: score them apart, or leave it out with "
        "--columns"
    )


def test_folders_name_columns_of_parts_and_of_one_file(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "in" / "lang=de" / "a.parquet"
    write(path, pyarrow.array([1, 2]))
    write(tmp_path / "in" / "lang=pt%2DBR" / "b.parquet", pyarrow.array([3]))

    assert run(tmp_path / "in", "--output", tmp_path / "out") == 0
    assert run(path, "--output", tmp_path / "one.parquet") == 0

    rows = [(row["n"], row["lang"]) for row in rows_of(tmp_path / "out")]
    assert rows == [(1, "de"), (2, "de"), (3, "pt-BR")]
    one = parquet.read_table(tmp_path / "one.parquet", partitioning=None)
    assert one.column_names == ["text", "n", "lang", "label", "score"]
    assert one["lang"].to_pylist() == ["de", "de"]
