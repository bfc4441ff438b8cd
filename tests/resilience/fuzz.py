"""A service that is sent what no client should send, and checkpoints that are damaged.

    python -m tests.resilience.fuzz --requests 80000 --documents 30000 --folders 10000

Requests are bytes for a socket (tests.resilience.garble); documents are requests that schemathesis
makes from the OpenAPI document; folders are checkpoints with a flipped bit, a changed byte or an
end cut off. Prints what was found; the status is 0 if that was nothing.
"""

import argparse
import json
import random
import re
import socket
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from model import open_checkpoint
from model.errors import CheckpointError
from service.errors import ALL_ERRORS
from tests.builders import tiny_checkpoint
from tests.end_to_end.servers import RunningService, service
from tests.resilience.garble import draw_request

_PATIENCE = 20.0
_QUIET = 0.25
_EVERY = 500
_CLIENTS = 16
OPTIONS = ("--max-body-bytes", "1000000", "--max-attention-weights", "4000")
_STATUSES = {200, *(error.status for error in ALL_ERRORS if error.status != 500)}
_TYPES = {f"/problems/{error.type}": error.status for error in ALL_ERRORS}
# uvicorn's own, for what is not HTTP.
_BARE = b"Invalid HTTP request received."
_HEAD = re.compile(rb"HTTP/1\.1 (\d{3}) [^\r\n]*\r\n(?:[^\r\n]+\r\n)*\r\n")
_CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "unsupported_method",
)
_OPERATIONS = 11
# 503 and 504 are answers that the document promises.
_SETTINGS = """
[checks]
not_a_server_error.expected-statuses = ["2xx", "4xx", "503", "504"]
"""


def fuzz_requests(running: RunningService, seeds: Sequence[int]) -> tuple[Counter[str], list[str]]:
    """Sends one drawn request for each seed, each on a connection of its own, sixteen at a time.

    Args:
        running: the service.
        seeds: of the requests.

    Returns:
        How many answers had each status, and what was wrong.
    """
    statuses: Counter[str] = Counter()
    faults: list[str] = []
    expected = _answer(running)

    def send(seed: int) -> list[str]:
        try:
            return _judge(_exchange(running, draw_request(seed))) or ["no answer"]
        except (OSError, ValueError) as error:
            faults.append(f"request {seed}: {type(error).__name__}: {error}")
            return []

    with ThreadPoolExecutor(_CLIENTS) as pool:
        for number, found in enumerate(pool.map(send, seeds), start=1):
            statuses.update(found)
            if number % _EVERY == 0 and _answer(running) != expected:
                faults.append(f"before request {number} a good sentence has another answer")
    if _answer(running) != expected:
        faults.append("at the end a good sentence has another answer")
    return statuses, faults


def _exchange(running: RunningService, request: bytes) -> bytes:
    """What comes back until the service closes; it is told when nothing more is sent."""
    received = bytearray()
    with socket.create_connection(("127.0.0.1", running.port), timeout=_PATIENCE) as connection:
        # Whoever closes or resets first, what came before is judged.
        with suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(request)
        with suppress(ConnectionResetError):
            connection.settimeout(_QUIET)
            try:
                while chunk := connection.recv(65536):
                    received += chunk
            except TimeoutError:  # it waits for more, of this request or of the next
                connection.settimeout(_PATIENCE)
                connection.shutdown(socket.SHUT_WR)
                while chunk := connection.recv(65536):
                    received += chunk
    return bytes(received)


def _judge(received: bytes) -> list[str]:
    """The statuses of answers that follow each other.

    Raises:
        ValueError: one is no answer of this service.
    """
    statuses = []
    while received:
        if received.startswith(b"HTTP/1.1 100 "):
            _, _, received = received.partition(b"\r\n\r\n")
            continue
        head = _HEAD.match(received)
        if head is None:
            raise ValueError(f"no head: {received[:80]!r}")
        status = int(head[1])
        length = re.search(rb"\r\ncontent-length: (\d+)\r\n", head[0], re.IGNORECASE)
        body, rest = received[head.end() :], b""
        if length is not None and not body.startswith(b"HTTP/1.1 "):
            body, rest = body[: int(length[1])], body[int(length[1]) :]
        elif length is not None:  # an answer to HEAD
            body, rest = b"", body
        _check(status, head[0], body)
        statuses.append(str(status))
        received = rest
    return statuses


def _check(status: int, head: bytes, body: bytes) -> None:
    if body == _BARE:
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
        response = client.post("/predict", json={"sentences": ["good", "the plot is bad"]})
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


def fuzz_folders(folder: Path, count: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Damages a checkpoint folder in many ways; each must be refused, or change nothing.

    Args:
        folder: where to make it.
        count: of damages.
        seed: of what is damaged.

    Returns:
        How many were refused in each file, and what was wrong.
    """
    chance = random.Random(seed)
    target = tiny_checkpoint(folder / "damaged")
    version = open_checkpoint(target).version
    files = sorted(path for path in target.iterdir() if path.is_file())
    refused: Counter[str] = Counter()
    faults: list[str] = []
    for number in range(count):
        path = files[number % len(files)]
        sound = path.read_bytes()
        path.write_bytes(_damage(sound, chance))
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
            if checkpoint.version != version:
                faults.append(f"damage {number} of {path.name} goes unnoticed")
        path.write_bytes(sound)
    return refused, faults


def _damage(content: bytes, chance: random.Random) -> bytes:
    kind = chance.randrange(4)
    place = chance.randrange(len(content))
    if kind == 0:
        return content[:place]
    damaged = bytearray(content)
    if kind == 1:
        damaged[place] ^= 1 << chance.randrange(8)
    elif kind == 2:
        damaged[place:place] = chance.randbytes(chance.randint(1, 9))
    else:
        damaged[place : place + 8] = chance.randbytes(len(damaged[place : place + 8]))
    return bytes(damaged)


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
