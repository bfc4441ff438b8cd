"""Does the work of a unit: reads its rows, scores them, and writes its part.

The next unit is read and encoded, and the last one is written, while one is computed.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Collection
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow

from model.allocator import share_one_heap
from model.errors import TableError
from model.reading import EncodedText
from model.tables.parquet import keep_rows
from scoring.answers import Answers
from scoring.engines.base import Job, Result, UnitFailure
from scoring.errors import EngineError, OutputError, ScoringError
from scoring.output.folder import Output
from scoring.output.manifest import BadRow, Manifest, UnitRecord
from scoring.output.writing import UNWRITABLE, part_bytes, part_name, unwritable
from scoring.reading import UnitReader, UnitRows
from scoring.scorer import Scorer

#: returns the number of the next unit; None: there is none now, or, if it may wait, never again
Next = Callable[[bool], int | None]

_SAME = ("version", "device", "dtype")


@dataclass(slots=True)
class Prepared:
    """A unit whose rows are read and encoded; a rejected text is None and has a reason."""

    number: int
    rows: UnitRows
    encodings: list[EncodedText | None]
    reasons: dict[int, str]


@dataclass(frozen=True, slots=True)
class Computed:
    """The result of a unit, and the bytes of its part."""

    record: UnitRecord
    part: bytes


class Worker:
    """A loaded model that does units of one job.

    Raises ScoringError if the model is not the one of the manifest, or the device is not there.
    """

    def __init__(self, job: Job) -> None:
        share_one_heap()
        pyarrow.set_cpu_count(1)
        self._manifest = Manifest.model_validate_json(job.manifest)
        self._output = Output(job.output)
        self._output.follow(self._manifest)
        self._reader = UnitReader(self._manifest)
        wanted = self._manifest.model
        self._scorer = Scorer(
            job.checkpoint,
            device=job.device,
            dtype=job.dtype,
            truncation=wanted.truncation,
            granularity=wanted.granularity,
            labels=wanted.labels,
            threads=job.threads,
            trial=False,  # the process that planned the job has tried it
        )
        loaded = self._scorer.model
        if any(getattr(loaded, name) != getattr(wanted, name) for name in _SAME):
            raise EngineError(
                f"{job.checkpoint}: a worker has model {loaded.version} in {loaded.dtype} on "
                f"{loaded.device}, the job {wanted.version} in {wanted.dtype} on {wanted.device}: "
                "give all workers the same"
            )

    def do(self, number: int) -> Result:
        """Does one unit."""
        return self.write(self.compute(self.prepare(number)))

    def close(self) -> None:
        """Closes the file that is open."""
        self._reader.close()

    def run(self, following: Next, report: Callable[[Result], None]) -> None:
        """Does units until there are no more."""
        with ThreadPoolExecutor(1) as reading, ThreadPoolExecutor(1) as writing:
            ahead: Future[Prepared | UnitFailure] | None = None
            written: Future[None] | None = None
            while True:
                number = following(ahead is None)
                if number is None and ahead is None:
                    break
                upcoming = None if number is None else reading.submit(self.prepare, number)
                if ahead is not None:
                    computed = self.compute(ahead.result())
                    if written is not None:
                        written.result()  # at most one part waits to be written
                    written = writing.submit(self._write_and_report, computed, report)
                ahead = upcoming
            if written is not None:
                written.result()
        self.close()

    def prepare(self, number: int) -> Prepared | UnitFailure:
        """Reads and encodes a unit; one call at a time."""
        try:
            rows = self._reader.read(self._manifest.units[number])
            return Prepared(number, rows, *self._scorer.encode(rows.texts))
        except Exception as error:
            return self._failure(number, error)

    def compute(self, prepared: Prepared | UnitFailure) -> Computed | UnitFailure:
        """Scores the rows of a unit; one call at a time."""
        if isinstance(prepared, UnitFailure):
            return prepared
        try:
            return self._score(prepared)
        except Exception as error:
            return self._failure(prepared.number, error)

    def _score(self, prepared: Prepared) -> Computed:
        number, rows = prepared.number, prepared.rows
        source = self._manifest.sources[self._manifest.units[number].source]
        answers = self._scorer.answer(prepared.encodings, prepared.reasons)
        refused = dict(answers.refused)
        kept, good = _without(refused, rows.values, answers)
        try:
            content = part_bytes(self._manifest, source, kept, good)
        except UNWRITABLE:
            refused |= unwritable(self._manifest, rows.values)
            kept, good = _without(refused, rows.values, answers)
            content = part_bytes(self._manifest, source, kept, good)
        bad = [
            *rows.bad,
            *(
                BadRow(file=source.path, row=rows.numbers[index], reason=reason)
                for index, reason in refused.items()
            ),
        ]
        bad.sort(key=lambda row: row.row)
        labels = Counter(good.label_ids.tolist())
        record = UnitRecord(
            number=number,
            rows_in=len(rows.texts) + len(rows.bad),
            rows_out=len(good.label_ids),
            bad=tuple(bad),
            truncated=int(good.truncated.sum()),
            tokens=good.tokens,
            labels={name: labels[index] for index, name in enumerate(self._manifest.model.labels)},
            part=part_name(self._manifest, number),
            size=len(content),
            sha256=hashlib.sha256(content).hexdigest(),
            job=self._manifest.job,
        )
        return Computed(record, content)

    def write(self, computed: Computed | UnitFailure) -> Result:
        """Writes the part of a unit."""
        if isinstance(computed, UnitFailure):
            return computed
        try:
            self._output.write(computed.record, computed.part)
        except Exception as error:
            return self._failure(computed.record.number, error)
        return computed.record

    def _write_and_report(
        self, computed: Computed | UnitFailure, report: Callable[[Result], None]
    ) -> None:
        report(self.write(computed))

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


def _without(refused: Collection[int], values: Any, answers: Answers) -> tuple[Any, Answers]:  # noqa: ANN401
    """Leaves out refused rows of kept values and of answers."""
    if not refused:
        return values, answers
    good = [index for index in range(len(answers.label_ids)) if index not in refused]
    if isinstance(values, pyarrow.Table):
        values = keep_rows(values, good)
    else:
        values = [values[index] for index in good]
    return values, answers.select(np.array(good, np.intp))
