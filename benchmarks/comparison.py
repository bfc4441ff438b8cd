"""Measures the service and its peers on one checkpoint, in turns on one machine."""

import itertools
import json
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.client import closed_loop, predict_once
from benchmarks.errors import BenchmarkError
from benchmarks.loads import SENTENCES, Figures, Load
from benchmarks.servers import Program, Server, serve

# Texts that a load may send, so that no two loads send a server the same one.
_TEXTS_OF_A_LOAD = 10_000_000
_WARM_UP_SECONDS = 2.0
# What a server is asked first: few and many texts, short and long ones.
FIRST = (SENTENCES[:1], [" ".join(SENTENCES[:40])], SENTENCES[:32], SENTENCES[:64])
# Engines in int8 quantize each in their own way, and turn a label of thirty.
_MOST_DIFFERENT = 8


@dataclass(slots=True)
class Run:
    """The result of one start of a server; `figures` are by the name of the load.

    `first_seconds` is the slowest of the first answers: to a sentence, a long text and many.
    """

    start_seconds: float
    first_seconds: float
    memory_bytes: int = 0
    gpu_bytes: int = 0
    figures: dict[str, Figures] = field(default_factory=dict)


class Comparison:
    """Runs a benchmark.

    Args:
        folder: for logs.
        report: called with each next step.
        gpu: returns how many bytes of the GPU are used by all processes.
    """

    def __init__(
        self,
        checkpoint: Path,
        *,
        folder: Path,
        seconds: float,
        report: Callable[[str], None],
        gpu: Callable[[], int] = lambda: 0,
    ) -> None:
        self._checkpoint = checkpoint
        self._folder = folder
        self._seconds = seconds
        self._report = report
        self._gpu = gpu

    def run(
        self, programs: Sequence[Program], loads: Sequence[Load], repetitions: int
    ) -> dict[str, list[Run]]:
        """Measures all servers in turns, never two at once, in another order each time.

        All start before the first is measured, and all but the measured one are paused. So a load
        reaches one server right after the other, and a drift in the machine's speed affects all.
        The first of the programs is ours.

        Raises:
            BenchmarkError: a server ended, an answer is wrong, or the labels differ.
        """
        runs: dict[str, list[Run]] = {program.name: [] for program in programs}
        for repetition in range(repetitions):
            self._report(f"repetition {repetition + 1} of {repetitions}")
            turn = repetition % len(programs)
            order = [*programs[turn:], *programs[:turn]]
            with ExitStack() as stack:
                started = {each.name: self._start(each, stack) for each in order}
                self._check_labels(programs[0].name, started)
                for load, program in itertools.product(enumerate(loads, 1), order):
                    self._measure(*load, program, *started[program.name])
                for name, (server, run) in started.items():
                    run.memory_bytes = server.memory_bytes()
                    runs[name].append(run)
        return runs

    def _start(self, program: Program, stack: ExitStack) -> tuple[Server, Run]:
        """Starts a server, asks it for its first answers and pauses it."""
        self._report(f"starting {program.name}")
        used = self._gpu()
        server = stack.enter_context(serve(program, self._checkpoint, self._folder))
        waits = []
        for texts in FIRST:
            began = time.perf_counter()
            predict_once(server.port, texts)
            waits.append(time.perf_counter() - began)
        run = Run(server.start_seconds, max(waits), gpu_bytes=self._gpu() - used)
        server.signal(signal.SIGSTOP)
        return server, run

    def _measure(self, number: int, load: Load, program: Program, server: Server, run: Run) -> None:
        """Sends a load to a server; no text is sent twice."""
        if load.route == "attention" and not program.explains:
            return
        self._report(f"{load.name}: {program.name}")
        used = self._gpu()
        with server.awake():
            run.figures[load.name] = closed_loop(
                load,
                port=server.port,
                first=number * _TEXTS_OF_A_LOAD,
                warm_up=min(_WARM_UP_SECONDS, self._seconds),
                seconds=self._seconds,
            )
        run.gpu_bytes += self._gpu() - used

    def _check_labels(self, ours: str, started: Mapping[str, tuple[Server, Run]]) -> None:
        """Checks that all servers answer the same labels; only then does a ratio mean anything."""
        self._report("checking that all servers answer the same labels")
        labels: dict[str, list[str]] = {}
        for name, (server, _) in started.items():
            with server.awake():
                labels[name] = read_labels(predict_once(server.port, SENTENCES))
        for name, found in labels.items():
            compare_labels(labels[ours], found, peer=name)


def read_labels(body: bytes) -> list[str]:
    """Reads labels in the form of the service or of a bare list; else raises BenchmarkError."""
    try:
        content = json.loads(body)
        items = content["predictions"] if isinstance(content, dict) else content
        return [item["label"] for item in items]
    except (ValueError, KeyError, TypeError) as error:
        raise BenchmarkError(f"the answer has no predictions: {error!r}") from error


def compare_labels(ours: Sequence[str], theirs: Sequence[str], *, peer: str) -> None:
    """Raises BenchmarkError if labels differ by more than rounding explains, or one is missing."""
    for name, labels in (("headlight", ours), (peer, theirs)):
        if len(labels) != len(SENTENCES):
            raise BenchmarkError(f"{name} answered {len(labels)} of {len(SENTENCES)} sentences")
    different = [each for each in zip(SENTENCES, ours, theirs, strict=True) if each[1] != each[2]]
    if len(different) > _MOST_DIFFERENT:
        sentence, one, other = different[0]
        raise BenchmarkError(
            f"the servers disagree about {len(different)} of {len(SENTENCES)} sentences, first "
            f"about {sentence!r}: headlight says {one}, {peer} says {other}"
        )
