"""Knows the forms of tables by the suffixes of their files."""

from pathlib import PurePosixPath
from typing import Literal, get_args

Format = Literal["csv", "tsv", "jsonl", "parquet"]
Compression = Literal["gzip", "zstd"]

FORMATS = ".csv, .tsv, .jsonl, .ndjson (each also with .gz or .zst) and .parquet"
_SUFFIXES: dict[str, Format] = {
    **{f".{name}": name for name in get_args(Format)},
    ".ndjson": "jsonl",
}
_COMPRESSIONS: dict[str, Compression] = {".gz": "gzip", ".zst": "zstd"}


def format_of(path: str) -> tuple[Format, Compression | None] | None:
    """Returns the form of a file and how it is packed; None if it is not read."""
    name = PurePosixPath(path).name.lower()
    compression = next((_COMPRESSIONS[end] for end in _COMPRESSIONS if name.endswith(end)), None)
    if compression is not None:
        name = name.rpartition(".")[0]
    file_format = _SUFFIXES.get(PurePosixPath(name).suffix)
    if file_format is None or (file_format == "parquet" and compression is not None):
        return None
    return file_format, compression


def suffix_of(file_format: Format, compression: Compression | None) -> str:
    """Returns the suffix of a file of a form, with its dot."""
    end = next((end for end, name in _COMPRESSIONS.items() if name == compression), "")
    return f".{file_format}{end}"
