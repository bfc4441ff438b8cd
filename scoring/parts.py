"""Scores the parts of a job: reads the rows of each, scores them, and writes them.

Every engine calls `load` once in each process, and then `score_part`.
"""

import hashlib
from collections import Counter
from collections.abc import Collection
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow

from model.allocator import share_one_heap
from model.errors import ModelError, TableError
from model.tables.parquet import keep_rows
from model.types import EncodedText
from scoring.answers import Answers
from scoring.errors import EngineError, OutputError, ScoringError
from scoring.output.folder import Output
from scoring.output.manifest import BadRow, Manifest, UnitRecord
from scoring.output.writing import UNWRITABLE, part_bytes, part_name, unwritable
from scoring.reading import UnitReader, UnitRows
from scoring.scorer import Scorer

_SAME = ("version", "device", "dtype")


@dataclass(frozen=True, slots=True)
class Job:
    """Everything that a process needs besides the number of a part; `manifest` is JSON."""

    manifest: str
    output: str
    checkpoint: str
    device: str
    dtype: str
    threads: int


@dataclass(frozen=True, slots=True)
class UnitFailure:
    """A unit that has no part, and why; `stops` if the other units would fail as well."""

    number: int
    message: str
    stops: bool = False


Result = UnitRecord | UnitFailure
# The rows of a part, their encodings (None for a rejected text), and the reasons of the rejected.
_Read = tuple[UnitRows, list[EncodedText | None], dict[int, str]]


class PartScorer:
    """A loaded model that scores parts of one job.

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
        self._reading = ThreadPoolExecutor(1)
        self._ahead: tuple[int, Future[_Read]] | None = None
        loaded = self._scorer.model
        if any(getattr(loaded, name) != getattr(wanted, name) for name in _SAME):
            raise EngineError(
                f"{job.checkpoint}: a worker has model {loaded.version} in {loaded.dtype} on "
                f"{loaded.device}, the job {wanted.version} in {wanted.dtype} on {wanted.device}: "
                "give all workers the same"
            )

    def score(self, number: int, following: int | None = None) -> Result:
        """Scores a part; the following one is read and encoded in another thread meanwhile."""
        if self._ahead is None or self._ahead[0] != number:
            self._ahead = (number, self._reading.submit(self._read, number))
        reading = self._ahead[1]
        try:
            read = reading.result()
            if following is not None:
                self._ahead = (following, self._reading.submit(self._read, following))
            record, content = self._score(number, read)
            self._output.write(record, content)
        except Exception as error:
            return self._failure(number, error)
        return record

    def close(self) -> None:
        """Closes the file that is open."""
        self._reading.shutdown()
        self._reader.close()

    def _read(self, number: int) -> _Read:
        rows = self._reader.read(self._manifest.units[number])
        return rows, *self._scorer.encode(rows.texts)

    def _score(self, number: int, read: _Read) -> tuple[UnitRecord, bytes]:
        """Returns what is written of a part, and its bytes."""
        rows, encoded, reasons = read
        source = self._manifest.sources[self._manifest.units[number].source]
        answers = self._scorer.answer(encoded, reasons)
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
        return record, content

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


_scorer: PartScorer | None = None


def load(job: Job) -> str | None:
    """Loads the model in this process; returns why that fails."""
    global _scorer
    try:
        _scorer = PartScorer(job)
    except (ScoringError, ModelError) as error:
        return str(error)
    return None


def score_part(number: int, following: int | None = None) -> Result:
    """Scores a part in this process, and reads the following one meanwhile."""
    if _scorer is None:
        raise EngineError("no model is loaded")
    return _scorer.score(number, following)
