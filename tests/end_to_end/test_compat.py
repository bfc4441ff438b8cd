"""The paths of other systems: the answers of `/predict` in other shapes, and their problems."""

import math
import time
from typing import Any

import httpx
import pytest

from tests.builders import MAX_LENGTH
from tests.end_to_end.conftest import shared
from tests.end_to_end.kinds import FOREIGN, JSON, ask
from tests.end_to_end.problems import assert_problem
from tests.end_to_end.servers import RunningService

TEXTS = ["A superb film.", "a dull, boring plot"]
LONG = "good " * MAX_LENGTH
CUT = "x-headlight-truncated"


def predictions(client: httpx.Client, texts: list[str]) -> list[dict[str, Any]]:
    """What `/predict` answers."""
    answer = client.post("/predict", json={"sentences": texts})
    assert answer.status_code == 200
    found: list[dict[str, Any]] = answer.json()["predictions"]
    return found


def ranked(prediction: dict[str, Any]) -> list[dict[str, Any]]:
    """The labels of a prediction with their scores, the best first."""
    scores = [
        {"label": name, "score": share} for name, share in prediction["probabilities"].items()
    ]
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
    both = [ranked(prediction) for prediction in predictions(client, TEXTS)]

    for inputs, expected in ((TEXTS[0], both[:1]), (TEXTS, both), (TEXTS[:1], both[:1])):
        answer = client.post(path, json={"inputs": inputs, "parameters": {}})
        assert answer.status_code == 200
        assert near(answer.json(), expected)
        assert CUT not in answer.headers


def test_scores_are_probabilities_logits_or_their_sigmoids(client: httpx.Client) -> None:
    def scores(path: str, **fields: object) -> dict[str, float]:
        answer = client.post(path, json={"inputs": TEXTS[0], **fields}).json()
        listed = answer[0] if path == "/hf" else answer
        return {each["label"]: each["score"] for each in listed}

    (prediction,) = predictions(client, TEXTS[:1])
    logits = scores("/hf", parameters={"function_to_apply": "none"})
    model = client.get("/model").json()
    powers = {label: math.exp(logit / model["temperature"]) for label, logit in logits.items()}
    shares = {label: power / sum(powers.values()) for label, power in powers.items()}
    assert near({name: shares[name] for name in model["labels"]}, prediction["probabilities"])
    sigmoids = {label: 1 / (1 + math.exp(-logit)) for label, logit in logits.items()}
    assert near(scores("/hf", parameters={"function_to_apply": "sigmoid"}), sigmoids)
    assert near(scores("/predict", raw_scores=True), logits)
    body = {"input": TEXTS[0], "use_activation": False, "truncate_prompt_tokens": -1}
    (entry,) = client.post("/classify", json=body).json()["data"]
    assert near(entry["probs"], [logits[label] for label in model["labels"]])


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

    assert near(answer.json(), [ranked(prediction) for prediction in predictions(client, texts)])


