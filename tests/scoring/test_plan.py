"""A file has the same rows however it is cut."""

import csv
import gzip
import io
import json
import unicodedata
from argparse import Namespace
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from model.errors import TableError
from model.tables.columns import Columns
from model.tables.rows import read_rows
from model.tables.values import text_fault
from scoring.inputs import find_inputs
from scoring.manifest import Manifest, make_manifest
from scoring.parts import PartReader
from scoring.scorer import Model
from tests.matching import exactly

MODEL = Model(
    name="tiny",
    version="0" * 12,
    labels=("negative", "positive"),
    temperature=1.0,
    max_length=32,
    device="cpu",
    dtype="float32",
    truncation="right",
)
CELLS = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\r\x00\x85\u2028"), max_size=12
)
ROWS = st.lists(st.tuples(CELLS, CELLS), max_size=12)
ONE_FOLDER = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


CHANGED = ": has changed since the job began: put it back, or start again with --overwrite"


def plan(path: Path, *, part_bytes: int, columns: list[str] | None = None) -> Manifest:
    options = Namespace(
        text_column="text",
        columns=columns,
        delimiter=None,
        encoding=None,
        no_header=False,
        sheet=None,
        output_format="parquet",
        part_bytes=part_bytes,
    )
    return make_manifest(find_inputs([str(path)], output="elsewhere").files, options, MODEL)


def read(manifest: Manifest) -> list[tuple[int, Any]]:
    """All rows, good and bad, with their numbers, as units one after the other give them."""
    reader = PartReader(manifest)
    found: list[tuple[int, Any]] = []
    for unit in manifest.units:
        rows = reader.read(unit)
        for index, (number, text, values) in enumerate(
            zip(rows.numbers, rows.texts, rows.values, strict=True)
        ):
            found.append((number, rows.faults.get(index) or (text, tuple(values))))
        assert unit.rows == len(rows.numbers)
    reader.close()
    return found


def to_csv(rows: list[tuple[str, str]], ending: str) -> bytes:
    output = io.StringIO(newline="")
    writer = csv.writer(output, lineterminator=ending)
    writer.writerow(["id", "text"])
    writer.writerows(rows)
    return output.getvalue().encode()


@ONE_FOLDER
@given(
    rows=ROWS,
    part_bytes=st.integers(1, 60),
    ending=st.sampled_from(["\n", "\r\n"]),
    packed=st.sampled_from(["", ".gz", ".zst"]),
    mark=st.booleans(),
)
def test_csv_may_be_cut_anywhere(
    tmp_path: Path,
    rows: list[tuple[str, str]],
    part_bytes: int,
    ending: str,
    packed: str,
    mark: bool,
) -> None:
    content = b"\xef\xbb\xbf" * mark + to_csv(rows, ending)
    path = tmp_path / f"rows.csv{packed}"
    if packed == ".gz":
        # Two members in a row are one gzip file.
        content = gzip.compress(content[:20]) + gzip.compress(content[20:])
    elif packed == ".zst":
        content = pyarrow.Codec("zstd").compress(content, asbytes=True)
    path.write_bytes(content)

    cut = plan(path, part_bytes=part_bytes)
    found = read(cut)

    assert found == read(plan(path, part_bytes=2**40))
    # Of one cell and no text, csv writes a quoted empty cell; two empty cells are a comma.
    assert [answer for _, answer in found if isinstance(answer, tuple)] == [
        (text, (name, text)) for name, text in rows if any(map(is_visible, text))
    ]
    assert cut.sources[0].rows == len(rows) == len(found)


def is_visible(character: str) -> bool:
    return not character.isspace() and unicodedata.category(character) not in {"Cc", "Cf"}


