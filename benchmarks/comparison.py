"""From a checkpoint to the figures of the service and its peers, taken in turns on one machine."""

import json
import multiprocessing
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks import open_loop, wrk
from benchmarks.client import predict_once
from benchmarks.errors import AnswerError, BenchmarkError
from benchmarks.labels import Answer, compare, read_answers
from benchmarks.loads import Closed, Load, Mixed, Open
from benchmarks.servers import ROOT, Program, Server, serve
from benchmarks.texts import Texts, write_literals
from benchmarks.wrk import Figures

# Far enough apart that no two loads on a server share a text, and short enough to be few tokens.
_FIRST_NUMBERS = 200_000
_CHECKED_AT_ONCE = 50
_CHECKED = 200
_MOST_SECONDS = 120.0

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Measurement:
    """What came of one load on one server.

    Args:
        figures: of the load itself.
        undisturbed: of a mixed load: its short texts without the long ones; else None.
    """

    figures: Figures
    undisturbed: Figures | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """What came of one start of a server.

    Args:
        start_seconds: until its first answer.
        resident_bytes: after all loads; None if unknown.
        measurements: by the names of the loads; none for a load that the server cannot answer.
    """

    start_seconds: float
    resident_bytes: int | None
    measurements: Mapping[str, Measurement]


@dataclass(frozen=True, slots=True)
class Comparison:
    """All runs.

    Args:
        loads: that were measured.
        runs: of each server by its name, one for each repetition.
        limits: rates of the model alone by the kind of its texts, one for each repetition.
    """

    loads: tuple[Load, ...]
    runs: Mapping[str, Sequence[Run]]
    limits: Mapping[str, Sequence[float]]


@dataclass(frozen=True, slots=True)
class Timing:
    """How long things are measured.

    Args:
        repetitions: how often each server is started and measured.
        warm_up: seconds of each load before it is measured.
        seconds: that each load is measured.
    """

    repetitions: int
    warm_up: float
    seconds: float


