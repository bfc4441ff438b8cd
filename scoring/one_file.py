"""Scores one file into one file: its columns, then label and score, each row in its place."""

import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow

from model.cli.progress import progress
from model.errors import TableError, place
from model.tables.columns import LABEL_COLUMNS, find
from model.tables.files import Format, format_of
from model.tables.headers import DELIMITERS
from model.tables.lines import reason as reason_of
from model.tables.parquet import ParquetTable, labels_of
from model.tables.pieces import Piece, Rows, Scan
from model.tables.rows import class_names
from model.tables.table import Table, open_table
from model.tables.writing import STANDARD_OUTPUT, Target, Values
from model.tables.writing import open_table as open_output
from scoring.columns import Column, choose_columns, join_answers, scan_table, spelling_of
from scoring.comparing import Comparison
from scoring.errors import OutputError, ScoringError
from scoring.inputs import GLOB, find_inputs
from scoring.pipeline import Pipeline, one_thread
from scoring.scorer import Answers, Model, Scorer
from scoring.stores import is_url

_ADDED = pyarrow.schema([("label", pyarrow.string()), ("score", pyarrow.float64())])
_PIECE_BYTES = 256 * 1024
_AHEAD = 2  # pieces that are read and encoded, while one is scored and one is written
_SHOWN = 3
_DECIMALS = 6
_FORMS = {"csv": "CSV", "tsv": "text lines", "jsonl": "JSON", "parquet": "Parquet"}
_NOT_WRITTEN = (".xlsx", ".zip")

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class _File:
    """The file that is scored: what was found in it, and the columns that are kept."""

    table: Table
    scan: Scan
    text_column: str
    columns: tuple[Column, ...]
    model: Model

    def read(self, piece: Piece) -> Rows:
        """Reads the rows of a piece."""
        return self.table.read(piece, self.text_column, [column.name for column in self.columns])


@dataclass(slots=True)
class _Totals:
    """What was written: counts of rows, and the first rows of each reason."""

    rows: int = 0
    truncated: int = 0
    labels: Counter[str] = field(default_factory=Counter)
    bad: dict[str, list[int]] = field(default_factory=dict)

    def add(self, rows: Rows, answers: Answers) -> None:
        """Adds the rows of a piece."""
        self.rows += len(rows.texts)
        self.truncated += int(answers.truncated.sum())
        self.labels.update(filter(None, answers.labels))
        for index, reason in sorted({**answers.refused, **rows.faults}.items()):
            self.bad.setdefault(reason, []).append(rows.numbers[index])


def is_for_one_file(options: Namespace) -> bool:
    """Whether the options ask for one file, and not for a folder of parts."""
    output: str | None = options.output
    in_parts = options.parts or options.shard != (1, 1) or options.engine != "local"
    if in_parts or len(options.inputs) != 1:
        return False
    (name,) = options.inputs
    if is_url(name) or Path(name).is_dir() or (GLOB.search(name) and not Path(name).is_file()):
        return False
    if output is None or output == STANDARD_OUTPUT:
        return True
    if is_url(output) or output.endswith("/") or Path(output).is_dir():
        return False
    return format_of(output) is not None or output.lower().endswith(_NOT_WRITTEN)


def score_one(options: Namespace, say: Say) -> list[str]:
    """Scores a file, and says what was read; returns lines on what was counted and written.

    Raises:
        ScoringError: the output or an option cannot be used.
        model.errors.ModelError: the file or the checkpoint cannot be used.
    """
    if options.granularity == "sentence":
        raise ScoringError("--granularity sentence writes a folder: add --parts")
    (found,) = find_inputs(options.inputs, output=options.output or "").files
    target = choose_target(found.path, options.output, found.table.format)
    _check_target(target, found.path, overwrite=options.overwrite)
    target = replace(target, overwrite=options.overwrite, like=[Path(found.path)])
    spelling = spelling_of(options)
    with closing(open_table(found.table, spelling)) as table:
        scan = scan_table(table, spelling, _PIECE_BYTES)
        text, columns = choose_columns(
            [found.table], [scan], spelling=spelling, wanted=options.columns, added=_ADDED.names
        )
        scorer = Scorer(
            options.checkpoint,
            device=options.device,
            dtype=options.dtype,
            truncation=options.truncation,
            labels=options.labels,
            threads=options.workers or 0,
        )
        file = _File(table, scan, text, columns, scorer.model)
        compared = None if options.compare is None else _Compared(file, options.compare)
        _say_read(file, say, has_header=spelling.header)
        totals = _write(file, target, scorer, compared)
    more = _suggest(file, target) if compared is None else compared.comparison.lines()
    return [*_written(file, target, totals), *more]


