"""Measures what traces cost the service: without them and with them, in turns.

The collector is a server of this process that reads the spans and forgets them. Each round begins
with the other of the two, and ratios are within a round, so a drift of the machine affects both.
"""

import argparse
import math
import signal
import statistics
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from benchmarks import wrk
from benchmarks.choice import report
from benchmarks.errors import BenchmarkError
from benchmarks.loads import Closed
from benchmarks.machine import describe
from benchmarks.servers import Program, Server, serve
from benchmarks.table import columns
from benchmarks.texts import own_texts, write_literals
from benchmarks.wrk import Figures
from model.cli.arguments import LineParser, positive

OFF, ON = "off", "on"
_LOAD = Closed("1 sentence, 64 connections", 64)
_WARM_UP_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Round:
    """One measurement of one service.

    Args:
        figures: of the load.
        processor_seconds: of all threads of the service, for each request.
    """

    figures: Figures
    processor_seconds: float


@dataclass(slots=True)
class Found:
    """What was measured.

    Args:
        off: without traces, a round after the other.
        on: with them.
        exports: that the collector got.
    """

    off: list[Round] = field(default_factory=list)
    on: list[Round] = field(default_factory=list)
    exports: int = 0


class _Sink(ThreadingHTTPServer):
    """Reads what is sent to it, and counts."""

    daemon_threads = True
    exports = 0


class _Forget(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Sink

    def do_POST(self) -> None:
        """Takes an export, and answers it with an empty message."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.exports += 1
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@contextmanager
def collector() -> Iterator[_Sink]:
    """Runs a collector for the duration of the block."""
    with _Sink(("127.0.0.1", 0), _Forget) as sink:
        thread = threading.Thread(target=sink.serve_forever, daemon=True)
        thread.start()
        try:
            yield sink
        finally:
            sink.shutdown()
            thread.join()


def measure(checkpoint: Path, folder: Path, *, rounds: int, seconds: float, share: float) -> Found:
    """Measures both services in turns, never at once.

    Args:
        checkpoint: the folder that both serve.
        folder: for logs and texts.
        rounds: how often each is measured.
        seconds: of each measurement.
        share: of the requests that are traced, 0 to 1.

    Raises:
        BenchmarkError: a service did not start, a request failed, or no span came.
    """
    texts = folder / "sentences"
    write_literals(own_texts().sentences, texts)
    found, first = Found(), 0
    with collector() as sink, ExitStack() as stack:
        variables = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{sink.server_address[1]}",
            "OTEL_TRACES_SAMPLER": "parentbased_traceidratio",
            "OTEL_TRACES_SAMPLER_ARG": str(share),
        }
        servers: dict[str, Server] = {}
        for name, given in ((OFF, {}), (ON, variables)):
            report(f"starting: traces {name}")
            program = Program(f"traces-{name}", "service", variables=tuple(given.items()))
            servers[name] = stack.enter_context(serve(program, checkpoint, folder))
            servers[name].pause()
        for number in range(rounds):
            for name in (OFF, ON) if number % 2 == 0 else (ON, OFF):
                report(f"round {number + 1} of {rounds}: traces {name}")
                with servers[name].awake():
                    for duration in (_WARM_UP_SECONDS, seconds):
                        before = servers[name].processes.processor_seconds()
                        figures = wrk.run(
                            _LOAD,
                            texts=texts,
                            port=servers[name].port,
                            first=first,
                            seconds=duration,
                        )
                        first += figures.requests + _LOAD.connections
                        taken = servers[name].processes.processor_seconds() - before
                        servers[name].settle()
                each = Round(figures, taken / max(1, figures.requests))
                (found.off if name == OFF else found.on).append(each)
        found.exports = sink.exports
    if share and not found.exports:
        raise BenchmarkError("no span reached the collector: measure for longer")
    return found


def tables(found: Found, share: float) -> str:
    """Draws the figures as Markdown, each as a median and its range."""
    lines = [
        (
            name,
            *_spread([each.figures.rate for each in rounds]),
            *_spread([each.figures.p99 * 1000 for each in rounds]),
            *_spread([each.processor_seconds * 1e6 for each in rounds]),
        )
        for name, rounds in ((OFF, found.off), (f"{ON}, {share:.0%} sampled", found.on))
    ]
    pairs = list(zip(found.off, found.on, strict=True))
    speed = _spread([100 * on.figures.rate / off.figures.rate for off, on in pairs])
    work = _spread([100 * on.processor_seconds / off.processor_seconds for off, on in pairs])
    head = ("traces", "sentences/s", "range", "p99 ms", "range", "processor µs", "range")
    return (
        f"{columns(head, lines)}\n\n{_LOAD.name}. With traces, the speed is {speed[0]} % of that "
        f"without ({speed[1]}), and the processor time of a request {work[0]} % ({work[1]})."
    )


def _spread(figures: Sequence[float]) -> tuple[str, str]:
    """The median of some figures, and their range."""
    return f"{statistics.median(figures):.1f}", f"{min(figures):.1f} to {max(figures):.1f}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures and prints the table.

    Args:
        arguments: of the command line; those of the process if None.

    Returns:
        0 if it worked; 1 if not, with the reason on stderr; 130 if it was interrupted.
    """
    given = parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        wrk.check_installed()
        with tempfile.TemporaryDirectory() as folder:
            found = measure(
                given.checkpoint,
                Path(folder),
                rounds=given.rounds,
                seconds=given.seconds,
                share=given.share,
            )
    except (BenchmarkError, OSError) as error:
        return _refuse(str(error), 1)
    except KeyboardInterrupt:
        return _refuse("interrupted", 130)
    sys.stdout.write(f"{describe(given.checkpoint)}\n\n{tables(found, given.share)}\n")
    return 0


def parser() -> argparse.ArgumentParser:
    """Builds the parser of the command line."""
    options = LineParser(prog="benchmarks.traces", description=__doc__, allow_abbrev=False)
    options.add_argument(
        "--checkpoint",
        type=Path,
        default=Path("checkpoints/default"),
        metavar="FOLDER",
        help="(default: %(default)s)",
    )
    options.add_argument(
        "--rounds", type=positive, default=6, metavar="COUNT", help="(default: %(default)s)"
    )
    options.add_argument(
        "--seconds", type=positive, default=10, help="of each measurement (default: %(default)s)"
    )
    options.add_argument(
        "--share",
        type=_share,
        default=0.1,
        help="of the requests that are traced, 0 to 1 (default: %(default)s)",
    )
    return options


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"must be a number from 0 to 1, got {text!r}")
    return value


def _refuse(message: str, code: int) -> int:
    sys.stderr.write(f"benchmarks.traces: {message}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
