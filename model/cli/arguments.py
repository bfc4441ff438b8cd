"""Parses command lines; every error is one line."""

import argparse
import codecs
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NoReturn

from model.validation import nearest

_UNKNOWN = "unrecognized arguments: "
# Choices are few and short: two letters that changed places are a mistake in half of a word.
_LIKENESS = 0.6
_TABS = {"tab": "\t", "\\t": "\t"}
_NO_DELIMITERS = "\"' \r\n"


class LineParser(argparse.ArgumentParser):
    """A parser that reports an error and names `--help`, instead of printing all options."""

    def error(self, message: str) -> NoReturn:
        """Prints one line to standard error and exits with status 2."""
        words = message.removeprefix(_UNKNOWN)
        typed = (words.split() or [""])[0].partition("=")[0]
        hint = "" if words == message else _hint(nearest(typed, self.known))
        self.exit(2, f"{self.prog}: {message}{hint}; see {self.prog} --help\n")

    # The names and types are argparse's.
    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Refuses unknown options itself, so that a subcommand names its own options and help."""
        known, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(_UNKNOWN + " ".join(unknown))
        return known, unknown

    def _check_value(self, action: argparse.Action, value: Any) -> None:  # noqa: ANN401
        """Refuses a value that is not among the choices of its option, in words of ours."""
        if action.choices is None or value in action.choices:
            return
        choices = [str(choice) for choice in action.choices]
        hint = _hint(nearest(str(value), choices, likeness=_LIKENESS))
        listed = f"must be one of {', '.join(choices)}, got {str(value)!r}{hint}"
        raise argparse.ArgumentError(action, listed)

    @property
    def known(self) -> list[str]:
        """All options, those of subcommands too."""
        return list(_options(self))


def _hint(near: str | None) -> str:
    return "" if near is None else f"; did you mean {near}?"


def _options(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        yield from action.option_strings
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from _options(command)


def project_version() -> str:
    """Returns the version of the project, whichever of its two distributions is installed."""
    try:
        return version("headlight")
    except PackageNotFoundError:
        return version("headlight-serve")


def add_version(parser: argparse.ArgumentParser) -> None:
    """Adds `--version`, which prints the name of the command and the project's version."""
    parser.add_argument(
        "--version",
        action="version",
        version=f"{parser.prog} {project_version()}",
        help="print the version",
    )


def add_spelling(parser: argparse.ArgumentParser) -> None:
    """Adds the options that say how text files and workbooks are written."""
    parser.add_argument(
        "--delimiter",
        type=_delimiter,
        metavar="CHARACTER",
        help="what separates the columns of CSV files, such as ';' or tab (default: as the header "
        "shows)",
    )
    parser.add_argument(
        "--encoding",
        type=_encoding,
        metavar="NAME",
        help="of text files, such as cp1252 (default: UTF-8, or UTF-16 if a file begins so)",
    )
    parser.add_argument("--sheet", metavar="NAME", help="of workbooks (default: the only one)")


def add_no_header(parser: argparse.ArgumentParser) -> None:
    """Adds the option for tables without a header."""
    parser.add_argument(
        "--no-header", action="store_true", help="the first line of CSV and TSV files is a row"
    )


def _delimiter(text: str) -> str:
    delimiter = _TABS.get(text, text)
    if len(delimiter) != 1 or delimiter.isalnum() or delimiter in _NO_DELIMITERS:
        raise argparse.ArgumentTypeError(
            f"must be one character such as ';', or tab, and no letter, digit or quote, got "
            f"{text!r}"
        )
    return delimiter


def _encoding(text: str) -> str:
    try:
        "a".encode(text)
        codecs.getincrementaldecoder(text)
    except (LookupError, ValueError) as error:
        raise argparse.ArgumentTypeError(
            f"must be an encoding of text such as cp1252 or utf-16, got {text!r}"
        ) from error
    return text


def whole(text: str) -> int:
    """Parses the value of an option as a whole number; raises `argparse.ArgumentTypeError`."""
    try:
        return int(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"must be a whole number, got {text!r}") from error


def number(text: str) -> float:
    """Parses the value of an option as a number; raises `argparse.ArgumentTypeError`."""
    try:
        return float(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"must be a number, got {text!r}") from error


def positive(text: str) -> int:
    """Parses the value of an option as a count of at least 1; raises as `whole` does."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, got {text!r}")
    return int(text)
