"""Says which paths belong to which other system."""

from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel

from service.api.compat import classify, huggingface, mlflow, openinference
from service.api.compat.answers import LabelScore
from service.api.compat.classify import ClassifyRequest
from service.api.compat.infer_schemas import InferRequest
from service.api.compat.inputs import InputsRequest
from service.api.compat.invocations import InvocationsRequest
from service.settings import Families, Family

# One router for each family of the settings, in their order.
ROUTERS: dict[Family, APIRouter] = {
    "huggingface": huggingface.router,
    "openinference": openinference.router,
    "classify": classify.router,
    "mlflow": mlflow.router,
}
# What they take, for the description of the interface.
_SCHEMAS: dict[Family, type[BaseModel]] = {
    "huggingface": InputsRequest,
    "openinference": InferRequest,
    "classify": ClassifyRequest,
    "mlflow": InvocationsRequest,
}


def routers_of(families: Families) -> list[APIRouter]:
    """The routers of those families that are on."""
    return [router for family, router in ROUTERS.items() if family in families]


def describe_inputs(document: dict[str, Any], families: Families) -> None:
    """Adds to the description of `POST /predict` that it takes `inputs`, if it does.

    Args:
        document: of the interface, changed here.
        families: that are on.
    """
    if "huggingface" not in families:
        return
    operation = document["paths"]["/predict"]["post"]
    sent = operation["requestBody"]["content"]["application/json"]
    got = operation["responses"]["200"]["content"]["application/json"]
    reference = {"$ref": f"#/components/schemas/{InputsRequest.__name__}"}
    sent["schema"] = {"anyOf": [sent["schema"], reference]}
    sent["examples"] = {**sent["examples"], "inputs": huggingface.EXAMPLE}
    score = {"$ref": f"#/components/schemas/{LabelScore.__name__}"}
    scores = {"type": "array", "items": score}
    lists = {"type": "array", "items": scores}
    got["schema"] = {"anyOf": [got["schema"], scores, lists]}


def schemas_of(families: Families) -> list[type[BaseModel]]:
    """The schemas of the bodies that those families take that are on."""
    return [schema for family, schema in _SCHEMAS.items() if family in families]
