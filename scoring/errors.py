"""Defines the errors of scoring, besides `model.errors.TableError` for inputs."""

from model.errors import PortableError


class ScoringError(PortableError):
    """Options that do not fit, named as they are typed, or workers that cannot start."""


class OutputError(ScoringError):
    """An output folder that cannot be used, or a file that cannot be written."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
