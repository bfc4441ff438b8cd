"""Defines every error of training, below one base."""

from model.errors import TableError


class TrainingError(Exception):
    """Base of every error that this package raises on purpose."""


class DataError(TrainingError, TableError):
    """A file that cannot be read, or rows in it that cannot be used."""


class RecipeError(TrainingError, ValueError):
    """An option or a preset that is wrong; the message holds the value and the limit."""


class DivergedRunError(TrainingError):
    """The loss is no longer a finite number, so the weights are useless."""

    def __init__(self, loss: float, step: int, learning_rate: float) -> None:
        super().__init__(
            f"the loss is {loss} after {step} steps: the run has diverged; start again with a "
            f"learning rate below {learning_rate:g} or a smaller max_grad_norm"
        )


def first_line(error: Exception) -> str:
    """Returns the first line of another package's message, or the name of the error."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


class RankError(TrainingError):
    """The processes that `torchrun` has started cannot work together."""


class NoSpaceError(TrainingError):
    """A disk has no room for a run or its checkpoint; the message holds the bytes needed."""


class ResumeError(TrainingError):
    """The state of an interrupted run does not fit; the message says what differs."""


class InterruptedRunError(TrainingError):
    """A signal ended the run; its state is on disk, unless the disk was full.

    Args:
        done: steps done, or whatever `of` counts.
        unsaved: why the state of the last step is not on disk; None if it is.
    """

    def __init__(
        self, signal: int, done: int, total: int, *, of: str = "step", unsaved: str | None = None
    ) -> None:
        saved = "the state is saved: run the same command with --resume to go on"
        super().__init__(
            f"interrupted after {of} {done} of {total}; "
            + (saved if unsaved is None else f"the last state is not saved: {unsaved}")
        )
        self.signal = signal
        self.unsaved = unsaved


class InterruptedComparisonError(TrainingError):
    """A signal ended a comparison; nothing of it is kept."""

    def __init__(self, signal: int) -> None:
        super().__init__("interrupted; no report was written")
        self.signal = signal
