"""Shows progress of long work: a bar on a terminal, a plain line every few seconds elsewhere."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from importlib.util import find_spec
from typing import TextIO

Words = str | Callable[[], str]
Advance = Callable[[int, Words], None]

_SECONDS_BETWEEN_LINES = 10.0
_SECONDS_BETWEEN_BARS = 0.1
_is_silent = ContextVar("silent", default=False)


@contextmanager
def silent() -> Iterator[None]:
    """Lets no progress show in this block."""
    token = _is_silent.set(True)
    try:
        yield
    finally:
        _is_silent.reset(token)


@contextmanager
def progress(
    total: int, label: str, *, done: int = 0, stream: TextIO | None = None
) -> Iterator[Advance]:
    """Shows how far work of `total` units has come, how fast it goes and how long it will take.

    `done` units were done before; it shows on `stream`, standard error if None.

    Yields:
        A function to call with the units just done, and words on them or a function for words.
    """
    stream = sys.stderr if stream is None else stream
    if _is_silent.get():
        yield lambda *_: None
    elif stream.isatty() and find_spec("tqdm"):  # which extras bring
        from tqdm import tqdm

        with tqdm(total=total, initial=done, desc=label, file=stream, leave=False) as bar:
            shown = 0.0

            def advance(units: int, words: Words) -> None:
                nonlocal shown
                if (now := time.monotonic()) - shown >= _SECONDS_BETWEEN_BARS:
                    shown = now
                    bar.set_postfix_str(_text(words), refresh=False)
                bar.update(units)

            yield advance
    else:
        yield _lines(total, label, done, stream)


def _lines(total: int, label: str, done: int, stream: TextIO) -> Advance:
    """Writes one line every few seconds, and at the end."""
    first, started = done, time.monotonic()
    shown = started

    def advance(units: int, words: Words) -> None:
        nonlocal done, shown
        done, now = done + units, time.monotonic()
        if done < total and now - shown < _SECONDS_BETWEEN_LINES:
            return
        shown = now
        rate = (done - first) / max(now - started, 1e-9)
        left = (total - done) / max(rate, 1e-9)
        text = _text(words)
        more = f", {text}" if text else ""
        with suppress(OSError):
            stream.write(f"{label}: {done}/{total}, {rate:.1f}/s, {left:.0f} s left{more}\n")
            stream.flush()

    return advance


def _text(words: Words) -> str:
    return words if isinstance(words, str) else words()


def say(line: str) -> None:
    """Writes a line for people to standard output, above a bar; if it cannot, work goes on."""
    from tqdm import tqdm

    try:
        with standard_output() as output:
            tqdm.write(line, output)
            output.flush()
    except OSError as error:
        complain(f"{error.filename}: {error.strerror}; what else is said is not shown")


@contextmanager
def standard_output() -> Iterator[TextIO]:
    """Names standard output in an error of it; whatever is written there later is dropped."""
    try:
        yield sys.stdout
    except OSError as error:
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise OSError(error.errno, error.strerror, "standard output") from error


def complain(line: str) -> None:
    """Writes a line to standard error, where that is possible."""
    with suppress(OSError):
        print(line, file=sys.stderr, flush=True)  # noqa: T201
