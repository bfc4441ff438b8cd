"""Parses command lines; every error is one line."""

import argparse
from typing import NoReturn


class LineParser(argparse.ArgumentParser):
    """A parser that reports an error and names `--help`, instead of printing all options."""

    def error(self, message: str) -> NoReturn:
        """Prints one line to standard error and exits with status 2."""
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def positive(text: str) -> int:
    """Parses the value of an option as a count.

    Raises:
        argparse.ArgumentTypeError: the value is not a whole number of at least 1.
    """
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, got {text!r}")
    return int(text)
