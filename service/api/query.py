"""From a raw query string to checked fields, as strict as a JSON body is."""

from collections.abc import Mapping
from urllib.parse import parse_qsl

from service.api.body import Body, validate
from service.errors import FieldError, InvalidRequestError

_MOST_PARAMETERS = 1000


def read_query(
    query: bytes,
    schema: type[Body],
    *,
    repeatable: frozenset[str] = frozenset(),
    integers: frozenset[str] = frozenset(),
    context: Mapping[str, object],
) -> Body:
    """Parses and checks a query string.

    Args:
        query: as it was sent, percent-encoded UTF-8.
        schema: what the fields must be; numbers come as digits.
        repeatable: the fields that may come more than once; they become lists of integers.
        integers: the fields that are a single integer.
        context: limits that the schema's validators look up.

    Raises:
        InvalidRequestError: it is not UTF-8, or a field is wrong, unknown or repeated.
    """
    try:
        pairs = parse_qsl(
            query.decode("utf-8"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=_MOST_PARAMETERS,
        )
    except UnicodeDecodeError as error:
        raise _invalid("the query is not percent-encoded UTF-8") from error
    except ValueError as error:
        raise _invalid(f"there are more than {_MOST_PARAMETERS} parameters") from error
    single = [(name, value) for name, value in pairs if name not in repeatable]
    if len(dict(single)) < len(single):
        raise _invalid("a parameter is given more than once; give each once")
    fields: dict[str, object] = {
        name: _number(value) if name in integers else value for name, value in single
    }
    lists: dict[str, list[int | str]] = {}
    for name, value in pairs:
        if name in repeatable:
            lists.setdefault(name, []).append(_number(value))
    return validate(schema, {**fields, **lists}, place="query", context=context)


def _number(value: str) -> int | str:
    return int(value) if value.isascii() and value.isdigit() and len(value) < 10 else value


def _invalid(message: str) -> InvalidRequestError:
    return InvalidRequestError(f"query: {message}.", errors=[FieldError(("query",), message)])
