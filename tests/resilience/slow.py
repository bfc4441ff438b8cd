"""Reads large answers slowly, as a client on a bad line does, or one that means harm."""

import json
import re
import socket
import threading
from contextlib import suppress
from dataclasses import dataclass

from tests.resilience.load import REFUSALS, RefusedError, Tally, WrongError

_PATIENCE = 30.0
_PIECE = 1024
# The kernel holds little for the reader, so that the sender feels how slow it is.
_BUFFER = 4096
_HEAD = re.compile(rb"HTTP/1\.1 (\d{3}) [^\r\n]*\r\n(?:[^\r\n]+\r\n)*\r\n")
_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)\r\n", re.IGNORECASE)
_BEGINNING = b'{"model":'
_ALL, _LEFT, _CUT_OFF = (
    "a slow reader got it all",
    "a slow reader left",
    "a slow reader was cut off",
)
# How it may end; a refusal is right too.
ENDS = (_ALL, _LEFT, _CUT_OFF)


@dataclass(frozen=True, slots=True)
class SlowReader:
    """Asks for the weights of a text and reads a kilobyte at a time.

    Each of these ends is right: it gets everything; it leaves; the service ends the connection
    within the answer, because it reads too slowly; the service refuses it with 503.

    Args:
        port: on 127.0.0.1.
        text: whose weights are asked for, all layers and heads.
        repeats: how often it asks before it reads, on the same connection.
        pause: seconds before each kilobyte.
        reads: kilobytes after which it leaves.
    """

    port: int
    text: str
    repeats: int = 1
    pause: float = 1.0
    reads: int = 120

    def run(self, tally: Tally, stop: threading.Event) -> None:
        """Asks again and again until it is told to stop."""
        while not stop.is_set():
            self.ask(tally, stop)

    def ask(self, tally: Tally, stop: threading.Event) -> None:
        """Asks once, reads until one of the ends, and counts it."""
        try:
            tally.count(self._end(stop))
        except RefusedError:
            tally.count_refusal("a slow reader")
            stop.wait(self.pause)
        except (WrongError, OSError) as error:
            tally.count("a slow reader", repr(error))
            stop.wait(self.pause)

    def _end(self, stop: threading.Event) -> str:
        body = json.dumps({"sentence": self.text}).encode()
        request = (
            "POST /attention HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        ).encode("ascii")
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
            connection.settimeout(_PATIENCE)
            connection.connect(("127.0.0.1", self.port))
            connection.sendall((request + body) * self.repeats)
            received = b""
            for _ in range(self.reads):
                piece = b""
                # Within an answer a reset is an end like any other; before it, it loses the answer.
                with suppress(*([ConnectionResetError] if received else [])):
                    piece = connection.recv(_PIECE)
                received += piece
                if _count_whole(received, self.repeats) == self.repeats:
                    return _ALL
                if not piece:
                    if not received:
                        raise WrongError("no answer")
                    return _CUT_OFF
                if stop.wait(self.pause):
                    break
        return _LEFT


def _count_whole(received: bytes, repeats: int) -> int:
    """Counts the answers that are whole.

    Raises:
        RefusedError: one is a refusal.
        WrongError: one is neither that nor weights.
    """
    count = 0
    while count < repeats and (head := _HEAD.match(received)):
        body = received[head.end() :]
        length = _LENGTH.search(head[0])
        if length is None:
            raise WrongError("an answer without its length")
        whole = len(body) >= int(length[1])
        _check(int(head[1]), body[: int(length[1])], whole=whole)
        if not whole:
            break
        received = body[int(length[1]) :]
        count += 1
    return count


def _check(status: int, body: bytes, *, whole: bool) -> None:
    """Judges as much of a body as has come."""
    if status in REFUSALS:
        if any(kind.encode() in body for kind in REFUSALS[status]):
            raise RefusedError(str(status))
        if whole:
            raise WrongError(f"{status}: {body[:120]!r}")
    elif status != 200:
        raise WrongError(f"{status}: {body[:120]!r}")
    elif not body.startswith(_BEGINNING[: len(body)]):
        raise WrongError(f"no weights: {body[:120]!r}")
