"""A request to every route that computes, and what every problem must look like."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from service.errors import ALL_ERRORS

JSON = {"content-type": "application/json"}
Loc = Sequence[str | int]
_TITLES = {error.type: error.title for error in ALL_ERRORS}


@dataclass(frozen=True, slots=True)
class Route:
    """A route that takes texts.

    `body` makes a body of texts (routes for one text take the first), `loc` says where a problem
    has the text at an index, and problems of a `foreign` route have the member `error`.
    """

    path: str
    body: Callable[[list[Any]], dict[str, Any]]
    loc: Callable[[int], tuple[str | int, ...]]
    foreign: bool = True


def _one(path: str, **fields: object) -> Route:
    return Route(
        path,
        lambda texts: {"sentence": texts[0], **fields},
        lambda _: ("body", "sentence"),
        foreign=False,
    )


def _list(path: str, field: str, *, foreign: bool = True) -> Route:
    return Route(path, lambda texts: {field: texts}, lambda index: ("body", field, index), foreign)


def tensor(texts: list[Any], *outputs: str, **members: Any) -> dict[str, Any]:  # noqa: ANN401
    """A body of the Open Inference Protocol whose texts stand in its JSON."""
    given = {"name": "text", "shape": [len(texts)], "datatype": "BYTES", "data": texts}
    wanted = {"outputs": [{"name": name} for name in outputs]} if outputs else {}
    return {"inputs": [given], **wanted, **members}


INFER = "/v2/models/tiny/infer"
PREDICT = _list("/predict", "sentences", foreign=False)
# Routes that answer with one text's explanation.
EXPLANATIONS = {
    "attention": _one("/attention"),
    "steps": _one("/attention/steps", layer=0, head=0, query=1),
    "attributions": _one("/attributions", steps=2),
    "leave_out": _one("/attributions", method="leave_out"),
    "importance": _one("/importance"),
}
# Routes of other systems, which take several texts.
FOREIGN = {
    "root": _list("/", "inputs"),
    "hugging face": _list("/hf", "inputs"),
    "tei": _list("/predict", "inputs"),
    "vllm": _list("/classify", "input"),
    "sglang": _list("/v1/classify", "input"),
    "mlflow": _list("/invocations", "instances"),
    "open inference": Route(INFER, tensor, lambda index: ("body", "inputs", 0, "data", index)),
}
MANY = {"predict": PREDICT, **FOREIGN}
ROUTES = {
    **MANY,
    **EXPLANATIONS,
    "open inference attention": Route(
        INFER,
        lambda texts: tensor(texts[:1], "attention"),
        lambda _: ("body", "inputs", 0, "data", 0),
    ),
}


def send(client: httpx.Client, route: Route, *texts: object, **headers: str) -> httpx.Response:
    """Sends texts; a half of a surrogate pair goes as an escape."""
    content = json.dumps(route.body(list(texts)))
    return client.post(route.path, content=content, headers={**JSON, **headers})


def post(client: httpx.Client, path: str, **fields: object) -> Any:  # noqa: ANN401
    """The JSON that answers a body that works."""
    response = client.post(path, json=fields)
    assert response.status_code == 200, response.text
    return response.json()


def predict(client: httpx.Client, *sentences: object, **fields: object) -> list[dict[str, Any]]:
    """The predictions of a request that works."""
    found: list[dict[str, Any]] = post(client, "/predict", sentences=sentences, **fields)[
        "predictions"
    ]
    return found


def assert_problem(
    response: httpx.Response,
    status: int,
    kind: str,
    *locs: Loc,
    says: str = "",
    foreign: bool = False,
    fits: Mapping[str, int] | None = None,
) -> None:
    """Checks a problem as a whole, headers included; its prose has tests beside the code.

    `kind` is the last word of its type, `locs` are the places of its errors, `says` is a part of
    its detail, a `foreign` one also has the member `error` of other systems, and `fits`
    is what would not be too much work.
    """
    members = response.json()
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    assert len(response.headers["x-request-id"]) == 32
    if foreign:
        assert members.pop("error") == members["detail"]
    assert members.pop("fits", None) == fits
    assert_members(members, status, kind, *locs, says=says, later="retry-after" in response.headers)
    if "retry_after" in members:
        assert members["retry_after"] == int(response.headers["retry-after"]) >= 1


def assert_members(
    members: Mapping[str, Any],
    status: int,
    kind: str,
    *locs: Loc,
    says: str = "",
    later: bool = False,
) -> None:
    """Checks the members of a problem, in their order; `later` ones say when to come back."""
    names = ["type", "title", "status", "detail", *["errors"] * bool(locs)]
    assert list(members) == names + ["retry_after"] * later
    assert members["type"] == f"/problems/{kind}"
    assert members["title"] == _TITLES[kind]
    assert members["status"] == status
    assert says in members["detail"]
    assert members["detail"].endswith(".")
    assert [each["loc"] for each in members.get("errors", [])] == [list(loc) for loc in locs]
    for each in members.get("errors", []):
        assert list(each) == ["loc", "msg"]
        assert each["msg"]
