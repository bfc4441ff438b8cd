"""Command lines of which every error is one line."""

import argparse
from typing import NoReturn


class LineParser(argparse.ArgumentParser):
    """A parser that says what is wrong and where to read on, instead of all its options."""

    def error(self, message: str) -> NoReturn:
        """Ends the process with status 2 and one line on standard error."""
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def positive(text: str) -> int:
    """An option's value that is a count.

    Raises:
        argparse.ArgumentTypeError: it is none.
    """
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, got {text!r}")
    return int(text)
