"""Packed files and workbooks have the rows of the plain ones."""

import bz2
import gzip
import io
import re
import zipfile
from collections.abc import Callable
from datetime import date, datetime
from pathlib import Path

import openpyxl
import pyarrow
import pytest

from model.errors import TableError
from model.tables.columns import Columns
from model.tables.rows import Row, read_rows
from tests.matching import exactly

PLAIN = {
    "a.csv": 'text,label\n"caf\u00e9, good",1\nbad,0\n'.encode(),
    "a.tsv": "text\tlabel\ncaf\u00e9, good\t1\nbad\t0\n".encode("utf-16"),
    "a.json": '[{"text": "caf\u00e9, good", "label": "1"}, {"text": "bad", "label": "0"}]'.encode(),
}


def zipped(content: bytes, *names: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            archive.writestr(name, content)
    return file.getvalue()


PACK: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".zst": lambda content: pyarrow.Codec("zstd").compress(content, asbytes=True),
    ".zip": lambda content: zipped(content, "any name"),
}


def read(path: Path, columns: Columns | None = None) -> list[Row]:
    return list(read_rows(path, path.read_bytes(), columns or Columns()))


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("end", PACK)
def test_a_packed_file_has_the_same_rows(tmp_path: Path, name: str, end: str) -> None:
    plain, packed = tmp_path / name, tmp_path / f"{name}{end}"
    plain.write_bytes(PLAIN[name])
    packed.write_bytes(PACK[end](PLAIN[name]))
    assert read(packed) == read(plain)
    rows = [(row.text, row.label) for row in read(plain)]
    assert rows == [("caf\u00e9, good", "1"), ("bad", "0")]


@pytest.mark.parametrize(
    ("name", "content", "fault"),
    [
        ("a.zip", zipped(b"", "a.csv", "b.csv"), "holds 2 files: a .zip must hold one, unpack"),
        ("a.zip", zipped(b""), "holds 0 files: "),
        ("a.zip", b"no archive", "is not a whole zip file: it has no list of files"),
        ("a.csv.zip", zipped(PLAIN["a.csv"], "a")[:-30], "is not a whole zip file"),
        ("a.csv.bz2", bz2.compress(PLAIN["a.csv"])[:-9], "is not a whole bz2 file: "),
        ("a.zip", zipped(b"", "a.doc"), "the suffix .zip is not one that is read"),
    ],
)
def test_what_cannot_be_unpacked_is_said(
    tmp_path: Path, name: str, content: bytes, fault: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(TableError) as error:
        read(path)
    assert str(error.value).startswith(f"{path}: {fault}")


def workbook(path: Path, **sheets: list[list[object]]) -> Path:
    """Writes sheets by their names; those that begin with an underscore are hidden."""
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        sheet.sheet_state = "hidden" if name.startswith("_") else "visible"
        for row in rows:
            sheet.append(row)
    book.save(path)
    return path


def rewrite(path: Path, part: str, edit: Callable[[bytes], bytes]) -> None:
    """Replaces a part of a workbook, or leaves it out if nothing is left."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            if edited := edit(content) if name == part else content:
                archive.writestr(name, edited)


SHEET, BOOK = "xl/worksheets/sheet1.xml", "xl/workbook.xml"
ROWS: list[list[object]] = [["text", "label"], ["good film", "positive"], ["bad film", "negative"]]
READ = [Row(2, "good film", "positive"), Row(3, "bad film", "negative")]


def test_a_workbook_is_read_as_excel_shows_it(tmp_path: Path) -> None:
    values = {
        True: "true",
        4.5999999999999996: "4.6",
        -3.0: "-3",
        datetime(2026, 1, 2, 3, 4, 5): "2026-01-02T03:04:05",
        date(2026, 1, 2): "2026-01-02",
        "#N/A": "",  # openpyxl writes it as an error
        "=1+1": "",  # nobody has computed it
    }
    rows: list[list[object]] = [["text", "label", None], *(["good\r", value] for value in values)]
    path = workbook(tmp_path / "a.xlsx", one=rows, empty=[], _lookup=[["text"], ["hidden"]])
    read_values = [(row.text, row.label) for row in read(path, Columns(encoding="cp1252"))]
    assert read_values == [("good\r", spelled) for spelled in values.values()]


@pytest.mark.parametrize("cell", ["XFD1", "A1048576", "XFD1048576"])
def test_blank_cells_far_away_are_no_rows(tmp_path: Path, cell: str) -> None:
    path = workbook(tmp_path / "a.xlsx", one=ROWS)
    book = openpyxl.load_workbook(path)
    book["one"][cell].font = openpyxl.styles.Font(bold=True)
    book.save(path)
    dimension = re.compile(rb'<dimension ref="[^"]*"')
    rewrite(path, SHEET, lambda xml: dimension.sub(b'<dimension ref="A1:XFD1048576"', xml))
    assert read(path) == READ


WHOLE = "is not a whole .xlsx file: save it again"
CONTENT = "has {} sheets with content ({}): choose one with --sheet NAME"
ENTITIES = b'<!DOCTYPE a [<!ENTITY b "bb"><!ENTITY c SYSTEM "file:///etc/passwd">]>'


@pytest.mark.parametrize(
    ("part", "edit", "fault"),
    [
        (SHEET, lambda xml: xml[:-40], WHOLE),
        (SHEET, lambda _: b"", WHOLE),
        (SHEET, lambda xml: ENTITIES + xml.replace(b"good", b"&b;"), WHOLE),
        (SHEET, lambda xml: ENTITIES + xml.replace(b"good", b"&c;"), WHOLE),
        (SHEET, lambda xml: xml.replace(b'"A3"', b'"XFD1048576"'), "needs more memory or time "),
        (SHEET, lambda _: b"<worksheet/>", CONTENT.format("no", "'one'")),
        (BOOK, lambda xml: xml.replace(b'r:id="rId1"', b'r:id="rId99"'), WHOLE),
        (BOOK, lambda xml: re.sub(b"<sheet .*?/>", b"", xml), CONTENT.format("no", "")),
        (None, lambda _: b"", WHOLE),
        (None, lambda _: b"no workbook", WHOLE),
        (None, lambda _: b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "is encrypted, or of Excel before "),
    ],
)
def test_a_broken_workbook_is_one_message(
    tmp_path: Path, part: str | None, edit: Callable[[bytes], bytes], fault: str
) -> None:
    path = workbook(tmp_path / "a.xlsx", one=ROWS)
    if part is None:
        path.write_bytes(edit(b""))
    else:
        rewrite(path, part, edit)
    with pytest.raises(TableError, match=re.escape(f"{path}: {fault}") + ".* CSV UTF-8$"):
        read(path)


def test_one_of_several_sheets_is_named(tmp_path: Path) -> None:
    path = workbook(tmp_path / "a.xlsx", one=[["text"], ["x"]], two=ROWS, _three=ROWS)
    assert read(path, Columns(sheet="two")) == read(path, Columns(sheet="_three")) == READ
    with pytest.raises(TableError, match=re.escape(CONTENT.format(2, "'one', 'two'"))):
        read(path)
    message = r"no sheet named 'Two' \('one', 'two', '_three'\): choose"
    with pytest.raises(TableError, match=message):
        read(path, Columns(sheet="Two"))


def test_a_workbook_needs_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "python_calamine", None)
    path = tmp_path / "a.xlsx"
    path.write_bytes(b"")
    message = (
        f"{path}: .xlsx needs python-calamine, which is not installed: pip install "
        "'headlight[xlsx]', or save as CSV UTF-8"
    )
    with pytest.raises(TableError, match=exactly(message)):
        read(path)
