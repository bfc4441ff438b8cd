"""Sends a service what no client should send, and opens checkpoints that are damaged.

    python -m tests.resilience.fuzz --requests 80000 --documents 30000 --folders 10000

Requests are bytes for a socket (garble.py), sent while others read large answers slowly; documents
are requests that schemathesis makes from the OpenAPI document; folders are checkpoints, damaged.
Prints what was wrong; the status is 0 if that was nothing.
"""

import argparse
import json
import random
import re
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from model import Checkpoint, open_checkpoint
from model.errors import CheckpointError
from service.errors import ALL_ERRORS
from tests.builders import tiny_checkpoint
from tests.commands import finish
from tests.end_to_end.servers import RunningService, service
from tests.resilience.garble import Request, damage, draw_request
from tests.resilience.readers import slow_readers

_PATIENCE = 20.0
_QUIET = 0.25
_EVERY = 500
_CLIENTS = 16
OPTIONS = ("--max-body-bytes", "1000000", "--max-attention-weights", "4000")
_CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "unsupported_method",
)
_OPERATIONS = 21
_SLOWLY_READ = {"sentence": "good film, bad plot; " * 4}
# 503 and 504 are answers that the document promises. The page at / is not described in it.
_SETTINGS = """
[checks]
not_a_server_error.expected-statuses = ["2xx", "4xx", "503", "504"]

[[operations]]
include-path = "/"
phases.coverage.unexpected-methods = ["PUT", "PATCH", "DELETE", "TRACE"]
"""
_STATUSES = {200, *(error.status for error in ALL_ERRORS if error.status != 500)}
_TYPES = {f"/problems/{error.type}": error.status for error in ALL_ERRORS}
# The server's own, for what is not HTTP.
_BARE = re.compile(
    rb"Invalid HTTP request received\.|A request has one Host header; this one has \d+\.|"
    rb"A % in the URL needs two hexadecimal digits behind it; a plain % is %25\.|"
    rb"This service speaks HTTP/1\.1 and HTTP/1\.0\.|"
    rb"Transfer-Encoding may only be chunked, given once\."
)
_BEGINNING = re.compile(rb"HTTP/1\.1 (?!100 )\d{3} ")
_HEAD = re.compile(rb"HTTP/1\.1 (\d{3}) [^\r\n]*\r\n(?:[^\r\n]+\r\n)*\r\n")


def fuzz_requests(running: RunningService, seeds: Sequence[int]) -> tuple[Counter[str], list[str]]:
    """Sends a request for each seed; returns how many answers had each status, and all faults."""
    statuses: Counter[str] = Counter()
    faults: list[str] = []
    expected = _answer(running)

    def send(seed: int) -> list[str]:
        try:
            request = draw_request(seed)
            return _judge(_exchange(running, request), request) or ["no answer"]
        except (OSError, ValueError) as error:
            faults.append(f"request {seed}: {type(error).__name__}: {error}")
            return []

    readers = slow_readers(running.port, 4, rate=1000, body=_SLOWLY_READ)
    with readers as slow, ThreadPoolExecutor(_CLIENTS) as pool:
        for number, found in enumerate(pool.map(send, seeds), start=1):
            statuses.update(found)
            if number % _EVERY == 0 and _answer(running) != expected:
                faults.append(f"before request {number} a good sentence has another answer")
    if _answer(running) != expected:
        faults.append("at the end a good sentence has another answer")
    faults += [f"a slow reader got {status}" for status in slow.keys() - {"200", "503"}]
    return statuses, faults


def _exchange(running: RunningService, request: Request) -> bytes:
    """Returns what comes back until the service closes.

    The sending side is closed only when all due answers are there: a client that closes before has
    gone, for the service, and gets no answer.
    """
    received = bytearray()
    with socket.create_connection(("127.0.0.1", running.port), timeout=_PATIENCE) as connection:
        # If the service closes or resets first, what came before is judged.
        with suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(request.content)
        with suppress(ConnectionResetError):
            is_open = True
            while is_open and len(_BEGINNING.findall(received)) < request.answers:
                is_open = _receive(connection, received)
            connection.settimeout(_QUIET)
            with suppress(TimeoutError):  # it waits for more, of this request or of the next
                while is_open:
                    is_open = _receive(connection, received)
            connection.settimeout(_PATIENCE)
            if is_open:
                connection.shutdown(socket.SHUT_WR)
            while is_open:
                is_open = _receive(connection, received)
    return bytes(received)


def _receive(connection: socket.socket, received: bytearray) -> bool:
    """Adds what comes next; returns whether it was not the end."""
    chunk = connection.recv(65536)
    received += chunk
    return bool(chunk)


