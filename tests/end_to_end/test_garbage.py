"""What a request leaves is freed at once: the collector of garbage seldom looks at what is old."""

import gc
import json
import re
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from tests.end_to_end.misbehaving import patches
from tests.end_to_end.routes import ROUTES, Route
from tests.end_to_end.servers import RunningService, receive_all, shared, wait_until

MOST_BYTES = 100_000
# A word that overflows in the network, and one at which the tokenizer panics.
OVERFLOWS, PANICS = "superb", "x" * 40
TEXTS: dict[str, tuple[object, int]] = {
    "good": ("good", 200),
    "no text": ({"a": [{}] * 5000}, 422),
    "blank": (" " * 20_000, 422),
    "half a pair": ("a\ud800" * 5000, 422),
    "overflows": (OVERFLOWS, 500),
    "panics": (PANICS, 500),
    "too large": ("a" * MOST_BYTES, 413),
}
# How a body that is right as JSON is made wrong, with a header if need be.
CHANGES: dict[str, tuple[str, str, str, int]] = {
    "cut": (r"\}$", "", "", 400),
    "not a number": (r"^\{", r'{"a": NaN, ', "", 400),
    "twice": (r"^\{", r'{"a": 1, "a": 2, ', "", 422),
    "unknown": (r"^\{", f'{{"a": {[[]] * 5000}, ', "", 422),
    "no form": ("", "", "Accept: image/png", 406),
    "no time": ("", "", "X-Request-Timeout: 0", 422),
    "coding": ("", "", "Content-Encoding: br", 415),
}


running = shared(
    *("--rate-limit", "1000000/second", "--token-quota", "100000000/second"),
    *("--max-body-bytes", str(MOST_BYTES)),
    files={"poison": OVERFLOWS, "tokenizer": ""},
    changes=patches,
)


@contextmanager
def nothing_left(running: RunningService) -> Iterator[None]:
    """Fails if the block leaves what only the collector would free."""
    gc.collect()
    gc.freeze()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield
        wait_until(lambda: is_over(running))
        gc.collect()
        left = [f"{each!r:.99}" for each in gc.garbage]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
        gc.unfreeze()
    assert left == []


def is_over(running: RunningService) -> bool:
    """Whether all requests and connections but its own have ended."""
    metrics = running.send(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    return {b"headlight_connections 1.0", b"headlight_requests_in_progress 1.0"} <= set(
        metrics.splitlines()
    )


def ask(running: RunningService, route: Route, content: str, *headers: str) -> int:
    """Sends a body on a connection of its own, and returns the status."""
    with running.connect() as connection:
        connection.sendall(head(route, len(content), *headers))
        with suppress(OSError):  # it may be refused before it is read
            connection.sendall(content.encode())
        return int(receive_all(connection)[9:12])


def head(route: Route, length: int, *headers: str) -> bytes:
    named = ("Host: x", "Connection: close", "Content-Type: application/json", *headers)
    first, last = f"POST {route.path} HTTP/1.1", f"Content-Length: {length}"
    return "\r\n".join([first, *named, last, "", ""]).encode()


def leave(running: RunningService, route: Route, content: bytes, announced: int) -> None:
    """Sends a body, and resets the connection."""
    with running.connect() as connection:
        connection.sendall(head(route, announced) + content)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@pytest.mark.parametrize("name", ROUTES)
def test_no_request_waits_for_the_collector(running: RunningService, name: str) -> None:
    order, route = running.log.parent / "pass", ROUTES[name]
    good = json.dumps(route.body(["good", "good"]))
    found = {}
    ask(running, route, good)  # what the first one imports and keeps
    with nothing_left(running):
        for case, (text, _) in TEXTS.items():
            found[case] = ask(running, route, json.dumps(route.body([text, text])))
        for case, (pattern, other, header, _) in CHANGES.items():
            content = re.sub(pattern, other, good, count=1)
            found[case] = ask(running, route, content, *[header] * bool(header))
        leave(running, route, good.encode() * 1000, MOST_BYTES)
        order.write_text("hold", encoding="ascii")
        late = ask(running, route, good, "X-Request-Timeout: 0.1")
        leave(running, route, good.encode(), len(good))
        order.write_text("fail", encoding="ascii")
        failed = ask(running, route, good)
        order.unlink()
    assert found == {case: each[-1] for case, each in (TEXTS | CHANGES).items()}
    assert (late, failed) == (504, 500)


OTHERS = {
    200: "/ /docs /openapi.json /model /metrics /health/ready /problems /static/page.js /version "
    "/info /v1/models /v2 /v2/models/tiny /attention?sentence=good",
    404: "/nothing /v2/models/none",
    405: "/predict",
    422: "/attention?sentence=good&layer=9",
}


def test_no_other_request_waits_either(running: RunningService) -> None:
    rest = b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    asked = {
        f"GET {target}".encode() + rest: b"%d" % status
        for status, targets in OTHERS.items()
        for target in targets.split()
    } | {b"HEAD /docs" + rest: b"200", b"no HTTP": b"400", b"POST /predict" + rest: b"415"}
    for each in asked:  # what the first ones import and keep
        running.send(each)
    with nothing_left(running):
        found = {each: running.send(each)[9:12] for each in asked}
    assert found == asked
