"""Defines what can go wrong with a network, a text or a checkpoint.

ModelError
├── ConfigurationError      sizes or options that do not fit together
├── InputError              a text that cannot be classified; no message holds any of it
│   ├── BlankTextError
│   ├── TextTooLongError
│   └── NoSuchPartError
├── NotFiniteError          an answer whose numbers are not finite
├── TokenizerError          a tokenizer that breaks on a text
├── HubError                a name of the hub that cannot be fetched
├── TableError              a file of rows that cannot be read, or a row in it
└── CheckpointError         a folder that is damaged, incomplete, of another kind or does not fit
"""

from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from model.validation import tell_fault

# Suffixes of files whose rows are counted by lines: with a header.
_LINES = {".csv", ".tsv", ".txt", ".zip"}
# What a hostile file holds may have any size. A message shows some of its characters and faults.
_MOST_VALUE, _MOST_MESSAGE, _MOST_FAULTS = 300, 1_000, 10
#: the end of a sentence about what cannot run without torch
NEEDS_TORCH = "needs torch, and that is not installed: pip install torch"
#: what computing raises; a signal, or the deadline of a caller, may raise any other error
FAULTS = (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError)


def is_fault(error: BaseException) -> bool:
    """Whether a library raised it about what it was given, as libraries in Rust do too."""
    is_panic = type(error).__name__ == "PanicException"
    return is_panic or type(error) is Exception or isinstance(error, FAULTS)


def shorten(text: str, most: int = _MOST_VALUE) -> str:
    """Cuts the middle out of a text that is too long for a message."""
    end = most // 3
    return text if len(text) <= most else f"{text[: most - end - 1]}…{text[-end:]}"


def install_hint(extras: str) -> str:
    """Returns the command that installs extras of the project, such as `train,mlflow`."""
    return f"pip install 'headlight[{extras}]'"


class PortableError(Exception):
    """Goes to other processes, and is copied, with its message and its attributes."""

    def __reduce__(self) -> tuple[object, ...]:
        # By default its message becomes the arguments of `__init__`, which may take others.
        return type(self).__new__, (type(self), *self.args), self.__dict__


class ModelError(PortableError):
    """Base of every error that this package raises on purpose."""


class ConfigurationError(ModelError, ValueError):
    """Sizes or options that do not fit together; the message holds both values."""


class InputError(ModelError, ValueError):
    """A text that cannot be classified."""


class BlankTextError(InputError):
    """The text has only white space, control and format characters."""

    def __init__(self) -> None:
        super().__init__(
            "the text is blank: send at least one character that is not white space, "
            "a control or a format character"
        )


class TextTooLongError(InputError):
    """The text has more tokens, windows or sentences than may be read."""


class NoSuchPartError(InputError):
    """The text lacks the window or the token asked for, or must keep it.

    `position` is the index of the token in the request's list; None for a window.
    """

    def __init__(self, message: str, position: int | None = None) -> None:
        super().__init__(message)
        self.position = position


class NotFiniteError(ModelError, RuntimeError):
    """The pass overflowed for `count` of its `total` texts; the weights themselves are finite."""

    def __init__(self, count: int, total: int, *, what: str = "logits") -> None:
        super().__init__(
            f"{what} of {count} of {total} texts are not finite numbers: the network overflows "
            "with these weights; serve another checkpoint, or this one in float32"
        )
        self.count = count
        self.total = total


class TokenizerError(ModelError, RuntimeError):
    """The tokenizer broke on a text, which the message does not repeat."""

    def __init__(self, kind: str) -> None:
        super().__init__(
            f"the tokenizer broke on a text ({kind}): check the files of the tokenizer"
        )
        self.kind = kind


class HubError(ModelError):
    """A name of the Hugging Face hub that cannot be fetched; the message says what to do."""

    def __init__(self, name: str, fault: str) -> None:
        fault = shorten(fault, _MOST_MESSAGE)
        super().__init__(f"{shorten(name)}: {fault}")
        self.name = name
        self.fault = fault


class TableError(ModelError):
    """A file of rows that cannot be read, or a row in it that cannot be used.

    Args:
        fault: what is wrong with it, and what to do.
        row: the first bad row, as `model.tables.rows.Row` counts them; None for an error of the
            whole file.
    """

    def __init__(self, path: Path | str, fault: str, row: int | None = None) -> None:
        prefix = "" if row is None else f"{place(path, row)}: "
        super().__init__(f"{path}: {prefix}{fault}")
        self.path = path
        self.fault = fault
        self.row = row


def place(path: Path | str, row: int) -> str:
    """Names a row by its line, or by its number where a file has no header in a line of its own."""
    suffixes = Path(str(path).lower()).suffixes
    return f"{'row' if _LINES.isdisjoint(suffixes) else 'line'} {row}"


class CheckpointError(ModelError):
    """A checkpoint folder that cannot be used; the message names the file and the error."""

    def __init__(self, path: Path, fault: str) -> None:
        fault = shorten(fault, _MOST_MESSAGE)
        super().__init__(f"{shorten(str(path), _MOST_MESSAGE)}: {fault}")
        self.path = path
        self.fault = fault


def describe_faults(error: ValueError, names: Mapping[str, str] | None = None) -> str:
    """Describes the errors of a pydantic validation in one line, with their fields and values."""
    if not isinstance(error, ValidationError):
        return str(error)
    faults = []
    for fault in error.errors(include_url=False)[:_MOST_FAULTS]:
        place = shorten(".".join(str(part) for part in fault["loc"]))
        message = shorten(tell_fault(fault))
        value = fault["input"]
        is_told = place and fault["type"] != "extra_forbidden" and not isinstance(value, dict)
        shown = f" (got {shorten(repr(value))})" if is_told else ""
        faults.append(f"{(names or {}).get(place, place)}: {message}{shown}" if place else message)
    if error.error_count() > _MOST_FAULTS:
        faults.append(f"and {error.error_count() - _MOST_FAULTS} more")
    return "; ".join(faults)
