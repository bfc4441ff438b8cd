"""Defines every error of scoring, as one tree.

ScoringError
├── OptionError        options do not fit together, or not to what is there
├── InputFileError     an input that cannot be read, or that has changed
├── OutputError        an output folder that cannot be used, or a part that cannot be written
├── EngineError        workers that ended again and again, or an engine that cannot start
└── InterruptedJobError    a signal ended the job; finished parts stay, of one file nothing
"""

from model.errors import TableError


class ScoringError(Exception):
    """Base of every error that this package raises on purpose."""


class OptionError(ScoringError, ValueError):
    """Options that do not fit together; the message names the option as it was typed."""


class InputFileError(ScoringError, TableError):
    """An input that cannot be read, or that has changed."""


class OutputError(ScoringError):
    """An output folder that cannot be used, or a part that cannot be written."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}")


class EngineError(ScoringError):
    """Workers that ended again and again, or an engine that cannot start."""


class InterruptedJobError(ScoringError):
    """A signal ended the job; finished parts stay, of one file nothing."""

    def __init__(self, signal: int, message: str) -> None:
        super().__init__(message)
        self.signal = signal
