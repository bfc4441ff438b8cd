"""The four formats, plain and gzipped, and what is said of files that are not sound."""

import gzip
import json
import re
import sys
from pathlib import Path

import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from model.errors import TableError
from model.tables.columns import TEXT_COLUMNS, Columns
from model.tables.files import FORMATS
from model.tables.rows import Row, read_rows
from tests.labelled_files import SUFFIXES, write_rows
from tests.matching import exactly

ROWS = [('Good, "really" good', "positive"), ("Bad.", "negative"), ("  café 😀 ", "positive")]
TEXT_SUFFIXES = tuple(suffix for suffix in SUFFIXES if suffix != ".parquet")


def read(path: Path, columns: Columns | None = None) -> list[Row]:
    return list(read_rows(path, path.read_bytes(), columns or Columns()))


def write(path: Path, content: str) -> Path:
    path.write_bytes(content.encode())
    return path


@pytest.mark.parametrize("suffix", [*SUFFIXES, ".TSV.GZ", ".Csv"])
def test_every_format_gives_the_same_rows(tmp_path: Path, suffix: str) -> None:
    written = write_rows(tmp_path / f"reviews.2024{suffix.lower()}", ROWS)
    path = written.rename(tmp_path / f"reviews.2024{suffix}")
    first = 2 if suffix.lower().startswith((".tsv", ".csv")) else 1
    expected = [Row(number, *row) for number, row in enumerate(ROWS, start=first)]
    assert read(path) == expected


