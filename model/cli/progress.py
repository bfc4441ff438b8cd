"""Shows progress of long work: a bar on a terminal, a plain line every few seconds elsewhere."""

import io
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.util import find_spec
from typing import TextIO

Words = str | Callable[[], str]
Advance = Callable[[int, Words], None]

_SECONDS_BETWEEN_LINES = 10.0
_SECONDS_BETWEEN_BARS = 0.1
# How a line is written beside the bars that are shown, the innermost last.
_beside_bars: list[Callable[[str], None]] = []
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
    """Shows how far work has come, how fast it goes and how long it will take.

    Args:
        total: units of the whole work.
        label: names the work.
        done: units that were done before.
        stream: where it shows; standard error if None.

    Yields:
        A function to call with the units just done, and words on them or a function for words.
    """
    stream = sys.stderr if stream is None else stream
    if _is_silent.get():
        yield lambda *_: None
    elif stream.isatty() and find_spec("tqdm"):  # which an extra brings
        from tqdm import tqdm

        with tqdm(total=total, initial=done, desc=label, file=stream, leave=False) as bar:
            last = -_SECONDS_BETWEEN_BARS

            def advance_bar(units: int, words: Words) -> None:
                nonlocal last
                if time.monotonic() - last >= _SECONDS_BETWEEN_BARS:
                    last = time.monotonic()
                    bar.set_postfix_str(_text(words), refresh=False)
                bar.update(units)

            _beside_bars.append(tqdm.write)
            try:
                yield advance_bar
            finally:
                _beside_bars.pop()
    else:
        yield _Lines(total, label, done, stream).advance


class _Lines:
    """Writes one line at the start, every few seconds, and at the end."""

    def __init__(self, total: int, label: str, done: int, stream: TextIO) -> None:
        self._total = total
        self._label = label
        self._first = self._done = done
        self._stream = stream
        self._started = self._last = time.monotonic()

    def advance(self, units: int, words: Words) -> None:
        self._done += units
        now = time.monotonic()
        if self._done < self._total and now - self._last < _SECONDS_BETWEEN_LINES:
            return
        self._last = now
        rate = (self._done - self._first) / max(now - self._started, 1e-9)
        left = (self._total - self._done) / max(rate, 1e-9)
        parts = [
            f"{self._label}: {self._done}/{self._total}",
            f"{rate:.1f}/s",
            f"{left:.0f} s left",
        ]
        text = _text(words)
        self._stream.write(", ".join([*parts, text] if text else parts) + "\n")
        self._stream.flush()


def _text(words: Words) -> str:
    return words if isinstance(words, str) else words()


def escape_what_cannot_be_written() -> None:
    """Lets standard output show as escapes what its encoding lacks, instead of failing."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def say(line: str) -> None:
    """Writes a line for people to standard output, above a bar if one is shown."""
    if _beside_bars:
        _beside_bars[-1](line)
    else:
        sys.stdout.write(line + "\n")
    sys.stdout.flush()
