"""Answers clients of MLflow and SageMaker: `/invocations`, `/ping`, `/version`."""

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import Body
from pydantic import BaseModel, Field, model_validator
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from model.reading import ReadingOptions
from model.types import Truncation
from service.compat.base import CUT_HEADER, TAG, Counted, OtherBody, answer_texts, wrong
from service.errors import Loc
from service.routes.health import ready
from service.routes.openapi import computes, probes
from service.routes.requests import Context, answer_get, answers, from_body, make_router
from service.routes.schemas import HealthAnswer, PredictionAnswer
from service.routes.texts import Texts, only

router = make_router(tags=[TAG])

_TEXT = "text"
_FORMS = ("inputs", "instances", "dataframe_split", "dataframe_records")
_COLUMNS = f"several columns are given, and none is named {_TEXT}: rename the one with the texts"

_OTHER = "has its text in another column than the row before it: name the same one in every row"

# Of these lists one error is reported: a body can hold a million.
_Records = Annotated[list[dict[str, object]], Field(fail_fast=True)]


class Split(OtherBody):
    """A table as pandas writes it with `orient="split"`."""

    columns: Annotated[list[str | int], Field(fail_fast=True)] = Field(min_length=1)
    data: Annotated[list[list[object]], Field(fail_fast=True), Counted]
    index: list[object] | None = None


class Params(OtherBody):
    """The member `params` of a body of `POST /invocations`, or `parameters`, as others name it."""

    truncation: Truncation = Field(
        "right", description="Which end of a text that is too long is cut off; `error` refuses it."
    )


class InvocationsRequest(OtherBody):
    """The body of `POST /invocations`."""

    inputs: Annotated[object, Counted] = Field(
        None, description="A text, a list of texts, or columns by their names: `text`, or the only."
    )
    instances: Annotated[list[object] | None, Counted] = Field(
        None, description="A list of texts, or of rows with a column `text`, or an only one."
    )
    dataframe_split: Split | None = Field(None, description="A table: its columns and its rows.")
    dataframe_records: Annotated[_Records | None, Counted] = Field(
        None, description="A list of rows, each with the names of its columns."
    )
    params: Params | None = None
    parameters: Params | None = Field(None, description="Another name of `params`.")

    @model_validator(mode="after")
    def _just_one(self) -> "InvocationsRequest":
        if sum(getattr(self, form) is not None for form in _FORMS) != 1:
            raise ValueError(f"must have exactly one of {', '.join(_FORMS)}")
        if None not in (self.params, self.parameters):
            raise ValueError("params and parameters are the same: send one")
        return self


class InvocationsAnswer(BaseModel):
    """The answer of `POST /invocations`."""

    predictions: list[PredictionAnswer]


_EXAMPLES: dict[str, Any] = {
    "inputs": {
        "summary": "Texts",
        "value": {"inputs": ["A warm, funny film.", "A waste of time."]},
    },
    "dataframe_split": {
        "summary": "A table",
        "value": {"dataframe_split": {"columns": ["text"], "data": [["A warm, funny film."]]}},
    },
}


@router.post(
    "/invocations",
    summary="Predictions, for MLflow and SageMaker",
    **computes("body", InvocationsAnswer, good=CUT_HEADER),
)
@answers(from_body(InvocationsRequest))
async def invocations(
    context: Context, body: Annotated[InvocationsRequest, Body(openapi_examples=_EXAMPLES)]
) -> Response:
    """Returns the predictions of the texts in a table, a list or a column."""
    return await answer_texts(
        context, texts_of(body), lambda found: {"predictions": [each.members() for each in found]}
    )


answer_get(
    router, "/ping", name="ping", summary="Health, for MLflow and SageMaker", **probes(HealthAnswer)
)(ready)


@answer_get(
    router,
    "/version",
    name="version",
    summary="Version of the service",
    **probes(None, {"content": {"text/plain": {"schema": {"type": "string"}}}}),
)
async def show_version(request: Request) -> Response:
    """Returns the version of the service, as plain text."""
    return PlainTextResponse(request.app.version)


def texts_of(body: InvocationsRequest) -> Texts:
    """Returns the texts of a body; raises InvalidRequestError if it does not say where they are."""
    if body.dataframe_split is not None:
        items, field, below = _of_table(body.dataframe_split)
    elif isinstance(body.inputs, str):
        items, field, below = [body.inputs], ("inputs",), only
    elif isinstance(body.inputs, dict):
        items, field, below = _of_columns(body.inputs)
    else:
        form = next(form for form in _FORMS if getattr(body, form) is not None)
        items, field, below = _of_rows(getattr(body, form), form)
    params = body.params or body.parameters or Params()
    options = ReadingOptions(params.truncation)
    return Texts(items, options, field, below, "set params.truncation to right or left")


_Found = tuple[list[object], Loc, Callable[[int], Loc]]


def _of_table(table: Split) -> _Found:
    columns = [str(column) for column in table.columns]
    index = _choose(columns, ("dataframe_split", "columns"))
    if len(set(map(len, table.data)) - {len(columns)}):
        message = f"each row must have as many values as there are columns: {len(columns)}"
        raise wrong(("dataframe_split", "data"), message)
    texts = [row[index] for row in table.data]
    return texts, ("dataframe_split", "data"), lambda row: (row, index)


def _of_columns(columns: dict[str, Any]) -> _Found:
    names = list(columns)
    name = names[_choose(names, ("inputs",))]
    texts = columns[name]
    # The name of a column is the client's own text, so only that which is known is repeated.
    field: Loc = ("inputs", name) if name == _TEXT else ("inputs",)
    if isinstance(texts, str):
        return [texts], field, only
    if not isinstance(texts, list):
        raise wrong(field, "must be a text or a list of texts")
    return [_unwrapped(each) for each in texts], field, lambda index: (index,)


def _of_rows(rows: object, form: str) -> _Found:
    if not isinstance(rows, list):
        raise wrong((form,), "must be a text, a list of texts, or columns by their names")
    texts: list[object] = []
    column: str | None = None
    for index, row in enumerate(rows):
        if isinstance(row, dict):
            names = list(row)
            name = names[_choose(names, (form, index))]
            # A row whose text is missing must not have another of its values classified.
            if column not in (None, name):
                raise wrong((form, index), _OTHER)
            column = name
            texts.append(row[name])
        else:
            texts.append(_unwrapped(row))
    return texts, (form,), lambda index: (index,)


def _unwrapped(row: object) -> object:
    """The value of a row of one column, as arrays of NumPy are written."""
    return row[0] if isinstance(row, list) and len(row) == 1 else row


def _choose(columns: list[str], loc: Loc) -> int:
    """Returns the index of the column with the texts."""
    if columns.count(_TEXT) == 1:
        return columns.index(_TEXT)
    if len(columns) != 1:
        raise wrong(loc, _COLUMNS if columns else f"no column is given: send one named {_TEXT}")
    return 0
