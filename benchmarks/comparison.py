"""Measures the service and its peers on one checkpoint, in turns on one machine."""

import json
import multiprocessing
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from benchmarks.client import open_loop, predict_once
from benchmarks.errors import AnswerError, BenchmarkError
from benchmarks.limit import ModelSpeed, measure_model
from benchmarks.loads import SATURATION, Figures, Load
from benchmarks.servers import Program, Server, serve
from benchmarks.texts import SENTENCES, write_literals
from benchmarks.wrk import closed_loop

# Texts that a load may send, so that no two loads send a server the same one.
_TEXTS_OF_A_LOAD = 200_000
_LEAST_ANSWERS_EACH = 2
_MOST_SECONDS = 120.0
_CHECKED_AT_ONCE = 50
# In int8 each probability may be off by 0.11, so two closer than this may swap.
_NEAR = 0.22
# Engines in int8 quantize each in their own way, and turn a label of a hundred.
_MOST_DIFFERENT = 4


@dataclass(frozen=True, slots=True)
class Timing:
    """How often each server is started and measured, and the seconds of each load."""

    repetitions: int
    warm_up: float
    seconds: float


@dataclass(slots=True)
class Run:
    """The result of one start of a server.

    `figures` are by the name of the load. `model` is the model alone, measured right after
    `SATURATION`, or None.
    """

    start_seconds: float
    memory_bytes: int = 0
    figures: dict[str, Figures] = field(default_factory=dict)
    model: ModelSpeed | None = None


class Prediction(NamedTuple):
    """A server's answer to one sentence; `near` if rounding may change the label."""

    label: str
    near: bool


class Comparison:
    """Runs a benchmark; `folder` is for logs and texts, `report` is called with each next step."""

    def __init__(
        self,
        checkpoint: Path,
        *,
        folder: Path,
        timing: Timing,
        report: Callable[[str], None],
    ) -> None:
        self._checkpoint = checkpoint
        self._folder = folder
        self._timing = timing
        self._report = report
        self._texts = folder / "sentences"
        write_literals(SENTENCES, self._texts)

    def run(self, programs: Sequence[Program], loads: Sequence[Load]) -> dict[str, list[Run]]:
        """Measures all servers in turns, never two at once, in another order each time.

        All start before the first is measured, and all but the measured one are paused. So a load
        reaches one server right after the other, and a drift in the machine's speed affects all.

        Args:
            programs: the servers; the first is ours.
            loads: the loads; an open-loop load comes after `SATURATION`.

        Raises:
            BenchmarkError: a server ended, an answer is wrong, or the labels differ.
        """
        runs: dict[str, list[Run]] = {program.name: [] for program in programs}
        repetitions = self._timing.repetitions
        for repetition in range(repetitions):
            self._report(f"repetition {repetition + 1} of {repetitions}")
            turn = repetition % len(programs)
            order = [*programs[turn:], *programs[:turn]]
            with self._started(order) as servers:
                self._check_labels(programs[0].name, servers)
                for name, run in self._repetition(order, servers, loads).items():
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
                server.pause()
                servers[program.name] = server
            yield servers

    def _check_labels(self, ours: str, servers: Mapping[str, Server]) -> None:
        """Checks that all servers answer the same labels; only then does a ratio mean anything."""
        self._report("checking that all servers answer the same labels")
        predictions = {}
        for name, server in servers.items():
            with server.awake():
                predictions[name] = [
                    item
                    for start in range(0, len(SENTENCES), _CHECKED_AT_ONCE)
                    for item in read_predictions(
                        predict_once(server.port, SENTENCES[start : start + _CHECKED_AT_ONCE])
                    )
                ]
        for name, items in predictions.items():
            compare_labels(predictions[ours], items, peer=name)

    def _repetition(
        self, order: Sequence[Program], servers: Mapping[str, Server], loads: Sequence[Load]
    ) -> dict[str, Run]:
        runs = {name: Run(server.start_seconds) for name, server in servers.items()}
        for number, load in enumerate(loads, start=1):
            for program in order:
                if load.route == "attention" and not program.explains:
                    continue
                self._report(f"{load.name}: {program.name}")
                server, run = servers[program.name], runs[program.name]
                first = number * _TEXTS_OF_A_LOAD
                with server.awake():
                    if load.share is None:
                        run.figures[load.name] = measure_closed(
                            load, server, self._texts, first=first, timing=self._timing
                        )
                    else:
                        rate = load.share * run.figures[SATURATION.name].rate
                        run.figures[load.name] = self._open(rate, server, first)
                if load == SATURATION and program.dtype is not None:
                    run.model = self._measure_model(program)
        for name, server in servers.items():
            runs[name].memory_bytes = server.processes.memory_bytes()
        return runs

    def _open(self, rate: float, server: Server, first: int) -> Figures:
        return open_loop(
            rate,
            sentences=SENTENCES,
            port=server.port,
            first=first,
            warm_up=self._timing.warm_up,
            seconds=self._timing.seconds,
        )

    def _measure_model(self, program: Program) -> ModelSpeed:
        """Measures the model alone in a process of its own, whose memory then ends with it."""
        device = "cuda" if program.sees_gpu else "cpu"
        spawn = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(1, spawn, signal.signal, (signal.SIGINT, signal.SIG_IGN)) as child:
            return child.submit(
                measure_model,
                self._checkpoint,
                device,
                program.dtype or "auto",
                self._timing.seconds,
            ).result()


