"""Writes each log record as one line, JSON or text, on a thread that nothing waits for.

No log may show text of a user. The message of an exception could hold some, so an exception is
logged as its type and the places it passed through, never with its message.
"""

import asyncio
import logging
import math
import os
import queue
import select
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from datetime import UTC, datetime
from typing import TextIO

import orjson

Line = Callable[[float, str, str, str, Mapping[str, object]], str]

_requests = logging.getLogger("headlight.request")
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message"}
# Pieces of some lines each that may wait for a slow reader of the log.
_MOST_WAITING = 1000
_THROTTLE_SECONDS = 60.0
# How long the end of the process waits for the last lines.
_CLOSE_SECONDS = 1.0


def configure_logging(log_format: str, stream: TextIO = sys.stdout) -> None:
    """Sends all logs of the process to one stream.

    Args:
        log_format: `json`, `text`, or `auto`: text on a terminal, else JSON.
        stream: an open file; the lines go there.
    """
    as_text = log_format == "text" or (log_format == "auto" and stream.isatty())
    formatter = LineFormatter(text_line if as_text else json_line)
    handler = LineHandler(Writer(stream.fileno()), formatter)
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.INFO)
    for name in ("uvicorn", "uvicorn.error"):
        logging.getLogger(name).handlers = []
        logging.getLogger(name).propagate = True
    # No line shows these, and each costs time for every request (logging's manual, "Optimization").
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging._srcfile = None


def lost_lines() -> int:
    """Returns how many log lines could not be written since the start."""
    return sum(
        handler.writer.lost
        for handler in logging.getLogger().handlers
        if isinstance(handler, LineHandler)
    )


class LogThrottle:
    """Lets a line that clients can cause be logged once a minute."""

    def __init__(self) -> None:
        self._last = -math.inf
        self._others = 0

    def others(self, now: float) -> int | None:
        """Returns how many lines were left out since the last one; None to leave this one out."""
        if now - self._last < _THROTTLE_SECONDS:
            self._others += 1
            return None
        others, self._others, self._last = self._others, 0, now
        return others


class Writer:
    """Writes lines on a thread of its own, so that a full pipe or disk delays and ends nothing.

    Lines that cannot be written, or wait behind too many others, are dropped and counted.

    Args:
        file: descriptor of the open file. Its Python object would keep what it could not write,
            and fail with it at the end of the process.
    """

    def __init__(self, file: int) -> None:
        self.lost = 0
        self._file = file
        self._is_torn = False
        # Simple: the garbage collector may log while this thread holds the lock of another queue.
        self._waiting: queue.SimpleQueue[list[str] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()

    def put(self, lines: list[str]) -> None:
        """Adds lines to those that are written next."""
        if self._waiting.qsize() >= _MOST_WAITING:
            self.lost += len(lines)
        else:
            self._waiting.put(lines)

    def close(self) -> None:
        """Waits for the last lines, but not for long."""
        self._waiting.put(None)
        self._thread.join(_CLOSE_SECONDS)

    def _run(self) -> None:
        while (lines := self._waiting.get()) is not None:
            try:
                self._write("\n".join(lines) + "\n")
            except OSError:  # the disk is full, or the reader has gone
                self.lost += len(lines)

    def _write(self, text: str) -> None:
        rest = (self._is_torn * "\n" + text).encode("utf-8", "backslashreplace")
        while rest:
            try:
                rest = rest[os.write(self._file, rest) :]
            except BlockingIOError:  # a pipe that does not wait by itself
                select.select([], [self._file], [])
            # If no more can be written, the next line must not go on in the middle of this one.
            self._is_torn = bool(rest)


class LineFormatter(logging.Formatter):
    """Makes one line of a record, by `json_line` or `text_line`."""

    def __init__(self, line: Line) -> None:
        super().__init__()
        self.line = line

    def format(self, record: logging.LogRecord) -> str:
        """Renders a record."""
        level, extras = record.levelname.lower(), _extras(record)
        return self.line(record.created, level, record.name, record.getMessage(), extras)


def json_line(
    created: float, level: str, name: str, message: str, extras: Mapping[str, object]
) -> str:
    """Writes a JSON object."""
    parts = {"time": _time(created), "level": level, "logger": name, "message": message, **extras}
    return orjson.dumps(parts, default=str).decode()


def text_line(
    created: float, level: str, name: str, message: str, extras: Mapping[str, object]
) -> str:
    """Writes the same for people, extra fields as name=value."""
    shown = "".join(f" {key}={value}" for key, value in extras.items())
    return f"{_time(created)} {level:7} {name}: {message}{shown}"


class LineHandler(logging.Handler):
    """Hands over the lines of one round of the event loop together; warnings and worse at once."""

    formatter: LineFormatter

    def __init__(self, writer: Writer, formatter: LineFormatter) -> None:
        super().__init__()
        self.setFormatter(formatter)
        self.writer = writer
        self._lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Hands over a record, or keeps its line until the event loop has answered others."""
        try:
            line = self.format(record)
        except Exception:  # a bug in the code that logs; as every handler of logging does
            self.handleError(record)
            return
        self.add(line, at_once=record.levelno >= logging.WARNING)

    def add(self, line: str, *, at_once: bool = False) -> None:
        """Adds a line without its line break; `at_once` hands it over, and all before it."""
        with self.lock or nullcontext():  # else a flush on another thread could lose it
            self._lines.append(line)
            is_first = len(self._lines) == 1
        if not at_once:
            try:
                loop = asyncio.get_running_loop()
            except RuntimeError:  # another thread, or no event loop yet
                pass
            else:
                if is_first:
                    loop.call_soon(self.flush)
                return
        self.flush()

    def flush(self) -> None:
        """Hands over the lines that are kept."""
        with self.lock or nullcontext():
            lines, self._lines = self._lines, []
            if lines:
                self.writer.put(lines)

    def close(self) -> None:
        """Writes the last lines; `logging.shutdown` calls it."""
        self.flush()
        self.writer.close()
        super().close()


def log_request(**fields: object) -> None:
    """Logs that a request was answered, at level info.

    A record of logging costs more than the line, so the line is made without one where this
    module has set up logging.
    """
    handlers = logging.getLogger().handlers
    handler = handlers[0] if len(handlers) == 1 else None
    if isinstance(handler, LineHandler):
        line = handler.formatter.line(time.time(), "info", _requests.name, "request", fields)
        handler.add(line)
    else:
        _requests.info("request", extra=fields)


def safe_message(error: BaseException | None) -> dict[str, str]:
    """Returns the message of an error in a pass, if it cannot contain text of a user.

    Messages of torch contain none. Others may: the message of a KeyError is the key.
    """
    return {"fault": str(error)} if isinstance(error, RuntimeError) else {}


def _time(created: float) -> str:
    return datetime.fromtimestamp(created, UTC).isoformat(timespec="milliseconds")


def _extras(record: logging.LogRecord) -> dict[str, object]:
    extras = {name: value for name, value in vars(record).items() if name not in _STANDARD}
    if record.exc_info and (error := record.exc_info[1]) is not None:
        frames = traceback.extract_tb(error.__traceback__)
        extras["exception"] = type(error).__name__
        extras["trace"] = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
    return extras
