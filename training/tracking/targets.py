"""Reads where runs are logged to, as a command line says it."""

from dataclasses import dataclass

from model.validation import nearest

TENSORBOARD, MLFLOW = "tensorboard", "mlflow"


@dataclass(frozen=True, slots=True)
class Target:
    """Where runs are logged to.

    Args:
        kind: `tensorboard` or `mlflow`.
        place: a folder or a URI; empty for the tracker's own choice.
    """

    kind: str
    place: str


def parse_target(text: str) -> Target:
    """Reads `tensorboard`, `tensorboard:DIR`, `mlflow` or `mlflow:URI`.

    Raises:
        ValueError: it is something else.
    """
    kind, colon, place = text.partition(":")
    if kind not in (TENSORBOARD, MLFLOW):
        near = nearest(kind, (TENSORBOARD, MLFLOW))
        hint = "" if near is None else f"; did you mean {near}?"
        raise ValueError(f"must be tensorboard:DIR or mlflow:URI, got {text!r}{hint}")
    if colon and not place:
        what = "a folder" if kind == TENSORBOARD else "a URI"
        raise ValueError(f"must have {what} after the colon, got {text!r}")
    return Target(kind, place)
