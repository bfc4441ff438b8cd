"""Files are read by the page as docs/reference/tables.md says, and so as the commands read them."""

import io
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pytest

from model.errors import TableError
from model.tables.columns import TEXT_COLUMNS, Columns, choose_text_column
from model.tables.files import format_of
from model.tables.headers import read_header
from model.tables.lines import LineReader
from model.tables.raw_rows import RawRow, read_raw
from model.tables.values import read_cells, read_record
from tests.browser.visits import Visit
from tests.shared_data import shared_case

READ = """async ([name, bytes]) => {
  const entry = document.querySelector('script[type=module]').src.replace('page', 'intake');
  const { readFile, rowsOf, SourceError } = await import(entry);
  try {
    const sheet = await readFile(new File([Uint8Array.from(bytes)], name));
    const rows = rowsOf(sheet);
    const bad = rows.filter(({ reason }) => reason !== '').map(({ line }) => line);
    const { columns, column, delimiter, hasHeader } = sheet;
    return { columns, column, delimiter, hasHeader, rows: rows.length, bad };
  } catch (error) {
    if (error instanceof SourceError) return { refused: error.message };
    throw error;
  }
}"""
ROWS = "text{0}label{0}id\nA good film{0}good{0}1\nBad, bad{0}bad{0}2\n\nShort{0}bad\n"
FILES: dict[str, str | bytes] = {
    "commas.csv": 'text,label\n"One, two\nlines",1\n"Not ""so""",0\nThree,1,2\n',
    "semicolons.csv": ROWS.format(";"),
    "tabs.csv": ROWS.format("\t"),
    "bars.csv": ROWS.format("|"),
    "tabs.tsv": ROWS.format("\t") + '"Two" quotes\tgood\t3\n',
    "tabs.txt": ROWS.format("\t"),
    "lines.txt": "Text\nOne, two.\n\nThree.\n",
    "separator.csv": "sep=;\r\ntext;label\r\nOne, two, three;1\r\nTwo;0\r\n",
    "quoted.csv": '"SEP=|"\ntext|label\nOne;1\nTwo|0\n',
    "mark.csv": b"\xef\xbb\xbftext,label\nOne,1\n",
    "little.csv": "text;label\nSch\u00f6n;1\n".encode("utf-16"),
    "big.tsv": b"\xfe\xff" + "text\tlabel\nSch\u00f6n\t1\n".encode("utf-16-be"),
    "header.csv": "text,gr\u00f6\u00dfe\nOne,1\n".encode("cp1252"),
    "bare.csv": "1,A very good film.\n0,A bad film.\n1,So good.\n",
    "bare.tsv": "A very good film.\t1\nA bad film, really.\t0\n",
    "two.csv": "text,comment\nOne,two\n",
    "array.jsonl": '[\n {"text": "One", "id": 1},\n {"text": "Two\\nlines", "n": [2]}\n]\n',
    "none.jsonl": "[]",
    "cut.jsonl": '[{"text": "One"}',
    "lines.ndjson": '{"id": 1, "text": "One"}\n\n{"text": "Two"}\nno\n',
    "spaces.csv": " Text , label \nOne, 1\n",
    "bracket.csv": "sep=]\ntext]label\nOne, two]1\nTwo]0\n",
    "backslash.csv": "sep=\\\ntext\\label\nOne or more\\1\nTwo\\0\n",
    "caret.csv": "sep=^\ntext^label\nOne^1\n",
    "damaged.csv": b"text,id\nSch\xc3\xb6n \xc3\xb6de,1\ncaf\xe9,2\n",
    "names.csv": "A lamp shines,good\nThe tent leaks,bad\nA shoe fits,good\n",
    "trailing.csv": "text,label,,\nOne,1,,\nTwo,0\nThree,1,,x\n",
}
CASES = (
    *("array.jsonl", "bigint.jsonl", "fit_zh.csv", "lab_u2.csv", "lab_u7.csv", "m_header1252.csv"),
    *("semicolon.csv", "sep_semi.csv", "spaces_header.csv", "utf16.csv"),
)


