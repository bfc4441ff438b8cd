"""Scores one file into one file: its columns, then label and score, each row in its place."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from model.cli.progress import progress
from model.errors import place
from model.tables.columns import LABEL_COLUMNS, find
from model.tables.parquet import ParquetInput, labels_of
from model.tables.rows import class_names
from model.tables.writing import STANDARD_OUTPUT, Target, Values, open_table
from scoring.comparing import Comparison
from scoring.errors import InputFileError, OptionError
from scoring.inputs import GLOB, find_inputs
from scoring.job import Options, find_model
from scoring.output.manifest import Manifest
from scoring.output.table import check_target, choose_target, schema_of, with_answers
from scoring.plan import make_manifest
from scoring.reading import UnitReader, UnitRows
from scoring.scorer import Scorer
from scoring.stores import is_url, store_of

ADDED = ("label", "score")
_UNIT_BYTES = 256 * 1024
_BATCH_ROWS = 1_000
_SHOWN = 3
_DECIMALS = 6
_DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_FORMS = {"csv": "CSV", "tsv": "text lines", "jsonl": "JSON", "parquet": "Parquet"}

Say = Callable[[str], None]


@dataclass(slots=True)
class _Totals:
    """What was written: counts of rows, and the first rows of each fault."""

    rows: int = 0
    truncated: int = 0
    labels: Counter[str] = field(default_factory=Counter)
    bad: dict[str, list[int]] = field(default_factory=dict)


def is_for_one_file(options: Options, output: str | None, *, parts: bool) -> bool:
    """Whether the options ask for one file, and not for a folder of parts."""
    if parts or options.shard != (1, 1) or len(options.inputs) != 1:
        return False
    (name,) = options.inputs
    if is_url(name) or Path(name).is_dir() or (GLOB.search(name) and not Path(name).is_file()):
        return False
    if output is None or output == STANDARD_OUTPUT:
        return True
    if is_url(output) or output.endswith("/") or Path(output).is_dir():
        return False
    suffixes = (".csv", ".tsv", ".txt", ".jsonl", ".ndjson", ".json", ".parquet", ".xlsx", ".zip")
    packed = tuple(f"{suffix}{end}" for suffix in suffixes for end in (".gz", ".zst", ".bz2"))
    return output.lower().endswith(suffixes + packed)


def score_one(
    options: Options, output: str | None, *, compare: str | None, threads: int, say: Say
) -> None:
    """Scores a file, and says what was read, counted and written.

    Args:
        output: path, `-` for standard output, or None for a name beside the input.
        compare: a column of labels to compare the answers with.
        threads: that compute; 0: as many as there are.

    Raises:
        ScoringError: an input, the output or an option cannot be used.
        model.errors.ModelError: the checkpoint cannot be used.
    """
    if options.granularity == "sentence":
        raise OptionError("--granularity sentence writes a folder: add --parts")
    (file,) = find_inputs(options.inputs, output=output or "").files
    target = choose_target(file.path, output, file.format)
    check_target(target, file.path, overwrite=options.overwrite)
    checkpoint, model = find_model(options)
    manifest = make_manifest(
        [file],
        text_column=options.text_column,
        columns=options.columns,
        output_format="input",
        part_bytes=_UNIT_BYTES,
        model=model,
        delimiter=options.delimiter,
        encoding=options.encoding,
        no_header=options.no_header,
        added=ADDED,
    )
    compared = _Compared(manifest, compare) if compare is not None else None
    _say_read(manifest, say)
    scorer = Scorer(
        checkpoint,
        device=options.device,
        dtype=options.dtype,
        truncation=options.truncation,
        labels=options.labels,
        threads=threads,
        trial=False,
    )
    totals = _write(manifest, target, scorer, compared)
    _say_written(manifest, target, totals, say)
    if compared is not None:
        for line in compared.comparison.lines():
            say(line)
    else:
        _suggest(manifest, target, say)


def _write(
    manifest: Manifest, target: Target, scorer: Scorer, compared: "_Compared | None"
) -> _Totals:
    """Reads, scores and writes unit after unit."""
    source = manifest.sources[0]
    totals = _Totals()
    reader = UnitReader(manifest, keeps_bad=True)
    columns = manifest.columns
    stored = None
    if source.format == "parquet":
        with ParquetInput(source.path, store_of(source.path).open(source.path)) as parquet:
            stored = parquet.schema([column.name for column in columns])
    delimiter = source.delimiter if source.format == "csv" else ","
    typed = target.format == "parquet"
    try:
        with (
            progress(source.rows, "score") as advance,
            open_table(target, schema_of(columns, stored), delimiter=delimiter) as table,
        ):
            for unit in manifest.units:
                rows = reader.read(unit)
                labels, scores = _answer(manifest, rows, scorer, totals, advance)
                if compared is not None:
                    compared.add(rows, labels, scores)
                table.write(with_answers(rows.every, columns, labels, scores, typed=typed))
            if totals.rows and not totals.labels:
                fault, (first, *_) = next(iter(totals.bad.items()))
                raise InputFileError(
                    source.path, f"no row can be scored: {place(source.path, first)}: {fault}"
                )
    finally:
        reader.close()
    return totals


def _answer(
    manifest: Manifest,
    rows: UnitRows,
    scorer: Scorer,
    totals: _Totals,
    advance: Callable[[int, str], None],
) -> tuple[list[str | None], list[float | None]]:
    """Returns label and score of each row of a unit in order, None for bad ones."""
    answers: dict[int, tuple[str, float]] = {}
    faults = {bad.row: bad.reason for bad in rows.bad}
    for start in range(0, len(rows.texts), _BATCH_ROWS):
        numbers = rows.numbers[start : start + _BATCH_ROWS]
        batch = scorer.score(rows.texts[start : start + _BATCH_ROWS])
        for index, number in enumerate(numbers):
            if index in batch.refused:
                faults[number] = batch.refused[index]
                continue
            label = manifest.model.labels[batch.label_ids[index]]
            answers[number] = (label, round(float(batch.scores[index]), _DECIMALS))
            totals.truncated += int(batch.truncated[index])
        advance(len(numbers), "")
    if rows.bad:
        advance(len(rows.bad), "")
    totals.rows += len(rows.numbers) + len(rows.bad)
    totals.labels.update(label for label, _ in answers.values())
    order = sorted([*rows.numbers, *(bad.row for bad in rows.bad)])
    for number in filter(faults.__contains__, order):
        totals.bad.setdefault(faults[number], []).append(number)
    found = [answers.get(number, (None, None)) for number in order]
    return [label for label, _ in found], [score for _, score in found]


class _Compared:
    """Finds the column to compare with, and gives its values to a comparison."""

    def __init__(self, manifest: Manifest, wanted: str) -> None:
        source = manifest.sources[0]
        names = [column.name for column in manifest.columns]
        found = find(names, wanted)
        if not found:
            raise OptionError(
                f"--compare {wanted}: is none of the kept columns {', '.join(map(repr, names))}: "
                "name one of them"
            )
        self._index = names.index(found[0])
        self._classes: Sequence[str] = ()
        if source.format == "parquet":
            with ParquetInput(source.path, store_of(source.path).open(source.path)) as parquet:
                self._classes = class_names(parquet.metadata, found[0]) or ()
        with closing(UnitReader(manifest)) as reader:
            values = (
                pair
                for rows in map(reader.read, manifest.units)
                for pair in zip(self._values(rows.values), rows.numbers, strict=True)
            )
            labels = manifest.model.labels
            self.comparison = Comparison(source.path, found[0], labels, values)

    def add(
        self, rows: UnitRows, labels: Sequence[str | None], scores: Sequence[float | None]
    ) -> None:
        """Adds the rows of a unit that have an answer."""
        order = sorted([*rows.numbers, *(bad.row for bad in rows.bad)])
        values = zip(self._values(rows.every), order, labels, scores, strict=True)
        for value, number, label, score in values:
            if label is not None and score is not None:
                self.comparison.add(value, label, score, number)

    def _values(self, kept: Values) -> Iterator[object]:
        if isinstance(kept, list):
            yield from (row[self._index] for row in kept)
            return
        for value in labels_of(kept.column(self._index)):
            if isinstance(value, int) and 0 <= value < len(self._classes):
                value = self._classes[value]
            yield value


def _say_read(manifest: Manifest, say: Say) -> None:
    source = manifest.sources[0]
    form = _FORMS[source.format]
    if source.format == "csv":
        separated = _DELIMITERS.get(source.delimiter, repr(source.delimiter))
        form = f"{form} separated by {separated}"
    if source.no_header:
        form += " without a header"
    say(f"reading {source.path}: {source.rows:,} rows, {form}")
    others = [column.name for column in manifest.columns if column.name != manifest.text_column]
    kept = f"; also kept: {', '.join(map(repr, others))}" if others else ""
    say(f"the texts are in the column {manifest.text_column!r}{kept}")
    for column in manifest.columns:
        if column.name != column.output_name:
            say(f"the column {column.name!r} of the input is named {column.output_name!r}")
    model = manifest.model
    say(f"model {model.name} ({model.version}, {model.dtype}): {', '.join(model.labels)}")


def _say_written(manifest: Manifest, target: Target, totals: _Totals, say: Say) -> None:
    bad = sum(map(len, totals.bad.values()))
    scored = totals.rows - bad
    counts = ", ".join(
        f"{name} {totals.labels[name]:,} ({totals.labels[name] / max(scored, 1):.1%})"
        for name in manifest.model.labels
    )
    say(f"scored {scored:,} of {totals.rows:,} rows: {counts}")
    if totals.truncated:
        say(
            f"cut short: {totals.truncated:,} texts longer than {manifest.model.max_length} "
            "tokens; --truncation window reads them whole"
        )
    for reason, rows in totals.bad.items():
        first = place(manifest.sources[0].path, rows[0])
        shown = ", ".join([first, *map(str, rows[1:_SHOWN])])
        count = f"{len(rows):,} row{'s' * (len(rows) > 1)}"
        say(f"no answer: {count} ({shown}{', ...' * (len(rows) > _SHOWN)}): {reason}")
    where = "standard output" if target.path == STANDARD_OUTPUT else target.path
    say(
        f"written to {where}: each row of the input, with label and score (the probability of the "
        "label, from 0 to 1)"
    )


def _suggest(manifest: Manifest, target: Target, say: Say) -> None:
    """Names a column of labels, with which the answers could be compared."""
    usual = [each.name for each in manifest.columns if each.name.casefold() in LABEL_COLUMNS]
    if usual and target.path != STANDARD_OUTPUT:
        say(f"to compare the answers with {usual[0]!r}: add --compare {usual[0]} --overwrite")
