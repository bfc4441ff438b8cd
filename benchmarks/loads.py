"""Defines the loads and their texts, and sends them: with wrk, or a single request."""

import http.client
import itertools
import json
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from benchmarks.errors import BenchmarkError

_HOST = "127.0.0.1"
_ANSWER_SECONDS = 30.0
_SCRIPT = Path(__file__).with_name("send.lua")
_OPENINGS = (
    "The plot drags",
    "I liked the first hour",
    "Nobody in the cast can act",
    "The battery lasts for two days",
    "Our waiter was friendly and quick",
    "The book tells the same joke over and over again",
    "It broke within a week",
    "The camera finds beauty in the plainest rooms",
    "They never answered my letter",
    "We had been looking forward to this for months",
)
_JOINTS = ("but", "and", "although", "while")
_ENDINGS = (
    "the rest is superb.",
    "I would not go there again.",
    "my children want nothing else now.",
    "the price is far too high for what you get, even in a sale.",
    "it is worth every minute.",
)
SENTENCES = tuple(
    f"{opening}, {joint} {ending}"
    for opening, joint, ending in itertools.product(_OPENINGS, _JOINTS, _ENDINGS)
)
"""200 sentences from templates."""


@dataclass(frozen=True, slots=True)
class Load:
    """One way to ask a server: connections that send their next request once they are answered."""

    name: str
    connections: int = 1
    sentences: int = 1
    route: Literal["predict", "attention"] = "predict"


@dataclass(frozen=True, slots=True)
class Figures:
    """Sentences answered per second, latencies in seconds, and answered requests."""

    rate: float
    p50: float
    p99: float
    requests: int


SATURATION = Load("1 sentence, 64 connections", 64)


def loads(device: str) -> tuple[Load, ...]:
    """Returns the loads for a device; the one that sends most texts is last."""
    bulk = {
        "cpu": Load("32 sentences, 4 connections", 4, sentences=32),
        "cuda": Load("256 sentences, 8 connections", 8, sentences=256),
    }
    return (
        Load("1 sentence, 1 connection"),
        SATURATION,
        Load("attention, 8 connections", 8, route="attention"),
        bulk[device],
    )


def write_literals(texts: Sequence[str], path: Path) -> None:
    """Writes texts for wrk, each line a JSON string without its closing quote.

    So the client adds only a number and the quote.
    """
    lines = [json.dumps(text, ensure_ascii=False)[:-1] for text in texts]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def predict_once(port: int, sentences: Sequence[str]) -> bytes:
    """Sends one request and returns the body; raises BenchmarkError without a right answer."""
    connection = http.client.HTTPConnection(_HOST, port, timeout=_ANSWER_SECONDS)
    headers = {"Content-Type": "application/json"}
    try:
        connection.request("POST", "/predict", json.dumps({"sentences": sentences}), headers)
        answer = connection.getresponse()
        content = answer.read()
    except TimeoutError as error:
        raise BenchmarkError(f"no answer within {_ANSWER_SECONDS:g} s") from error
    except (OSError, http.client.HTTPException) as error:
        raise BenchmarkError(f"no answer from port {port}: {error}") from error
    finally:
        connection.close()
    if answer.status != 200:
        text = content[:200].decode("utf-8", "replace")
        raise BenchmarkError(f"status {answer.status}, not 200: {text!r}")
    return content


def find_wrk() -> str:
    """Returns the path of wrk, or raises BenchmarkError."""
    path = shutil.which("wrk")
    if path is None:
        raise BenchmarkError("wrk, the client, is not installed: apt-get install wrk")
    return path


def closed_loop(load: Load, *, texts: Path, port: int, first: int, seconds: float) -> Figures:
    """Sends a load for some seconds; `first` is the number before that of the first text.

    `texts` is the file that `write_literals` wrote. Raises BenchmarkError if a request failed.
    """
    command = [
        *(find_wrk(), "--threads", "1", "--connections", str(load.connections)),
        *("--duration", f"{max(1, round(seconds))}s", "--timeout", f"{_ANSWER_SECONDS:g}s"),
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
        raise BenchmarkError(f"{load.name}: wrk printed no figures: {error}") from error
    if result["failed"]:
        failed, requests = result["failed"], result["requests"]
        raise BenchmarkError(f"{load.name}: {failed} of {requests} requests failed")
    # Counted from when each connection could have its first answer: a rate over the whole time
    # would miss requests in flight at the end, most on slow servers.
    counted = result["counted"]
    rate = counted * load.sentences / result["seconds"] if counted else 0.0
    return Figures(rate, result["p50"], result["p99"], result["requests"])
