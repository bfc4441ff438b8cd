"""Measures how the service scales on one machine, and prints tables: `make scaling`.

Throughput by cores, the cost of a token by length, the memory of further replicas, and the start.
"""

import argparse
import itertools
import math
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks import wrk
from benchmarks.errors import BenchmarkError
from benchmarks.loads import Closed
from benchmarks.machine import describe
from benchmarks.scaling_plots import draw
from benchmarks.servers import ROOT, Program, Server, environment, serve
from benchmarks.table import columns
from benchmarks.texts import numbered, own_texts, write_literals
from benchmarks.wrk import Figures
from model import open_checkpoint
from model.cli.arguments import LineParser, positive
from model.errors import ModelError
from model.tokenization.tokenizer import Tokenizer

LENGTHS = (8, 16, 32, 64, 128, 256, 512)
_CONNECTIONS = 64
_TOKENS_AT_ONCE = 4_096
_FIRST_NUMBER = 200_000
_MAX_BATCH_TOKENS = 512
_MOST_SECONDS = 60.0
_WARM_UP_SECONDS = 1.0
_WORD = "good"
_MEGABYTE = 1_000_000

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Throughput:
    """Sentences a second with some cores.

    Args:
        cores: that are used.
        replicas: of as many replicas as cores, each on a core of its own.
        threads: of one replica on all of these cores.
        alone: of the model alone on these cores.
    """

    cores: int
    replicas: float
    threads: float
    alone: float


@dataclass(frozen=True, slots=True)
class Cost:
    """Microseconds of a token in texts of one length, on all cores.

    Args:
        tokens: of each text.
        service: through the service.
        alone: the model alone.
    """

    tokens: int
    service: float
    alone: float


@dataclass(frozen=True, slots=True)
class Scaling:
    """All figures.

    Args:
        throughput: by cores.
        costs: by length.
        memory: megabytes that each replica adds to those before it, shared memory counted once.
        starts: seconds from start to first answer, one for each replica and start.
    """

    throughput: Sequence[Throughput]
    costs: Sequence[Cost]
    memory: Sequence[float]
    starts: Sequence[float]


