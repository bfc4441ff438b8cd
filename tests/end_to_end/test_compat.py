"""What the paths of other systems answer: the same verdicts as `/predict`, in other shapes."""

import math
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import pytest

from tests.builders import MAX_LENGTH
from tests.end_to_end.problems import error
from tests.end_to_end.servers import RunningService, service

TEXTS = ["A superb film.", "a dull, boring plot"]
LONG = "good " * MAX_LENGTH
CUT = "x-headlight-truncated"


def verdicts(client: httpx.Client, texts: list[str]) -> list[dict[str, Any]]:
    """What `/predict` says of texts."""
    answer = client.post("/predict", json={"sentences": texts})
    assert answer.status_code == 200
    predictions: list[dict[str, Any]] = answer.json()["predictions"]
    return predictions


def ranked(verdict: dict[str, Any]) -> list[dict[str, Any]]:
    """The labels of a verdict with their scores, the best first."""
    scores = [{"label": name, "score": share} for name, share in verdict["probabilities"].items()]
    return sorted(scores, key=lambda each: -each["score"])


def near(one: object, other: object) -> bool:
    """Whether two answers are the same but for rounding: batches may differ."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, abs_tol=1e-5)
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(near(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(near, one, other))
    return one == other


@pytest.mark.parametrize("path", ["/", "/hf"])
def test_hugging_face_lists_scores_for_each_text(client: httpx.Client, path: str) -> None:
    both = [ranked(verdict) for verdict in verdicts(client, TEXTS)]

    for inputs, expected in ((TEXTS[0], both[:1]), (TEXTS, both), (TEXTS[:1], both[:1])):
        answer = client.post(path, json={"inputs": inputs, "parameters": {}})
        assert answer.status_code == 200
        assert near(answer.json(), expected)
        assert CUT not in answer.headers


@pytest.mark.parametrize(("top_k", "count"), [(1, 1), (2, 2), (100, 2), (None, 2)])
def test_only_so_many_labels_are_listed(
    client: httpx.Client, top_k: int | None, count: int
) -> None:
    body = {"inputs": TEXTS[0], "parameters": {"top_k": top_k}}

    (scores,) = client.post("/hf", json=body).json()

    assert near(scores, ranked(verdicts(client, TEXTS[:1])[0])[:count])


def test_scores_are_probabilities_logits_or_their_sigmoids(client: httpx.Client) -> None:
    def scores(function: str) -> dict[str, float]:
        body = {"inputs": TEXTS[0], "parameters": {"function_to_apply": function}}
        (listed,) = client.post("/hf", json=body).json()
        assert [each["score"] for each in listed] == sorted(
            (each["score"] for each in listed), reverse=True
        )
        return {each["label"]: each["score"] for each in listed}

    logits, (verdict,) = scores("none"), verdicts(client, TEXTS[:1])

    temperature = client.get("/model").json()["temperature"]
    powers = {label: math.exp(logit / temperature) for label, logit in logits.items()}
    for label, share in verdict["probabilities"].items():
        assert math.isclose(share, powers[label] / sum(powers.values()), abs_tol=1e-5)
        assert math.isclose(scores("softmax")[label], share, abs_tol=1e-5)
        assert math.isclose(scores("sigmoid")[label], 1 / (1 + math.exp(-logits[label])))
    raw = client.post("/predict", json={"inputs": TEXTS[0], "raw_scores": True}).json()
    assert near({each["label"]: each["score"] for each in raw}, logits)


@pytest.mark.parametrize(
    ("inputs", "texts"),
    [
        ([[TEXTS[0]], [TEXTS[1]]], TEXTS),
        (TEXTS, TEXTS),
        (TEXTS[:1], TEXTS[:1]),
        ([TEXTS[:1]], TEXTS[:1]),
    ],
)
def test_tei_gets_a_list_for_a_list(client: httpx.Client, inputs: object, texts: list[str]) -> None:
    answer = client.post("/predict", json={"inputs": inputs})

    assert near(answer.json(), [ranked(verdict) for verdict in verdicts(client, texts)])


def test_tei_gets_scores_alone_for_one_text(client: httpx.Client) -> None:
    answer = client.post("/predict", json={"inputs": TEXTS[0], "truncate": False})

    assert near(answer.json(), ranked(verdicts(client, TEXTS[:1])[0]))


def test_the_end_that_is_cut_off_can_be_chosen(client: httpx.Client) -> None:
    text = "bad " * 20 + "superb " * 20
    for direction, truncation in (("Left", "left"), ("Right", "right"), ("left", "left")):
        body = {"sentences": [text], "truncation": truncation}
        (verdict,) = client.post("/predict", json=body).json()["predictions"]
        given = {"inputs": text, "truncation_direction": direction}
        answer = client.post("/predict", json=given)
        assert near(answer.json(), ranked(verdict))
        side = {"input": text, "truncation_side": truncation}
        assert near(
            client.post("/classify", json=side).json()["data"][0]["probs"],
            list(verdict["probabilities"].values()),
        )


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/", {"inputs": ["a", LONG, "b", LONG]}),
        ("/predict", {"inputs": [["a"], [LONG], ["b"], [LONG]]}),
        ("/classify", {"input": ["a", LONG, "b", LONG]}),
        ("/invocations", {"instances": ["a", LONG, "b", LONG]}),
    ],
)
def test_what_was_cut_is_told(client: httpx.Client, path: str, body: dict[str, Any]) -> None:
    answer = client.post(path, json=body)

    assert (answer.status_code, answer.headers[CUT]) == (200, "1,3")


@pytest.mark.parametrize(
    ("path", "body", "cut"),
    [
        ("/hf", {"inputs": LONG, "truncate": False}, "set truncate to true"),
        ("/predict", {"inputs": LONG, "truncate": False}, "set truncate to true"),
        ("/hf", {"inputs": LONG, "parameters": {"truncation": False}}, "set truncate to true"),
        (
            "/invocations",
            {"inputs": LONG, "params": {"truncation": "error"}},
            "set params.truncation to right or left",
        ),
    ],
)
def test_a_text_that_is_too_long_can_be_refused(
    client: httpx.Client, path: str, body: dict[str, Any], cut: str
) -> None:
    answer = client.post(path, json=body)

    message = (
        f"the text has {MAX_LENGTH + 2} tokens and the model reads at most {MAX_LENGTH}: "
        f"shorten it, or {cut}"
    )
    assert answer.status_code == 422
    assert answer.json() == {
        "type": "/problems/text-too-long",
        "title": "The text is too long",
        "status": 422,
        "detail": f"inputs: {message}.",
        "errors": [error("body", "inputs", msg=message)],
        "error": f"inputs: {message}.",
    }


@pytest.mark.parametrize("path", ["/classify", "/v1/classify"])
def test_classify_has_the_shape_of_vllm(client: httpx.Client, path: str) -> None:
    model = client.get("/model").json()
    both = verdicts(client, TEXTS)

    body = {"model": model["name"], "input": TEXTS, "user": "me", "priority": 1}
    response = client.post(path, json=body, headers={"X-Request-ID": "mine"})

    answer = response.json()
    count = sum(verdict["token_count"] for verdict in both)
    assert list(answer) == ["id", "object", "created", "model", "data", "usage"]
    assert (answer["id"], answer["object"]) == ("classify-mine", "list")
    assert answer["model"] == model["name"]
    assert abs(answer["created"] - time.time()) < 3600
    assert near(
        answer["data"],
        [
            {
                "index": index,
                "label": verdict["label"],
                "probs": list(verdict["probabilities"].values()),
                "num_classes": 2,
            }
            for index, verdict in enumerate(both)
        ],
    )
    assert answer["usage"] == {
        "prompt_tokens": count,
        "total_tokens": count,
        "completion_tokens": 0,
        "prompt_tokens_details": None,
    }


def test_classify_gives_logits_too(client: httpx.Client) -> None:
    scores = client.post("/predict", json={"inputs": TEXTS[0], "raw_scores": True}).json()
    logits = {each["label"]: each["score"] for each in scores}

    body = {"input": TEXTS[0], "use_activation": False, "truncate_prompt_tokens": -1}
    (entry,) = client.post("/classify", json=body).json()["data"]

    labels = client.get("/model").json()["labels"]
    assert near(entry["probs"], [logits[label] for label in labels])


def test_the_served_model_is_listed(client: httpx.Client) -> None:
    model = client.get("/model").json()

    answer = client.get("/v1/models").json()

    (entry,) = answer["data"]
    assert list(answer) == ["object", "data"]
    assert answer["object"] == "list"
    assert abs(entry.pop("created") - time.time()) < 3600
    assert entry == {
        "id": model["name"],
        "object": "model",
        "owned_by": "headlight",
        "root": model["name"],
        "parent": None,
        "max_model_len": MAX_LENGTH,
    }


@pytest.mark.parametrize(
    "body",
    [
        {"inputs": TEXTS},
        {"inputs": [[text] for text in TEXTS]},
        {"inputs": {"text": TEXTS}},
        {"inputs": {"review": [[text] for text in TEXTS]}},
        {"inputs": {"id": [1, 2], "text": TEXTS}},
        {"instances": TEXTS},
        {"instances": [{"id": 1, "text": text} for text in TEXTS]},
        {"instances": [{"review": text} for text in TEXTS]},
        {"dataframe_records": [{"text": text, "id": 1} for text in TEXTS]},
        {"dataframe_split": {"columns": ["review"], "data": [[text] for text in TEXTS]}},
        {
            "dataframe_split": {
                "index": [7, 8],
                "columns": ["id", "text"],
                "data": [[1, TEXTS[0]], [2, TEXTS[1]]],
            },
            "params": {"truncation": "left"},
        },
    ],
)
def test_invocations_take_every_form_of_mlflow(client: httpx.Client, body: object) -> None:
    answer = client.post("/invocations", json=body)

    assert answer.status_code == 200, answer.text
    assert near(answer.json(), {"predictions": verdicts(client, TEXTS)})


@pytest.mark.parametrize("inputs", [TEXTS[0], {"text": TEXTS[0]}])
def test_invocations_take_one_text(client: httpx.Client, inputs: object) -> None:
    answer = client.post("/invocations", json={"inputs": inputs})

    assert near(answer.json(), {"predictions": verdicts(client, TEXTS[:1])})


def test_info_describes_the_model_as_tei_does(client: httpx.Client) -> None:
    model = client.get("/model").json()

    assert client.get("/info").json() == {
        "model_id": model["name"],
        "model_sha": model["version"],
        "model_dtype": "float32",
        "model_type": {
            "classifier": {
                "id2label": {"0": "negative", "1": "positive"},
                "label2id": {"negative": 0, "positive": 1},
            }
        },
        "max_input_length": MAX_LENGTH,
        "max_batch_tokens": 64,
        "max_client_batch_size": 40,
        "auto_truncate": True,
        "version": client.get("/openapi.json").json()["info"]["version"],
    }


@pytest.mark.parametrize("path", ["/health", "/ping"])
def test_health_by_other_names(client: httpx.Client, path: str) -> None:
    answer = client.get(path)
    assert (answer.status_code, answer.json()) == (200, {"status": "ready"})
    head = client.head(path)
    assert (head.status_code, head.content) == (200, b"")


def test_the_version_is_plain_text(client: httpx.Client) -> None:
    answer = client.get("/version")

    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert re.fullmatch(r"\d+\.\d+\.\d+", answer.text)


def test_requests_are_counted_by_route(running: RunningService, client: httpx.Client) -> None:
    for path in ("/", "/hf", "/classify", "/v1/classify", "/invocations"):
        series = f'headlight_requests_total{{method="POST",route="{path}",status="422"}}'
        before = running.metric(series)
        assert client.post(path, json={}).status_code == 422
        assert running.metric(series) == before + 1


@pytest.fixture(scope="module")
def few(
    checkpoint_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningService]:
    """A service for MLflow alone."""
    with service(
        checkpoint_folder, tmp_path_factory.mktemp("few"), settings={"HEADLIGHT_COMPAT": "mlflow"}
    ) as running:
        yield running


OTHERS = [
    *(("POST", "/hf"), ("GET", "/health"), ("GET", "/info")),
    *(("POST", "/classify"), ("POST", "/v1/classify"), ("GET", "/v1/models")),
]
MLFLOW = [("POST", "/invocations"), ("GET", "/ping"), ("GET", "/version")]


def assert_nothing(client: httpx.Client, method: str, path: str) -> None:
    """Nothing is at a path, and the problem is the plain one."""
    answer = client.request(method, path)
    assert answer.status_code == 404
    assert list(answer.json()) == ["type", "title", "status", "detail"]
    assert path not in client.get("/openapi.json").json()["paths"]


def test_a_family_can_be_served_alone(few: RunningService) -> None:
    with few.client() as client:
        for method, path in OTHERS:
            assert_nothing(client, method, path)
        assert client.get("/ping").status_code == 200
        assert client.post("/invocations", json={"inputs": "good"}).status_code == 200


def test_without_hugging_face_predict_knows_no_inputs(few: RunningService) -> None:
    with few.client() as client:
        answer = client.post("/predict", json={"inputs": "good"})
        assert answer.status_code == 422
        assert answer.json()["detail"] == (
            'Send {"sentences": ["…"]}: there is no field "inputs" here.'
        )
        assert "error" not in answer.json()
        document = client.get("/openapi.json").json()
        sent = document["paths"]["/predict"]["post"]["requestBody"]["content"]
        assert sent["application/json"]["schema"] == {"$ref": "#/components/schemas/PredictRequest"}


def test_all_can_be_switched_off(checkpoint_folder: Path, tmp_path: Path) -> None:
    with (
        service(checkpoint_folder, tmp_path, "--compat", "off") as running,
        running.client() as client,
    ):
        for method, path in OTHERS + MLFLOW:
            assert_nothing(client, method, path)
        refused = client.post("/", json={"inputs": "good"})
        assert refused.status_code == 405
        assert refused.json()["detail"] == "This path answers GET, HEAD."
        assert "error" not in refused.json()
        assert client.get("/").status_code == 200
        assert "/classify" not in running.metrics()


def test_the_interface_describes_them(client: httpx.Client) -> None:
    document = client.get("/openapi.json").json()
    tagged = {
        (method, path)
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
        if operation["tags"] == ["Other systems"]
    }

    expected = {(method.lower(), path) for method, path in [*OTHERS, *MLFLOW, ("POST", "/")]}
    assert expected <= tagged
    sent = document["paths"]["/predict"]["post"]["requestBody"]["content"]["application/json"]
    assert sent["schema"]["anyOf"][1] == {"$ref": "#/components/schemas/InputsRequest"}
    version = client.get("/model").json()["version"]
    for path, operations in document["paths"].items():
        for name, example in (
            operations.get("post", {})
            .get("requestBody", {"content": {"application/json": {}}})["content"]
            .get("application/json", {})
            .get("examples", {})
            .items()
        ):
            place = path.format(model="tiny", version=version)
            answer = client.post(place, json=example["value"])
            assert answer.status_code in (200, 413), (path, name, answer.text)


EXAMPLES = [
    *(("/", {"inputs": TEXTS}), ("/hf", {"inputs": TEXTS[0]}), ("/predict", {"inputs": TEXTS})),
    *(("/predict", {"inputs": TEXTS[0]}), ("/predict", {"sentences": TEXTS})),
    *(("/classify", {"input": TEXTS}), ("/v1/classify", {"input": TEXTS[0]})),
    *(("/invocations", {"inputs": TEXTS}), ("/info", None), ("/v1/models", None)),
    *(("/health", None), ("/ping", None)),
]


@pytest.mark.parametrize(("path", "body"), EXAMPLES)
@pytest.mark.parametrize("wrong", [False, True])
def test_an_answer_and_a_problem_fit_their_description(
    client: httpx.Client, path: str, body: dict[str, Any] | None, *, wrong: bool
) -> None:
    """Strictly: a member that is not described does not fit."""
    document = client.get("/openapi.json").json()
    for schema in document["components"]["schemas"].values():
        if "properties" in schema:
            schema["additionalProperties"] = False
    if wrong:
        headers = {"accept": "image/png", "x-request-timeout": "0"}
        answer = client.request("POST" if body else "GET", path, json=body, headers=headers)
        if path in ("/health", "/ping"):
            assert answer.status_code == 200  # a probe's odd header is ignored
            return
        assert answer.status_code == 422
    else:
        answer = client.request("POST" if body else "GET", path, json=body)
        assert answer.status_code == 200
    operation = document["paths"][path]["post" if body else "get"]
    described = operation["responses"][str(answer.status_code)]["content"]
    schema = described[answer.headers["content-type"]]["schema"]
    assert schema
    jsonschema.validate(answer.json(), {**schema, "components": document["components"]})