# What a TSV cannot hold, since it has no quoting, and half of a surrogate pair, which UTF-8 cannot.
TSV_TEXTS = st.text(st.characters(exclude_characters="\t\n", exclude_categories=["Cs"]))
ANY_TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for many files, each of which replaces the one before."""
    return tmp_path_factory.mktemp("scratch")


@given(data=st.data(), suffix=st.sampled_from([".tsv", ".csv", ".jsonl", ".parquet"]))
def test_any_text_survives(scratch: Path, data: st.DataObject, suffix: str) -> None:
    texts = data.draw(st.lists(TSV_TEXTS if suffix == ".tsv" else ANY_TEXTS, min_size=1))
    path = write_rows(scratch / f"a{suffix}", [(text, "x") for text in texts])
    assert [row.text for row in read(path)] == texts


def test_tsv_has_no_quoting(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", 'text\tlabel\n"one\t0\n"two"\t1\nthree"\t0\n')
    assert [row.text for row in read(path)] == ['"one', '"two"', 'three"']


@pytest.mark.parametrize("suffix", [".tsv", ".csv"])
def test_line_ends_of_windows_and_blank_lines(tmp_path: Path, suffix: str) -> None:
    comma = "\t" if suffix == ".tsv" else ","
    lines = [f"text{comma}label", "", f"one{comma}0", "", "", f"two{comma}1", ""]
    path = write(tmp_path / f"a{suffix}", "\r\n".join(lines))
    assert read(path) == [Row(3, "one", "0"), Row(6, "two", "1")]


def test_a_csv_row_is_numbered_by_the_line_it_begins_on(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", 'text,label\n"one\r\nmore\n",0\ntwo,1\n')
    assert read(path) == [Row(2, "one\r\nmore\n", "0"), Row(5, "two", "1")]


def test_a_csv_field_may_be_longer_than_the_usual_limit(tmp_path: Path) -> None:
    text = "word " * 131_072
    path = write_rows(tmp_path / "a.csv", [(text, "0")])
    assert read(path) == [Row(2, text, "0")]


@pytest.mark.parametrize("suffix", [".tsv", ".csv"])
def test_rows_with_other_columns_than_the_header(tmp_path: Path, suffix: str) -> None:
    comma = "\t" if suffix == ".tsv" else ","
    rows = ["text,label,id", "one,0", "two,1,7", "three,1,8,9"]
    path = write(tmp_path / f"a{suffix}", "\n".join(rows).replace(",", comma))
    assert read(path) == [
        Row(2, fault="the header has 3 columns, this row has 2"),
        Row(3, "two", "1"),
        Row(4, fault="the header has 3 columns, this row has 4"),
    ]


def test_lines_that_are_not_the_json_asked_for(tmp_path: Path) -> None:
    lines = [
        '{"text": "one", "label": 0, "id": 7}',
        "{'text': 'two'}",
        "",
        '["three", 1]',
        '{"text": "four"}',
        "{}",
        '{"label": true, "text": "five", "more": []}',
        "[" * 100_000,
    ]
    path = write(tmp_path / "a.jsonl", "\n".join(lines))
    rows = read(path)

    assert rows[:-1] == [
        Row(1, "one", 0),
        Row(
            2, fault="is not JSON: Expecting property name enclosed in double quotes at character 2"
        ),
        Row(4, fault="must be a JSON object, is list"),
        Row(5, fault="lacks 'label'"),
        Row(6, fault="lacks 'text' and 'label'"),
        Row(7, "five", True),
    ]
    assert rows[-1] == Row(8, fault="is nested deeper than 250 levels, the most that is read")


@pytest.mark.parametrize(
    ("header", "columns"),
    [
        (("text", "label"), Columns()),
        ((" review ", "sentiment"), Columns()),
        (("tweet", "label"), Columns(text="tweet")),
        (("text", "stars"), Columns(label="stars")),
        (("label", "text"), Columns(text="label", label="text")),
    ],
)
def test_columns_are_guessed_or_named(
    tmp_path: Path, header: tuple[str, str], columns: Columns
) -> None:
    path = write_rows(tmp_path / "a.tsv", [("one", "x")], header=header)
    assert read(path, columns) == [Row(2, "one", "x")]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_no_column_fits(tmp_path: Path, suffix: str) -> None:
    path = write_rows(tmp_path / f"a{suffix}", ROWS, header=("posting", "label"))
    names = " or ".join(map(repr, TEXT_COLUMNS))
    message = (
        f"{path}: no column is named {names} among 'posting', 'label': choose one with "
        "--text-column"
    )
    with pytest.raises(TableError, match=exactly(message)):
        read(path)


@pytest.mark.parametrize(
    ("header", "columns", "fault"),
    [
        ("text,label", Columns(label="Label"), "no column is named 'Label' among 'text', "),
        ("text,label,text", Columns(text="text"), "2 columns are named 'text' among "),
        ("text,label", Columns(text="label"), "text and label cannot both be the column 'label'"),
        ("no header " * 10 + ",1", Columns(text="text"), "line 1: has no header, its first line "),
    ],
)
def test_columns_that_cannot_be_told(
    tmp_path: Path, header: str, columns: Columns, fault: str
) -> None:
    path = write(tmp_path / "a.csv", f"{header}\n1,2,3\n")
    with pytest.raises(TableError, match=re.escape(fault)):
        read(path, columns)


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("a.doc", "the suffix .doc is not one that is read"),
        ("a.parquet.gz", "the suffix .parquet.gz is not one that is read"),
        ("a.gz", "the suffix .gz is not one that is read"),
        ("tsv", "has no suffix"),
    ],
)
def test_other_formats_are_refused(tmp_path: Path, name: str, fault: str) -> None:
    path = write(tmp_path / name, "text\tlabel\n")
    message = f"{path}: {fault}: use {FORMATS}"
    with pytest.raises(TableError, match=exactly(message)):
        read(path)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("blank", [b"", b"\xef\xbb\xbf", b" \r\n\n"])
def test_an_empty_file(tmp_path: Path, suffix: str, blank: bytes) -> None:
    path = tmp_path / f"a{suffix}"
    path.write_bytes(gzip.compress(blank) if suffix.endswith(".gz") else blank)
    fault = "is not a whole Parquet file" if suffix == ".parquet" and blank else "is empty"
    with pytest.raises(TableError) as error:
        read(path)
    assert str(error.value).startswith(f"{path}: {fault}: ")


@pytest.mark.parametrize("suffix", TEXT_SUFFIXES)
def test_a_byte_that_is_not_utf_8(tmp_path: Path, suffix: str) -> None:
    written = write_rows(tmp_path / f"a{suffix.removesuffix('.gz')}", [("one", "0"), ("café", "1")])
    content = written.read_text("utf-8").encode("latin-1")
    path = tmp_path / f"a{suffix}"
    path.write_bytes(gzip.compress(content) if suffix.endswith(".gz") else content)
    first = 1 if "json" in suffix else 2
    fault = (
        "is not UTF-8: convert the file to UTF-8, or name its encoding, such as --encoding cp1252"
    )
    assert read(path) == [Row(first, "one", "0"), Row(first + 1, fault=fault)]
    assert read(path, Columns(encoding="latin-1"))[1] == Row(first + 1, "caf\u00e9", "1")


@pytest.mark.parametrize("damage", ["cut short", "another format", "flipped"])
@pytest.mark.parametrize(("suffix", "kind"), [(".tsv.gz", "gzip"), (".parquet", "Parquet")])
def test_a_damaged_file(tmp_path: Path, suffix: str, kind: str, damage: str) -> None:
    path = write_rows(tmp_path / f"a{suffix}", ROWS)
    sound = path.read_bytes()
    middle = len(sound) // 2
    path.write_bytes(
        {
            "cut short": sound[:-9],
            "another format": json.dumps(ROWS).encode(),
            "flipped": sound[:12] + bytes(middle) + sound[12 + middle :],
        }[damage]
    )
    with pytest.raises(TableError) as error:
        read(path)
    assert str(error.value).startswith(f"{path}: is not a whole {kind} file: ")


def test_parquet_without_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    parquet.write_table(
        pyarrow.table({"text": pyarrow.array([], pyarrow.string()), "label": []}), path
    )
    assert read(path) == []


def test_parquet_needs_pyarrow_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_rows(tmp_path / "a.parquet", ROWS)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    message = (
        f"{path}: Parquet needs pyarrow, which is not installed: pip install 'headlight[train]'"
    )
    with pytest.raises(TableError, match=exactly(message)):
        read(path)


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ('text,label\none,0\n"two,1\nthree,0\n', "line 3: a quote is opened and never closed: "),
        ('text,"label\n', "line 1: a quote is opened and never closed: "),
        ('text,"label"s\n', "line 1: the header is not CSV: ',' expected after '\"': "),
    ],
)
def test_quotes_of_csv_that_do_not_close(tmp_path: Path, content: str, fault: str) -> None:
    with pytest.raises(TableError, match=re.escape(fault)):
        read(write(tmp_path / "a.csv", content))


def test_a_quote_in_the_middle_of_a_csv_field_is_a_bad_row(tmp_path: Path) -> None:
    fault = """is not CSV: ',' expected after '"': write a quote inside a field twice ("")"""
    path = write(tmp_path / "a.csv", 'text,label\n"one"more,0\ntwo,1\n')
    assert read(path) == [Row(2, fault=fault), Row(3, "two", "1")]


SEMICOLONS = 'text;label\n"Good; really, good";positive\nBad.;negative\n'


@pytest.mark.parametrize(
    ("name", "content", "fault"),
    [
        ("a.tsv", "text,label\ngood,1\n", "commas, not by tabs: give its name the suffix .csv"),
        ("a.tsv", SEMICOLONS, "semicolons, not by tabs: give its name the suffix .csv"),
    ],
)
def test_a_table_of_other_delimiters_is_told_how_it_is_read(
    tmp_path: Path, name: str, content: str, fault: str
) -> None:
    """Even where a quote in it looks like a fault of its row."""
    path = write(tmp_path / name, content)
    with pytest.raises(TableError, match=exactly(f"{path}: is separated by {fault}")):
        read(path)


def test_a_chosen_delimiter_that_is_not_there_is_told(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "a.csv", ROWS)
    message = f"{path}: is separated by commas, not by semicolons: leave out --delimiter"
    with pytest.raises(TableError, match=exactly(message)):
        read(path, Columns(delimiter=";"))


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet", ".tsv"])
def test_other_formats_have_their_own_delimiter(tmp_path: Path, suffix: str) -> None:
    path = write_rows(tmp_path / f"a{suffix}", ROWS)
    assert read(path, Columns(delimiter=";")) == read(path)


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        ("sep=;\r\ntext;label\r\na, b;1\r\n", [Row(3, "a, b", "1")]),
        ('\ufeff"sep=|"\ntext|label\na|1\n', [Row(3, "a", "1")]),
        ("sep=~\ntext~label\na~1\n", [Row(3, "a", "1")]),
        ('"text, of mail";label\na;1\n', [Row(2, "a", "1")]),
        ("text;note, if any;label\na;;1\n", [Row(2, "a", "1")]),
        ('text|label\n"a| b"|1\n', [Row(2, "a| b", "1")]),
        ("text,label\na;b,1\n", [Row(2, "a;b", "1")]),
    ],
)
def test_a_csv_says_itself_what_separates_its_columns(
    tmp_path: Path, content: str, rows: list[Row]
) -> None:
    columns = Columns(text="text, of mail") if "of mail" in content else None
    assert read(write(tmp_path / "a.csv", content), columns) == rows


@pytest.mark.parametrize("suffix", [".tsv", ".csv", ".jsonl"])
@pytest.mark.parametrize(
    ("encoding", "columns"),
    [
        ("utf-16", Columns()),
        ("utf-16-le", Columns()),
        ("utf-16-be", Columns()),
        ("utf-32", Columns()),
        ("cp1252", Columns(encoding="cp1252")),
        ("gb18030", Columns(encoding="gb18030")),
    ],
)
def test_other_encodings_are_known_by_their_beginning_or_named(
    tmp_path: Path, suffix: str, encoding: str, columns: Columns
) -> None:
    rows: list[tuple[object, object]] = [("caf\u00e9 \u20ac" * 5_000, "1"), ("b", "0")] * 40
    path = write_rows(tmp_path / f"a{suffix}", rows)
    path.write_bytes(path.read_text(encoding="utf-8").encode(encoding))
    assert [(row.text, row.label) for row in read(path, columns)] == rows


@pytest.mark.parametrize(
    ("encoding", "bad"), [("cp1252", b"bad \x81"), ("utf-16", b"\x00\xd8x\x00")]
)
def test_what_an_encoding_has_not_is_a_bad_row(tmp_path: Path, encoding: str, bad: bytes) -> None:
    before, after = "text\tlabel\none\t1\n", "\t1\ntwo\t0\n"
    content = before.encode(encoding) + bad + after.encode(encoding).removeprefix(b"\xff\xfe")
    path = tmp_path / "a.tsv"
    path.write_bytes(content)
    rows = read(path, Columns(encoding=encoding))
    assert [(row.number, row.text, row.fault is None) for row in rows] == [
        (2, "one", True),
        (3, None, False),
        (4, "two", True),
    ]


@pytest.mark.parametrize(
    ("content", "columns"),
    [
        ("text\tlabel\none\t1\n".encode("utf-16")[:-1], Columns()),
        (b"text\tlabel\n", Columns(encoding="utf-16")),
    ],
)
def test_a_file_of_another_encoding_than_named_is_refused(
    tmp_path: Path, content: bytes, columns: Columns
) -> None:
    path = tmp_path / "a.tsv"
    path.write_bytes(content)
    with pytest.raises(TableError, match="is not utf-16: name its encoding with --encoding"):
        read(path, columns)


@pytest.mark.parametrize("suffix", [".tsv", ".csv", ".jsonl"])
def test_lines_may_end_in_a_carriage_return_only(tmp_path: Path, suffix: str) -> None:
    written = write_rows(tmp_path / f"a{suffix}", [("one", "0"), ("two", "1")])
    content = written.read_bytes().replace(b"\r\n", b"\n").replace(b"\n", b"\r")
    written.write_bytes(content)
    assert [(row.text, row.label) for row in read(written)] == [("one", "0"), ("two", "1")]


def test_zeros_behind_a_gzip_member_are_ignored(tmp_path: Path) -> None:
    members = gzip.compress(b"text,label\none,1\n") + gzip.compress(b"two,0\n")
    path = tmp_path / "a.csv.gz"
    path.write_bytes(members + bytes(10_000))
    assert read(path) == [Row(2, "one", "1"), Row(3, "two", "0")]


@pytest.mark.parametrize(
    ("header", "column", "text"),
    [
        ("text ,label", "text ", "a"),
        ("text ,label", "text", "a"),
        ("text,label", " text ", "a"),
        ("text ,text,label", "text ", "a"),
        ("text ,text,label", "text", "b"),
    ],
)
def test_spaces_around_the_name_of_a_column(
    tmp_path: Path, header: str, column: str, text: str
) -> None:
    cells = "a,b,1" if header.count(",") > 1 else "a,1"
    path = write(tmp_path / "a.csv", f"{header}\n{cells}\n")
    assert read(path, Columns(text=column)) == [Row(2, text, "1")]


@pytest.mark.parametrize("suffix", [".json", ".jsonl", ".json.gz"])
def test_a_json_array_is_read_object_by_object(tmp_path: Path, suffix: str) -> None:
    content = """[
 {"text": "one\\n[",
  "label": 123456789012345678901234567890}, 7 ,
 {"text": "caf\u00e9", "label": [{}]}]
