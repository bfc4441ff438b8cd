"""Describes the paths of other systems for the interface at `/openapi.json`."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from service.api.compat.texts import TRUNCATED
from service.api.openapi import Operation, describe
from service.api.schemas import HealthAnswer
from service.errors import ServiceError

_TAG = "Other systems"
_CUT = {
    "description": "Places, from 0, of the texts that were cut; no header if none was.",
    "schema": {"type": "string"},
    "example": "1,3",
}

Examples = Mapping[str, tuple[str, dict[str, Any]]]


def computes(
    name: str,
    schema: type[BaseModel],
    examples: Examples,
    *more: type[ServiceError],
    answer: object = None,
) -> Operation:
    """What the router of a path takes that classifies texts.

    Args:
        name: of the operation.
        schema: of the body; `families` lists it.
        examples: bodies with a summary each, by their names.
        more: errors that other paths which classify do not have.
        answer: the schema of a good answer.
    """
    media = {
        "schema": {"$ref": f"#/components/schemas/{schema.__name__}"},
        "examples": {
            each: {"summary": summary, "value": value}
            for each, (summary, value) in examples.items()
        },
    }
    body = {"required": True, "content": {"application/json": media}}
    headers = {TRUNCATED: _CUT}
    return describe(
        name, _TAG, "computes", more, answer=answer, good={"headers": headers}, requestBody=body
    )


def describes(
    name: str, answer: object = None, more: tuple[type[ServiceError], ...] = ()
) -> Operation:
    """What the router of a path takes that describes the model."""
    return describe(name, _TAG, "describes", more, answer=answer)


def probes(name: str, answer: object = HealthAnswer) -> Operation:
    """What the router of a path takes that an orchestrator asks for health."""
    return describe(name, _TAG, "probes", answer=answer)


def tells_text(name: str) -> Operation:
    """What the router of a path takes that answers plain text, and to everybody."""
    good = {"content": {"text/plain": {"schema": {"type": "string"}}}}
    return describe(name, _TAG, "probes", good=good)
