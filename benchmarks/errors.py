"""Defines the errors of a measurement.

BenchmarkError
└── AnswerError     a wrong answer, or a broken connection
"""


class BenchmarkError(Exception):
    """Base of every error that this package raises on purpose; the message is one line."""


class AnswerError(BenchmarkError):
    """A wrong answer, or a broken connection."""
