"""Measures the service and its peers on one checkpoint, in turns on one machine."""

import json
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.errors import BenchmarkError
from benchmarks.loads import (
    SENTENCES,
    Figures,
    Load,
    closed_loop,
    predict_once,
    write_literals,
)
from benchmarks.servers import Program, Server, serve

# Texts that a load may send, so that no two loads send a server the same one.
_TEXTS_OF_A_LOAD = 200_000
_WARM_UP_SECONDS = 2.0
# Engines in int8 quantize each in their own way, and turn a label of thirty.
_MOST_DIFFERENT = 8


@dataclass(slots=True)
class Run:
    """The result of one start of a server; `figures` are by the name of the load."""

    start_seconds: float
    memory_bytes: int = 0
    figures: dict[str, Figures] = field(default_factory=dict)


class Comparison:
    """Runs a benchmark; `folder` is for logs and texts, `report` is called with each next step."""

    def __init__(
        self, checkpoint: Path, *, folder: Path, seconds: float, report: Callable[[str], None]
    ) -> None:
        self._checkpoint = checkpoint
        self._folder = folder
        self._seconds = seconds
        self._report = report
        self._texts = folder / "sentences"
        write_literals(SENTENCES, self._texts)

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
            with self._started(order) as servers:
                self._check_labels(programs[0].name, servers)
                for name, run in self._measure_all(order, servers, loads).items():
                    runs[name].append(run)
        return runs

    @contextmanager
    def _started(self, programs: Sequence[Program]) -> Iterator[dict[str, Server]]:
        """Starts all servers one after the other and pauses each."""
        with ExitStack() as stack:
            servers: dict[str, Server] = {}
            for program in programs:
                self._report(f"starting {program.name}")
                server = stack.enter_context(serve(program, self._checkpoint, self._folder))
                server.signal(signal.SIGSTOP)
                servers[program.name] = server
            yield servers

    def _check_labels(self, ours: str, servers: Mapping[str, Server]) -> None:
        """Checks that all servers answer the same labels; only then does a ratio mean anything."""
        self._report("checking that all servers answer the same labels")
        labels: dict[str, list[str]] = {}
        for name, server in servers.items():
            with server.awake():
                labels[name] = read_labels(predict_once(server.port, SENTENCES))
        for name, found in labels.items():
            compare_labels(labels[ours], found, peer=name)

    def _measure_all(
        self, order: Sequence[Program], servers: Mapping[str, Server], loads: Sequence[Load]
    ) -> dict[str, Run]:
        runs = {name: Run(server.start_seconds) for name, server in servers.items()}
        for number, load in enumerate(loads, start=1):
            for program in order:
                if load.route == "attention" and not program.explains:
                    continue
                self._report(f"{load.name}: {program.name}")
                run, server = runs[program.name], servers[program.name]
                with server.awake():
                    first = number * _TEXTS_OF_A_LOAD
                    run.figures[load.name] = self._measure(load, server.port, first)
        for name, server in servers.items():
            runs[name].memory_bytes = server.memory_bytes()
        return runs

    def _measure(self, load: Load, port: int, first: int) -> Figures:
        """Warms a server up with a load, and measures it; no text is sent twice."""
        for seconds in (min(_WARM_UP_SECONDS, self._seconds), self._seconds):
            figures = closed_loop(load, texts=self._texts, port=port, first=first, seconds=seconds)
            first += (figures.requests + load.connections) * load.sentences
        if figures.requests < load.connections:
            raise BenchmarkError(
                f"{load.name}: {figures.requests} answers for {load.connections} connections in "
                f"{self._seconds:g} s: give more --seconds"
            )
        return figures


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
