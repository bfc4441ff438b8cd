"""Makes tables of any size to score, with bad rows in them, from a seed."""

import csv
import gzip
import io
import json
import random
from collections.abc import Iterator
from pathlib import Path

import pyarrow
from pyarrow import parquet

from tests.builders import WORDS

FORMS = ("text", "json", "parquet")
_MOST_WORDS = 40
_GROUP_ROWS = 250
Row = tuple[int, str]


def make_inputs(folder: Path, form: str, *, rows: int, seed: int) -> None:
    """Writes files of one form into a new folder, packed and not; one row in a hundred is bad."""
    folder.mkdir(parents=True)
    names = {
        "text": ("a.csv", "b.csv.gz", "c.tsv", "d.tsv.zst"),
        "json": ("a.jsonl", "b.jsonl.zst"),
        "parquet": ("a.parquet", "b.parquet"),
    }[form]
    for place, name in enumerate(names):
        chosen = list(_rows(rows // len(names), random.Random(f"{seed}-{name}")))
        if form == "parquet":
            table = pyarrow.table(
                {
                    "id": [number for number, _ in chosen],
                    "text": [text if text != "?" else None for _, text in chosen],
                }
            )
            parquet.write_table(table, folder / name, row_group_size=_GROUP_ROWS + place)
        else:
            (folder / name).write_bytes(_packed(name, _spelled(name, chosen)))


def _rows(count: int, chance: random.Random) -> Iterator[Row]:
    """Yields rows; a text of `?` alone becomes a bad row, a blank one is bad in all forms."""
    for number in range(count):
        if number % 100 == 0:
            yield number, chance.choice(("?", " "))
        else:
            yield number, " ".join(chance.choices(WORDS, k=chance.randint(1, _MOST_WORDS)))


def _spelled(name: str, rows: list[Row]) -> bytes:
    if ".jsonl" in name:
        lines = [
            "[]" if text == "?" else json.dumps({"id": number, "text": text})
            for number, text in rows
        ]
        return "".join(f"{line}\n" for line in lines).encode()
    output = io.StringIO(newline="")
    tabs = ".tsv" in name
    writer = csv.writer(output, delimiter="\t" if tabs else ",", lineterminator="\n")
    writer.writerow(["id", "text"])
    for number, text in rows:
        # A row that lacks a cell, or a text over two lines where quotes allow it.
        broken = text if tabs or number % 7 else text.replace(" ", "\n", 1)
        writer.writerow([number] if text == "?" else [number, broken])
    return output.getvalue().encode()


def _packed(name: str, content: bytes) -> bytes:
    if name.endswith(".gz"):
        return gzip.compress(content, mtime=0)
    if name.endswith(".zst"):
        return bytes(pyarrow.Codec("zstd").compress(content, asbytes=True))
    return content
