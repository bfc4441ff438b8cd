"""Packed files and workbooks have the rows of the plain ones."""

import bz2
import gzip
import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

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
    assert [(row.text, row.label) for row in read(plain)] == [
        ("caf\u00e9, good", "1"),
        ("bad", "0"),
    ]


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


def test_a_workbook_is_read(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl", reason="openpyxl is not installed")
    book = openpyxl.Workbook()
    for row in [["text", "label", None], ["caf\u00e9, good\nreally", 5, None], ["bad", 1, None]]:
        book.active.append(row)
    book.create_sheet("empty")
    path = tmp_path / "a.xlsx"
    book.save(path)

    assert read(path, Columns(encoding="cp1252")) == [
        Row(2, "caf\u00e9, good\nreally", "5"),
        Row(4, "bad", "1"),
    ]
    book["empty"].append(["text"])
    book.save(path)
    with pytest.raises(TableError, match="has 2 sheets with content: save the one that is meant"):
        read(path)
    path.write_bytes(b"no workbook")
    with pytest.raises(TableError, match=r"is not a whole \.xlsx file: save it again"):
        read(path)


def test_a_workbook_without_openpyxl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "openpyxl", None)
    path = tmp_path / "a.xlsx"
    path.write_bytes(b"")
    message = (
        f"{path}: .xlsx needs openpyxl, which is not installed: pip install 'headlight[xlsx]', or "
        "save as CSV UTF-8"
    )
    with pytest.raises(TableError, match=exactly(message)):
        read(path)


def test_a_folder_of_a_path_may_name_the_label(tmp_path: Path) -> None:
    path = tmp_path / "label=positive" / "a.parquet"
    path.parent.mkdir()
    parquet.write_table(pyarrow.table({"text": ["good", "fine"]}), path)

    assert read(path) == [Row(1, "good", "positive"), Row(2, "fine", "positive")]
