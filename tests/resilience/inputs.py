"""Makes tables of any size to score, with bad rows in them, from a seed."""

import csv
import gzip
import io
import json
import random
from pathlib import Path

import pyarrow
from pyarrow import parquet

from tests.builders import WORDS

_NAMES = {
    "text": ("a.csv", "b.csv.gz", "c.tsv.zst"),
    "json": ("a.jsonl", "b.jsonl.zst"),
    "parquet": ("a.parquet", "b.parquet"),
}
FORMS = tuple(_NAMES)
_MOST_WORDS = 40
_BAD = "?"
Row = tuple[int, str]


def make_inputs(folder: Path, form: str, *, rows: int, seed: int) -> None:
    """Writes files of one form into a new folder, packed and not; one row in a hundred is bad."""
    folder.mkdir(parents=True)
    for name in _NAMES[form]:
        chosen = _rows(rows // len(_NAMES[form]), random.Random(f"{seed}-{name}"))
        if form == "parquet":
            ids, texts = zip(*chosen, strict=True)
            cells = [None if text == _BAD else text for text in texts]
            table = pyarrow.table({"id": ids, "text": cells})
            parquet.write_table(table, folder / name, row_group_size=250)
        else:
            content = _json_lines(chosen) if form == "json" else _cells(name, chosen)
            (folder / name).write_bytes(_packed(name, content.encode()))


def _rows(count: int, chance: random.Random) -> list[Row]:
    """Returns rows; `_BAD` becomes a bad row of its form, a blank text is bad in every form."""
    return [
        (number, " ".join(chance.choices(WORDS, k=chance.randint(1, _MOST_WORDS))))
        if number % 100
        else (number, chance.choice((_BAD, " ")))
        for number in range(count)
    ]


def _json_lines(rows: list[Row]) -> str:
    lines = ["[]" if text == _BAD else json.dumps({"id": id_, "text": text}) for id_, text in rows]
    return "".join(f"{line}\n" for line in lines)


def _cells(name: str, rows: list[Row]) -> str:
    output = io.StringIO(newline="")
    tabs = ".tsv" in name
    writer = csv.writer(output, delimiter="\t" if tabs else ",", lineterminator="\n")
    writer.writerow(["id", "text"])
    for number, text in rows:
        # A row that lacks a cell, or a text over two lines where quotes allow it.
        broken = text if tabs or number % 7 else text.replace(" ", "\n", 1)
        writer.writerow([number] if text == _BAD else [number, broken])
    return output.getvalue()


def _packed(name: str, content: bytes) -> bytes:
    if name.endswith(".gz"):
        return gzip.compress(content, mtime=0)
    if name.endswith(".zst"):
        return bytes(pyarrow.Codec("zstd").compress(content, asbytes=True))
    return content