class Bench:
    """What is measured, with what, how.

    Args:
        checkpoint: the folder that all serve.
        texts: that they are asked.
        folder: where logs and texts for the client go.
        timing: how long.
        max_batch_tokens: of the service, for the model alone.
        report: is told what is done next.
    """

    def __init__(
        self,
        checkpoint: Path,
        texts: Texts,
        *,
        folder: Path,
        timing: Timing,
        max_batch_tokens: int,
        report: Report,
    ) -> None:
        self._checkpoint = checkpoint
        self._texts = texts
        self._checked = texts.sentences[:_CHECKED]
        self._folder = folder
        self._timing = timing
        self._max_batch_tokens = max_batch_tokens
        self._report = report
        self._files = {"sentences": folder / "sentences", "reviews": folder / "reviews"}
        write_literals(texts.sentences, self._files["sentences"])
        write_literals(texts.reviews, self._files["reviews"])

    def run(self, programs: Sequence[Program], loads: Sequence[Load]) -> Comparison:
        """Measures all servers in turns, never two at once; who is first changes every time.

        Args:
            programs: the servers; the first is ours.
            loads: to measure.

        Raises:
            BenchmarkError: a server did not start or ended, an answer is not right, or the
                servers do not answer the same labels.
        """
        self._report("checking that all answer the same labels")
        ours, *others = [(program, self._labels(program)) for program in programs]
        for program, answers in others:
            compare(ours[1], answers, sentences=self._checked, peer=program.name)
        runs: dict[str, list[Run]] = {program.name: [] for program in programs}
        limits: dict[str, list[float]] = {"sentences": [], "reviews": []}
        # The client has a process of its own, as it would have elsewhere, and never a server's.
        spawn = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(1, spawn, _leave_interrupts) as client:
            for repetition in range(self._timing.repetitions):
                turn = repetition % len(programs)
                for program in (*programs[turn:], *programs[:turn]):
                    self._report(f"{program.name}, {repetition + 1} of {self._timing.repetitions}")
                    with serve(program, self._checkpoint, self._folder) as server:
                        found = self._measure(program, server, loads, client)
                        memory = server.resident_bytes()
                    runs[program.name].append(Run(server.start_seconds, memory, found))
                self._report(f"the model alone, {repetition + 1} of {self._timing.repetitions}")
                for kind, rate in zip(limits, self._limits(), strict=True):
                    limits[kind].append(rate)
        return Comparison(tuple(loads), runs, limits)

    def _labels(self, program: Program) -> list[Answer]:
        sentences = self._checked
        with serve(program, self._checkpoint, self._folder) as server:
            return [
                answer
                for at in range(0, len(sentences), _CHECKED_AT_ONCE)
                for answer in read_answers(
                    predict_once(server.port, sentences[at : at + _CHECKED_AT_ONCE])
                )
            ]

    def _measure(
        self, program: Program, server: Server, loads: Sequence[Load], client: Executor
    ) -> dict[str, Measurement]:
        found: dict[str, Measurement] = {}
        for number, load in enumerate(loads, start=1):
            first = number * _FIRST_NUMBERS
            if isinstance(load, Closed):
                if load.route == "attention" and not program.explains:
                    continue
                found[load.name] = Measurement(self._closed(load, server, first))
            elif isinstance(load, Mixed):
                found[load.name] = self._mixed(load, server, first)
            else:
                reached = found[load.of].figures.rate
                found[load.name] = Measurement(self._open(load, reached, server, first, client))
        return found

    def _closed(self, load: Closed, server: Server, first: int) -> Figures:
        run = partial(wrk.run, load, texts=self._files[load.texts], port=server.port)
        run(first=first, seconds=self._timing.warm_up)
        seconds = self._timing.seconds
        first += _FIRST_NUMBERS // 2
        # A slow server gets as long as each connection needs for an answer.
        while (found := run(first=first, seconds=seconds)).requests < load.connections:
            first += (found.requests + load.connections) * load.sentences
            seconds *= 2
            if seconds > _MOST_SECONDS:
                raise AnswerError(f"{load.name}: not an answer for each connection in {seconds} s")
        return found

    def _mixed(self, load: Mixed, server: Server, first: int) -> Measurement:
        alone = self._closed(load.short, server, first)
        timing = self._timing
        with self._background(load.long, server, first + _FIRST_NUMBERS // 4, timing.seconds):
            beside = wrk.run(
                load.short,
                texts=self._files[load.short.texts],
                port=server.port,
                first=first + 3 * _FIRST_NUMBERS // 4,
                seconds=timing.seconds,
            )
        return Measurement(beside, undisturbed=alone)

    @contextmanager
    def _background(
        self, load: Closed, server: Server, first: int, seconds: float
    ) -> Iterator[None]:
        with wrk.running(
            load,
            texts=self._files[load.texts],
            port=server.port,
            first=first,
            seconds=seconds + 1,
        ):
            yield

    def _open(
        self, load: Open, reached: float, server: Server, first: int, client: Executor
    ) -> Figures:
        return client.submit(
            open_loop.run,
            load.share * reached,
            sentences=self._texts.sentences,
            port=server.port,
            first=first,
            seconds=self._timing.seconds,
        ).result()

    def _limits(self) -> list[float]:
        command = [sys.executable, "-m", "benchmarks.limit"]
        command += ["--checkpoint", str(self._checkpoint)]
        command += ["--max-batch-tokens", str(self._max_batch_tokens)]
        command += ["--seconds", str(self._timing.seconds), *map(str, self._files.values())]
        done = subprocess.run(  # noqa: S603 - a module of our own
            command, cwd=ROOT, capture_output=True, text=True, check=False
        )
        if done.returncode:
            lines = done.stderr.strip().splitlines() or ["it said nothing"]
            raise BenchmarkError(f"the model alone: {lines[-1]}")
        rates: list[float] = json.loads(done.stdout)
        return rates


def _leave_interrupts() -> None:
    """Leaves them to the process that started this one, which then ends the servers too."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