@dataclass(frozen=True, slots=True)
class Table:
    """What a file holds; a file without a header has numbers for names."""

    columns: tuple[str, ...]
    text: set[str]
    delimiter: str
    has_header: bool
    rows: int
    bad: tuple[int, ...]


def of_commands(name: str, content: bytes, encoding: str | None = None) -> Table | None:
    """What the commands find; None for a file that they refuse whatever the options."""
    form, _ = format_of(name) or pytest.fail(name)
    columns = Columns()
    try:
        of_json, file = form == "jsonl", io.BytesIO(content)
        with closing(LineReader(name, file, encoding=encoding, of_json=of_json)) as reader:
            if form == "jsonl":
                return of_records(list(read_raw(reader, name, form)))
            names, delimiter = read_header(reader, name, form, columns)
            rows = list(read_raw(reader, name, form, delimiter))
    except TableError as error:
        if "--encoding cp1252" in error.fault:
            return of_commands(name, content, "cp1252")
        if "add --no-header" not in error.fault:
            return None
        with closing(LineReader(name, io.BytesIO(content))) as reader:
            columns = Columns(header=False)
            names, delimiter = read_header(reader, name, form, columns)
            rows = list(read_raw(reader, name, form, delimiter))
    if not rows:
        return None
    bad = tuple(raw.line for raw in rows if is_bad(raw, len(names)))
    text = text_columns(names)
    if not columns.header:
        text = {numbers(names)[names.index(each)] for each in text}
        names = numbers(names)
    return Table(tuple(names), text, delimiter, columns.header, len(rows), bad)


def of_records(rows: list[RawRow]) -> Table | None:
    names: dict[str, None] = {}
    bad = []
    for raw in rows:
        try:
            names.update(dict.fromkeys(read_record(raw.content)))
        except ValueError:
            bad.append(raw.line)
    if not rows:
        return None
    return Table(tuple(names), text_columns(list(names)), "", False, len(rows), tuple(bad))


def numbers(names: Any) -> tuple[str, ...]:  # noqa: ANN401
    return tuple(f"column {number}" for number, _ in enumerate(names, start=1))


def is_bad(raw: RawRow, width: int) -> bool:
    try:
        return not any(map(str.strip, read_cells(raw, width)))
    except ValueError:
        return True


def text_columns(names: Any) -> set[str]:  # noqa: ANN401
    """The column of texts, or those that the commands cannot choose between."""
    try:
        return {choose_text_column("a", names, None)}
    except TableError:
        return {name for name in names if name.casefold() in TEXT_COLUMNS}


def of_page(visit: Visit, name: str, content: bytes) -> Table | None:
    found = visit.page.evaluate(READ, [name, list(content)])
    if "refused" in found:
        assert name in found["refused"]
        return None
    delimiter = found["delimiter"] or ("" if "json" in name else "\t")
    return Table(
        tuple(found["columns"]),
        {found["columns"][found["column"]]},
        delimiter,
        found["hasHeader"],
        found["rows"],
        tuple(found["bad"]),
    )


@pytest.mark.parametrize("name", [*FILES, *(f"cases/{name}" for name in CASES)])
def test_the_page_reads_what_the_commands_read(shared: Visit, name: str) -> None:
    _, is_case, name = name.rpartition("cases/")
    content = shared_case(name).read_bytes() if is_case else FILES[name]
    raw = content.encode() if isinstance(content, str) else content
    expected = of_commands(name, raw)
    found = of_page(shared, name, raw)
    if expected is None or found is None:
        assert found is expected
        return
    # Where the commands refuse to choose, the page shows its choice.
    assert found.text <= expected.text
    for field in ("columns", "delimiter", "has_header", "rows", "bad"):
        assert getattr(found, field) == getattr(expected, field), field
