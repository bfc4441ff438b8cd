"""Says in the project's words what is wrong with a value, such as "must be at most 1"."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from os import PathLike
from pathlib import Path

from pydantic_core import ErrorDetails

# By the kind of a fault. Braces hold what pydantic reports of the limit.
WORDS: Mapping[str, str] = {
    "missing": "is missing",
    "extra_forbidden": "is not known: leave it out",
    "string_type": "must be a string",
    "string_unicode": "must be valid Unicode",
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "must be a whole number"),
    "int_parsing_size": "must be a whole number of fewer digits",
    **dict.fromkeys(("float_type", "float_parsing"), "must be a number"),
    "finite_number": "must be a finite number",
    **dict.fromkeys(("bool_type", "bool_parsing"), "must be true or false"),
    **dict.fromkeys(("list_type", "tuple_type"), "must be a list"),
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), "must be an object"),
    "invalid_key": "must have strings as its keys",
    "path_type": "must be a path",
    "literal_error": "must be {expected}",
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "string_pattern_mismatch": "must match the pattern {pattern}",
    "too_short": "must have at least {min_length} {item}",
    "too_long": "must have at most {max_length} {item}",
    "string_too_short": "must have at least {min_length} {character}",
    "string_too_long": "must have at most {max_length} {character}",
}
# Faults that our own validators raise; pydantic puts its words before ours.
_OWN = {"value_error": "Value error, ", "assertion_error": "Assertion failed, "}
_UNKNOWN = "is not of the form that is wanted"
# How alike two names must be by default, and how long the wrong one may be to be compared.
_LIKENESS, _LONGEST_NAME = 0.7, 40


def tell_fault(fault: ErrorDetails) -> str:
    """Describes one fault without its place and its value."""
    kind = fault["type"]
    if kind in _OWN:
        return fault["msg"].removeprefix(_OWN[kind])
    values = {
        name: f"{value:g}" if isinstance(value, float) else str(value)
        for name, value in fault.get("ctx", {}).items()
    }
    count = values.get("min_length", values.get("max_length"))
    ending = "" if count == "1" else "s"
    return WORDS.get(kind, _UNKNOWN).format(
        **values, item=f"item{ending}", character=f"character{ending}"
    )


def nearest(name: str, known: Collection[str], *, likeness: float = _LIKENESS) -> str | None:
    """Finds the known name that a mistyped one is nearest to; None if none is near."""
    if len(name) > _LONGEST_NAME:
        return None
    return next(iter(get_close_matches(name.lower(), known, n=1, cutoff=likeness)), None)


def kind_of(value: object) -> str:
    """Names the kind of a value, such as `a list`."""
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def list_items(texts: object, *, by: str) -> list[object]:
    """Returns the items of a list, an array, a Series or another iterable, whatever they are.

    For one string, or a table or mapping, whose names would be read, it raises a TypeError that
    names the function that takes them, `by`.
    """
    if isinstance(texts, str):
        raise TypeError(f"{by} takes a list of texts, got one string: write {by}([text])")
    is_table = isinstance(texts, Mapping) or hasattr(texts, "columns")
    if is_table or isinstance(texts, bytes) or not isinstance(texts, Iterable):
        raise TypeError(
            f"{by} takes a list of texts, got {kind_of(texts)}: give a list, or one column of a "
            "table"
        )
    # Iterating over a column of pyarrow gives scalars.
    return list(texts.to_pylist() if hasattr(texts, "to_pylist") else texts)


def checked_text(value: object, *, prefix: str = "") -> str:
    """Returns a text; raises TypeError for what is missing, or is no string."""
    if not isinstance(value, str):
        fault = f"{kind_of(value)}: convert it to a string"
        fault = "missing: leave it out" if is_missing(value) else fault
        raise TypeError(f"{prefix}the text is {fault}")
    return value


def is_missing(value: object) -> bool:
    """Whether a value is None, NaN or another mark of what is not there."""
    try:
        return value is None or bool(value != value)
    except (ArithmeticError, TypeError, ValueError):
        return type(value).__name__ == "NAType"


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
