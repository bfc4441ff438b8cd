"""The forms in which other systems send texts: read to the end, or refused by one kind of error."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from model.reading import ReadingOptions
from service.compat import huggingface, mlflow
from service.compat.base import OtherBody, texts_in
from service.compat.classify import ClassifyRequest
from service.compat.huggingface import InputsRequest
from service.compat.mlflow import InvocationsRequest
from service.compat.openinference_schemas import InferRequest, TensorParameters
from service.errors import InvalidRequestError
from service.routes.bodies import validate
from service.routes.texts import Texts

MOST = 5
LIMITS: dict[str, object] = {"max_sentences": MOST, "max_length": 32}
TEXT = st.sampled_from(["a", "b c", ""])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False) | TEXT,
    lambda inner: (
        st.lists(inner, max_size=7)
        | st.dictionaries(st.sampled_from(["text", "columns", "data", "x"]), inner, max_size=3)
    ),
    max_leaves=12,
)
TENSOR = {"name": "text", "datatype": "BYTES", "data": ["a"]}
OBJECTS = [*OtherBody.__subclasses__(), *TensorParameters.__subclasses__()]
FORMS = st.sampled_from(["inputs", "instances", "dataframe_split", "dataframe_records"])


def read_inputs(body: object) -> Texts:
    return huggingface.texts_of(checked(InputsRequest, body))


def read_invocations(body: object) -> Texts:
    return mlflow.texts_of(checked(InvocationsRequest, body))


def read_input(body: object) -> Texts:
    return texts_in(checked(ClassifyRequest, body).input, ("input",), ReadingOptions())


def checked(schema: type[BaseModel], body: object) -> Any:  # noqa: ANN401
    return validate(schema, body, source="body", context=LIMITS)


@given(JSON, st.dictionaries(FORMS, JSON, min_size=1, max_size=2))
def test_whatever_a_body_holds_it_is_read_or_refused(
    value: object, invocations: dict[str, object]
) -> None:
    for read, body in (
        (read_inputs, {"inputs": value}),
        (read_invocations, invocations),
        (read_input, {"input": value}),
    ):
        try:
            found = read(body)
        except InvalidRequestError as error:
            assert {each.loc[0] for each in error.errors} == {"body"}  # noqa: PT017
            continue
        assert len(found.items) <= MOST


def with_nulls(value: Any) -> Any:  # noqa: ANN401
    """The same with a null for every field that some object of other systems knows."""
    if isinstance(value, list):
        return [with_nulls(each) for each in value]
    if not isinstance(value, dict):
        return value
    return dict.fromkeys(_KNOWN) | {name: with_nulls(each) for name, each in value.items()}


_KNOWN = {"unheard_of"}.union(*(each.model_fields for each in OBJECTS))


@pytest.mark.parametrize(
    ("schema", "body"),
    [
        (InputsRequest, {"inputs": "a", "parameters": {}}),
        (ClassifyRequest, {"input": ["a"]}),
        (InvocationsRequest, {"inputs": ["a"]}),
        (InvocationsRequest, {"inputs": ["a"], "parameters": {}}),
        (InvocationsRequest, {"dataframe_split": {"columns": ["a"], "data": []}, "params": {}}),
        (InferRequest, {"inputs": [{**TENSOR, "shape": [1], "parameters": {}}]}),
        (
            InferRequest,
            {
                "inputs": [{**TENSOR, "shape": [1]}],
                "outputs": [{"name": "label", "parameters": {}}],
                "parameters": {},
            },
        ),
    ],
)
def test_null_says_nothing(schema: type[BaseModel], body: object) -> None:
    assert checked(schema, with_nulls(body)) == checked(schema, body)


def test_null_is_no_text_and_hides_no_other_field() -> None:
    for body in ({"inputs": None}, {"inputs": "a", "x": None, "y": 1}):
        with pytest.raises(InvalidRequestError):
            read_inputs(body)


@pytest.mark.parametrize(
    ("body", "items", "loc"),
    [
        ({"inputs": "a"}, ["a"], ("inputs",)),
        ({"inputs": ["a", "b"]}, ["a", "b"], ("inputs", 0)),
        ({"inputs": [["a"], ["b"]]}, ["a", "b"], ("inputs", 0, 0)),
        ({"inputs": ["a", ["b"]]}, ["a", ["b"]], ("inputs", 0)),
    ],
)
def test_inputs_and_their_places(
    body: object, items: list[object], loc: tuple[str | int, ...]
) -> None:
    texts = read_inputs(body)
    assert (texts.items, texts.locate(0), texts.field) == (items, loc, ("inputs",))


@pytest.mark.parametrize(
    ("more", "truncation", "most"),
    [
        ({}, "right", None),
        ({"truncate": False}, "error", None),
        ({"truncation_direction": "left"}, "left", None),
        ({"truncation_direction": "Left", "truncate": False}, "error", None),
        ({"truncation_direction": "Left", "raw_scores": None}, "left", None),
        ({"parameters": {"truncation": False, "max_length": 9}}, "error", None),
        ({"parameters": {"max_length": 9}, "options": {"wait_for_model": True}}, "right", 9),
        ({"parameters": {"truncation": "longest_first", "padding": True}}, "right", None),
        ({"parameters": {"truncation": "do_not_truncate"}}, "error", None),
    ],
)
def test_whether_and_where_texts_are_cut(
    more: dict[str, object], truncation: str, most: int | None
) -> None:
    options = read_inputs({"inputs": "a", **more}).options
    assert (options.truncation, options.max_length) == (truncation, most)


@pytest.mark.parametrize(
    ("form", "rows"),
    [
        ("instances", [{"text": "a", "id": "7"}, {"id": "8"}]),
        ("dataframe_records", [{"mine": "a"}, {"yours": "b"}]),
    ],
)
def test_a_row_without_the_column_of_the_others_is_refused(form: str, rows: list[object]) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        read_invocations({form: rows})
    assert caught.value.detail == (
        f"{form}[{len(rows) - 1}]: has its text in another column than the row before it: "
        "name the same one in every row."
    )
    assert caught.value.errors[0].loc == ("body", form, len(rows) - 1)


@pytest.mark.parametrize(("parameter", "hint"), [("topk", "did you mean top_k? "), ("secret", "")])
def test_a_misspelt_parameter_gets_the_right_name(parameter: str, hint: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        read_inputs({"inputs": "a", "parameters": {parameter: 1}})
    assert caught.value.detail == (
        f"parameters: an unknown field is given; {hint}known are top_k, function_to_apply, "
        "return_all_scores, truncation, max_length, padding."
    )


@pytest.mark.parametrize(
    ("body", "items", "loc"),
    [
        ({"inputs": {"text": "a"}}, ["a"], ("inputs", "text")),
        ({"inputs": {"mine": ["a"]}}, ["a"], ("inputs", 0)),
        ({"instances": [{"mine": "a"}]}, ["a"], ("instances", 0)),
        ({"dataframe_records": [{"x": 1, "text": "a"}]}, ["a"], ("dataframe_records", 0)),
        (
            {"dataframe_split": {"columns": ["x", "text"], "data": [[1, "a"]]}},
            ["a"],
            ("dataframe_split", "data", 0, 1),
        ),
        (
            {"dataframe_split": {"columns": [0], "data": [["a"]]}},
            ["a"],
            ("dataframe_split", "data", 0, 0),
        ),
    ],
)
def test_invocations_and_their_places(
    body: object, items: list[object], loc: tuple[str | int, ...]
) -> None:
    """The name of a column is text of the client's own, unless it is ours."""
    texts = read_invocations(body)
    assert (texts.items, texts.locate(0)) == (items, loc)


@pytest.mark.parametrize(
    ("schema", "body", "most"),
    [
        (InvocationsRequest, {"dataframe_split": {"columns": [0.5] * 2_000, "data": []}}, 2),
        (InferRequest, {"inputs": [{**TENSOR, "shape": ["1"] * 2_000}]}, 1),
        (InferRequest, {"inputs": [{**TENSOR, "shape": [-1] * 2_000}]}, 1),
    ],
)
def test_a_list_of_a_million_errors_is_not_reported_one_by_one(
    schema: type[BaseModel], body: object, most: int
) -> None:
    with pytest.raises(InvalidRequestError) as raised:
        checked(schema, body)
    assert len(raised.value.errors) == most
