"""Writes each log record as one line: JSON for machines, or text for a terminal.

No log may show text of a user. The message of an exception could hold some, so an exception is
logged as its type and the places it passed through, never with its message.
"""

import logging
import sys
import traceback
from datetime import UTC, datetime
from typing import TextIO

import orjson

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message"}


def configure_logging(log_format: str, stream: TextIO = sys.stdout) -> None:
    """Sends all logs of the process to one stream.

    Args:
        log_format: `json`, `text`, or `auto`: text on a terminal, else JSON.
        stream: where the lines go.
    """
    as_text = log_format == "text" or (log_format == "auto" and stream.isatty())
    handler = logging.StreamHandler(stream)
    handler.setFormatter(TextFormatter() if as_text else JsonFormatter())
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.INFO)
    for name in ("uvicorn", "uvicorn.error"):
        logging.getLogger(name).handlers = []
        logging.getLogger(name).propagate = True


class JsonFormatter(logging.Formatter):
    """Writes one JSON object a line: time, level, logger, message, then the extra fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Renders a record."""
        line: dict[str, object] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_extras(record),
        }
        return orjson.dumps(line, default=str).decode()


class TextFormatter(logging.Formatter):
    """Writes the same for people: time, level, message, then name=value."""

    def format(self, record: logging.LogRecord) -> str:
        """Renders a record."""
        extras = "".join(f" {name}={value}" for name, value in _extras(record).items())
        level = record.levelname.lower()
        return f"{_time(record)} {level:7} {record.name}: {record.getMessage()}{extras}"


def safe_fault(error: BaseException | None) -> dict[str, str]:
    """Returns the message of an error in a pass, if it cannot contain text of a user.

    Messages of torch contain none. Others may: the message of a KeyError is the key.

    Args:
        error: what the pass raised.
    """
    return {"fault": str(error)} if isinstance(error, RuntimeError) else {}


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")


def _extras(record: logging.LogRecord) -> dict[str, object]:
    extras = {name: value for name, value in vars(record).items() if name not in _STANDARD}
    if record.exc_info and record.exc_info[1] is not None:
        extras |= _trace(record.exc_info[1])
    return extras


def _trace(error: BaseException) -> dict[str, object]:
    frames = traceback.extract_tb(error.__traceback__)
    return {
        "exception": type(error).__name__,
        "trace": [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames],
    }
