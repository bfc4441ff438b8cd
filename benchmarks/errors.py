"""Defines every error of a measurement, as one tree.

BenchmarkError
├── ServerError     a server that did not start, or ended too early
├── AnswerError     a bad answer, or a broken connection
└── MismatchError   the servers answer different labels, so their speeds cannot be compared
"""


class BenchmarkError(Exception):
    """Base of every error that this package raises on purpose; the message is one line."""


class ServerError(BenchmarkError):
    """A server that did not start, or ended too early."""


class AnswerError(BenchmarkError):
    """A bad answer, or a broken connection."""


class MismatchError(BenchmarkError):
    """The servers answer different labels, so their speeds cannot be compared."""
