"""Describes the answers on the paths of other systems, for the interface at `/openapi.json`."""

from typing import Literal

from pydantic import BaseModel

from service.api.schemas import PredictionAnswer


class LabelScore(BaseModel):
    """A label of a text, with its score."""

    label: str
    score: float


class ClassifyEntry(BaseModel):
    """The answer for one text, as vLLM has it."""

    index: int
    label: str
    probs: list[float]
    num_classes: int


class Usage(BaseModel):
    """The tokens of a request."""

    prompt_tokens: int
    total_tokens: int
    completion_tokens: int
    prompt_tokens_details: None


class ClassifyAnswer(BaseModel):
    """The answer of `POST /classify`."""

    id: str
    object: Literal["list"]
    created: int
    model: str
    data: list[ClassifyEntry]
    usage: Usage


class ServedModel(BaseModel):
    """The model, as OpenAI's API lists it."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    root: str
    parent: None
    max_model_len: int


class ModelsAnswer(BaseModel):
    """The answer of `GET /v1/models`."""

    object: Literal["list"]
    data: list[ServedModel]


class InvocationsAnswer(BaseModel):
    """The answer of `POST /invocations`."""

    predictions: list[PredictionAnswer]


class ClassifierNames(BaseModel):
    """The labels by their numbers, and the numbers by their labels."""

    id2label: dict[str, str]
    label2id: dict[str, int]


class ModelType(BaseModel):
    """What the model does."""

    classifier: ClassifierNames


class InfoAnswer(BaseModel):
    """The answer of `GET /info`."""

    model_id: str
    model_sha: str
    model_dtype: str
    model_type: ModelType
    max_input_length: int
    max_batch_tokens: int
    max_client_batch_size: int
    auto_truncate: bool
    version: str
