"""Describes the answers of the Open Inference Protocol, for the interface at `/openapi.json`."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from service.formats.tensors import Datatype


class ServerAnswer(BaseModel):
    """The answer of `GET /v2`."""

    name: str
    version: str
    extensions: list[str]


class ModelNamesAnswer(BaseModel):
    """The answer of `GET /v2/models`."""

    models: list[str]


class LiveAnswer(BaseModel):
    """The answer of `GET /v2/health/live`."""

    live: Literal[True]


class ReadyAnswer(BaseModel):
    """The answer of `GET /v2/health/ready`."""

    ready: Literal[True]


class ModelReadyAnswer(BaseModel):
    """The answer of `GET /v2/models/{model}/ready`."""

    name: str
    ready: Literal[True]


class TensorMetadata(BaseModel):
    """An input or an output of the model."""

    name: str
    datatype: Datatype
    shape: list[int] = Field(description="-1 is any size.")


class MetadataParameters(BaseModel):
    """What more there is to tell of the model."""

    labels: list[str] = Field(description="The classes, in the order of the probabilities.")


class ModelMetadataAnswer(BaseModel):
    """The answer of `GET /v2/models/{model}`."""

    name: str
    versions: list[str]
    platform: str
    inputs: list[TensorMetadata]
    outputs: list[TensorMetadata]
    parameters: MetadataParameters


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
