"""What a slow reader makes of each end that an answer can have."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.resilience.load import Tally
from tests.resilience.slow import ENDS, SlowReader

ALL, LEFT, CUT_OFF = ENDS
OVERLOADED = b'{"type":"/problems/overloaded","status":503}'
WEIGHTS = b'{"model":{"name":"tiny"},"attention":[' + b"1.0," * 1000 + b"1.0]}"


def answer(status: int, body: bytes, *, length: int | None = None) -> bytes:
    """An answer; its length may be another than the body's."""
    head = f"HTTP/1.1 {status} Some\r\ncontent-length: {length or len(body)}\r\n\r\n"
    return head.encode("ascii") + body


@contextmanager
def answering(content: bytes, *, closes: bool) -> Iterator[int]:
    """A port that sends this to whoever asks, and then closes or not."""
    done = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(content)
                if not closes:
                    done.wait()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            done.set()
            thread.join()


def read(content: bytes, *, closes: bool = True, repeats: int = 1) -> Tally:
    """What is counted when this comes back."""
    tally = Tally()
    with answering(content, closes=closes) as port:
        reader = SlowReader(port, "good", repeats=repeats, pause=0.0, reads=20)
        reader.ask(tally, threading.Event())
    return tally


@pytest.mark.parametrize(
    ("content", "closes", "end"),
    [
        (answer(200, WEIGHTS), True, ALL),
        (answer(200, WEIGHTS), False, ALL),
        (answer(200, WEIGHTS, length=10**6), True, CUT_OFF),
        (answer(200, WEIGHTS)[:30], True, CUT_OFF),
        (answer(200, WEIGHTS + b"1" * 50_000), False, LEFT),
    ],
)
def test_ends_that_are_right(content: bytes, closes: bool, end: str) -> None:
    tally = read(content, closes=closes)
    assert tally.right == {end: 1}
    assert tally.refused == tally.faults == {}


def test_a_refusal_is_told_apart() -> None:
    tally = read(answer(503, OVERLOADED))
    assert tally.refused == {"a slow reader": 1}
    assert tally.right == tally.faults == {}


def test_a_refusal_after_some_answers_is_one_too() -> None:
    tally = read(answer(200, WEIGHTS) * 2 + answer(503, OVERLOADED), repeats=3)
    assert tally.refused == {"a slow reader": 1}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        answer(500, b'{"type":"/problems/internal"}'),
        answer(503, b'{"type":"/problems/internal"}'),
        answer(200, b'{"modal":1}'),
        answer(200, WEIGHTS) + answer(422, b"{}"),
        b"HTTP/1.1 200 OK\r\nserver: none\r\n\r\n" + WEIGHTS,
    ],
)
def test_anything_else_is_a_fault(content: bytes) -> None:
    tally = read(content, repeats=2)
    assert tally.right == tally.refused == {}
    assert tally.faults.total() == 1