def test_tei_gets_only_scores_for_one_text(client: httpx.Client) -> None:
    answer = client.post("/predict", json={"inputs": TEXTS[0], "truncate": False})

    assert near(answer.json(), ranked(predictions(client, TEXTS[:1])[0]))


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
    ("path", "body", "cut"),
    [
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

    says = f"the text has {MAX_LENGTH + 2} tokens and the model reads at most {MAX_LENGTH}"
    loc = ("body", "inputs")
    assert_problem(answer, 422, "text-too-long", loc, says=says, foreign=True)
    assert cut in answer.json()["detail"]


def test_older_pipelines_list_all_scores_or_the_best(client: httpx.Client) -> None:
    def ask_for(**parameters: object) -> object:
        return client.post("/hf", json={"inputs": TEXTS, "parameters": parameters}).json()

    both = predictions(client, TEXTS)
    in_order = [
        [{"label": name, "score": share} for name, share in each["probabilities"].items()]
        for each in both
    ]
    assert any(ranked(each) != one for each, one in zip(both, in_order, strict=True))
    assert near(ask_for(return_all_scores=True), in_order)
    best = [ranked(each)[:1] for each in both]
    assert near(ask_for(return_all_scores=False), best)
    assert near(ask_for(return_all_scores=True, top_k=1), best)
    assert near(ask_for(return_all_scores=False, top_k=2), list(map(ranked, both)))


def test_max_length_cuts_before_the_model_does(client: httpx.Client) -> None:
    def ask_for(most: int, text: str) -> httpx.Response:
        body = {"inputs": text, "parameters": {"max_length": most, "truncation": True}}
        return client.post("/", json=body)

    (short,) = predictions(client, ["good bad"])
    cut = ask_for(4, "good bad dull dull")
    assert near(cut.json(), [ranked(short)])
    assert cut.headers[CUT] == "0"
    whole = ask_for(MAX_LENGTH + 1, "good bad")
    assert near(whole.json(), [ranked(short)])
    assert CUT not in whole.headers
    assert ask_for(MAX_LENGTH + 1, LONG).headers[CUT] == "0"
    refused = ask_for(2, "good")
    says = "max_length is 2 and leaves no room for text beside the special tokens: set it to 3"
    assert_problem(refused, 422, "invalid-request", ("body", "inputs"), says=says, foreign=True)


@pytest.mark.parametrize("path", ["/classify", "/v1/classify"])
@pytest.mark.parametrize("name", ["use_activation", "activation", "softmax"])
def test_every_name_of_the_activation_of_vllm(client: httpx.Client, path: str, name: str) -> None:
    (prediction,) = predictions(client, TEXTS[:1])
    shares = list(prediction["probabilities"].values())

    def probs(wanted: bool) -> list[float]:
        (entry,) = client.post(path, json={"input": TEXTS[0], name: wanted}).json()["data"]
        found: list[float] = entry["probs"]
        return found

    assert near(probs(wanted=True), shares)
    temperature = client.get("/model").json()["temperature"]
    powers = [math.exp(logit / temperature) for logit in probs(wanted=False)]
    assert near([power / sum(powers) for power in powers], shares)


@pytest.mark.parametrize("path", ["/classify", "/v1/classify"])
def test_classify_has_the_shape_of_vllm(client: httpx.Client, path: str) -> None:
    model = client.get("/model").json()
    both = predictions(client, TEXTS)

    body = {"model": model["name"], "input": TEXTS, "user": "me", "priority": 1}
    response = client.post(path, json=body, headers={"X-Request-ID": "mine"})

    answer = response.json()
    count = sum(prediction["token_count"] for prediction in both)
    assert list(answer) == ["id", "object", "created", "model", "data", "usage"]
    assert (answer["id"], answer["object"]) == ("classify-mine", "list")
    assert answer["model"] == model["name"]
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


# Only the paths of MLflow, and one name.
few = shared("--compat", "mlflow", "--allowed-hosts", "127.0.0.1")
OTHERS = [
    *(("POST", "/hf"), ("GET", "/health"), ("GET", "/info")),
    *(("POST", "/classify"), ("POST", "/v1/classify"), ("GET", "/v1/models")),
    *(("GET", "/v2"), ("GET", "/v2/health/live"), ("POST", "/v2/models/{model}/infer")),
]


def assert_nothing(client: httpx.Client, method: str, path: str) -> None:
    """Nothing is at a path, and the problem is the plain one."""
    assert_problem(client.request(method, path.format(model="tiny")), 404, "not-found")
    assert path not in client.get("/openapi.json").json()["paths"]


def test_only_one_family_can_be_served(few: RunningService) -> None:
    with few.client() as client:
        for method, path in OTHERS:
            assert_nothing(client, method, path)
        assert client.get("/ping").status_code == 200
        assert client.post("/invocations", json={"inputs": "good"}).status_code == 200
        # Probes ask by addresses that are no name of the service.
        elsewhere = {"host": "a.example"}
        assert client.get("/ping", headers=elsewhere).status_code == 200
        refused = client.post("/invocations", json={"inputs": "good"}, headers=elsewhere)
        assert_problem(refused, 421, "misdirected", foreign=True)


def test_without_hugging_face_predict_knows_no_inputs(few: RunningService) -> None:
    with few.client() as client:
        answer = client.post("/predict", json={"inputs": "good"})
        locs = ("body", "sentences"), ("body", "inputs")
        assert_problem(answer, 422, "invalid-request", *locs)
        document = client.get("/openapi.json").json()
        sent = document["paths"]["/predict"]["post"]["requestBody"]["content"]
        assert sent["application/json"]["schema"] == {"$ref": "#/components/schemas/PredictRequest"}


EACH = pytest.mark.parametrize("name", FOREIGN)


@EACH
def test_a_bad_text_is_named_as_the_client_sent_it(client: httpx.Client, name: str) -> None:
    kind = FOREIGN[name]
    for texts, bad in ((["a", " "], [1]), ([" ", "a", "\ud800"], [0, 2]), (["a", None], [1])):
        refused = ask(client, kind, *texts)
        assert_problem(refused, 422, "invalid-request", *map(kind.loc, bad), foreign=True)


@EACH
def test_the_number_of_texts_is_limited(client: httpx.Client, name: str) -> None:
    kind = FOREIGN[name]
    assert ask(client, kind, *["a"] * 40).status_code == 200
    for count, says in ((41, "at most 40 texts are taken at once, got 41"), (0, "at least one")):
        refused = ask(client, kind, *["a"] * count)
        assert refused.status_code == 422
        assert says in refused.json()["error"]


WRONG: list[tuple[str, dict[str, Any], tuple[str | int, ...]]] = [
    ("/hf", {"inputs": 1}, ("inputs",)),
    ("/hf", {}, ("inputs",)),
    ("/hf", {"inputs": "a", "parameters": {"top_k": 0}}, ("parameters", "top_k")),
    ("/hf", {"inputs": "a", "parameters": {"top_k": -(10**30)}}, ("parameters", "top_k")),
    ("/hf", {"inputs": "a", "parameters": {"secret": 1, "other": 2}}, ("parameters",)),
    ("/hf", {"inputs": "a", "parameters": {"max_length": 0}}, ("parameters", "max_length")),
    ("/hf", {"inputs": "a", "truncate": False, "parameters": {"truncation": "only_first"}}, ()),
    ("/predict", {"inputs": "a", "sentence": "b"}, ("sentence",)),
    ("/predict", {"inputs": [["a", "b"], ["c"]]}, ("inputs", 0)),
    (
        "/predict",
        {"inputs": "a", "raw_scores": True, "parameters": {"function_to_apply": "softmax"}},
        (),
    ),
    ("/predict", {"inputs": "a", "truncate": True, "parameters": {"truncation": False}}, ()),
    ("/classify", {"input": [1, 2]}, ("input",)),
    ("/classify", {"input": "a", "truncate_prompt_tokens": 31}, ("truncate_prompt_tokens",)),
    ("/classify", {"input": "a", "truncate_prompt_tokens": 10**30}, ("truncate_prompt_tokens",)),
    ("/classify", {"input": "a", "add_special_tokens": False}, ("add_special_tokens",)),
    ("/classify", {"input": "a", "activation": True, "softmax": False}, ()),
    ("/invocations", {}, ()),
    ("/invocations", {"inputs": "a", "instances": ["b"]}, ()),
    ("/invocations", {"inputs": {"text": 1}}, ("inputs", "text")),
    ("/invocations", {"inputs": {"x": 1}}, ("inputs",)),
    ("/invocations", {"instances": [{"text": "a"}, {"x": "b", "y": "c"}]}, ("instances", 1)),
    (
        "/invocations",
        {"dataframe_split": {"columns": ["x", "text"], "data": [["a", "b"], ["c"]]}},
        ("dataframe_split", "data"),
    ),
    (
        "/invocations",
        {"dataframe_split": {"columns": ["x", "text"], "data": [["a", "b"], ["c", None]]}},
        ("dataframe_split", "data", 1, 1),
    ),
    ("/invocations", {"dataframe_records": [{"text": " "}]}, ("dataframe_records", 0)),
    ("/invocations", {"inputs": {"text": ["a"] * 41}}, ("inputs",)),
    ("/invocations", {"inputs": "a", "parameters": {}}, ()),
    ("/", {"inputs": "a", "input": "a"}, ("input",)),
]


@pytest.mark.parametrize(("path", "body", "loc"), WRONG)
def test_what_is_wrong_is_named(
    client: httpx.Client, path: str, body: dict[str, Any], loc: tuple[str | int, ...]
) -> None:
    refused = client.post(path, json=body)
    assert_problem(refused, 422, "invalid-request", ("body", *loc), foreign=True)


def test_another_model_is_not_found(client: httpx.Client) -> None:
    answer = client.post("/v1/classify", json={"model": "other", "input": "a"})
    assert_problem(answer, 404, "not-found", foreign=True)
    assert "other" not in answer.text


@pytest.mark.parametrize("path", ["/", "/hf", "/classify", "/v1/classify", "/invocations"])
def test_what_is_no_body_is_a_problem_too(client: httpx.Client, path: str) -> None:
    for content, headers, status, kind in (
        (b"{", JSON, 400, "malformed-json"),
        (b"", {}, 415, "unsupported-media-type"),
        (b" " * 250_001, JSON, 413, "payload-too-large"),
        (b"{}", {**JSON, "accept": "image/png"}, 406, "not-acceptable"),
    ):
        refused = client.post(path, content=content, headers=headers)
        assert_problem(refused, status, kind, foreign=True)
    refused = client.get(path)
    if path != "/":
        assert_problem(refused, 405, "method-not-allowed", foreign=True)
        assert refused.headers["allow"] == "POST"


_KEYS = ",".join(name.replace(" ", "-") for name in (*FOREIGN, "models"))
guarded = shared("--rate-limit", "2/hour", HEADLIGHT_API_KEYS=_KEYS)


@EACH
def test_a_key_is_needed_and_its_rate_limited(guarded: RunningService, name: str) -> None:
    kind = FOREIGN[name]
    # Before its body is read, what comes to /predict has no form yet.
    foreign = kind.path != "/predict"
    with guarded.client() as client:
        refused = ask(client, kind, "a")
        assert_problem(refused, 401, "unauthorized", foreign=foreign)
        assert refused.headers["www-authenticate"] == "Bearer"
    with guarded.client(Authorization=f"Bearer {name.replace(' ', '-')}") as client:
        assert [ask(client, kind, "a").status_code for _ in range(2)] == [200, 200]
        late = ask(client, kind, "a")
        assert_problem(late, 429, "rate-limited", foreign=foreign)
        assert 1700 < int(late.headers["retry-after"]) <= 1800


def test_what_describes_the_model_needs_a_key_and_health_does_not(guarded: RunningService) -> None:
    with guarded.client() as client:
        for path in ("/info", "/v1/models", "/v2/models/tiny"):
            assert_problem(client.get(path), 401, "unauthorized", foreign=True)
            right = client.get(path, headers={"Authorization": "Bearer models"})
            assert right.status_code == 200
        for path in ("/health", "/ping", "/version", "/v2/health/live"):
            assert client.get(path).status_code == 200
