"""Values stay as the file has them, and whatever a row holds, it is at most a bad row."""

import json
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from tests.scoring.conftest import Run, refusal, rows_of

BLANK = "the text is blank: give the row a text, or leave it out"
NOT_UTF8 = "the text is not UTF-8"
BROKEN = pyarrow.array([b"good", b"\xff", b"bad"]).cast(pyarrow.string(), safe=False)
KEPT = "the column 'kept' holds a value that is not UTF-8"
LISTS = pyarrow.ListArray.from_arrays(pyarrow.array([0, 1, 2, 3], pyarrow.int32()), BROKEN)
VIEWS = pyarrow.ListArray.from_arrays(
    LISTS.offsets,
    BROKEN.cast(pyarrow.binary()).cast(pyarrow.binary_view()).view(pyarrow.string_view()),
)
CODES = pyarrow.array([0, 1, 2], pyarrow.int32())
# Of lists of these pyarrow can only take slices.
UUIDS = pyarrow.ListArray.from_arrays(
    pyarrow.array([0, 1, 2, 3], pyarrow.int32()), pyarrow.array([b"0" * 16] * 3, pyarrow.uuid())
)


def reasons(output: Path) -> list[tuple[int, str]]:
    lines = (output / "bad-rows.jsonl").read_text(encoding="utf-8").splitlines()
    return [(row["row"], row["reason"]) for row in map(json.loads, lines)]


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (pyarrow.array([None, None], pyarrow.string()), "the text is null"),
        (pyarrow.array([" ", "\u200b"]), BLANK),
        (pyarrow.array(["good " * 50] * 2), "the text has 52 tokens and the model reads"),
        (pyarrow.array([1, 2]), "the text must be a string, is int64"),
        (pyarrow.array([b"\xff", b"\xc3"]), NOT_UTF8),
    ],
    ids=["null", "blank", "long", "int", "bytes"],
)
def test_a_row_group_without_a_good_row_is_a_part_without_rows(
    run: Run, tmp_path: Path, values: object, reason: str
) -> None:
    path, output = tmp_path / "rows.parquet", tmp_path / "out"
    parquet.write_table(pyarrow.table({"text": values, "kept": UUIDS[:2]}), path)
    assert run(path, "--output", output, "--truncation", "error") == 0
    assert rows_of(output) == []
    found = reasons(output)
    assert [row for row, _ in found] == [1, 2]
    assert all(each.startswith(reason) for _, each in found), found


@pytest.mark.parametrize(
    ("text", "kept", "reason"),
    [
        (BROKEN.cast(pyarrow.binary()), CODES, NOT_UTF8),
        (BROKEN, UUIDS, NOT_UTF8),
        (BROKEN, pyarrow.array([b"0"] * 3, pyarrow.binary_view()), NOT_UTF8),
        (pyarrow.DictionaryArray.from_arrays(CODES, BROKEN), CODES, NOT_UTF8),
        (pyarrow.array(["good", "fair", "bad"]), BROKEN, KEPT),
        (pyarrow.array(["good", "fair", "bad"]), LISTS, KEPT),
        (pyarrow.array(["good", "fair", "bad"]), VIEWS, KEPT),
        (
            pyarrow.array(["good", "fair", "bad"]),
            pyarrow.DictionaryArray.from_arrays(CODES, BROKEN),
            KEPT,
        ),
    ],
    ids=[
        "binary",
        "uuids",
        "views",
        "dictionary",
        "kept",
        "kept-lists",
        "kept-views",
        "kept-dictionary",
    ],
)
def test_one_value_that_is_not_utf8_is_one_bad_row(
    run: Run, tmp_path: Path, text: object, kept: object, reason: str
) -> None:
    path, output = tmp_path / "rows.parquet", tmp_path / "out"
    parquet.write_table(pyarrow.table({"text": text, "kept": kept}), path)
    assert run(path, "--output", output) == 0
    assert reasons(output) == [(2, reason)]
    texts = [row["text"] for row in rows_of(output)]
    assert [each.decode() if isinstance(each, bytes) else each for each in texts] == ["good", "bad"]


