"""Sends a closed-loop load with wrk, a client that takes little time from the server beside it."""

import json
import shutil
import subprocess
from pathlib import Path

from benchmarks.errors import AnswerError, BenchmarkError
from benchmarks.loads import Figures, Load

_SCRIPT = Path(__file__).with_name("send.lua")
_ANSWER_SECONDS = 60


def installed() -> str:
    """Returns the path of wrk, or raises BenchmarkError."""
    path = shutil.which("wrk")
    if path is None:
        raise BenchmarkError("wrk, the client, is not installed: apt-get install wrk")
    return path


def closed_loop(load: Load, *, texts: Path, port: int, first: int, seconds: float) -> Figures:
    """Sends a load for some seconds; `first` is the number before that of the first text.

    `texts` is the file that `write_literals` wrote. Raises AnswerError if a request failed.
    """
    command = [
        *(installed(), "--threads", "1", "--connections", str(load.connections)),
        *("--duration", f"{max(1, round(seconds))}s", "--timeout", f"{_ANSWER_SECONDS}s"),
        *("--script", str(_SCRIPT), f"http://127.0.0.1:{port}", "--"),
        *(str(texts), str(load.sentences), str(first), load.route, str(load.connections)),
    ]
    patience = seconds + 2 * _ANSWER_SECONDS
    try:
        done = subprocess.run(  # noqa: S603 - the installed wrk
            command, capture_output=True, text=True, check=False, timeout=patience
        )
        result = json.loads(done.stdout.strip().splitlines()[-1])
    except (subprocess.TimeoutExpired, ValueError, IndexError) as error:
        raise AnswerError(f"{load.name}: wrk printed no figures: {error}") from error
    if result["failed"]:
        failed, requests = result["failed"], result["requests"]
        raise AnswerError(f"{load.name}: {failed} of {requests} requests failed")
    if not result["requests"]:
        return Figures(0.0, 0.0, 0.0, 0)
    # Counted from when each connection could have its first answer: a rate over the whole time
    # would miss requests in flight at the end, most on slow servers.
    counted = result["counted"]
    rate = counted * load.sentences / result["seconds"] if counted else 0.0
    return Figures(rate, result["p50"], result["p99"], result["requests"])