def _judge(received: bytes, request: Request) -> list[str]:
    """Returns the statuses of right answers; raises ValueError for others, or another number."""
    statuses = []
    closes = False
    while received:
        if received.startswith(b"HTTP/1.1 100 "):
            _, _, received = received.partition(b"\r\n\r\n")
            continue
        head = _HEAD.match(received)
        if head is None:
            raise ValueError(f"no head: {received[:80]!r}")
        length = re.search(rb"\r\ncontent-length: (\d+)\r\n", head[0], re.IGNORECASE)
        body, rest = received[head.end() :], b""
        if length is not None and not body.startswith(b"HTTP/1.1 "):
            body, rest = body[: int(length[1])], body[int(length[1]) :]
        elif length is not None:  # an answer to HEAD
            body, rest = b"", body
        _check_answer(int(head[1]), head[0], body)
        statuses.append(head[1].decode())
        closes = b"\r\nconnection: close\r\n" in head[0].lower()
        received = rest
    # After `Connection: close` a client knows that nothing behind that request was read.
    too_few = len(statuses) < request.answers and not closes
    if too_few or (len(statuses) > request.answers and not request.goes_on):
        raise ValueError(f"{len(statuses)} answers where {request.answers} are due")
    return statuses


def _check_answer(status: int, head: bytes, body: bytes) -> None:
    if status == 400 and _BARE.fullmatch(body):
        return
    if status not in _STATUSES:
        raise ValueError(f"status {status}: {body[:200]!r}")
    if b"\r\nx-request-id: " not in head.lower():
        raise ValueError(f"status {status} without X-Request-ID")
    if status != 200 and body:
        problem = json.loads(body)
        if _TYPES.get(problem["type"]) != status or problem["status"] != status:
            raise ValueError(f"status {status} with {problem['type']}")


def _answer(running: RunningService) -> list[tuple[str, float]]:
    with running.client() as client:
        # The other requests may still fill the queue.
        until = time.monotonic() + _PATIENCE
        while True:
            response = client.post("/predict", json={"sentences": ["good", "the plot is bad"]})
            if response.status_code != 503 or time.monotonic() > until:
                break
            time.sleep(_QUIET)
    predictions = response.raise_for_status().json()["predictions"]
    return [(each["label"], round(each["score"], 3)) for each in predictions]


def fuzz_documents(running: RunningService, count: int, seed: int) -> tuple[int, list[str]]:
    """Lets schemathesis send about `count` requests; returns how many it sent, and all faults."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "schemathesis.toml").write_text(_SETTINGS, encoding="utf-8")
        done = finish(
            *(Path(sys.executable).parent / "schemathesis", "run", f"{running.url}/openapi.json"),
            *(f"--max-examples={max(1, count // _OPERATIONS)}", f"--seed={seed}"),
            *(f"--checks={','.join(_CHECKS)}", "--phases=examples,coverage,fuzzing"),
            *("--suppress-health-check=all", "--no-color"),
            folder=Path(folder),
        )
    generated = re.search(r"(\d+) generated", done.stdout)
    faults = [] if done.returncode == 0 else [done.stdout[-4000:] + done.stderr[-1000:]]
    return int(generated[1]) if generated else 0, faults


def fuzz_folders(folder: Path, count: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Damages a checkpoint folder `count` times; returns outcomes by file, and all faults.

    Each damage must be refused by the name of its file, or change nothing.
    """
    chance = random.Random(seed)
    target = tiny_checkpoint(folder / "damaged")
    expected = _fingerprint(open_checkpoint(target))
    files = sorted(path for path in target.iterdir() if path.is_file())
    refused: Counter[str] = Counter()
    faults: list[str] = []
    for number in range(count):
        path = files[number % len(files)]
        sound = path.read_bytes()
        path.write_bytes(damage(sound, chance))
        try:
            checkpoint = open_checkpoint(target)
        except CheckpointError as error:
            refused[path.name] += 1
            if error.path != path:
                faults.append(f"damage {number} of {path.name} is blamed on {error.path}")
        except Exception as error:
            faults.append(f"damage {number} of {path.name}: {type(error).__name__}: {error}")
        else:
            refused[f"{path.name}: without effect"] += 1
            if _fingerprint(checkpoint) != expected:
                faults.append(f"damage {number} of {path.name} goes unnoticed")
        path.write_bytes(sound)
    return refused, faults


def _fingerprint(checkpoint: Checkpoint) -> tuple[object, ...]:
    """Everything that decides the answers of a service; the version stands for the weights."""
    encoding = checkpoint.tokenizer.encode("Good, the plot is bad.", with_tokens=True)
    return (checkpoint.version, checkpoint.config, checkpoint.manifest, encoding)


def main() -> int:
    """Runs all three and prints what was found."""
    parser = argparse.ArgumentParser(description="Sends a service what no client should send.")
    parser.add_argument("--requests", type=int, default=80_000)
    parser.add_argument("--documents", type=int, default=30_000)
    parser.add_argument("--folders", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with service(tiny_checkpoint(folder / "tiny"), folder, *OPTIONS) as running:
            first = options.seed * 10_000_000
            seeds = range(first, first + options.requests)
            statuses, faults = fuzz_requests(running, seeds)
            print(f"{options.requests} requests: {dict(sorted(statuses.items()))}", flush=True)
            sent, found = fuzz_documents(running, options.documents, options.seed)
            print(f"{sent} requests by schemathesis", flush=True)
            faults += found
        refused, found = fuzz_folders(folder, options.folders, options.seed)
        print(f"{options.folders} damaged folders: {dict(sorted(refused.items()))}")
        faults += found
    print("\n".join([f"{len(faults)} faults", *faults[:50]]))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
