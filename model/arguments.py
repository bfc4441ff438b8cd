"""Parses command lines; every error is one line."""

import argparse
from collections.abc import Iterator
from importlib.metadata import version
from typing import NoReturn

from model.faults import nearest

_UNKNOWN = "unrecognized arguments: "


class LineParser(argparse.ArgumentParser):
    """A parser that reports an error and names `--help`, instead of printing all options."""

    def error(self, message: str) -> NoReturn:
        """Prints one line to standard error and exits with status 2."""
        words = message.removeprefix(_UNKNOWN)
        near = None if words == message else nearest(words.split()[0].partition("=")[0], self.known)
        hint = "" if near is None else f"; did you mean {near}?"
        self.exit(2, f"{self.prog}: {message}{hint}; see {self.prog} --help\n")

    @property
    def known(self) -> list[str]:
        """All options, those of subcommands too."""
        return list(_options(self))


def _options(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        yield from action.option_strings
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from _options(command)


def add_version(parser: argparse.ArgumentParser) -> None:
    """Adds `--version`, which prints the name of the command and the project's version."""
    parser.add_argument(
        "--version",
        action="version",
        version=f"{parser.prog} {version('headlight')}",
        help="print the version",
    )


def whole(text: str) -> int:
    """Parses the value of an option as a whole number.

    Raises:
        argparse.ArgumentTypeError: the value is something else.
    """
    try:
        return int(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"must be a whole number, got {text!r}") from error


def number(text: str) -> float:
    """Parses the value of an option as a number.

    Raises:
        argparse.ArgumentTypeError: the value is something else.
    """
    try:
        return float(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"must be a number, got {text!r}") from error


def positive(text: str) -> int:
    """Parses the value of an option as a count.

    Raises:
        argparse.ArgumentTypeError: the value is not a whole number of at least 1.
    """
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, got {text!r}")
    return int(text)