def test_row_groups_and_ranges_of_them_are_units(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("model.tables.parquet._MOST_ROWS", 4)
    path = tmp_path / "rows.parquet"
    table = pyarrow.table({"id": list(range(10)), "text": [f"text {n}" for n in range(9)] + [None]})
    parquet.write_table(table, path, row_group_size=7)

    manifest = plan(path, part_bytes=1)

    assert [(unit.row_group, unit.start, unit.end, unit.first_row) for unit in manifest.units] == [
        (0, 0, 4, 1),
        (0, 4, 7, 5),
        (1, 0, 3, 8),
    ]
    reader = PartReader(manifest)
    units = [reader.read(unit) for unit in manifest.units]
    assert [rows.numbers for rows in units] == [[1, 2, 3, 4], [5, 6, 7], [8, 9, 10]]
    values = [rows.values["id"].to_pylist() for rows in units]
    assert values == [[0, 1, 2, 3], [4, 5, 6], [7, 8, 9]]
    assert [rows.faults for rows in units] == [{}, {}, {2: "the text is null"}]


def test_types_of_json_columns_come_from_all_rows(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    rows: list[dict[str, object]] = [
        {"text": "a", "n": 1, "x": 1, "b": True, "o": {"k": [1]}, "late": None, "big": 2**63},
        {"text": "b", "n": None, "x": 0.5, "b": False, "o": "s", "late": 3, "new": "z", "big": 1},
    ]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")

    columns = plan(path, part_bytes=1).columns

    assert {column.name: column.type for column in columns} == {
        "text": "string",
        "n": "integer",
        "x": "number",
        "b": "boolean",
        "o": "json",
        "late": "integer",
        "big": "json",
        "new": "string",
    }


def test_a_file_that_changes_while_it_is_scored_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("text\nfirst\nsecond\n", encoding="utf-8")
    manifest = plan(path, part_bytes=1)
    path.write_text("text\nfirst\nother!\n", encoding="utf-8")
    reader = PartReader(manifest)
    assert reader.read(manifest.units[0]).texts == ["first"]
    with pytest.raises(TableError, match=exactly(f"{path}{CHANGED}")):
        reader.read(manifest.units[1])


def test_a_parquet_file_that_is_damaged_later_is_refused_where_it_is(tmp_path: Path) -> None:
    """Its own pages have no checksums: the changed text would be read without an error."""
    path = tmp_path / "rows.parquet"
    table = pyarrow.table({"id": [1, 2], "text": ["first", "second"], "unused": ["a", "third"]})
    plain = {"compression": "none", "use_dictionary": False, "write_statistics": False}
    parquet.write_table(table, path, row_group_size=1, **plain)
    manifest = plan(path, part_bytes=1, columns=["id"])
    sound = path.read_bytes()

    reader = PartReader(manifest)
    path.write_bytes(sound.replace(b"third", b"other"))
    assert [reader.read(unit).texts for unit in manifest.units] == [["first"], ["second"]]
    path.write_bytes(sound.replace(b"second", b"sceond"))
    assert parquet.read_table(path)["text"].to_pylist() == ["first", "sceond"]
    assert reader.read(manifest.units[0]).texts == ["first"]
    with pytest.raises(TableError, match=exactly(f"{path}{CHANGED}")):
        reader.read(manifest.units[1])


MARK = b"\xef\xbb\xbf"
FILES: dict[str, bytes] = {
    "sep.csv": MARK + b"sep=;\r\ntext;label\r\na;1\r\n\r\nb;2\r\n",
    "quotes.csv": b'text,label\n"a ""b""\nc",1\n"d"e,1\nf,1\n',
    "bytes.csv": b"text,label\na,1\ncaf\xe9,1\nb,\xff\nd,1\n",
    "old.csv": b'text,label\r"a\rb",1\rc,1\r',
    "wide.tsv": "text\tlabel\ncaf\u00e9\t1\n\u20ac\t1\n".encode("utf-16-be"),
    "members.tsv.gz": gzip.compress(b"text\tlabel\na\t1") + gzip.compress(b"\nb\t1\n"),
    "late.jsonl": MARK
    + b'{"label": 1}\n\n{"text": "a", "label": NaN}\nno\n{"text": "b", "label": 2}\n',
}


@pytest.mark.parametrize("name", FILES)
def test_pieces_of_a_file_have_the_rows_of_the_whole(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(FILES[name])
    rows = list(read_rows(path, path.read_bytes(), Columns()))
    found = read(plan(path, part_bytes=1, columns=["text"]))
    assert [number for number, _ in found] == [row.number for row in rows]
    assert [answer if isinstance(answer, str) else answer[0] for _, answer in found] == [
        row.fault or text_fault(row.text) or row.text for row in rows
    ]
