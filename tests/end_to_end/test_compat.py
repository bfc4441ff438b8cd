"""The paths of other systems: the answers of `/predict` in other shapes, and their problems."""

import math
import time
from typing import Any

import httpx
import pytest

from tests.builders import MAX_LENGTH
from tests.end_to_end.routes import FOREIGN, assert_problem, post, predict, send
from tests.end_to_end.servers import RunningService, shared
from tests.matching import near

TEXTS = ["A superb film.", "a dull, boring plot"]
LONG = "good " * MAX_LENGTH
CUT = "x-headlight-truncated"


def ranked(prediction: dict[str, Any]) -> list[dict[str, Any]]:
    """The labels of a prediction with their scores, the best first."""
    scores = [
        {"label": name, "score": share} for name, share in prediction["probabilities"].items()
    ]
    return sorted(scores, key=lambda each: -each["score"])


def test_scores_come_as_each_system_lists_them(client: httpx.Client) -> None:
    both = [ranked(prediction) for prediction in predict(client, *TEXTS)]
    for path, inputs, expected in (
        ("/", TEXTS[0], both[:1]),
        ("/hf", TEXTS, both),
        ("/hf", TEXTS[:1], both[:1]),
        ("/predict", [[TEXTS[0]], [TEXTS[1]]], both),
        ("/predict", TEXTS, both),
        ("/predict", TEXTS[:1], both[:1]),
        ("/predict", TEXTS[0], both[0]),
    ):
        answer = client.post(path, json={"inputs": inputs})
        assert near(answer.json(), expected)
        assert CUT not in answer.headers


def test_scores_are_probabilities_logits_or_their_sigmoids(client: httpx.Client) -> None:
    def scores(path: str, **fields: object) -> dict[str, float]:
        answer = post(client, path, inputs=TEXTS[0], **fields)
        listed = answer[0] if path == "/hf" else answer
        return {each["label"]: each["score"] for each in listed}

    (prediction,) = predict(client, TEXTS[0])
    logits = scores("/hf", parameters={"function_to_apply": "none"})
    model = client.get("/model").json()
    powers = {label: math.exp(logit / model["temperature"]) for label, logit in logits.items()}
    shares = {label: power / sum(powers.values()) for label, power in powers.items()}
    assert near({name: shares[name] for name in model["labels"]}, prediction["probabilities"])
    sigmoids = {label: 1 / (1 + math.exp(-logit)) for label, logit in logits.items()}
    assert near(scores("/hf", parameters={"function_to_apply": "sigmoid"}), sigmoids)
    assert near(scores("/predict", raw_scores=True), logits)
    for name in ("use_activation", "activation", "softmax"):
        (entry,) = post(client, "/classify", input=TEXTS[0], **{name: False})["data"]
        assert near(entry["probs"], [logits[label] for label in model["labels"]])
        (entry,) = post(client, "/classify", input=TEXTS[0], **{name: True})["data"]
        assert near(entry["probs"], list(prediction["probabilities"].values()))


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/", {"inputs": ["a", LONG, "b", LONG]}),
        ("/predict", {"inputs": [["a"], [LONG], ["b"], [LONG]]}),
        ("/classify", {"input": ["a", LONG, "b", LONG]}),
        ("/invocations", {"instances": ["a", LONG, "b", LONG]}),
    ],
)
def test_what_was_cut_is_in_a_header(client: httpx.Client, path: str, body: dict[str, Any]) -> None:
    answer = client.post(path, json=body)
    assert (answer.status_code, answer.headers[CUT]) == (200, "1,3")


@pytest.mark.parametrize(
    ("path", "fields", "hint"),
    [
        ("/predict", {"truncate": False}, "set truncate to true"),
        ("/hf", {"parameters": {"truncation": False}}, "set truncate to true"),
        (
            "/invocations",
            {"params": {"truncation": "error"}},
            "set params.truncation to right or left",
        ),
    ],
)
def test_a_text_that_is_too_long_can_be_refused(
    client: httpx.Client, path: str, fields: dict[str, Any], hint: str
) -> None:
    answer = client.post(path, json={"inputs": LONG, **fields})
    says = f"the text has {MAX_LENGTH + 2} tokens and the model reads at most {MAX_LENGTH}"
    loc = ("body", "inputs")
    assert_problem(answer, 422, "text-too-long", loc, says=says, foreign=True)
    assert hint in answer.json()["detail"]


def test_older_pipelines_list_all_scores_or_the_best(client: httpx.Client) -> None:
    both = predict(client, *TEXTS)
    in_order = [
        [{"label": name, "score": share} for name, share in each["probabilities"].items()]
        for each in both
    ]
    assert any(ranked(each) != one for each, one in zip(both, in_order, strict=True))
    best = [ranked(each)[:1] for each in both]
    for parameters, expected in (
        ({"return_all_scores": True}, in_order),
        ({"return_all_scores": False}, best),
        ({"return_all_scores": True, "top_k": 1}, best),
        ({"return_all_scores": False, "top_k": 2}, [ranked(each) for each in both]),
    ):
        assert near(post(client, "/hf", inputs=TEXTS, parameters=parameters), expected)


