"""Measures the service and its peers on a checkpoint, in turns on one machine."""

import multiprocessing
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.client import predict_once
from benchmarks.errors import BenchmarkError
from benchmarks.labels import Answer, compare, read_answers
from benchmarks.loads import Load, limiting
from benchmarks.measure import Measurement, Meter, Timing
from benchmarks.servers import ROOT, Program, Server, environment, serve
from benchmarks.texts import Texts

_CHECKED_AT_ONCE = 50
_CHECKED = 200

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Run:
    """The result of one start of a server.

    Args:
        start_seconds: until its first answer.
        memory_bytes: of all its processes after all loads; None if unknown.
        measurements: by load name, without loads that the server cannot answer.
    """

    start_seconds: float
    memory_bytes: int | None
    measurements: Mapping[str, Measurement]


@dataclass(frozen=True, slots=True)
class Comparison:
    """All runs.

    Args:
        loads: that were measured.
        runs: by server name, one for each repetition.
        limits: rates of the model alone, by load name and then by the name of each server that has
            a way to measure it, one for each repetition; each is measured right after that server
            under that load.
    """

    loads: tuple[Load, ...]
    runs: Mapping[str, Sequence[Run]]
    limits: Mapping[str, Mapping[str, Sequence[float]]]


class Bench:
    """Runs a benchmark.

    Args:
        checkpoint: the folder that all servers serve.
        texts: that they are asked.
        folder: for logs and the client's texts.
        timing: repetitions and durations.
        max_batch_tokens: of the service, for the model alone.
        report: is called with each next step.
        busy: command that tells how busy the GPU is; empty if nothing does.
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
        busy: Sequence[str] = (),
    ) -> None:
        self._checkpoint = checkpoint
        self._texts = texts
        self._checked = texts.sentences[:_CHECKED]
        self._folder = folder
        self._timing = timing
        self._max_batch_tokens = max_batch_tokens
        self._report = report
        self._busy = busy

    def run(self, programs: Sequence[Program], loads: Sequence[Load]) -> Comparison:
        """Measures all servers in turns, never two at once, in another order each time.

        All start before the first is measured, and all but the measured one are paused. So a load
        reaches one server right after the other, and a drift in the machine's speed affects all.

        Args:
            programs: the servers; the first is ours.
            loads: to measure.

        Raises:
            BenchmarkError: a server did not start or ended, an answer is wrong, or the servers do
                not answer the same labels.
        """
        runs: dict[str, list[Run]] = {program.name: [] for program in programs}
        limits: dict[str, dict[str, list[float]]] = {
            load.name: {program.name: [] for program in programs if program.alone}
            for load in loads
            if limiting(load)
        }
        # The client has a process of its own, as it would have in practice.
        spawn = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(1, spawn, _leave_interrupts) as client:
            meter = Meter(
                self._texts,
                folder=self._folder,
                timing=self._timing,
                client=client,
                busy=self._busy,
            )
            for repetition in range(self._timing.repetitions):
                self._report(f"repetition {repetition + 1} of {self._timing.repetitions}")
                turn = repetition % len(programs)
                order = [*programs[turn:], *programs[:turn]]
                for name, run in self._repetition(order, loads, meter, programs[0], limits).items():
                    runs[name].append(run)
        return Comparison(tuple(loads), runs, limits)

    def _check(self, ours: str, servers: Mapping[str, Server]) -> None:
        self._report("checking that all answer the same labels")
        answers = {name: self._answers(server) for name, server in servers.items()}
        expected = answers.pop(ours)
        for name, found in answers.items():
            compare(expected, found, sentences=self._checked, peer=name)

    def _answers(self, server: Server) -> list[Answer]:
        sentences = self._checked
        with server.awake():
            return [
                answer
                for at in range(0, len(sentences), _CHECKED_AT_ONCE)
                for answer in read_answers(
                    predict_once(server.port, sentences[at : at + _CHECKED_AT_ONCE])
                )
            ]

    def _repetition(
        self,
        order: Sequence[Program],
        loads: Sequence[Load],
        meter: Meter,
        ours: Program,
        limits: Mapping[str, Mapping[str, list[float]]],
    ) -> dict[str, Run]:
        found: dict[str, dict[str, Measurement]] = {program.name: {} for program in order}
        with self._started(order) as servers:
            self._check(ours.name, servers)
            for number, load in enumerate(loads, start=1):
                for program in order:
                    if not program.can_answer(load):
                        continue
                    self._report(f"{load.name}: {program.name}")
                    server, before = servers[program.name], found[program.name]
                    with server.awake():
                        before[load.name] = meter.measure(
                            load, server, number=number, before=before
                        )
                    if program.alone and (kind := limiting(load)):
                        rate = self._limit(program, meter.files[kind])
                        limits[load.name][program.name].append(rate)
            return {
                name: Run(server.start_seconds, server.processes.memory_bytes(), found[name])
                for name, server in servers.items()
            }

    @contextmanager
    def _started(self, programs: Sequence[Program]) -> Iterator[dict[str, Server]]:
        """Starts all servers one after the other and pauses each."""
        with ExitStack() as stack:
            servers: dict[str, Server] = {}
            for program in programs:
                self._report(f"starting {program.name}")
                server = stack.enter_context(serve(program, self._checkpoint, self._folder))
                server.pause()
                servers[program.name] = server
            yield servers

    def _limit(self, program: Program, texts: Path) -> float:
        command = [program.python, "-m", *program.alone]
        command += ["--checkpoint", str(self._checkpoint.absolute())]
        command += ["--max-batch-tokens", str(self._max_batch_tokens)]
        command += ["--seconds", str(self._timing.seconds), str(texts)]
        done = subprocess.run(  # noqa: S603 - a module of our own
            command,
            cwd=ROOT,
            env=environment(os.environ, sees_gpu=program.sees_gpu),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            lines = done.stderr.strip().splitlines() or ["it said nothing"]
            raise BenchmarkError(f"the model of {program.name} alone: {lines[-1]}")
        return float(done.stdout)


def _leave_interrupts() -> None:
    """Leaves interrupts to the parent process, which then stops the servers too."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
