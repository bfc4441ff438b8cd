"""Words what pydantic finds wrong with a request; a misplaced text gets the right form first."""

from collections.abc import Mapping, Sequence
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from model.validation import nearest, tell_fault
from service.errors import FieldError, InvalidRequestError

# What this service and others call the field of the text. A request with one of these names where
# it is not known gets the right form.
TEXT_FIELDS = (
    *("sentences", "sentence", "inputs", "input", "texts", "text"),
    *("instances", "documents", "document", "content", "prompt", "data"),
)
# The right form of a request, by the name of its field of the text.
_FORMS = {
    ("body", "sentences"): '{"sentences": ["…"]}',
    ("body", "sentence"): '{"sentence": "…"}',
    ("query", "sentence"): "?sentence=…",
}
#: the most errors of one request that are worded
MOST_WORDED = 10
_PARTS = {"body": "field", "query": "parameter"}
# Errors that the right form mends. Of any other the text has its right place and kind.
_MISPLACED = frozenset({"missing", "string_type", "list_type", "too_short"})
# What is longer is read as this number, or as its negative: no field takes it.
LONGEST_INTEGER = 18
OUT_OF_RANGE: int = 10**LONGEST_INTEGER
# Errors of which a number gives the value without repeating any text.
_LIMITS = frozenset({"greater_than", "greater_than_equal", "less_than", "less_than_equal"})
_WRONG_COUNT = frozenset({"too_short", "too_long"})


def only_one_unknown(value: dict[str, Any], known: Mapping[str, object]) -> dict[str, Any]:
    """Leaves out all unknown fields but one: reporting 100,000 of them would take seconds.

    It keeps one that other services call the text, if possible.
    """
    unknown = _misnamed(value, known) or next(name for name in value if name not in known)
    return {name: item for name, item in value.items() if name in known or name == unknown}


def rejection(
    refused: ValidationError, schema: type[BaseModel], value: object, *, source: str, several: bool
) -> InvalidRequestError:
    """Makes the error of a request that does not fit its schema; see `validate`."""
    found = refused.errors(include_url=False)
    # A union reports the same error for each of its members: say it once.
    different = {(error["loc"], error["type"]): error for error in reversed(found)}
    others = len(different) - 1
    worded = list(different.values())[: -MOST_WORDED - 1 : -1]
    errors = list(dict.fromkeys(_field_error(error, schema, value, source) for error in worded))
    more = f" (and {others} more)" if others else ""
    reason = _misplaced(found, schema, value, source, several=several)
    if reason is not None:
        return InvalidRequestError(reason, errors=errors)
    return InvalidRequestError(f"{errors[0]}{more}.", errors=errors)


def _misplaced(
    found: Sequence[ErrorDetails],
    schema: type[BaseModel],
    value: object,
    source: str,
    *,
    several: bool,
) -> str | None:
    """Returns the right form and why; None if the text is where it belongs."""
    known = schema.model_fields
    own = next((name for name in known if (source, name) in _FORMS), None)
    if own is None:
        return None
    form = _FORMS[source, own]
    part = _PARTS[source]
    if not isinstance(value, dict):
        return f"Send {form}: the {source} must be an object, got {_kind(value)}."
    unknown = _misnamed(value, known)
    if unknown is not None and own in value:
        return f'Send {form}: leave out "{unknown}", because "{own}" is given too.'
    if unknown is not None:
        if several and isinstance(value[unknown], list):
            form = _FORMS["body", "sentences"]
        return f'Send {form}: there is no {part} "{unknown}" here.'
    error = next((error for error in found if error["loc"] == (own,)), None)
    if error is None or error["type"] not in _MISPLACED:
        return None
    hint = ""
    if own == "sentence" and isinstance(error["input"], list):
        hint = f"; of several texts send {_FORMS['body', 'sentences']}" if several else (
            "; ask once for each text"
        )  # fmt: skip
    return f'Send {form}: the {part} "{own}" {_describe(error, source)}{hint}.'


def _misnamed(value: Mapping[str, Any], known: Mapping[str, object]) -> str | None:
    """The name that others give the text, if the request has one that is not known."""
    return next((name for name in TEXT_FIELDS if name in value and name not in known), None)


def _field_error(
    error: ErrorDetails, schema: type[BaseModel], value: object, source: str
) -> FieldError:
    loc = error["loc"]
    if error["type"] != "extra_forbidden":
        return FieldError((source, *loc), _describe(error, source))
    known = _known_at(schema, loc[:-1])
    part = _PARTS.get(source, "field") if len(loc) == 1 else "field"
    listed = f"known are {', '.join(known)}"
    given = str(loc[-1])
    if isinstance(value, dict) and given == _misnamed(value, known):
        return FieldError((source, given), f"there is no such {part}; {listed}")
    # Any other name is the client's own text, so it is not repeated.
    near = nearest(given, known)
    hint = "" if near is None else f"did you mean {near}? "
    return FieldError((source, *loc[:-1]), f"an unknown {part} is given; {hint}{listed}")


def _known_at(schema: type[BaseModel], path: Sequence[int | str]) -> Mapping[str, object]:
    """The fields of the object at a place in a request; numbers are places in a list."""
    for name in path:
        if isinstance(name, str):
            schema = _model_in(schema.model_fields[name].annotation)
    return schema.model_fields


def _model_in(annotation: object) -> type[BaseModel]:
    """Finds the schema of objects in the type of a field, such as a list of them or None."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(_model_in(part) for part in get_args(annotation) if part is not type(None))


def _describe(error: ErrorDetails, source: str) -> str:
    """Describes an error and, without any text of it, the value."""
    kind, value, words = error["type"], error["input"], tell_fault(error)
    if kind in _LIMITS:
        is_long = isinstance(value, int) and abs(value) >= OUT_OF_RANGE
        shown = f"a number of {LONGEST_INTEGER} digits or more" if is_long else value
        return f"{words}, got {shown}"
    if kind in _WRONG_COUNT:
        return f"{words}, got {error['ctx']['actual_length']}"
    is_of_a_kind = kind.endswith("_type") or (
        kind in {"literal_error", "int_from_float"} and not isinstance(value, str)
    )
    return f"{words}, got {_kind(value)}" if is_of_a_kind and source == "body" else words


def _kind(value: object) -> str:
    """What JSON calls a value."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    names = {int: "a number", float: "a decimal number", str: "a string", list: "a list"}
    return names.get(type(value), "an object")
