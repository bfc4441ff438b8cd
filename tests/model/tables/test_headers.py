"""What the beginning of a table says: its delimiter, its header, or that it has none."""

import re
from pathlib import Path

import pytest

from model.errors import TableError
from model.tables.columns import LABEL_COLUMNS, TEXT_COLUMNS, Columns
from model.tables.rows import Row, read_rows

LESSON = "A very good film.\t1\nWow... Loved this place!\t1\nCrust is not good, at all.\t0\n"
NO_HEADER = "line 1: has no header, its first line looks like the others: add --no-header, or a "


def read(path: Path, content: str, columns: Columns | None = None) -> list[Row]:
    path.write_bytes(content.encode())
    return list(read_rows(path, path.read_bytes(), columns or Columns()))


@pytest.mark.parametrize("text", TEXT_COLUMNS)
@pytest.mark.parametrize("label", LABEL_COLUMNS)
def test_usual_names_are_known_in_any_case(tmp_path: Path, text: str, label: str) -> None:
    content = f"id,{text.title()},{label.upper()}\n7,good,1\n"
    assert read(tmp_path / "a.csv", content) == [Row(2, "good", "1")]


@pytest.mark.parametrize(
    ("header", "named"),
    [
        ("text,tweet,label", "'text' and 'tweet', each of which may hold texts: choose one with "),
        ("text,stars,label", "'stars' and 'label', each of which may hold labels: choose one with"),
    ],
)
def test_two_columns_of_a_kind_are_named(tmp_path: Path, header: str, named: str) -> None:
    with pytest.raises(TableError, match=re.escape(f"has the columns {named}")):
        read(tmp_path / "a.csv", f"{header}\na,b,c\n")


def test_the_rows_decide_where_the_header_does_not(tmp_path: Path) -> None:
    content = "text, of a review;label\ngood;1\nbad, really, bad;0\n"
    columns = Columns(text="text, of a review")
    assert read(tmp_path / "a.csv", content, columns) == [
        Row(2, "good", "1"),
        Row(3, "bad, really, bad", "0"),
    ]


def test_a_delimiter_that_is_not_sure_is_asked_for(tmp_path: Path) -> None:
    content = "text, x;label\ngood, a;1\nbad, b;0\n"
    message = "is separated by commas or semicolons, which is not sure: name one, as in --delimiter"
    with pytest.raises(TableError, match=message):
        read(tmp_path / "a.csv", content)
    columns = Columns(delimiter=";", text="text, x")
    assert read(tmp_path / "a.csv", content, columns)[0] == Row(2, "good, a", "1")


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_empty_columns_of_excel_are_left_out(tmp_path: Path, ending: str) -> None:
    lines = ["text;label;;", "good;1;;", "bad;0", "bad;0;;x;", "fine;1;;;;"]
    assert read(tmp_path / "a.csv", ending.join(lines)) == [
        Row(2, "good", "1"),
        Row(3, "bad", "0"),
        Row(4, fault="the header has 2 columns, this row has 5"),
        Row(5, "fine", "1"),
    ]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.txt", LESSON),
        ("a.tsv", LESSON),
        ("a.csv", LESSON),
        ("a.csv", "0,A film.\n1,Another.\n"),
        ("a.csv", "good film,positive\nbad film,negative\ngreat film,positive\n"),
        ("a.txt", "A good film.\nA bad film, really.\n"),
    ],
)
def test_a_first_line_like_the_others_is_no_header(tmp_path: Path, name: str, content: str) -> None:
    with pytest.raises(TableError, match=re.escape(NO_HEADER)) as error:
        read(tmp_path / name, content)
    assert "film" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "content", "rows"),
    [
        (
            "a.txt",
            LESSON,
            [
                Row(1, "A very good film.", "1"),
                Row(2, "Wow... Loved this place!", "1"),
                Row(3, "Crust is not good, at all.", "0"),
            ],
        ),
        (
            "a.csv",
            'positive;"a good film; really"\nnegative;a bad film, really\n',
            [Row(1, "a good film; really", "positive"), Row(2, "a bad film, really", "negative")],
        ),
        (
            "a.csv",
            "\ufeff1,x1,a good long film\n0,x2,a bad long film\n1,x3,a third long film\n",
            [
                Row(1, "a good long film", "1"),
                Row(2, "a bad long film", "0"),
                Row(3, "a third long film", "1"),
            ],
        ),
    ],
)
def test_without_a_header_columns_are_known_by_what_they_hold(
    tmp_path: Path, name: str, content: str, rows: list[Row]
) -> None:
    assert read(tmp_path / name, content, Columns(header=False)) == rows


def test_columns_without_a_header_may_be_named(tmp_path: Path) -> None:
    content = "a good film,a bad old film,x,y\na fine film,a dull old film,y,x\n"
    with pytest.raises(TableError, match=r"no column is named .* among 'column_1', 'column_2', "):
        read(tmp_path / "a.csv", content, Columns(header=False))
    columns = Columns(header=False, text="column_2", label="column_4")
    assert read(tmp_path / "a.csv", content, columns)[0] == Row(1, "a bad old film", "y")


def test_a_header_is_not_taken_for_a_row(tmp_path: Path) -> None:
    message = "has a header, its first line names a column 'text': leave out --no-header"
    with pytest.raises(TableError, match=message):
        read(tmp_path / "a.csv", "text,label\ngood,1\n", Columns(header=False))


def test_texts_that_are_cut_at_their_commas_are_refused(tmp_path: Path) -> None:
    content = "A good film, really.\nBad.\nA fine, funny, warm film.\n"
    message = "has rows of 1 to 3 columns and no header: quote texts that hold the delimiter"
    with pytest.raises(TableError, match=message):
        read(tmp_path / "a.csv", content, Columns(header=False, label="column_1"))


def test_a_header_in_another_encoding_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes("text,gr\u00f6\u00dfe\ngood,1\n".encode("cp1252"))
    fault = r"line 1: the header is not UTF-8 \(byte 0xf6\): .* such as --encoding cp1252$"
    with pytest.raises(TableError, match=fault):
        list(read_rows(path, path.read_bytes(), Columns()))