def choose_target(source: str, output: str | None, source_format: Format) -> Target:
    """Chooses where the answers of a file go, and in what form; raises ScoringError.

    Without an output that the user names, `.scored` comes before the suffix.
    """
    if output == STANDARD_OUTPUT:
        if sys.stdout is sys.stderr:  # see `prepare_process`
            raise ScoringError("--output -: standard output is closed: name a file")
        if source_format == "parquet" and sys.stdout.isatty():
            raise ScoringError("--output -: Parquet is not for a terminal: name a file")
        return Target(output, source_format, None)
    if output is None:
        source_path = Path(source)
        form = format_of(source.removesuffix(".zip"))
        if source.lower().endswith(_NOT_WRITTEN):
            stem = source_path.name[: -len(source_path.suffix)]
            stem = Path(stem).stem if form and source.lower().endswith(".zip") else stem
            return Target(str(source_path.with_name(f"{stem}.scored.csv")), "csv", None)
        ends = "".join(source_path.suffixes[-2:] if form and form[1] else source_path.suffixes[-1:])
        output = str(source_path.with_name(f"{source_path.name.removesuffix(ends)}.scored{ends}"))
    form = format_of(output)
    if form is None or output.lower().endswith(_NOT_WRITTEN):
        raise ScoringError(f"--output {output}: this form is not written: name a .csv")
    return Target(output, *form)


def _check_target(target: Target, source: str, *, overwrite: bool) -> None:
    """Raises ScoringError for a target that cannot be written."""
    path = Path(target.path)
    if target.path == STANDARD_OUTPUT:
        return
    try:
        is_there = path.exists()
    except OSError as error:  # such as for a name that is too long
        raise OutputError(target.path, f"cannot be written: {reason_of(error)}") from error
    if is_there and path.samefile(source):
        raise ScoringError(f"--output {path}: is the input: name another file")
    if path.is_file() and not overwrite:
        raise OutputError(
            target.path, "is there already: replace it with --overwrite, or name another --output"
        )
    if not path.parent.is_dir():
        raise OutputError(target.path, f"the folder {path.parent} does not exist: make it first")


def _write(file: _File, target: Target, scorer: Scorer, compared: "_Compared | None") -> _Totals:
    """Reads, scores and writes the pieces."""
    totals = _Totals()
    columns, source = file.columns, file.table.file
    schema = pyarrow.schema([*((each.output_name, each.kind) for each in columns), *_ADDED])
    delimiter = file.scan.delimiter if source.format == "csv" else ","
    if target.format == source.format and source.compression != "xlsx":
        target = replace(target, copied=len(columns))
    pieces = file.scan.pieces

    def write(rows: Rows, answers: Answers) -> None:
        scores = np.round(answers.scores, _DECIMALS)
        totals.add(rows, answers)
        if compared is not None:
            compared.add(rows, answers.labels, scores.tolist())
        added = [answers.labels, pyarrow.array(scores, from_pandas=True)]
        table = pyarrow.table(added, schema=_ADDED)
        output.write(join_answers(rows.values, columns, table, typed=target.format == "parquet"))

    with (
        progress(file.scan.rows, "score") as advance,
        open_output(target, schema, delimiter=delimiter) as output,
        closing(
            Pipeline(scorer, lambda at: file.read(pieces[at]), lambda rows: advance(rows, ""))
        ) as pipeline,
        one_thread() as thread,
    ):
        written: Future[None] = thread.submit(lambda: None)
        for at in range(len(pieces)):
            scored = pipeline.score(at, range(at + 1, min(at + 1 + _AHEAD, len(pieces))))
            written.result()
            if target.path == STANDARD_OUTPUT:
                write(*scored)  # on this thread: its reader may keep it waiting for a signal
            else:
                written = thread.submit(write, *scored)
        written.result()
        if totals.rows and not totals.labels:
            reason, (first, *_) = next(iter(totals.bad.items()))
            fault = f"no row can be scored: {place(source.path, first)}: {reason}"
            raise TableError(source.path, fault)
    return totals


