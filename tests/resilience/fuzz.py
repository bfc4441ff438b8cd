"""A service that is sent what no client should send, and checkpoints that are damaged.

    python -m tests.resilience.fuzz --requests 80000 --documents 30000 --folders 10000

Requests are bytes for a socket (tests.resilience.garble), sent while others read large answers
slowly (tests.resilience.slow); documents are requests that schemathesis makes from the OpenAPI
document; folders are checkpoints (tests.resilience.damage). Prints what was found; the status is 0
if that was nothing.
"""

import argparse
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.builders import tiny_checkpoint
from tests.end_to_end.servers import RunningService, service
from tests.resilience.answers import count_answers, judge
from tests.resilience.damage import fuzz_folders
from tests.resilience.garble import Request, draw_request
from tests.resilience.load import Tally
from tests.resilience.slow import SlowReader

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
# With so many repeats the answers, 35 kB each, are more than the kernel takes for a reader.
_READ_SLOWLY = "good film, bad plot; " * 4
_REPEATS = 200
_READERS = 4
# 503 and 504 are answers that the document promises. The page at / is not described in it.
_SETTINGS = """
[checks]
not_a_server_error.expected-statuses = ["2xx", "4xx", "503", "504"]

[[operations]]
include-path = "/"
phases.coverage.unexpected-methods = ["PUT", "PATCH", "DELETE", "TRACE"]
"""


def fuzz_requests(running: RunningService, seeds: Sequence[int]) -> tuple[Counter[str], list[str]]:
    """Sends one drawn request for each seed, each on a connection of its own, sixteen at a time.

    Args:
        running: the service.
        seeds: of the requests.

    Returns:
        How many answers had each status, how the slow readers ended, and what was wrong.
    """
    statuses: Counter[str] = Counter()
    faults: list[str] = []
    expected = _answer(running)

    def send(seed: int) -> list[str]:
        try:
            request = draw_request(seed)
            return judge(_exchange(running, request), request) or ["no answer"]
        except (OSError, ValueError) as error:
            faults.append(f"request {seed}: {type(error).__name__}: {error}")
            return []

    with _slow_readers(running) as tally, ThreadPoolExecutor(_CLIENTS) as pool:
        for number, found in enumerate(pool.map(send, seeds), start=1):
            statuses.update(found)
            if number % _EVERY == 0 and _answer(running) != expected:
                faults.append(f"before request {number} a good sentence has another answer")
    if _answer(running) != expected:
        faults.append("at the end a good sentence has another answer")
    statuses.update(tally.right)
    return statuses, faults + [f"{count} times {fault}" for fault, count in tally.faults.items()]


@contextmanager
def _slow_readers(running: RunningService) -> Iterator[Tally]:
    """Lets some read slowly for as long as the block lasts."""
    tally, stop = Tally(), threading.Event()
    reader = SlowReader(running.port, _READ_SLOWLY, repeats=_REPEATS, pause=0.02, reads=50)
    readers = [threading.Thread(target=reader.run, args=(tally, stop)) for _ in range(_READERS)]
    for each in readers:
        each.start()
    try:
        yield tally
    finally:
        stop.set()
        for each in readers:
            each.join()


def _exchange(running: RunningService, request: Request) -> bytes:
    """What comes back until the service closes.

    It is told that nothing more is sent when all is answered that is due: who says so before has
    gone, for the service, and gets no answer.

    Raises:
        OSError: it is silent for too long.
    """
    received = bytearray()
    with socket.create_connection(("127.0.0.1", running.port), timeout=_PATIENCE) as connection:
        # Whoever closes or resets first, what came before is judged.
        with suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(request.content)
        with suppress(ConnectionResetError):
            is_open = True
            while is_open and count_answers(received) < request.answers:
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
    """Adds what comes next, and says whether it was not the end."""
    chunk = connection.recv(65536)
    received += chunk
    return bool(chunk)


def _answer(running: RunningService) -> list[tuple[str, float]]:
    with running.client() as client:
        # What is left over of the other requests may fill the queue.
        until = time.monotonic() + _PATIENCE
        while True:
            response = client.post("/predict", json={"sentences": ["good", "the plot is bad"]})
            if response.status_code != 503 or time.monotonic() > until:
                break
            time.sleep(_QUIET)
    predictions = response.raise_for_status().json()["predictions"]
    return [(each["label"], round(each["score"], 3)) for each in predictions]


def fuzz_documents(running: RunningService, count: int, seed: int) -> tuple[int, list[str]]:
    """Lets schemathesis ask what the OpenAPI document allows, and what it does not.

    Args:
        running: the service.
        count: of requests, about.
        seed: of schemathesis.

    Returns:
        How many were sent, and what was wrong.
    """
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "schemathesis.toml").write_text(_SETTINGS, encoding="utf-8")
        done = subprocess.run(
            [
                str(Path(sys.executable).parent / "schemathesis"),
                "run",
                f"{running.url}/openapi.json",
                f"--max-examples={max(1, count // _OPERATIONS)}",
                f"--seed={seed}",
                f"--checks={','.join(_CHECKS)}",
                "--phases=examples,coverage,fuzzing",
                "--suppress-health-check=all",
                "--no-color",
            ],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
    generated = re.search(r"(\d+) generated", done.stdout)
    faults = [] if done.returncode == 0 else [done.stdout[-4000:] + done.stderr[-1000:]]
    return int(generated[1]) if generated else 0, faults


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
