"""Reads bodies and queries into checked objects; every way to be wrong has its error.

A body is judged in this order: size, media type, JSON, schema.
"""

import codecs
import json
from collections.abc import Callable
from email.message import Message
from typing import Any, NoReturn, TypeVar
from urllib.parse import parse_qsl

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError, ValidationInfo, model_validator
from starlette.requests import Request

from service.errors import (
    MalformedJsonError,
    PayloadTooLargeError,
    ServiceError,
    UnsupportedMediaTypeError,
    invalid,
)
from service.routes.wording import LONGEST_INTEGER, OUT_OF_RANGE, only_one_unknown, rejection

Schema = TypeVar("Schema", bound=BaseModel)

MOST_PARAMETERS = 1000
# Enough for 256 rows of 100 columns; the interpreter reads so many in some milliseconds.
_MOST_VALUES = 32_768
# Of JSON with too many values, so many bytes are read, to say first if it is no JSON at all.
_BEGINNING = 16_384
# Where the rest of it is missing, an error stands among the last characters.
_LONGEST_WORD = 8


class RequestBody(BaseModel):
    """What a request or an object within it holds: known fields of the right types only.

    Of unknown fields, which may be many, one is reported.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _only_one_unknown(cls, value: object) -> object:
        if not isinstance(value, dict) or value.keys() <= cls.model_fields.keys():
            return value
        return only_one_unknown(value, cls.model_fields)


def counting(name: str) -> Callable[[object, ValidationInfo], object]:
    """Makes a check that counts texts before any is looked at: a body may hold a million."""

    def check(texts: object, info: ValidationInfo) -> object:
        most = (info.context or {}).get("max_sentences")
        lists = [texts, *texts.values()] if isinstance(texts, dict) else [texts]
        for each in lists:
            if most is not None and isinstance(each, list) and len(each) > most:
                raise ValueError(f"at most {most} {name} are taken at once, got {len(each)}")
        return texts

    return check


async def receive_json(request: Request, max_bytes: int) -> bytes:
    """Receives a body that should be JSON, as it was sent.

    Raises:
        PayloadTooLargeError: the body is larger, by its declared length or by its bytes.
        UnsupportedMediaTypeError: it is not plain JSON.
    """
    content = await receive(request, max_bytes)
    encodings = request.headers.getlist("content-encoding")
    if any(encoding.strip().lower() not in {"", "identity"} for encoding in encodings):
        raise UnsupportedMediaTypeError(
            "The body is encoded (Content-Encoding): send it as it is.",
            headers={"Accept-Encoding": "identity"},
        )
    types = request.headers.getlist("content-type")
    if len(types) != 1 or not _is_json(types[0]):
        raise UnsupportedMediaTypeError(
            "The body must be JSON in UTF-8: send it with Content-Type: application/json.",
            headers={"Accept": "application/json"},
        )
    return content


def read_query(query: bytes, schema: type[Schema], context: dict[str, object]) -> Schema:
    """Reads a query string as strictly as a JSON body.

    Numbers are digits, lists are repeated parameters, and lists of objects are JSON.

    Raises:
        InvalidRequestError: it is not UTF-8, or a field is wrong, unknown or repeated.
    """
    try:
        pairs = parse_qsl(
            query.decode("utf-8"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=MOST_PARAMETERS,
        )
    except UnicodeDecodeError as error:
        raise invalid(("query",), "the query is not percent-encoded UTF-8") from error
    except ValueError as error:
        raise invalid(("query",), f"there are more than {MOST_PARAMETERS} parameters") from error
    fields: dict[str, Any] = {}
    for name, value in pairs:
        read = _READ.get(name, str)(value)
        if name in _REPEATED:
            fields.setdefault(name, []).append(read)
        elif name in fields:
            raise invalid(("query",), "a parameter is given more than once; give each once")
        else:
            fields[name] = read
    return validate(schema, fields, source="query", context=context)


def validate(
    schema: type[Schema],
    value: object,
    *,
    source: str,
    context: dict[str, object],
    several: bool = False,
) -> Schema:
    """Checks a parsed value against a schema, whose validators look up limits in `context`.

    `source` is `body` or `query`, the first word of every `loc`; `several` says whether the path
    also takes a list of texts.

    Raises:
        InvalidRequestError: it does not fit; lists every error and repeats no text of the value.
    """
    try:
        return schema.model_validate(value, context=context)
    except ValidationError as error:
        refused = rejection(error, schema, value, source=source, several=several)
    raise refused


async def receive(request: Request, max_bytes: int) -> bytes:
    """Receives the body of a request as it was sent; raises PayloadTooLargeError."""
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > max_bytes:
        reject_size(f"The body has {int(declared)} bytes", max_bytes)
    content = bytearray()
    async for chunk in request.stream():
        content += chunk
        if len(content) > max_bytes:
            reject_size("The body is longer than it may be", max_bytes)
    return bytes(content)


def reject_size(what: str, max_bytes: int) -> NoReturn:
    """Raises PayloadTooLargeError; `what` says which size is too large."""
    raise PayloadTooLargeError(
        f"{what}; the limit is {max_bytes} bytes: send fewer sentences at once.",
        headers={"Connection": "close"},
    )


def _is_json(content_type: str) -> bool:
    if content_type == "application/json":
        return True
    header = Message()
    header["content-type"] = content_type
    subtype, charset = header.get_content_subtype(), header.get_content_charset("utf-8")
    return (
        header.get_content_maintype() == "application"
        and (subtype == "json" or subtype.endswith("+json"))
        and charset in {"utf-8", "utf8"}
    )


def most_values(max_sentences: int) -> int:
    """Returns how many values the JSON of a body may hold, where so many sentences may be sent."""
    return max(_MOST_VALUES, 4 * max_sentences)


def parse_json(content: bytes, max_values: int) -> object:
    """Parses a body as strictly as the standard says.

    Raises:
        MalformedJsonError: it is not UTF-8 JSON.
        InvalidRequestError: it has more than `max_values`, or an object gives a field twice.
    """
    content = content.removeprefix(codecs.BOM_UTF8)  # one may ignore it (RFC 8259, section 8.1)
    if not content.strip(b" \t\r\n"):
        raise MalformedJsonError("The body is empty: send a JSON object.")
    count = _count_values(content, max_values)
    if count > max_values:
        content = content[:_BEGINNING]
    repeated = False

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal repeated
        found = dict(pairs)
        repeated |= len(found) < len(pairs)
        return found

    try:
        value = json.loads(
            content.decode("utf-8", "strict" if count <= max_values else "ignore"),
            parse_int=_integer,
            parse_constant=_reject_constant,
            object_pairs_hook=members,
        )
    except UnicodeDecodeError as error:
        raise MalformedJsonError(
            f"The body is not UTF-8: byte {error.start} does not belong there."
        ) from error
    except json.JSONDecodeError as error:
        is_cut = error.pos > len(error.doc) - _LONGEST_WORD or error.msg.startswith("Unterminated")
        if count <= max_values or not is_cut:
            raise MalformedJsonError(
                f"The body is not JSON: {error.msg}, at line {error.lineno}, column {error.colno}."
            ) from error
    except RecursionError as error:
        raise MalformedJsonError("The JSON is nested too deep.") from error
    if count > max_values:
        raise invalid(
            ("body",),
            f"the JSON has {count} values, an empty list or object counted twice, and may have at "
            f"most {max_values}: send fewer",
        )
    if repeated:
        raise invalid(("body",), "an object gives the same field twice; give each once")
    return value


def _count_values(content: bytes, enough: int) -> int:
    """Returns how many values JSON holds, or a larger number that is still at most `enough`."""
    # Each but one follows a comma or begins a list or an object.
    if (most := 1 + sum(map(content.count, (b",", b"[", b"{")))) <= enough:
        return most
    # Some of them may stand in strings. Without escapes, every second quotation mark ends one.
    plain = np.frombuffer(content.replace(rb"\\", b"").replace(rb"\"", b""), np.uint8)
    is_in_string = np.logical_xor.accumulate(plain == ord('"'))
    begins = (plain == ord(",")) | (plain == ord("[")) | (plain == ord("{"))
    return 1 + int(np.count_nonzero(begins & ~is_in_string))


def _integer(digits: str) -> int:
    # Python refuses to read integers of thousands of digits; no field takes one of twenty.
    if len(digits) <= LONGEST_INTEGER:
        return int(digits)
    return -OUT_OF_RANGE if digits.startswith("-") else OUT_OF_RANGE


def _reject_constant(name: str) -> NoReturn:
    raise MalformedJsonError(f"The body is not JSON: {name} is not a JSON number.")


def _number(value: str) -> int | str:
    return int(value) if value.isascii() and value.isdigit() and len(value) < 10 else value


def _objects(value: str) -> object:
    try:
        return parse_json(value.encode(), len(value))
    except ServiceError:  # the schema says what it must be
        return value


def _boolean(text: str) -> object:
    return {"true": True, "false": False}.get(text, text)


# Parameters that may be repeated, and how a parameter is read that is no text.
_REPEATED = frozenset({"layer", "head", "labels"})
_READ: dict[str, Callable[[str], object]] = {
    **dict.fromkeys(("layer", "head", "window", "thumbnail"), _number),
    "head_mask": _objects,
    "special": _boolean,
}