@pytest.mark.parametrize("form", ["parquet", "input"])
def test_json_that_is_too_deep_to_write_is_a_bad_row(run: Run, tmp_path: Path, form: str) -> None:
    path, output = tmp_path / "rows.jsonl", tmp_path / "out"
    deep = [
        '{"text": "good", "tree": ' + "[" * depth + "]" * depth + "}" for depth in range(1, 400)
    ]
    path.write_text("\n".join(deep), encoding="utf-8")
    assert run(path, "--output", output, "--format", form) == 0
    found = reasons(output)
    assert [row for row, _ in found] == list(range(400 - len(found), 400))
    assert {reason for _, reason in found} == {
        "is nested deeper than 250 levels, the most that is read"
    }
    assert len(found) == 150


def test_integers_that_no_float_holds_stay_exact_beside_floats(run: Run, tmp_path: Path) -> None:
    path, output = tmp_path / "rows.jsonl", tmp_path / "out"
    path.write_text('{"text": "good", "n": 9007199254740993}\n{"text": "bad", "n": 0.5}\n')
    assert run(path, "--output", output) == 0
    assert [row["n"] for row in rows_of(output)] == ["9007199254740993", "0.5"]


def test_two_columns_of_one_name_are_refused_at_the_plan_unless_unused(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "rows.parquet"
    columns = [pyarrow.array(["good"]), pyarrow.array([1]), pyarrow.array([2])]
    parquet.write_table(pyarrow.table(columns, ["text", "n", "n"]), path)
    assert run(path, "--output", tmp_path / "all") == 1
    assert refusal(capsys) == f"{path}: two columns are named 'n': name each once"
    assert run(path, "--output", tmp_path / "text", "--columns", "text") == 0


@pytest.mark.parametrize("columns", [[], ["--columns", "text"]])
def test_a_name_of_a_parquet_column_that_is_not_utf8_is_one_line(
    run: Run, tmp_path: Path, columns: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "rows.parquet"
    table = pyarrow.table({"text": ["good"], "groesse": [1]})
    parquet.write_table(table, path, store_schema=False)
    path.write_bytes(path.read_bytes().replace(b"groesse", "größe".encode("cp1252") + b"12"))
    assert run(path, "--output", tmp_path / "out", *columns) == 1
    assert refusal(capsys) == f"{path}: the name of a column is not UTF-8"


def test_a_fault_of_a_worker_names_file_and_rows(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "rows.tsv"
    path.write_text("text\ngood\nbad\n", encoding="utf-8")

    def fail(*_: object) -> None:
        raise KeyError(None)

    monkeypatch.setattr("scoring.parts.part_bytes", fail)
    assert run(path, "--output", tmp_path / "out", "--part-bytes", "1") == 1
    assert f"{path}: part 1, 1 rows from 3: the worker failed with KeyError\n" in (
        capsys.readouterr().err
    )


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
    assert (str(share), second["share"]) == ("nan" if form == "parquet" else "None", 0.5)
    assert more == [None, long, None]  # JSON has no infinity
    assert ids == (long, 7)


@pytest.mark.parametrize(("form", "bad"), [("parquet", 1), ("input", 0)])
def test_half_of_a_surrogate_pair_is_kept_where_a_part_can_hold_it(
    run: Run, tmp_path: Path, form: str, bad: int
) -> None:
    path, output = tmp_path / "rows.jsonl", tmp_path / "out"
    path.write_text('{"text": "good", "id": "\\ud83d"}\n{"text": "bad", "id": "b"}\n')
    assert run(path, "--output", output, "--format", form) == 0
    assert [row["id"] for row in rows_of(output)] == ["\ud83d", "b"][bad:]
    assert [reason for _, reason in reasons(output)] == [
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


def test_folders_name_columns_of_one_file(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "lang=pt%2DBR" / "text=x" / "a.parquet"
    path.parent.mkdir(parents=True)
    parquet.write_table(pyarrow.table({"text": ["good", "bad"]}), path)
    assert run(path, "--output", tmp_path / "one.parquet") == 0
    one = parquet.read_table(tmp_path / "one.parquet", partitioning=None)
    assert one.column_names == ["text", "lang", "label", "score"]
    assert one["lang"].to_pylist() == ["pt-BR", "pt-BR"]
    only = ("--columns", "lang", "--text-column", "lang")
    assert run(path, "--output", tmp_path / "only.csv", *only) == 0
    assert (tmp_path / "only.csv").read_text().count("\npt-BR,") == 2