def measure_closed(
    load: Load, server: Server, texts: Path, *, first: int, timing: Timing
) -> Figures:
    """Warms a server up with a closed-loop load and measures it.

    The duration doubles until every connection of a slow server gets its answers. `first` is the
    number before that of the first text.
    """
    seconds = timing.warm_up
    longer = timing.seconds
    is_warm = False
    while True:
        figures = closed_loop(load, texts=texts, port=server.port, first=first, seconds=seconds)
        first += (figures.requests + load.connections) * load.sentences
        server.settle()
        if is_warm and figures.requests >= _LEAST_ANSWERS_EACH * load.connections:
            return figures
        if longer > _MOST_SECONDS:
            raise AnswerError(f"{load.name}: too few answers for its connections in {seconds:g} s")
        seconds, longer, is_warm = longer, 2 * longer, True


def read_predictions(body: bytes) -> list[Prediction]:
    """Reads predictions in the form of the service or as a bare list; else raises AnswerError."""
    try:
        content = json.loads(body)
        items = content["predictions"] if isinstance(content, dict) else content
        return [Prediction(item["label"], _is_near(item)) for item in items]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise AnswerError(f"the answer has no predictions: {error!r}") from error


def _is_near(item: dict[str, dict[str, float]]) -> bool:
    highest = sorted(item.get("probabilities", {}).values())[-2:]
    return len(highest) == 2 and highest[1] - highest[0] <= _NEAR


def compare_labels(
    ours: Sequence[Prediction],
    theirs: Sequence[Prediction],
    *,
    peer: str,
) -> None:
    """Raises BenchmarkError if labels differ by more than rounding explains, or one is missing."""
    for name, items in (("headlight", ours), (peer, theirs)):
        if len(items) != len(SENTENCES):
            raise BenchmarkError(f"{name} answered {len(items)} of {len(SENTENCES)} sentences")
    different = [
        (sentence, one.label, other.label)
        for sentence, one, other in zip(SENTENCES, ours, theirs, strict=True)
        if one.label != other.label and not (one.near or other.near)
    ]
    if len(different) > _MOST_DIFFERENT:
        sentence, one_label, other_label = different[0]
        raise BenchmarkError(
            f"the servers disagree about {len(different)} of {len(SENTENCES)} sentences, first "
            f"about {sentence!r}: headlight says {one_label}, {peer} says {other_label}"
        )