class Machine:
    """Measures on the cores of this machine.

    Args:
        checkpoint: the folder to serve.
        folder: for logs and texts.
        cores: that may be used, in order.
        seconds: of each load.
        report: is called with each next step.
    """

    def __init__(
        self,
        checkpoint: Path,
        *,
        folder: Path,
        cores: Sequence[int],
        seconds: float,
        report: Report,
    ) -> None:
        self._checkpoint = checkpoint
        self._folder = folder
        self._cores = cores
        self._seconds = seconds
        self._report = report
        self._next = _FIRST_NUMBER

    def measure(self, *, starts: int) -> Scaling:
        """Measures everything.

        Args:
            starts: how often a replica is started for the time of its start.

        Raises:
            BenchmarkError: a server did not start or ended, or a request failed.
        """
        sentences = self._write("sentences", own_texts().sentences)
        throughput = [self._throughput(count, sentences) for count in counts(len(self._cores))]
        costs = list(self._costs())
        times = []
        for number in range(starts):
            self._report(f"start {number + 1} of {starts}")
            with self._replica(f"start{number}", self._cores, len(self._cores)) as server:
                times.append(server.start_seconds)
        return Scaling(throughput, costs, self._memory(), times)

    def _throughput(self, count: int, texts: Path) -> Throughput:
        cores = self._cores[:count]
        self._report(f"{count} of {len(self._cores)} cores: replicas")
        with ExitStack() as stack:
            servers = [
                stack.enter_context(self._replica(f"replica{core}", [core], 1)) for core in cores
            ]
            replicas = self._rate(servers, texts)
        self._report(f"{count} of {len(self._cores)} cores: threads")
        with self._replica("threads", cores, count) as server:
            threads = self._rate([server], texts)
        self._report(f"{count} of {len(self._cores)} cores: the model alone")
        return Throughput(count, replicas, threads, self._alone(cores, texts))

    def _costs(self) -> Iterator[Cost]:
        tokenizer = open_checkpoint(self._checkpoint).tokenizer
        with self._replica("lengths", self._cores, len(self._cores)) as server:
            for tokens in LENGTHS:
                self._report(f"{tokens} tokens")
                texts = self._write(f"tokens{tokens}", [text_of(tokenizer, tokens)])
                # As many tokens at once for each length: the service refuses what would wait long.
                at_once = max(2 * len(self._cores), _TOKENS_AT_ONCE // tokens)
                rate = self._rate([server], texts, min(_CONNECTIONS, at_once))
                server.pause()
                alone = self._alone(self._cores, texts)
                server.processes.signal(signal.SIGCONT)
                yield Cost(tokens, 1e6 / rate / tokens, 1e6 / alone / tokens)

    def _memory(self) -> list[float]:
        held = [0.0]
        with ExitStack() as stack:
            servers = []
            for number in range(max(2, len(self._cores))):
                self._report(f"memory of replica {number + 1}")
                servers.append(
                    stack.enter_context(self._replica(f"memory{number}", self._cores[:1], 1))
                )
                shares = [server.processes.memory_bytes() or 0 for server in servers]
                held.append(sum(shares) / _MEGABYTE)
        return [after - before for before, after in itertools.pairwise(held)]

    @contextmanager
    def _replica(self, name: str, cores: Sequence[int], threads: int) -> Iterator[Server]:
        program = Program(name, "service", ("--threads", str(threads)))
        with ExitStack() as stack:
            with pinned(cores):
                server = stack.enter_context(serve(program, self._checkpoint, self._folder))
            yield server

    def _rate(
        self, servers: Sequence[Server], texts: Path, connections: int = _CONNECTIONS
    ) -> float:
        """Sentences a second of all servers, each asked by a client of its own at the same time."""
        load = Closed("scaling", max(1, connections // len(servers)))
        self._ask(servers, load, texts, _WARM_UP_SECONDS)
        seconds = self._seconds
        while seconds <= _MOST_SECONDS:
            figures = self._ask(servers, load, texts, seconds)
            # A rate is counted from when each connection had its first answer.
            if all(each.requests >= 2 * load.connections and each.rate for each in figures):
                return sum(each.rate for each in figures)
            seconds *= 2
        raise BenchmarkError(f"too few answers for {connections} connections in {seconds / 2:g} s")

    def _ask(
        self, servers: Sequence[Server], load: Closed, texts: Path, seconds: float
    ) -> list[Figures]:
        with ExitStack() as stack:
            clients = [
                stack.enter_context(
                    wrk.running(
                        load, texts=texts, port=server.port, first=self._next, seconds=seconds
                    )
                )
                for server in servers
            ]
            figures = [wrk.read(client, load) for client in clients]
        for server in servers:
            server.settle()
        self._next += max(each.requests for each in figures) + _CONNECTIONS
        return figures

    def _alone(self, cores: Sequence[int], texts: Path) -> float:
        command = [sys.executable, "-m", "benchmarks.limit", "--checkpoint"]
        command += [str(self._checkpoint.absolute()), "--seconds", str(self._seconds)]
        command += ["--max-batch-tokens", str(_MAX_BATCH_TOKENS), str(texts)]
        with pinned(cores):
            done = subprocess.run(  # noqa: S603 - a module of our own
                command,
                cwd=ROOT,
                env=environment(os.environ),
                capture_output=True,
                text=True,
                check=False,
            )
        if done.returncode:
            lines = done.stderr.strip().splitlines() or ["it said nothing"]
            raise BenchmarkError(f"the model alone: {lines[-1]}")
        return float(done.stdout)

    def _write(self, name: str, texts: Sequence[str]) -> Path:
        path = self._folder / name
        # Enough of them for a full pass of the model alone.
        write_literals(list(texts) * math.ceil(128 / len(texts)), path)
        return path


def counts(cores: int) -> list[int]:
    """Returns the numbers of cores to measure: powers of two, and all of them.

    Args:
        cores: that there are.
    """
    powers = [2**power for power in range(cores.bit_length()) if 2**power < cores]
    return [*powers, cores]


def text_of(tokenizer: Tokenizer, tokens: int) -> str:
    """Makes a text that has this number of tokens once a client has numbered it.

    Args:
        tokenizer: of the checkpoint.
        tokens: with those that mark the ends; a number takes some of them.

    Raises:
        BenchmarkError: the number at its end alone takes more.
    """
    spent = len(tokenizer.encode(numbered(_WORD, _FIRST_NUMBER)).input_ids) - 1
    if spent >= tokens:
        raise BenchmarkError(f"a numbered text has at least {spent + 1} tokens, got {tokens}")
    return " ".join([_WORD] * (tokens - spent))


@contextmanager
def pinned(cores: Sequence[int]) -> Iterator[None]:
    """Runs what starts in the block on some cores alone.

    Args:
        cores: their numbers.
    """
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def tables(scaling: Scaling) -> str:
    """Draws the figures as Markdown."""
    first, *further = scaling.memory
    return "\n\n".join(
        [
            columns(
                ("cores", "replicas, one a core", "one replica", "the model alone"),
                [
                    (str(each.cores), *_rounded(each.replicas, each.threads, each.alone))
                    for each in scaling.throughput
                ],
            ),
            columns(
                ("tokens", "service, µs a token", "the model alone, µs a token"),
                [(str(each.tokens), *_rounded(each.service, each.alone)) for each in scaling.costs],
            ),
            columns(
                ("", "median", "least", "most"),
                [
                    ("first replica, MB", *_rounded(first, first, first)),
                    ("each further one, MB", *_spread(further)),
                    ("start to first answer, s", *_spread(scaling.starts)),
                ],
            ),
        ]
    )


def _spread(figures: Sequence[float]) -> Iterator[str]:
    return _rounded(statistics.median(figures), min(figures), max(figures))


def _rounded(*figures: float) -> Iterator[str]:
    return (f"{each:.1f}" for each in figures)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, prints the tables and draws the pictures.

    Args:
        arguments: of the command line; those of the process if None.

    Returns:
        0 if it worked; 1 if not, with the reason on stderr; 130 if it was interrupted.
    """
    given = parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        _check_system()
        cores = sorted(os.sched_getaffinity(0))[: given.cores]
        if given.output is not None:
            given.output.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            machine = Machine(
                given.checkpoint,
                folder=Path(folder),
                cores=cores,
                seconds=given.seconds,
                report=_report,
            )
            scaling = machine.measure(starts=given.starts)
        if given.output is not None:
            draw(scaling.throughput, scaling.costs, given.output)
    except (BenchmarkError, ModelError, OSError) as error:
        return _refuse(str(error), 1)
    except KeyboardInterrupt:
        return _refuse("interrupted", 130)
    sys.stdout.write(f"{describe(given.checkpoint)}\n\n{tables(scaling)}\n")
    return 0


def _check_system() -> None:
    wrk.check_installed()
    if not hasattr(os, "sched_setaffinity"):
        raise BenchmarkError("this system cannot pin a process to a core: use Linux")


def parser() -> argparse.ArgumentParser:
    """Builds the parser of the command line."""
    options = LineParser(prog="benchmarks.scaling", description=__doc__, allow_abbrev=False)
    options.add_argument(
        "--checkpoint", type=Path, default=Path("checkpoints/default"), metavar="FOLDER"
    )
    options.add_argument(
        "--cores", type=positive, metavar="COUNT", help="at most that many (default: all)"
    )
    options.add_argument(
        "--seconds", type=positive, default=5, help="of each load (default: %(default)s)"
    )
    options.add_argument(
        "--starts", type=positive, default=5, metavar="COUNT", help="(default: %(default)s)"
    )
    options.add_argument(
        "--output", type=Path, metavar="FOLDER", help="where the pictures go (default: none)"
    )
    return options


def _report(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _refuse(message: str, code: int) -> int:
    sys.stderr.write(f"benchmarks.scaling: {message}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
