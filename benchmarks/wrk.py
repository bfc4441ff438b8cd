"""Sends a load with wrk, a client that takes little time from the server beside it."""

import json
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.errors import AnswerError, BenchmarkError
from benchmarks.loads import Closed

_SCRIPT = Path(__file__).with_name("send.lua")
_PATIENCE = 60.0
_TIMEOUT_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of a load on one server.

    Args:
        rate: sentences answered per second, counted from when each connection could have had its
            first answer to the last answer; 0 if there were none.
        p50: median latency of requests, in seconds.
        p99: 99th percentile of the same.
        requests: that were answered; if 0, all other figures are 0.
    """

    rate: float
    p50: float
    p99: float
    requests: int = 1


def check_installed() -> None:
    """Checks that wrk is installed.

    Raises:
        BenchmarkError: it is not.
    """
    if shutil.which("wrk") is None:
        raise BenchmarkError("wrk, the client, is not installed: apt-get install wrk")


def run(load: Closed, *, texts: Path, port: int, first: int, seconds: float) -> Figures:
    """Sends a load to a server for some seconds.

    Args:
        load: to send.
        texts: file that `texts.write_literals` wrote.
        port: on 127.0.0.1.
        first: the number before that of the first text.
        seconds: duration.

    Raises:
        AnswerError: a request failed.
    """
    with running(load, texts=texts, port=port, first=first, seconds=seconds) as process:
        return read(process, load)


@contextmanager
def running(
    load: Closed, *, texts: Path, port: int, first: int, seconds: float
) -> Iterator[subprocess.Popen[str]]:
    """Sends a load in the background; `read` waits for its figures, `stop` ends it early."""
    client = shutil.which("wrk")
    if client is None:
        check_installed()
    command = [
        *(str(client), "--threads", "1", "--connections", str(load.connections)),
        *("--duration", f"{max(1, round(seconds))}s", "--timeout", f"{_TIMEOUT_SECONDS}s"),
        *("--script", str(_SCRIPT), f"http://127.0.0.1:{port}", "--"),
        *(str(texts), str(load.sentences), str(first), load.route, str(load.connections)),
    ]
    process = subprocess.Popen(  # noqa: S603 - the installed wrk
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def read(process: subprocess.Popen[str], load: Closed) -> Figures:
    """Waits for the figures of a load.

    Args:
        process: from `running`.
        load: that it sends.

    Raises:
        AnswerError: a request failed.
    """
    try:
        output, _ = process.communicate(timeout=_PATIENCE + _TIMEOUT_SECONDS)
        found = json.loads(output.strip().splitlines()[-1])
    except (subprocess.TimeoutExpired, ValueError, IndexError) as error:
        raise AnswerError(f"{load.name}: wrk told no figures: {error}") from error
    if found["failed"]:
        raise AnswerError(f"{load.name}: {found['failed']} of {found['requests']} requests failed")
    if not found["requests"]:
        return Figures(0.0, 0.0, 0.0, 0)
    # A rate over the whole time would miss requests in flight at the end, most on slow servers.
    rate = found["counted"] * load.sentences / found["seconds"] if found["counted"] else 0.0
    return Figures(rate, found["p50"], found["p99"], found["requests"])


def stop(process: subprocess.Popen[str], load: Closed) -> Figures:
    """Ends a load early.

    Args:
        process: from `running`.
        load: that it sends.

    Returns:
        The figures of the requests answered so far.

    Raises:
        AnswerError: a request failed.
    """
    process.send_signal(signal.SIGINT)
    return read(process, load)
