"""Checks what the public interface is given, so that a wrong kind ends in one clear line."""

from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path


def kind_of(value: object) -> str:
    """Names the kind of a value, such as `a list`."""
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def list_texts(texts: object, *, by: str) -> list[str]:
    """Returns the texts of a list, an array, a Series or another iterable.

    Args:
        by: the function that takes them, for the message.

    Raises:
        TypeError: it is one string, or a table or mapping, whose names would be read; or something
            in it is not a string.
    """
    if isinstance(texts, str):
        raise TypeError(f"{by} takes a list of texts, got one string: write {by}([text])")
    is_table = isinstance(texts, Mapping) or hasattr(texts, "columns")
    if is_table or isinstance(texts, bytes) or not isinstance(texts, Iterable):
        raise TypeError(
            f"{by} takes a list of texts, got {kind_of(texts)}: give a list, or one column of a "
            "table"
        )
    listed: list[str] = list(texts)
    for index, text in enumerate[object](listed):
        if not isinstance(text, str):
            raise TypeError(
                f"{by} takes strings, and texts[{index}] is {kind_of(text)}: convert it, or leave "
                "it out if it is missing"
            )
    return listed


def one_text(text: object, *, by: str) -> str:
    """Returns a text; raises TypeError for anything else."""
    if not isinstance(text, str):
        raise TypeError(f"{by} takes one text, got {kind_of(text)}: call it once for each string")
    return text


def folder_path(path: object, *, by: str) -> Path:
    """Returns the path of a folder; raises TypeError for what is no path."""
    if not isinstance(path, str | PathLike):
        raise TypeError(f"{by} takes the path of a folder, got {kind_of(path)}")
    return Path(path)


def one_of(name: str, value: object, known: Sequence[str]) -> None:
    """Raises ValueError for a value that is not one of those that are known."""
    if value not in known:
        raise ValueError(f"{name} must be {', '.join(known[:-1])} or {known[-1]}, got {value!r}")


def index_of(values: object) -> object:
    """Returns the index of a Series; None for a list, whose `index` is a method."""
    index = getattr(values, "index", None)
    return None if callable(index) else index
