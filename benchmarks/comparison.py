"""From a checkpoint to the figures of the service and its peer, taken in turns on one machine."""

import multiprocessing
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from benchmarks.client import predict_once
from benchmarks.labels import Answer, compare, read_answers
from benchmarks.load import Load, Measurement, measure
from benchmarks.sentences import SENTENCES
from benchmarks.servers import Program, Server, serve

OURS = Program("headlight", "service")
PEER = Program("pipeline", "benchmarks.peers.pipeline_app")
LOADS = (
    Load(connections=1, sentences=1),
    Load(connections=16, sentences=1),
    Load(connections=4, sentences=32),
)

# Far enough apart that no two loads on a server share a sentence.
_FIRST_NUMBERS = 10_000_000
_CHECKED_AT_ONCE = 50

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Run:
    """What came of one start of a server.

    Args:
        start_seconds: until its first answer.
        resident_bytes: after all loads; None if unknown.
        measurements: one for each load.
    """

    start_seconds: float
    resident_bytes: int | None
    measurements: tuple[Measurement, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The runs of both servers, one for each repetition.

    Args:
        loads: that were measured.
        ours: of the service.
        peers: of what people write otherwise.
    """

    loads: tuple[Load, ...]
    ours: tuple[Run, ...]
    peers: tuple[Run, ...]


def run(
    checkpoint: Path,
    *,
    folder: Path,
    repetitions: int,
    warm_up: float,
    seconds: float,
    report: Report,
    loads: Sequence[Load] = LOADS,
    ours: Program = OURS,
    peer: Program = PEER,
) -> Comparison:
    """Measures both servers in turns, never both at once; who is first changes every time.

    Args:
        checkpoint: the folder that both serve.
        folder: where their logs go.
        repetitions: how often each is started and measured.
        warm_up: seconds of each load before it is measured.
        seconds: that each load is measured.
        report: is told what is done next.
        loads: to measure.
        ours: the service.
        peer: what it is compared with.

    Raises:
        ServerError: a server did not start or ended too early.
        AnswerError: an answer is not right.
        MismatchError: the servers do not answer the same labels.
    """
    runs: dict[Program, list[Run]] = {ours: [], peer: []}
    report("checking that both answer the same labels")
    compare(*(_labels(program, checkpoint, folder) for program in (ours, peer)))
    # The client has a process of its own, as it would have elsewhere, and never a server's.
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, spawn, _leave_interrupts) as client:
        for repetition in range(repetitions):
            order = (ours, peer) if repetition % 2 == 0 else (peer, ours)
            for program in order:
                report(f"{program.name}, {repetition + 1} of {repetitions}")
                with serve(program, checkpoint, folder) as server:
                    runs[program].append(
                        _measure(server, loads, client, warm_up=warm_up, seconds=seconds)
                    )
    return Comparison(tuple(loads), tuple(runs[ours]), tuple(runs[peer]))


def _labels(program: Program, checkpoint: Path, folder: Path) -> list[Answer]:
    with serve(program, checkpoint, folder) as server:
        return [
            answer
            for at in range(0, len(SENTENCES), _CHECKED_AT_ONCE)
            for answer in read_answers(
                predict_once(server.port, SENTENCES[at : at + _CHECKED_AT_ONCE])
            )
        ]


def _measure(
    server: Server, loads: Sequence[Load], client: Executor, *, warm_up: float, seconds: float
) -> Run:
    measurements = tuple(
        client.submit(
            measure,
            load,
            port=server.port,
            first=number * _FIRST_NUMBERS,
            warm_up=warm_up,
            seconds=seconds,
        ).result()
        for number, load in enumerate(loads, start=1)
    )
    return Run(server.start_seconds, server.resident_bytes(), measurements)


def _leave_interrupts() -> None:
    """Leaves them to the process that started this one, which then ends the servers too."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
