"""Clients that ask for large answers and read them slowly."""

import json
import re
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_PATIENCE = 60.0
_STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")


@contextmanager
def slow_readers(port: int, count: int, *, rate: int, body: object) -> Iterator[Counter[str]]:
    """Runs clients that ask for attention once and then read `rate` bytes a second.

    Yields:
        The statuses of answers, as they come in.
    """
    statuses: Counter[str] = Counter()
    over = threading.Event()

    def read() -> None:
        with (
            suppress(ConnectionError, TimeoutError),
            _ask(port, json.dumps(body).encode()) as asked,
        ):
            first = asked.recv(max(rate, 16))
            status = _STATUS.match(first)
            statuses[status[1].decode() if status else "none"] += 1
            while status and status[1] == b"200" and not over.wait(1.0) and asked.recv(rate):
                pass

    clients = [threading.Thread(target=read) for _ in range(count)]
    for client in clients:
        client.start()
    try:
        yield statuses
    finally:
        over.set()
        for client in clients:
            client.join()


def _ask(port: int, body: bytes) -> socket.socket:
    connection = socket.socket()
    # The kernel holds little for the reader, so that the service notices how slow it is.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(_PATIENCE)
    connection.connect(("127.0.0.1", port))
    connection.sendall(
        b"POST /attention HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
    )
    return connection
