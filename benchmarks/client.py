"""Asks a server, once or on some connections, each of which asks again once it is answered.

`closed_loop` runs this module as processes. It speaks on plain sockets: libraries of HTTP take
several times as long.
"""

import json
import os
import re
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path

from benchmarks.errors import BenchmarkError
from benchmarks.loads import SENTENCES, Figures, Load

ROOT = Path(__file__).parent.parent
_HOST = "127.0.0.1"
_ANSWER_SECONDS = 30.0
_CORES_A_PROCESS = 4  # the server gets most of them
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


class _Connection(socket.socket):
    """A connection with one request at a time; `began` is when it was sent."""

    def open(self, port: int) -> None:
        self.settimeout(_ANSWER_SECONDS)
        self.connect((_HOST, port))
        self.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, request: bytes) -> None:
        self._received, self.began = b"", time.perf_counter()
        self.sendall(request)

    def answer(self) -> bytes | None:
        """Reads what has come; returns the body once it is whole."""
        piece = self.recv(1 << 18)
        if not piece:
            raise ConnectionResetError("the connection was closed")
        self._received += piece
        head, _, body = self._received.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if length is None or len(body) < int(length[1]):
            return None
        status = head.split(b" ")[1].decode()
        if status != "200":
            raise BenchmarkError(f"status {status}, not 200: {body[:200].decode()!r}")
        return body


def predict_once(port: int, sentences: Sequence[str]) -> bytes:
    """Sends one request and returns the body; raises BenchmarkError without a right answer."""
    try:
        with _Connection() as connection:
            connection.open(port)
            connection.ask(_request("predict", list(map(json.dumps, sentences))))
            while (body := connection.answer()) is None:
                pass
            return body
    except TimeoutError as error:
        raise BenchmarkError(f"no answer within {_ANSWER_SECONDS:g} s") from error
    except OSError as error:
        raise BenchmarkError(f"no answer from port {port}: {error}") from error


def closed_loop(load: Load, *, port: int, first: int, warm_up: float, seconds: float) -> Figures:
    """Sends a load, and measures it after the warm-up; the texts are numbered from `first` on.

    Raises:
        BenchmarkError: a request failed, or none is answered for long.
    """
    count = max(1, min(load.connections, len(os.sched_getaffinity(0)) // _CORES_A_PROCESS))
    waits, rate = [], 0.0
    with ExitStack() as stack:
        processes = []
        for number in range(count):
            share = replace(load, connections=len(range(number, load.connections, count)))
            given = (asdict(share), port, first + number, count, warm_up, seconds)
            command = [sys.executable, "-m", "benchmarks.client", json.dumps(given)]
            process = subprocess.Popen(  # noqa: S603 - this module
                command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT, text=True
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            processes.append(process)
        for process in processes:
            printed, said = process.communicate(timeout=warm_up + seconds + 2 * _ANSWER_SECONDS)
            if process.returncode:
                raise BenchmarkError(f"{load.name}: {said.strip().rpartition(chr(10))[2]}")
            own, took = json.loads(printed)
            waits += own
            rate += len(own) * load.sentences / took
    waits.sort()
    return Figures(rate, waits[len(waits) // 2], waits[len(waits) * 99 // 100], len(waits))


def _request(route: str, literals: Sequence[str]) -> bytes:
    """Makes a request of texts that are strings of JSON."""
    is_list = route == "predict"
    body = f'{{"sentences":[{",".join(literals)}]}}' if is_list else f'{{"sentence":{literals[0]}}}'
    head = f"POST /{route} HTTP/1.1\r\nHost: {_HOST}\r\nContent-Type: application/json"
    return f"{head}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()


def _requests(load: Load, first: int, step: int) -> Iterator[bytes]:
    """Makes requests without end; their texts end in numbers from `first` on."""
    opened = [json.dumps(text)[:-1] for text in SENTENCES]
    while True:
        numbers = range(first, first + load.sentences * step, step)
        first += load.sentences * step
        yield _request(load.route, [f'{opened[at % len(opened)]} {at}"' for at in numbers])


def _ask(
    load: Load, port: int, first: int, step: int, warm_up: float, seconds: float
) -> tuple[list[float], float]:
    """Returns the seconds of each answer after the warm-up, and how long that took."""
    requests = _requests(load, first, step)
    waits: list[float] = []
    with selectors.DefaultSelector() as selector:
        for _ in range(load.connections):
            connection = _Connection()
            connection.open(port)
            connection.ask(next(requests))
            selector.register(connection, selectors.EVENT_READ, connection)
        begin = time.perf_counter() + warm_up
        while (left := begin + seconds - time.perf_counter()) > 0 or not waits:
            ready = selector.select(left if waits else _ANSWER_SECONDS)
            if not ready and not waits:
                raise BenchmarkError(f"no answer within {_ANSWER_SECONDS:g} s")
            for connection in [each.data for each, _ in ready]:
                if connection.answer() is not None:
                    if (now := time.perf_counter()) >= begin:
                        waits.append(now - connection.began)
                    connection.ask(next(requests))
        return waits, time.perf_counter() - begin


if __name__ == "__main__":
    own, *others = json.loads(sys.argv[1])
    try:
        sys.stdout.write(json.dumps(_ask(Load(**own), *others)))
    except (BenchmarkError, OSError) as error:
        sys.exit(str(error))
