"""docs/reference/http.md names the routes, errors and fields of the service, all and no other."""

import json
import re

import pytest
from fastapi.routing import APIRoute
from pydantic import BaseModel

from service.api.attention import FORMS
from service.api.schemas import (
    AttentionAnswer,
    AttentionRequest,
    AttributionsAnswer,
    AttributionsRequest,
    ImportanceAnswer,
    ImportanceRequest,
    ItemAnswer,
    LimitsAnswer,
    ModelAnswer,
    PredictRequest,
    Problem,
    SentenceAnswer,
    StepsAnswer,
    StepsRequest,
    ThresholdAnswer,
    ThresholdsAnswer,
    TokenAnswer,
)
from service.app import ROUTERS
from service.errors import ALL_ERRORS
from service.page.problems import EXPLANATIONS, Explanation
from tests.documentation.markdown import REFERENCE, code, codes, rows

PAGE = REFERENCE / "http.md"
_LINK = re.compile(r"\[([^\[\]]*)\]\([^()\s]+\)")
# What a field without a value means.
_UNSET = {
    "layer": "all",
    "head": "all",
    "format": "by `Accept`",
    "label": "the predicted one",
    "abstain_below": "absent",
    "head_mask": "absent",
    "thumbnail": "absent",
    "omit": "absent",
    "window": "0",
}


def test_every_route_has_its_methods() -> None:
    served = {
        (method, route.path.replace(":path", ""))
        for router in ROUTERS
        for route in router.routes
        if isinstance(route, APIRoute)
        for method in route.methods or ()
    }

    documented = {
        (method, codes(path)[0])
        for methods, path, *_ in rows(PAGE, "method", "path")
        for method in codes(methods)
    }

    assert documented == served


def test_the_paths_that_need_a_key_are_named() -> None:
    keyed = [codes(path)[0] for _, path, _, key in rows(PAGE, "method", "path") if key == "yes"]

    own = ["/predict", "/attention", "/attention/steps", "/attributions", "/importance", "/model"]
    elsewhere = ["/", "/hf", "/info", "/classify", "/v1/classify", "/v1/models", "/invocations"]
    assert [path for path in keyed if not path.startswith("/v2")] == own + elsewhere
    versioned = "/v2/models/{model}/versions/{version}"
    assert [path for path in keyed if path.startswith("/v2")] == [
        "/v2/models/{model}/infer",
        f"{versioned}/infer",
        *("/v2", "/v2/models", "/v2/models/{model}", versioned),
        *("/v2/models/{model}/ready", f"{versioned}/ready"),
    ]


def test_every_error_has_its_status() -> None:
    documented = [(code(kind), int(status)) for kind, status, *_ in rows(PAGE, "type", "status")]

    assert documented == [(error.type, error.status) for error in ALL_ERRORS]


def test_every_error_is_explained_as_the_service_itself_does() -> None:
    documented = {
        code(kind): Explanation(*(_LINK.sub(r"\1", cell) for cell in told))
        for kind, _, *told in rows(PAGE, "type", "status")
    }

    assert documented == EXPLANATIONS
    assert list(EXPLANATIONS) == [error.type for error in ALL_ERRORS]


def test_every_member_of_a_problem_is_described() -> None:
    assert _names("member") == list(Problem.model_fields)


@pytest.mark.parametrize(
    ("header", "schema"),
    [
        ("sent to `/predict`", PredictRequest),
        ("sent to `/attention`", AttentionRequest),
        ("sent to `/attention/steps`", StepsRequest),
        ("sent to `/attributions`", AttributionsRequest),
        ("sent to `/importance`", ImportanceRequest),
        ("a prediction", ItemAnswer),
        ("one of `sentences`", SentenceAnswer),
        ("answer of `/model`", ModelAnswer),
        ("in `thresholds`", ThresholdsAnswer),
        ("one of `by_threshold`", ThresholdAnswer),
    ],
)
def test_every_field_is_described(header: str, schema: type[BaseModel]) -> None:
    assert _names(header) == list(schema.model_fields)


def test_every_field_of_an_answer_with_attention_is_described() -> None:
    of_tokens = [f"tokens[].{name}" for name in TokenAnswer.model_fields]
    before, after = (
        ["prediction", "window", "windows", "tokens"],
        ["layers", "heads", "view", "attention", "strongest", "strongest_weights"],
    )

    assert _names("answer of `/attention`") == [*before, *of_tokens, *after]
    assert list(AttentionAnswer.model_fields) == ["model", *before, *after]


@pytest.mark.parametrize(
    ("header", "schema"),
    [
        ("answer of `/attention/steps`", StepsAnswer),
        ("answer of `/attributions`", AttributionsAnswer),
        ("answer of `/importance`", ImportanceAnswer),
    ],
)
def test_every_field_but_the_model_is_described(header: str, schema: type[BaseModel]) -> None:
    assert ["model", *_names(header)] == list(schema.model_fields)


@pytest.mark.parametrize(
    ("header", "schema"),
    [
        ("sent to `/predict`", PredictRequest),
        ("sent to `/attention`", AttentionRequest),
        ("sent to `/attention/steps`", StepsRequest),
        ("sent to `/attributions`", AttributionsRequest),
        ("sent to `/importance`", ImportanceRequest),
    ],
)
def test_what_is_needed_and_what_has_a_default_is_told(
    header: str, schema: type[BaseModel]
) -> None:
    documented = [code(default) for _, default, _ in rows(PAGE, header)]

    assert documented == [
        "required" if field.is_required() else _written(field.default) or _UNSET[name]
        for name, field in schema.model_fields.items()
    ]


def test_every_limit_is_described() -> None:
    assert _names("limit") == list(LimitsAnswer.model_fields)


def test_every_error_of_a_limit_is_one() -> None:
    kinds = {kind for *_, kind in rows(PAGE, "limit") for kind in codes(kind)}

    assert kinds <= {error.type for error in ALL_ERRORS}


def test_every_form_is_described() -> None:
    documented = {code(media_type): code(form) for form, media_type, _ in rows(PAGE, "form")}

    assert documented == FORMS


def _written(default: object) -> str:
    """A default as JSON has it, without quotes; empty for one that asks for nothing."""
    return (default if isinstance(default, str) else json.dumps(default)) if default else ""


def _names(header: str) -> list[str]:
    return [name for cells in rows(PAGE, header) for name in codes(cells[0])]
