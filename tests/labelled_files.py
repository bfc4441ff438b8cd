"""Writes labelled rows in every format that is read."""

import csv
import gzip
import io
import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow
from pyarrow import parquet

SUFFIXES = (
    *(f".{name}{zipped}" for name in ("tsv", "csv", "jsonl", "ndjson") for zipped in ("", ".gz")),
    ".parquet",
)


def write_rows(
    path: Path,
    rows: Sequence[tuple[object, object]],
    *,
    header: tuple[str, str] = ("text", "label"),
) -> Path:
    """Writes texts and labels in the format of the suffix and returns the path."""
    name = path.name.removesuffix(".gz")
    if name.endswith(".parquet"):
        texts, labels = zip(*rows, strict=True)
        parquet.write_table(pyarrow.table({header[0]: texts, header[1]: labels}), path)
        return path
    if name.endswith(".tsv"):
        content = "".join(f"{text}\t{label}\n" for text, label in [header, *rows])
    elif name.endswith(".csv"):
        buffer = io.StringIO(newline="")
        csv.writer(buffer).writerows([header, *rows])
        content = buffer.getvalue()
    else:
        content = "".join(
            json.dumps(dict(zip(header, row, strict=True)), ensure_ascii=False) + "\n"
            for row in rows
        )
    encoded = content.encode()
    path.write_bytes(gzip.compress(encoded) if path.suffix == ".gz" else encoded)
    return path
