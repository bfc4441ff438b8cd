"""A request of every kind that computes, for what holds for all of them."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx

JSON = {"content-type": "application/json"}


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of requests.

    `body` makes a body of texts (kinds for one text take the first), `loc` says where a problem
    places the text at an index, and problems of a `foreign` kind have the member `error`.
    """

    path: str
    body: Callable[[list[Any]], dict[str, Any]]
    loc: Callable[[int], tuple[str | int, ...]]
    foreign: bool = True


def _one(path: str, **fields: object) -> Kind:
    return Kind(
        path,
        lambda texts: {"sentence": texts[0], **fields},
        lambda _: ("body", "sentence"),
        foreign=False,
    )


def _list(path: str, field: str, *, foreign: bool = True) -> Kind:
    return Kind(path, lambda texts: {field: texts}, lambda index: ("body", field, index), foreign)


def tensor(texts: list[Any], *outputs: str, **members: Any) -> dict[str, Any]:  # noqa: ANN401
    """A body of the Open Inference Protocol whose texts stand in its JSON."""
    given = {"name": "text", "shape": [len(texts)], "datatype": "BYTES", "data": texts}
    wanted = {"outputs": [{"name": name} for name in outputs]} if outputs else {}
    return {"inputs": [given], **wanted, **members}


INFER = "/v2/models/tiny/infer"
PREDICT = _list("/predict", "sentences", foreign=False)
# Kinds that answer with one text's explanation.
EXPLANATIONS = {
    "attention": _one("/attention"),
    "steps": _one("/attention/steps", layer=0, head=0, query=1),
    "attributions": _one("/attributions", steps=2),
    "leave_out": _one("/attributions", method="leave_out"),
    "importance": _one("/importance"),
}
# Kinds of other systems, which take several texts.
FOREIGN = {
    "root": _list("/", "inputs"),
    "hugging face": _list("/hf", "inputs"),
    "tei": _list("/predict", "inputs"),
    "vllm": _list("/classify", "input"),
    "sglang": _list("/v1/classify", "input"),
    "mlflow": _list("/invocations", "instances"),
    "open inference": Kind(INFER, tensor, lambda index: ("body", "inputs", 0, "data", index)),
}
MANY = {"predict": PREDICT, **FOREIGN}
KINDS = {
    **MANY,
    **EXPLANATIONS,
    "open inference attention": Kind(
        INFER,
        lambda texts: tensor(texts[:1], "attention"),
        lambda _: ("body", "inputs", 0, "data", 0),
    ),
}


def ask(client: httpx.Client, kind: Kind, *texts: object, **headers: str) -> httpx.Response:
    """Sends texts; a half of a surrogate pair goes as an escape."""
    content = json.dumps(kind.body(list(texts)))
    return client.post(kind.path, content=content, headers={**JSON, **headers})
