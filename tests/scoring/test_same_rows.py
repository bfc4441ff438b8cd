"""Training and scoring read every file alike: the same rows, numbers and faults."""

import gzip
import json
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from model.tables.columns import Columns
from model.tables.rows import read_rows
from model.tables.values import text_fault
from scoring.inputs import find_inputs
from scoring.plan import make_manifest
from tests.scoring.conftest import Run, rows_of
from tests.scoring.test_plan import MODEL, read

MARK = b"\xef\xbb\xbf"
FILES: dict[str, bytes] = {
    "plain.csv": b"text,label\na,1\n",
    "mark.csv": MARK + b'"text",label\na,1\n',
    "mark.jsonl": MARK + b'{"text": "a", "label": 1}\n',
    "sep.csv": MARK + b"sep=;\r\ntext;label\r\na;1\r\n\r\nb;2\r\n",
    "bars.csv": b"text|label\na|1\n",
    "quotes.csv": b'text,label\n"a ""b""\nc",1\n"d"e,1\nf,1\n',
    "counts.csv": b"text,label\na\nb,1,2\nc,1\n",
    "spaces.csv": b" text , label\na,1\n \n,1\nb,1\n",
    "bytes.csv": b"text,label\na,1\ncaf\xe9,1\nb,\xff\nd,1\n",
    "old.csv": b'text,label\r"a\rb",1\rc,1\r',
    "old.tsv": b"text\tlabel\ra\t1\rb\t1\r",
    "quotes.tsv": b'text\tlabel\r\n"a\t1\r\n\r\nb"\t1',
    "wide.csv": "text,label\ncaf\u00e9,1\n\u20ac,1\n".encode("utf-16"),
    "wide.tsv": "text\tlabel\ncaf\u00e9\t1\n".encode("utf-16-be"),
    "zeros.csv.gz": gzip.compress(b"text,label\na,1\n") + bytes(600),
    "members.tsv.gz": gzip.compress(b"text\tlabel\na\t1") + gzip.compress(b"\nb\t1\n"),
    "packed.csv.zst": pyarrow.Codec("zstd").compress(b"text,label\na,1\n", asbytes=True),
    "late.jsonl": b'{"id": 1}\n\n{"text": "a", "label": NaN}\n{"label": 1, "text": "b"}\n',
    "kinds.jsonl": b'no\n[1]\n"a"\n{"text": null, "label": 1}\n{"text": 1, "label": 1}\n'
    b'{"text": "\\ud83d", "label": 1}\n{"text": "a", "label": -Infinity}\n'
    b'{"text": "b", "label": ' + b"9" * 40 + b'}\n{"text": "c", "label": ' + b"9" * 5000 + b"}\n"
    b'{"text": "\xff", "label": 1}\n{"text": "d", "\\udc00": 1, "label": 1}\n'
    b'{"text": "e", "label": ' + b"[" * 300 + b"]" * 300 + b"}\n",
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_has_the_same_rows_for_all(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(FILES[name])

    rows = list(read_rows(path, path.read_bytes(), Columns()))

    assert rows
    expected = [
        (row.number, row.fault or text_fault(row.text) or str(row.text))
        for row in rows
        # A label is no business of those who only read texts.
        if row.fault != "lacks 'label'"
    ]
    for part_bytes in (1, 2**40):
        manifest = make_manifest(
            find_inputs([str(path)], output="elsewhere").files,
            spelling=Columns(text="text"),
            columns=["text"],
            output_format="input",
            part_bytes=part_bytes,
            model=MODEL,
        )
        found = [
            (number, answer if isinstance(answer, str) else answer[0])
            for number, answer in read(manifest)
        ]
        assert [
            (number, answer.replace("lacks 'text' and 'label'", "lacks 'text'"))
            for number, answer in expected
        ] == found


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