@pytest.mark.parametrize("path", ["/classify", "/v1/classify"])
def test_classify_has_the_shape_of_vllm(client: httpx.Client, path: str) -> None:
    name = client.get("/model").json()["name"]
    both = predict(client, *TEXTS)
    body = {"model": name, "input": TEXTS, "user": "me", "priority": 1}
    answer = client.post(path, json=body, headers={"X-Request-ID": "mine"}).json()

    count = sum(prediction["token_count"] for prediction in both)
    assert list(answer) == ["id", "object", "created", "model", "data", "usage"]
    assert (answer["id"], answer["object"]) == ("classify-mine", "list")
    assert answer["model"] == name
    assert abs(answer["created"] - time.time()) < 3600
    assert near(
        answer["data"],
        [
            {
                "index": index,
                "label": prediction["label"],
                "probs": list(prediction["probabilities"].values()),
                "num_classes": 2,
            }
            for index, prediction in enumerate(both)
        ],
    )
    assert answer["usage"] == {
        "prompt_tokens": count,
        "total_tokens": count,
        "completion_tokens": 0,
        "prompt_tokens_details": None,
    }


def test_the_model_is_described_as_vllm_and_tei_do(client: httpx.Client) -> None:
    model = client.get("/model").json()
    listed = client.get("/v1/models").json()
    (entry,) = listed["data"]
    assert list(listed) == ["object", "data"]
    assert listed["object"] == "list"
    assert abs(entry.pop("created") - time.time()) < 3600
    assert entry == {
        "id": model["name"],
        "object": "model",
        "owned_by": "headlight",
        "root": model["name"],
        "parent": None,
        "max_model_len": MAX_LENGTH,
    }
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
    other = client.post("/v1/classify", json={"model": "other", "input": "a"})
    assert_problem(other, 404, "not-found", foreign=True)
    assert "other" not in other.text


# Only the paths of MLflow, and one name.
few = shared("--compat", "mlflow", "--allowed-hosts", "127.0.0.1")
OTHERS = [
    *(("POST", "/hf"), ("GET", "/health"), ("GET", "/info"), ("POST", "/classify")),
    *(("POST", "/v1/classify"), ("GET", "/v1/models"), ("GET", "/v2"), ("GET", "/v2/health/live")),
]


def test_only_one_family_can_be_served(few: RunningService) -> None:
    with few.client() as client:
        document = client.get("/openapi.json").json()
        for method, path in OTHERS:
            assert_problem(client.request(method, path), 404, "not-found")
            assert path not in document["paths"]
        assert client.get("/ping").status_code == 200
        assert client.post("/invocations", json={"inputs": "good"}).status_code == 200
        # Probes ask by addresses that are no name of the service.
        elsewhere = {"host": "a.example"}
        assert client.get("/ping", headers=elsewhere).status_code == 200
        refused = client.post("/invocations", json={"inputs": "good"}, headers=elsewhere)
        assert_problem(refused, 421, "misdirected", foreign=True)
        # Without Hugging Face, /predict knows no `inputs`.
        answer = client.post("/predict", json={"inputs": "good"})
        locs = ("body", "sentences"), ("body", "inputs")
        says = 'Send {"sentences": ["…"]}: there is no field "inputs" here.'
        assert_problem(answer, 422, "invalid-request", *locs, says=says)
        sent = document["paths"]["/predict"]["post"]["requestBody"]["content"]
        assert sent["application/json"]["schema"] == {"$ref": "#/components/schemas/PredictRequest"}


@pytest.mark.parametrize("name", FOREIGN)
def test_texts_are_judged_as_the_client_sent_them(client: httpx.Client, name: str) -> None:
    route = FOREIGN[name]
    for texts, bad in ((["a", " "], [1]), ([" ", "a", "\ud800"], [0, 2]), (["a", None], [1])):
        refused = send(client, route, *texts)
        assert_problem(refused, 422, "invalid-request", *map(route.loc, bad), foreign=True)
    assert send(client, route, *["a"] * 40).status_code == 200
    for count, says in ((41, "at most 40 texts are taken at once, got 41"), (0, "at least one")):
        refused = send(client, route, *["a"] * count)
        assert refused.status_code == 422
        assert says in refused.json()["error"]


_KEYS = ",".join(name.replace(" ", "-") for name in FOREIGN)
guarded = shared("--rate-limit", "2/hour", HEADLIGHT_API_KEYS=_KEYS)


@pytest.mark.parametrize("name", FOREIGN)
def test_a_key_is_needed_and_its_rate_limited(guarded: RunningService, name: str) -> None:
    route = FOREIGN[name]
    # Before its body is read, what comes to /predict has no form yet.
    foreign = route.path != "/predict"
    with guarded.client() as client:
        refused = send(client, route, "a")
        assert_problem(refused, 401, "unauthorized", foreign=foreign)
        assert refused.headers["www-authenticate"] == "Bearer"
    with guarded.client(Authorization=f"Bearer {name.replace(' ', '-')}") as client:
        assert [send(client, route, "a").status_code for _ in range(2)] == [200, 200]
        late = send(client, route, "a")
        assert_problem(late, 429, "rate-limited", foreign=foreign)
        assert 1700 < int(late.headers["retry-after"]) <= 1800
