"""Knows the forms of tables by the suffixes of their files."""

import zipfile
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import BinaryIO, Literal, get_args

from model.errors import TableError

Format = Literal["csv", "tsv", "jsonl", "parquet"]
#: how a file is packed; a workbook of Excel is unpacked to CSV
Compression = Literal["gzip", "zstd", "bz2", "zip", "xlsx"]

FORMATS = (
    ".csv, .tsv, .txt, .jsonl, .ndjson, .json (each also with .gz, .zst, .bz2 or .zip), .xlsx and "
    ".parquet"
)
_SUFFIXES: dict[str, Format] = {
    **{f".{name}": name for name in get_args(Format)},
    ".txt": "tsv",
    ".ndjson": "jsonl",
    ".json": "jsonl",
}
_COMPRESSIONS: dict[str, Compression] = {
    ".gz": "gzip",
    ".zst": "zstd",
    ".bz2": "bz2",
    ".zip": "zip",
}
#: what `suffix_of` gives for them has no compression, since only one table is written
_UNPACKED = ("zip", "xlsx")


def format_of(
    path: str, open_file: Callable[[], BinaryIO] | None = None
) -> tuple[Format, Compression | None] | None:
    """Returns the form of a file and how it is packed; None if it is not read.

    `open_file` opens it, to look into a .zip whose name says nothing of its content; TableError if
    that does not hold one file.
    """
    name = PurePosixPath(path).name.lower()
    if name.endswith(".xlsx"):
        return "csv", "xlsx"
    compression = next((_COMPRESSIONS[end] for end in _COMPRESSIONS if name.endswith(end)), None)
    if compression is not None:
        name = name.rpartition(".")[0]
    file_format = _SUFFIXES.get(PurePosixPath(name).suffix)
    if file_format is None and compression == "zip" and open_file is not None:
        with open_file() as file, open_zip(path, file) as archive:
            name = zip_member(path, archive)
        file_format = _SUFFIXES.get(PurePosixPath(name.lower()).suffix)
    if file_format is None or (file_format == "parquet" and compression is not None):
        return None
    return file_format, compression


def suffix_of(file_format: Format, compression: Compression | None) -> str:
    """Returns the suffix of a file of a form, with its dot; .zip and .xlsx are not written."""
    ends = {name: end for end, name in _COMPRESSIONS.items() if name not in _UNPACKED}
    return f".{file_format}{ends.get(compression or 'zip', '')}"


def open_zip(path: object, file: BinaryIO) -> zipfile.ZipFile:
    """Opens an archive, or raises TableError."""
    try:
        return zipfile.ZipFile(file)
    except (zipfile.BadZipFile, NotImplementedError) as error:
        raise TableError(str(path), "is not a whole zip file: it has no list of files") from error


def zip_member(path: object, archive: zipfile.ZipFile) -> str:
    """Returns the name of the only file in an archive; TableError if there are none or several."""
    names = [
        info.filename
        for info in archive.infolist()
        if not info.is_dir() and not info.filename.startswith("__MACOSX/")
    ]
    if len(names) != 1:
        raise TableError(
            str(path), f"holds {len(names)} files: a .zip must hold one, unpack it and name a file"
        )
    return names[0]
