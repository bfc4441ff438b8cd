"""Scores the parts of a job: reads the rows of each, scores them, and writes them.

Every engine calls `load` once in each process, and then `score_part`.
"""

import hashlib
from collections import Counter
from collections.abc import Collection
from contextlib import closing
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow

from model.cli.process import share_one_heap
from model.errors import ModelError, TableError
from model.tables.columns import Columns
from model.tables.parquet import ParquetTable
from model.tables.pieces import Rows, TableFile
from model.tables.table import TextTable
from model.tables.writing import Values
from scoring.errors import OutputError, ScoringError
from scoring.folder import Output
from scoring.manifest import BadRow, Manifest, Unit, UnitRecord
from scoring.pipeline import Pipeline
from scoring.scorer import Answers, Scorer
from scoring.stores import store_of
from scoring.writing import UNWRITABLE, part_bytes, unwritable

_OPTIONS = ("dtype", "truncation", "granularity", "labels")
_SAME = ("version", "device", "dtype")


@dataclass(frozen=True, slots=True)
class Job:
    """Everything that a process needs besides the number of a part."""

    manifest: Manifest
    output: str
    checkpoint: str
    device: str
    threads: int


@dataclass(frozen=True, slots=True)
class UnitFailure:
    """A unit that has no part, and why; `stops` if the other units would fail as well."""

    number: int
    message: str
    stops: bool = False


Result = UnitRecord | UnitFailure


class PartScorer:
    """A loaded model that scores parts of one job.

    Raises ScoringError if the model is not the one of the manifest, or the device is not there.
    """

    def __init__(self, job: Job) -> None:
        share_one_heap()
        pyarrow.set_cpu_count(1)
        self._manifest = job.manifest
        self._output = Output(job.output)
        self._output.follow(self._manifest)
        self._reader = PartReader(self._manifest)
        wanted = self._manifest.model
        scorer = Scorer(
            job.checkpoint,
            **{name: getattr(wanted, name) for name in _OPTIONS},
            device=job.device,
            threads=job.threads,
            trial=False,  # the process that planned the job has tried it
        )
        self._pipeline = Pipeline(scorer, lambda at: self._reader.read(job.manifest.units[at]))
        loaded = scorer.model
        if any(getattr(loaded, name) != getattr(wanted, name) for name in _SAME):
            raise ScoringError(
                f"{job.checkpoint}: a worker has model {loaded.version} in {loaded.dtype} on "
                f"{loaded.device}, the job {wanted.version} in {wanted.dtype} on {wanted.device}: "
                "give all workers the same"
            )

    def score(self, number: int, *following: int) -> Result:
        """Scores and writes a part; the following are read and encoded meanwhile."""
        try:
            return self._write(number, *self._pipeline.score(number, following))
        except Exception as error:
            return self._failure(number, error)

    def close(self) -> None:
        """Closes the file that is open."""
        self._pipeline.close()
        self._reader.close()

    def _write(self, number: int, rows: Rows, answers: Answers) -> UnitRecord:
        """Writes a part, and returns what is recorded of it."""
        manifest = self._manifest
        source = manifest.sources[manifest.units[number].source]
        refused = {**answers.refused, **rows.faults}
        try:
            good = _good(rows.values, answers, refused)
            content = part_bytes(manifest, source, *good)
        except UNWRITABLE:
            refused = unwritable(manifest, rows.values) | refused
            good = _good(rows.values, answers, refused)
            content = part_bytes(manifest, source, *good)
        answers = good[1]
        labels = Counter(answers.label_ids.tolist())
        record = UnitRecord(
            number=number,
            rows_in=len(rows.texts),
            rows_out=len(answers.label_ids),
            bad=tuple(
                BadRow(file=source.path, row=rows.numbers[index], reason=refused[index])
                for index in sorted(refused)
            ),
            truncated=int(answers.truncated.sum()),
            tokens=answers.tokens,
            labels={name: labels[index] for index, name in enumerate(manifest.model.labels)},
            part=manifest.part_name(number),
            size=len(content),
            sha256=hashlib.sha256(content).hexdigest(),
            job=manifest.job,
        )
        self._output.write(record, content, source.path)
        return record

    def _failure(self, number: int, error: Exception) -> UnitFailure:
        """Describes an error of a unit; foreign messages may hold the text of a user."""
        if isinstance(error, ScoringError | TableError):
            return UnitFailure(number, str(error), stops=isinstance(error, OutputError))
        unit = self._manifest.units[number]
        return UnitFailure(
            number,
            f"{self._manifest.sources[unit.source].path}: part {number}, {unit.rows:,} rows from "
            f"{unit.first_row:,}: the worker failed with {type(error).__name__}",
        )


def _good(values: Values, answers: Answers, refused: Collection[int]) -> tuple[Values, Answers]:
    """Leaves out refused rows of kept values and of answers."""
    if not refused:
        return values, answers
    good = [index for index in range(len(answers.label_ids)) if index not in refused]
    if isinstance(values, list):
        values = [values[index] for index in good]
    else:
        try:
            values = values.take(good or pyarrow.array([], pyarrow.int64()))
        except pyarrow.ArrowNotImplementedError:  # of some types only slices can be taken
            slices = (values.slice(index, 1) for index in good)
            values = pyarrow.concat_tables([values.slice(0, 0), *slices])
    return values, answers.select(np.array(good, np.intp))


class PartReader:
    """Reads parts of a job. Those of one compressed file are fastest in their order."""

    def __init__(self, manifest: Manifest) -> None:
        self._manifest = manifest
        self._columns = [column.name for column in manifest.columns]
        self._open: tuple[int, TextTable] | None = None

    def read(self, unit: Unit) -> Rows:
        """Reads one part.

        Raises:
            TableError: the file cannot be read, or is not what it was when the job was planned.
        """
        manifest = self._manifest
        source = manifest.sources[unit.source]
        opened = partial(store_of(source.path).open, source.path)
        file = TableFile(source.path, source.format, source.compression, opened)
        if source.format == "parquet":
            kinds = {column.name: column.kind for column in manifest.columns}
            with closing(ParquetTable(file, kinds=kinds)) as parquet:
                if parquet.footer_sha256 != source.sha256:
                    raise file.changed()
                return parquet.read(unit, manifest.text_column, self._columns)
        if self._open is None or self._open[0] != unit.source:
            self.close()
            spelling = Columns(encoding=source.encoding, sheet=source.sheet)
            table = TextTable(file, spelling, header=source.header, delimiter=source.delimiter)
            self._open = (unit.source, table)
        return self._open[1].read(unit, manifest.text_column, self._columns)

    def close(self) -> None:
        """Closes the file that is open."""
        if self._open is not None:
            self._open[1].close()
            self._open = None


_scorer: PartScorer | None = None


def load(job: Job) -> str | None:
    """Loads the model in this process; returns why that fails."""
    global _scorer
    try:
        _scorer = PartScorer(job)
    except (ScoringError, ModelError) as error:
        return str(error)
    return None


def score_part(number: int, *following: int) -> Result:
    """Scores a part in this process; see `PartScorer.score`."""
    if _scorer is None:
        raise ScoringError("no model is loaded")
    return _scorer.score(number, *following)
