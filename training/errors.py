"""Defines every error of training, below one base."""

from model.errors import PortableError, TableError


class TrainingError(PortableError):
    """Base of every error that this package raises on purpose."""


class DataError(TrainingError, TableError, ValueError):
    """A file that cannot be read, or rows in it that cannot be used."""


class RecipeError(TrainingError, ValueError):
    """An option or a preset that is wrong; the message holds the value and the limit."""


class DivergedRunError(TrainingError):
    """The loss is no longer a finite number, so the weights are useless."""


class FitWarning(UserWarning):
    """Rows to learn from, or figures of what was learnt, that make a model doubtful."""


class ResumeError(TrainingError):
    """The state of an interrupted run does not fit; the message says what differs."""
