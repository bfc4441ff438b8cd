"""From what came back on a connection to the statuses of answers, all of which must be right."""

import json
import re

from service.errors import ALL_ERRORS
from tests.resilience.garble import Request

_STATUSES = {200, *(error.status for error in ALL_ERRORS if error.status != 500)}
_TYPES = {f"/problems/{error.type}": error.status for error in ALL_ERRORS}
# The server's own, for what is not HTTP.
_BARE = re.compile(
    rb"Invalid HTTP request received\.|A request has one Host header; this one has \d+\.|"
    rb"A % in the URL needs two hexadecimal digits behind it; a plain % is %25\."
)
_BEGINNING = re.compile(rb"HTTP/1\.1 (?!100 )\d{3} ")
_HEAD = re.compile(rb"HTTP/1\.1 (\d{3}) [^\r\n]*\r\n(?:[^\r\n]+\r\n)*\r\n")


def count_answers(received: bytes | bytearray) -> int:
    """How many answers have begun.

    Args:
        received: all that came back until now.
    """
    return len(_BEGINNING.findall(received))


def judge(received: bytes, request: Request) -> list[str]:
    """The statuses of the answers to what was sent.

    Args:
        received: all that came back.
        request: what was sent.

    Raises:
        ValueError: one is no answer of this service, or there are too few or too many.
    """
    statuses = []
    closes = False
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
        closes = b"\r\nconnection: close\r\n" in head[0].lower()
        received = rest
    # Whoever is told that the connection closes knows that nothing behind it was read.
    if len(statuses) < request.answers and not closes:
        raise ValueError(f"{len(statuses)} answers where {request.answers} are due")
    if len(statuses) > request.answers and not request.goes_on:
        raise ValueError(f"{len(statuses)} answers where only {request.answers} are due")
    return statuses


def _check(status: int, head: bytes, body: bytes) -> None:
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