class _Compared:
    """Finds the column to compare with, and gives its values to a comparison."""

    def __init__(self, file: _File, wanted: str) -> None:
        names = [column.name for column in file.columns]
        found = find(names, wanted)
        if not found:
            raise ScoringError(
                f"--compare {wanted}: is none of the kept columns {', '.join(map(repr, names))}: "
                "name one of them"
            )
        self._index = names.index(found[0])
        self._classes: Sequence[str] = ()
        if isinstance(file.table, ParquetTable):
            self._classes = class_names(file.table.schema, found[0]) or ()
        values = (
            (value, number)
            for rows in map(file.read, file.scan.pieces)
            for index, (value, number) in enumerate(
                zip(self._values(rows.values), rows.numbers, strict=True)
            )
            if index not in rows.faults
        )
        path = file.table.file.path
        self.comparison = Comparison(path, found[0], file.model.labels, values)

    def add(self, rows: Rows, labels: Sequence[str | None], scores: Sequence[float]) -> None:
        """Adds the rows of a piece that have an answer."""
        values = self._values(rows.values)
        for value, number, label, score in zip(values, rows.numbers, labels, scores, strict=True):
            if label is not None:
                self.comparison.add(value, label, score, number)

    def _values(self, kept: Values) -> Iterator[object]:
        if isinstance(kept, list):
            yield from (row[self._index] for row in kept)
            return
        for value in labels_of(kept.column(self._index)):
            if isinstance(value, int) and 0 <= value < len(self._classes):
                value = self._classes[value]
            yield value


def _say_read(file: _File, say: Say, *, has_header: bool) -> None:
    source, scan, model = file.table.file, file.scan, file.model
    form = _FORMS[source.format]
    if source.format == "csv":
        form = f"{form} separated by {DELIMITERS.get(scan.delimiter, repr(scan.delimiter))}"
    if not has_header and source.format != "parquet":
        form += " without a header"
    say(f"reading {source.path}: {scan.rows:,} rows, {form}")
    others = [column.name for column in file.columns if column.name != file.text_column]
    kept = f"; also kept: {', '.join(map(repr, others))}" if others else ""
    say(f"the texts are in the column {file.text_column!r}{kept}")
    for column in file.columns:
        if column.name != column.output_name:
            say(f"the column {column.name!r} of the input is named {column.output_name!r}")
    say(f"model {model.name} ({model.version}, {model.dtype}): {', '.join(model.labels)}")


def _written(file: _File, target: Target, totals: _Totals) -> Iterator[str]:
    """Yields lines on what was counted and written."""
    bad = sum(map(len, totals.bad.values()))
    scored = totals.rows - bad
    counts = ", ".join(
        f"{name} {totals.labels[name]:,} ({totals.labels[name] / max(scored, 1):.1%})"
        for name in file.model.labels
    )
    yield f"scored {scored:,} of {totals.rows:,} rows: {counts}"
    if totals.truncated:
        yield (
            f"cut short: {totals.truncated:,} texts longer than {file.model.max_length} "
            "tokens; --truncation window reads them whole"
        )
    for reason, rows in totals.bad.items():
        first = place(file.table.file.path, rows[0])
        shown = ", ".join([first, *map(str, rows[1:_SHOWN])])
        count = f"{len(rows):,} row{'s' * (len(rows) > 1)}"
        yield f"no answer: {count} ({shown}{', ...' * (len(rows) > _SHOWN)}): {reason}"
    where = "standard output" if target.path == STANDARD_OUTPUT else target.path
    yield (
        f"written to {where}: each row of the input, with label and score (the probability of the "
        "label, from 0 to 1)"
    )


def _suggest(file: _File, target: Target) -> Iterator[str]:
    """Yields a line with a column of labels, with which the answers could be compared."""
    usual = [each.name for each in file.columns if each.name.casefold() in LABEL_COLUMNS]
    if usual and target.path != STANDARD_OUTPUT:
        yield f"to compare the answers with {usual[0]!r}: add --compare {usual[0]} --overwrite"