"""
    path = tmp_path / f"a{suffix}"
    encoded = content.encode()
    path.write_bytes(gzip.compress(encoded) if suffix.endswith(".gz") else encoded)
    assert read(path) == [
        Row(1, "one\n[", 123456789012345678901234567890),
        Row(2, fault="must be a JSON object, is int"),
        Row(3, "caf\u00e9", [{}]),
    ]


@pytest.mark.parametrize("content", ['[{"text": "a"}', "[{]", '[{"text": "a"}] x', "[\n{"])
def test_half_of_a_json_array_is_refused(tmp_path: Path, content: str) -> None:
    with pytest.raises(TableError, match="is not a whole JSON array: write it again"):
        read(write(tmp_path / "a.json", content))


def test_a_json_array_has_any_length(tmp_path: Path) -> None:
    rows = [{"text": f"{at} " + "caf\u00e9 [{" * (at % 7 * 9_000), "label": at} for at in range(99)]
    path = write(tmp_path / "a.json", json.dumps(rows, ensure_ascii=False))
    assert path.stat().st_size > 8 * 1024 * 1024
    assert read(path) == [Row(at, row["text"], row["label"]) for at, row in enumerate(rows, 1)]


def test_parquet_text_may_be_binary_and_one_bad_value_is_one_bad_row(tmp_path: Path) -> None:
    texts = [b"one", b"\xff", None]
    path = tmp_path / "a.parquet"
    for name in ("binary", "large_binary", "string", "large_string"):
        kind = pyarrow.type_for_alias(name)
        column = pyarrow.array(texts, pyarrow.binary()).cast(kind, safe=False)
        parquet.write_table(pyarrow.table({"text": column, "label": ["a", "b", "c"]}), path)
        assert [row.text for row in read(path)] == ["one", b"\xff", None]
