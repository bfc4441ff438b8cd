"""What can go wrong with a measurement, as one tree.

BenchmarkError
├── ServerError     a server that did not start, or ended too early
├── AnswerError     an answer that is no answer, or a connection that broke
└── MismatchError   the servers answer different labels, so that their speeds cannot be compared
"""


class BenchmarkError(Exception):
    """Base of every error that this package raises on purpose; the message is one line."""


class ServerError(BenchmarkError):
    """A server that did not start, or ended too early."""


class AnswerError(BenchmarkError):
    """An answer that is no answer, or a connection that broke."""


class MismatchError(BenchmarkError):
    """The servers answer different labels, so that their speeds cannot be compared."""
