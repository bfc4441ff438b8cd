"""Defines what can go wrong with a network, a text or a checkpoint.

ModelError
├── ConfigurationError      sizes or options that do not fit together
├── InputError              a text that cannot be classified; no message holds any of it
│   ├── BlankTextError, InvalidTextError
│   ├── TextTooLongError, TextGrowsError, NoRoomError
│   ├── TooManyWindowsError, NoSuchWindowError, TooManySentencesError
│   └── NoSuchTokenError
├── NotFiniteError          an answer whose numbers are not finite
├── TokenizerError          a tokenizer that breaks on a text
├── SigningKeyError         a key that cannot sign or verify a checkpoint
├── HubError                a name of the hub that cannot be fetched
├── TableError              a file of rows that cannot be read, or a row in it
└── CheckpointError         a folder that is damaged, incomplete or does not fit
    └── UnsupportedCheckpointError   a sound folder of a kind that is not supported
"""

from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from model.validation import tell_fault

# What a hostile file holds may have any size. A message shows some of its characters and faults.
# of files whose rows are counted by lines: with a header
_LINES = {".csv", ".tsv", ".txt", ".zip"}
_MOST_VALUE, _MOST_MESSAGE, _MOST_FAULTS = 300, 1_000, 10


def shorten(text: str, most: int = _MOST_VALUE) -> str:
    """Cuts the middle out of a text that is too long for a message."""
    end = most // 3
    return text if len(text) <= most else f"{text[: most - end - 1]}…{text[-end:]}"


def install_hint(extras: str) -> str:
    """Returns the command that installs extras of the project, such as `train,mlflow`."""
    return f"pip install 'headlight[{extras}]'"


class ModelError(Exception):
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


class InvalidTextError(InputError):
    """The text is not valid Unicode; `position` is the index of its first lone surrogate."""

    def __init__(self, position: int) -> None:
        super().__init__(
            f"the text is not valid Unicode: lone surrogate at position {position}; "
            "write a whole surrogate pair or leave it out"
        )
        self.position = position


class TextTooLongError(InputError):
    """The text has more tokens than the model reads and `truncation` is `error`.

    `at_least` says that only a part of the text was counted.
    """

    def __init__(self, token_count: int, max_length: int, *, at_least: bool = False) -> None:
        count = f"more than {token_count}" if at_least else f"{token_count}"
        super().__init__(
            f"the text has {count} tokens and the model reads at most {max_length}: "
            "shorten it, or set truncation to right or left"
        )
        self.token_count = token_count
        self.max_length = max_length


class NoRoomError(InputError):
    """`max_length` is below `least`, so that special tokens leave no room for text."""

    def __init__(self, max_length: int, least: int) -> None:
        super().__init__(
            f"max_length is {max_length} and leaves no room for text beside the special tokens: "
            f"set it to {least} or more"
        )


class TooManyWindowsError(InputError):
    """The text takes more windows of `max_length` tokens than `limit`.

    `at_least` says that only a part of the text was counted.
    """

    def __init__(
        self, windows: int, limit: int, max_length: int, *, at_least: bool = False
    ) -> None:
        count = f"more than {windows}" if at_least else f"{windows}"
        super().__init__(
            f"the text takes {count} windows of {max_length} tokens and may have at most {limit}: "
            "divide it, or set truncation to right or left"
        )
        self.windows = windows
        self.limit = limit


class NoSuchWindowError(InputError):
    """The text has fewer windows than the number asked for."""

    def __init__(self, window: int, windows: int) -> None:
        known = "1 window, 0" if windows == 1 else f"{windows} windows, 0 to {windows - 1}"
        super().__init__(f"the text has {known}, got {window}")
        self.window = window
        self.windows = windows


class NoSuchTokenError(InputError):
    """A token cannot be left out of the text; `place` is its index in the request's list."""

    def __init__(self, message: str, place: int) -> None:
        super().__init__(message)
        self.place = place


class TooManySentencesError(InputError):
    """The text has more sentences than `limit`."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"the text has more than {limit} sentences, and may have at most {limit}: divide it, "
            "or ask for one answer of the whole text"
        )
        self.limit = limit


class TextGrowsError(InputError):
    """The tokenizer makes the text longer than `limit` characters when it normalises it."""

    def __init__(self, characters: int, limit: int) -> None:
        super().__init__(
            f"{characters} characters of the text become more than {limit} when they are "
            "normalised: shorten it"
        )
        self.characters = characters
        self.limit = limit


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


class SigningKeyError(ModelError):
    """A key that cannot sign or verify a checkpoint; the message names its file."""

    def __init__(self, path: Path, fault: str) -> None:
        super().__init__(f"{path}: {fault}")


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
    """A checkpoint folder that cannot be used; the message names the file and the fault."""

    def __init__(self, path: Path, fault: str) -> None:
        fault = shorten(fault, _MOST_MESSAGE)
        super().__init__(f"{shorten(str(path), _MOST_MESSAGE)}: {fault}")
        self.path = path
        self.fault = fault


class UnsupportedCheckpointError(CheckpointError):
    """A sound folder of a kind that is not supported."""


def describe_faults(error: ValidationError, names: Mapping[str, str] | None = None) -> str:
    """Describes the faults of a pydantic validation in one line, with their places and values."""
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
