"""Errors of requests are described in words of this service, without text of the user."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from model.validation import nearest
from service.errors import InvalidRequestError, ServiceError
from service.routes.bodies import validate
from service.routes.request_schemas import (
    AttentionListRequest,
    AttentionRequest,
    AttributionsRequest,
    ImportanceRequest,
    PredictRequest,
    StepsRequest,
)
from service.routes.wording import TEXT_FIELDS

SCHEMAS = [
    *(PredictRequest, AttentionRequest, AttentionListRequest),
    *(StepsRequest, AttributionsRequest, ImportanceRequest),
]
CONTEXT = {"max_sentences": 3, "labels": ("no", "yes"), "layers": 2, "heads": 2}
PYDANTIC = re.compile(
    r"input should|value error|assertion failed|validation error|_type\b|_parsing\b|extra_forbidden"
    r"|further information|errors\.pydantic|not permitted|after validation",
    re.IGNORECASE,
)
CANARY = "Canary"

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 1003)
    | st.integers()
    | st.floats()
    | st.sampled_from([CANARY, "", " ", "a", "\ud800", "right", "item", "word", "npz", "yes"]),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.just(CANARY), inner, max_size=2),
    max_leaves=6,
)


def refusal_of(schema: type[BaseModel], value: object, source: str) -> InvalidRequestError | None:
    try:
        validate(schema, value, source=source, context=CONTEXT, several=True)
    except InvalidRequestError as refused:
        return refused
    return None


def assert_ours(refused: ServiceError | None) -> None:
    if refused is not None:
        for words in (refused.detail, *(error.msg for error in refused.errors)):
            assert not PYDANTIC.search(words), words
            assert "not of the form" not in words  # a kind without words of its own
            assert CANARY not in words


@pytest.mark.parametrize("schema", SCHEMAS)
@given(data=st.data(), source=st.sampled_from(["body", "query"]))
def test_no_phrase_of_pydantic_comes_through(
    schema: type[BaseModel], data: st.DataObject, source: str
) -> None:
    names = st.sampled_from([*schema.model_fields, *TEXT_FIELDS, CANARY])
    assert_ours(refusal_of(schema, data.draw(st.dictionaries(names, values)), source))
    assert_ours(refusal_of(schema, data.draw(values), "body"))


@pytest.mark.parametrize(
    ("typed", "found"),
    [("lable", "label"), ("LABELS", "label"), ("layer", None), ("x" * 10**6, None), ("", None)],
)
def test_only_a_near_name_is_suggested(typed: str, found: str | None) -> None:
    assert nearest(typed, ["sentence", "label", "steps"]) == found
