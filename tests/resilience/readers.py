"""Asks for large answers and reads them slowly; tells what that costs the service.

    python -m tests.resilience.readers

starts the service with the default model, and prints its memory before, during and after.
"""

import argparse
import json
import re
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.end_to_end.servers import ROOT, RunningService, service

_PATIENCE = 60.0
_REQUEST = {"sentence": "the plot drags but the cast is superb " * 18}
_STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")


def megabytes(running: RunningService) -> float:
    """The memory that a service takes now, in MB."""
    return running.metric("headlight_process_resident_memory_bytes") / 1e6


def ask(running: RunningService, content: object) -> socket.socket:
    """Asks for attention on a connection that takes little at once.

    Args:
        running: the service.
        content: of the request.
    """
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(_PATIENCE)
    connection.connect(("127.0.0.1", running.port))
    body = json.dumps(content).encode()
    connection.sendall(
        b"POST /attention HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
    )
    return connection


@contextmanager
def slow_readers(
    running: RunningService, count: int, *, rate: int, body: object
) -> Iterator[tuple[Counter[str], Counter[str]]]:
    """Runs clients that ask once and then read slowly, until the block ends.

    Args:
        running: the service.
        count: of clients.
        rate: bytes that each reads in a second.
        body: of their requests.

    Yields:
        The statuses of answers, and how connections ended, as they come in.
    """
    statuses: Counter[str] = Counter()
    ends: Counter[str] = Counter()
    over = threading.Event()

    def read() -> None:
        try:
            with ask(running, body) as connection:
                first = connection.recv(max(rate, 16))
                found = _STATUS.match(first)
                statuses[found[1].decode() if found else "none"] += 1
                while not over.wait(1.0):
                    if not connection.recv(rate):
                        ends["closed"] += 1
                        return
        except ConnectionError:
            ends["reset"] += 1
        except TimeoutError:
            ends["silent"] += 1

    clients = [threading.Thread(target=read) for _ in range(count)]
    for client in clients:
        client.start()
    try:
        yield statuses, ends
    finally:
        over.set()
        for client in clients:
            client.join()


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the clients, and prints what the service took."""
    parser = argparse.ArgumentParser(description="Reads large answers slowly.")
    parser.add_argument("--readers", type=int, default=40, help="clients (default: 40)")
    parser.add_argument("--rate", type=int, default=1000, help="bytes a second (default: 1000)")
    parser.add_argument("--seconds", type=float, default=120, help="of reading (default: 120)")
    options = parser.parse_args(arguments)
    with (
        tempfile.TemporaryDirectory() as folder,
        service(ROOT / "checkpoints/default", Path(folder), "--request-timeout", "60") as running,
        running.client() as client,
    ):
        answer = client.post("/attention", json=_REQUEST).raise_for_status()
        print(
            f"one answer: {len(answer.content)} bytes; memory {megabytes(running):.0f} MB",
            flush=True,
        )
        reading = slow_readers(running, options.readers, rate=options.rate, body=_REQUEST)
        with reading as (statuses, ends):
            most, until = 0.0, time.monotonic() + options.seconds
            while time.monotonic() < until:
                most = max(most, megabytes(running))
                time.sleep(0.5)
            small = client.post("/predict", json={"sentences": ["good"]}).status_code
            print(f"most memory: {most:.0f} MB; at last {megabytes(running):.0f} MB", flush=True)
            print(f"statuses: {dict(statuses)}; ended meanwhile: {dict(ends)}")
            print(f"a small prediction beside them: {small}")
        time.sleep(2)
        print(f"memory after it: {megabytes(running):.0f} MB", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
