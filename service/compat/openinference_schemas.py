"""Defines the requests and answers of the Open Inference Protocol.

The protocol allows further parameters. Unknown ones of a tensor are ignored. Unknown ones of the
request are refused, because a misspelled name would change the answer.
"""

from collections.abc import Sequence
from typing import Annotated, Literal, cast, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    model_validator,
)

from model.types import Truncation
from service.compat.base import OtherBody, wrong
from service.compat.tensors import Datatype

OutputName = Literal[
    "label", "probabilities", "logits", "token_count", "truncated", "attention", "tokens"
]
INPUT = "text"
MOST_ID = 256
# Values in the JSON of tensors that are sent as shared memory, which two machines do not have.
_SHARED = "shared memory is not offered: send the tensor in the body"

_TEXT, _MOST_INPUTS, _MOST_RANK = "BYTES", 16, 64
_MOST_OUTPUTS = len(get_args(OutputName))


def _reject_shared(_: object) -> object:
    raise ValueError(_SHARED)


def _reject_classes(_: object) -> object:
    raise ValueError("classification is not offered: ask for probabilities, which has every class")


def _places(inputs: "list[Input]") -> list[int]:
    """Returns the indices of the inputs named as the model's own, else of those of its type."""
    named = [index for index, each in enumerate(inputs) if each.name == INPUT]
    return named or [index for index, each in enumerate(inputs) if each.datatype == _TEXT]


def _check_text(inputs: "list[Input]") -> "list[Input]":
    places = _places(inputs)
    if len(places) > 1:
        raise ValueError(f"{len(places)} of them may be the texts: name one of them {INPUT}")
    if not places or inputs[places[0]].datatype != _TEXT:
        raise ValueError(f"the texts must have the datatype {_TEXT}: send them as input {INPUT}")
    return inputs


class TensorParameters(OtherBody):
    """The parameters of an input or an output; others are ignored."""

    model_config = ConfigDict(extra="ignore")

    shared_memory_region: Annotated[None, BeforeValidator(_reject_shared)] = None


class InputParameters(TensorParameters):
    """The parameters of an input."""

    binary_data_size: int | None = Field(
        None, ge=0, description="Bytes of the tensor behind the JSON, if it is not in `data`."
    )


class OutputParameters(TensorParameters):
    """The parameters of an output."""

    binary_data: bool | None = Field(
        None, description="Whether the tensor follows the JSON as bytes."
    )
    classification: Annotated[None, BeforeValidator(_reject_classes)] = None


class Input(OtherBody):
    """The texts, or a tensor that is ignored."""

    name: str = Field(description="`text`, or any if no other input is of `BYTES`.")
    datatype: str = Field(description="`BYTES`.")
    shape: Annotated[list[Annotated[int, Field(ge=0)]], Field(fail_fast=True)] = Field(
        max_length=_MOST_RANK, description="`[N]` or `[N, 1]` for N texts."
    )
    parameters: InputParameters | None = None
    data: Annotated[object, WithJsonSchema({"type": "array", "items": {}})] = Field(
        None, description="The texts, flat or nested as the shape is."
    )

    @model_validator(mode="after")
    def _once(self) -> "Input":
        is_binary = self.binary_size is not None
        if is_binary and self.data is not None:
            raise ValueError("both data and binary_data_size are given: send one")
        if not is_binary and self.data is None:
            raise ValueError("neither data nor binary_data_size is given: send one")
        return self

    @property
    def binary_size(self) -> int | None:
        """Bytes of the tensor behind the JSON; None if it is in it."""
        return None if self.parameters is None else self.parameters.binary_data_size


class WantedOutput(OtherBody):
    """An output to answer."""

    name: OutputName
    parameters: OutputParameters | None = None


class RequestParameters(OtherBody):
    """The parameters of a request."""

    binary_data_output: bool | None = Field(
        None, description="Whether outputs follow the JSON as bytes, unless they say it themselves."
    )
    truncation: Truncation = Field(
        "right", description="Which end of a text that is too long is cut off; `error` refuses it."
    )
    timeout: int | None = Field(
        None, ge=0, description="Microseconds until the answer is useless; 0 says nothing."
    )
    priority: object = Field(None, description="Ignored: all clients have the same share.")
    sequence_id: object = Field(None, description="Ignored: the model has no state.")
    sequence_start: object = Field(None, description="Ignored.")
    sequence_end: object = Field(None, description="Ignored.")
    content_type: object = Field(None, description="Ignored: text is UTF-8.")


class InferRequest(OtherBody):
    """The body of `POST /v2/models/{model}/infer`, or its JSON if bytes follow."""

    id: str | None = Field(None, max_length=MOST_ID, description="Comes back with the answer.")
    inputs: Annotated[
        list[Input], Field(min_length=1, max_length=_MOST_INPUTS), AfterValidator(_check_text)
    ] = Field(description="The input `text`, or the only one of `BYTES`; others are ignored.")
    outputs: Annotated[list[WantedOutput], Field(max_length=_MOST_OUTPUTS)] | None = Field(
        None,
        description="The outputs to answer, in this order; all but `attention` and `tokens` if "
        "none is named.",
    )
    parameters: RequestParameters | None = None

    @property
    def place(self) -> int:
        """The index of the input that holds the texts."""
        return _places(self.inputs)[0]

    @property
    def texts(self) -> Sequence[object]:
        """The texts, once they are read from `data` or from the bytes behind the JSON."""
        return cast("Sequence[object]", self.inputs[self.place].data)

    @property
    def data(self) -> tuple[str | int, ...]:
        """Where the body holds the texts."""
        return ("inputs", self.place, "data")

    def check_shape(self, most: int) -> None:
        """Raises InvalidRequestError if the texts have a wrong shape, or are more than `most`."""
        shape = self.inputs[self.place].shape
        if not shape or shape[1:] not in ([], [1]):
            message = "must be [N] or [N, 1] for N texts"
        elif shape[0] > most:
            message = f"at most {most} texts are taken at once, got {shape[0]}"
        else:
            return
        raise wrong(("inputs", self.place, "shape"), message)

    @property
    def options(self) -> RequestParameters:
        """The parameters, with their defaults."""
        return self.parameters or RequestParameters()

    @model_validator(mode="after")
    def _each_once(self) -> "InferRequest":
        names = [output.name for output in self.outputs or ()]
        if len(set(names)) < len(names):
            raise ValueError("outputs: ask for each output once")
        return self


class BinaryData(BaseModel):
    """How many bytes of a tensor follow the JSON."""

    binary_data_size: int


class OutputTensor(BaseModel):
    """An output; its values stand in `data`, or follow the JSON."""

    name: str
    datatype: Datatype
    shape: list[Annotated[int, Field(ge=0)]]
    parameters: BinaryData | None = None
    data: list[object] | None = Field(
        None, description="In row-major order: flat, or, of `attention`, nested as its shape is."
    )


class InferAnswer(BaseModel):
    """The answer of `POST /v2/models/{model}/infer`."""

    model_name: str
    model_version: str
    id: str | None = None
    outputs: list[OutputTensor]
