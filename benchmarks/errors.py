"""Defines the error of a measurement."""


class BenchmarkError(Exception):
    """A server or an answer is wrong, or a tool is missing; the message is one line."""
