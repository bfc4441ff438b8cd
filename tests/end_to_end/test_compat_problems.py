"""Problems on the paths of other systems: the same as elsewhere, and `error` beside them."""

import json
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.end_to_end.servers import RunningService, service, wait_until

JSON = "application/json"
Start = Callable[..., AbstractContextManager[RunningService]]

# A request of each family, and the field of its texts.
REQUESTS: dict[str, tuple[str, Callable[[Any], dict[str, Any]], str]] = {
    "root": ("/", lambda texts: {"inputs": texts}, "inputs"),
    "hugging face": ("/hf", lambda texts: {"inputs": texts}, "inputs"),
    "tei": ("/predict", lambda texts: {"inputs": texts}, "inputs"),
    "vllm": ("/classify", lambda texts: {"input": texts}, "input"),
    "sglang": ("/v1/classify", lambda texts: {"input": texts}, "input"),
    "mlflow": ("/invocations", lambda texts: {"instances": texts}, "instances"),
}
EACH = pytest.mark.parametrize("name", REQUESTS)
# Those that are known by their paths alone.
BY_PATH = pytest.mark.parametrize("name", [name for name in REQUESTS if name != "tei"])


def ask(client: httpx.Client, name: str, *texts: object, **headers: str) -> httpx.Response:
    """Sends texts in the form of a family."""
    path, make, _ = REQUESTS[name]
    content = json.dumps(make(list(texts)))  # half of a surrogate pair as an escape
    return client.post(path, content=content, headers={"content-type": JSON, **headers})


def assert_told(response: httpx.Response, status: int, kind: str, detail: str) -> None:
    """The answer is a problem, and tells its detail as `error` too."""
    members = response.json()
    assert (response.status_code, members["type"]) == (status, f"/problems/{kind}")
    assert response.headers["content-type"] == "application/problem+json"
    assert members["detail"].startswith(detail)
    assert list(members)[-1] == "error"
    assert members["error"] == members["detail"]
    assert members["status"] == status


@EACH
def test_a_bad_text_is_named_as_the_client_sent_it(client: httpx.Client, name: str) -> None:
    field = REQUESTS[name][2]
    blank = "the text is blank: send at least one character that is not white space, a control"
    assert_told(ask(client, name, "a", " "), 422, "invalid-request", f"{field}[1]: {blank}")
    both = ask(client, name, " ", "a", "\ud800")
    assert_told(both, 422, "invalid-request", f"{field}[0]: {blank}")
    assert both.json()["detail"].endswith("and 1 more are wrong too.")
    assert [fault["loc"] for fault in both.json()["errors"]] == [
        ["body", field, 0],
        ["body", field, 2],
    ]
    assert_told(
        ask(client, name, "a", None),
        422,
        "invalid-request",
        f"{field}[1]: the item is not a string: send text.",
    )


@EACH
def test_the_number_of_texts_is_limited(client: httpx.Client, name: str) -> None:
    field = REQUESTS[name][2]
    assert ask(client, name, *["a"] * 40).status_code == 200
    assert_told(
        ask(client, name, *["a"] * 41),
        422,
        "invalid-request",
        f"body.{field}: at most 40 texts are taken at once, got 41.",
    )
    assert_told(
        ask(client, name),
        422,
        "invalid-request",
        f"body.{field}: no text is given: send at least one.",
    )


@pytest.mark.parametrize(
    ("path", "body", "detail"),
    [
        ("/hf", {"inputs": 1}, "body.inputs: must be a text or a list of texts."),
        ("/hf", {"inputs": {"text": "a"}}, "body.inputs: must be a text or a list of texts."),
        ("/hf", {}, "body.inputs: is missing."),
        (
            "/hf",
            {"inputs": "a", "parameters": {"top_k": 0}},
            "body.parameters.top_k: must be at least 1, got 0.",
        ),
        (
            "/hf",
            {"inputs": "a", "parameters": {"top_k": -(10**30)}},
            "body.parameters.top_k: must be at least 1, got a number of 18 digits or more.",
        ),
        (
            "/classify",
            {"input": "a", "truncate_prompt_tokens": -(10**30)},
            "body.truncate_prompt_tokens: texts are cut at the 32 tokens that the model reads, ",
        ),
        (
            "/classify",
            {"input": "a", "truncate_prompt_tokens": 10**30},
            "body.truncate_prompt_tokens: must be at most 1000000000, got a number of 18 digits ",
        ),
        (
            "/hf",
            {"inputs": "a", "parameters": {"secret": 1, "other": 2}},
            "body.parameters: an unknown field is given; known are top_k, function_to_apply, "
            "truncation.",
        ),
        (
            "/predict",
            {"inputs": "a", "sentence": "b"},
            "body.sentence: there is no such field; known are inputs, parameters, truncate, ",
        ),
        (
            "/predict",
            {"inputs": [["a", "b"], ["c"]]},
            "body.inputs[0]: a pair of texts is given, and the model reads one text at a time: ",
        ),
        ("/predict", {"inputs": [["a", "b", "c"]]}, "body.inputs[0]: must be a list of one text."),
        (
            "/predict",
            {"inputs": "a", "raw_scores": True, "parameters": {"function_to_apply": "softmax"}},
            "body: raw_scores and function_to_apply contradict each other: send one.",
        ),
        (
            "/predict",
            {"inputs": "a", "truncate": True, "parameters": {"truncation": False}},
            "body: truncate and parameters.truncation differ: send one.",
        ),
        ("/classify", {"input": [1, 2]}, "body.input: token ids are given, and only text is taken"),
        ("/classify", {"input": [[1, 2]]}, "body.input: token ids are given, and only text is "),
        ("/classify", {"input": 1}, "body.input: must be a text or a list of texts."),
        (
            "/classify",
            {"input": "a", "truncate_prompt_tokens": 31},
            "body.truncate_prompt_tokens: texts are cut at the 32 tokens that the model reads, ",
        ),
        (
            "/classify",
            {"input": "a", "add_special_tokens": False},
            "body.add_special_tokens: the model reads no text without its special tokens: ",
        ),
        ("/classify", {"messages": []}, "body.input: is missing (and 1 more)."),
        ("/invocations", {}, "body: must have exactly one of inputs, instances, dataframe_split, "),
        ("/invocations", {"inputs": "a", "instances": ["b"]}, "body: must have exactly one of "),
        ("/invocations", {"inputs": 1}, "body.inputs: must be a text, a list of texts, or columns"),
        ("/invocations", {"inputs": {}}, "body.inputs: no column is given: send one named text."),
        ("/invocations", {"inputs": {"text": 1}}, "body.inputs.text: must be a text or a list of"),
        ("/invocations", {"inputs": {"x": 1}}, "body.inputs: must be a text or a list of texts."),
        (
            "/invocations",
            {"instances": [{"text": "a"}, {"x": "b", "y": "c"}]},
            "body.instances[1]: several columns are given, and none is named text: rename the one",
        ),
        (
            "/invocations",
            {"dataframe_split": {"columns": ["x", "text"], "data": [["a", "b"], ["c"]]}},
            "body.dataframe_split.data: each row must have as many values as there are columns: 2.",
        ),
        (
            "/invocations",
            {"dataframe_split": {"columns": ["x", "text"], "data": [["a", "b"], ["c", None]]}},
            "dataframe_split.data[1][1]: the item is not a string: send text.",
        ),
        (
            "/invocations",
            {"dataframe_records": [{"x": "a", "text": " "}]},
            "dataframe_records[0]: the text is blank: ",
        ),
        (
            "/invocations",
            {"inputs": {"text": ["a"] * 41}},
            "body.inputs: at most 40 texts are taken at once, got 41.",
        ),
        (
            "/invocations",
            {"dataframe_split": {"columns": ["x"], "data": [["a"]] * 41}},
            "body.dataframe_split.data: at most 40 texts are taken at once, got 41.",
        ),
        (
            "/invocations",
            {"inputs": "a", "parameters": {}},
            "body: an unknown field is given; did you mean params? known are inputs, instances, ",
        ),
    ],
)
def test_what_is_wrong_is_said(
    client: httpx.Client, path: str, body: dict[str, Any], detail: str
) -> None:
    assert_told(client.post(path, json=body), 422, "invalid-request", detail)


def test_another_model_is_not_found(client: httpx.Client) -> None:
    answer = client.post("/v1/classify", json={"model": "other", "input": "a"})

    assert_told(answer, 404, "not-found", "model: no model of that name is served: name tiny, or ")
    assert "other" not in answer.text


@BY_PATH
def test_what_is_no_body_is_told_too(client: httpx.Client, name: str) -> None:
    path = REQUESTS[name][0]
    typed = {"content-type": JSON}
    assert_told(client.post(path, content=b"{", headers=typed), 400, "malformed-json", "The body ")
    assert_told(client.post(path), 415, "unsupported-media-type", "The body must be JSON in UTF-8")
    large = client.post(path, content=b" " * 250_001, headers=typed)
    assert_told(large, 413, "payload-too-large", "The body has 250001 bytes; the limit is 250000 ")
    picky = client.post(path, json={}, headers={"accept": "image/png"})
    assert_told(picky, 406, "not-acceptable", "")
    late = client.post(path, json={}, headers={"x-request-timeout": "soon"})
    assert_told(late, 422, "invalid-request", "X-Request-Timeout: must be a number of seconds")


@pytest.mark.parametrize("path", ["/hf", "/classify", "/v1/classify", "/invocations"])
def test_another_method_is_told_too(client: httpx.Client, path: str) -> None:
    answer = client.get(path)

    assert_told(answer, 405, "method-not-allowed", "This path answers POST.")
    assert answer.headers["allow"] == "POST"


def test_what_only_other_systems_have_is_told_too(client: httpx.Client) -> None:
    assert_told(client.get("/v1/nothing"), 404, "not-found", "Nothing is at this path: GET /docs ")
    assert_told(
        client.post("/", json=[]), 422, "invalid-request", "body: must be an object, got a list."
    )
    for method, path in (("PUT", "/"), ("GET", "/nothing"), ("GET", "/hf/x"), ("POST", "/predict")):
        assert "error" not in client.request(method, path).json()


@pytest.fixture(scope="module")
def guarded(
    checkpoint_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningService]:
    """A service with keys, limits for each of them, and a name."""
    folder = tmp_path_factory.mktemp("guarded")
    keys = "\n".join(name.replace(" ", "-") for name in (*REQUESTS, "models"))
    (folder / "keys").write_text(keys, encoding="ascii")
    options = ("--api-keys-file", str(folder / "keys"), "--rate-limit", "2/hour")
    with service(checkpoint_folder, folder, *options) as running:
        yield running


@BY_PATH
def test_a_key_is_needed(guarded: RunningService, name: str) -> None:
    with guarded.client() as client:
        answer = ask(client, name, "a")
        assert_told(answer, 401, "unauthorized", "This service needs an API key: send it as Autho")
        assert answer.headers["www-authenticate"] == "Bearer"


@EACH
def test_the_rate_of_a_key_is_limited(guarded: RunningService, name: str) -> None:
    key = f"Bearer {name.replace(' ', '-')}"
    with guarded.client(Authorization=key) as client:
        assert [ask(client, name, "a").status_code for _ in range(2)] == [200, 200]
        answer = ask(client, name, "a")
        assert answer.status_code == 429
        assert 1700 < int(answer.headers["retry-after"]) <= 1800
        # Before its body is read, what comes to /predict has no form yet.
        assert ("error" in answer.json()) is (name != "tei")


def test_what_describes_the_model_needs_a_key_and_health_does_not(guarded: RunningService) -> None:
    with guarded.client() as client:
        for path in ("/info", "/v1/models"):
            assert_told(client.get(path), 401, "unauthorized", "This service needs an API key")
            right = client.get(path, headers={"Authorization": "Bearer models"})
            assert right.status_code == 200
        for path in ("/health", "/ping", "/version"):
            assert client.get(path).status_code == 200


def test_health_answers_to_any_name(checkpoint_folder: Path, tmp_path: Path) -> None:
    options = ("--allowed-hosts", "a.example")
    with service(checkpoint_folder, tmp_path, *options) as running, running.client() as client:
        for path in ("/health", "/ping"):
            assert client.get(path).status_code == 200
        answer = ask(client, "vllm", "a")
        assert_told(answer, 421, "misdirected", "This service does not answer under the name")


@pytest.fixture
def start(checkpoint_folder: Path, tmp_path: Path) -> Start:
    """Starts a service that misbehaves as files in `tmp_path` say."""

    def start(*options: str, ready: bool = True) -> AbstractContextManager[RunningService]:
        program = ("-W", "error", "-m", "tests.end_to_end.misbehaving", str(tmp_path))
        return service(checkpoint_folder, tmp_path, *options, program=program, ready=ready)

    return start


def test_a_full_queue_refuses_every_family(start: Start, tmp_path: Path) -> None:
    """First after their bodies are read, then by their heads, when nothing has room."""
    one_client = {"X-Forwarded-For": "192.0.2.1"}
    full_at_128 = ("--max-sentences", "4", "--max-queue-tokens", "128", "--max-batch-tokens", "32")
    long = "good " * 30
    with (
        start(*full_at_128, "--trusted-proxies", "127.0.0.1") as running,
        running.client(**one_client) as client,
        ThreadPoolExecutor() as pool,
    ):
        (tmp_path / "pass").write_text("hold", encoding="ascii")
        waiting = [pool.submit(ask, client, "vllm", *[long] * 4)]
        wait_until(lambda: running.metric("headlight_queue_tokens") == 96)
        for name in REQUESTS:
            refused = ask(client, name, long, long)
            assert_told(refused, 503, "overloaded", "96 tokens are waiting, the request has 64, ")
            assert refused.json()["retry_after"] == int(refused.headers["retry-after"]) >= 1
        waiting.append(pool.submit(ask, client, "mlflow", long))
        wait_until(lambda: running.metric("headlight_queue_tokens") == 128)
        before = running.log.read_text("utf-8").count('"status":503')
        for name in REQUESTS:
            if name == "tei":
                continue
            path = REQUESTS[name][0]
            refused = client.post(path, content=b"not even JSON")
            assert_told(refused, 503, "overloaded", "128 tokens are waiting, one usually has ")
            own = client.post("/predict", content=b"not even JSON").json()
            assert own == {key: refused.json()[key] for key in own}
            assert "error" not in own
            refusals = f'headlight_requests_total{{method="POST",route="{path}",status="503"}}'
            assert running.metric(refusals) == 2
        # By its head alone: none has a line in the log.
        assert running.log.read_text("utf-8").count('"status":503') == before
        (tmp_path / "pass").unlink()
        assert [future.result().status_code for future in waiting] == [200, 200]


def test_a_deadline_and_a_failed_pass_are_told(start: Start, tmp_path: Path) -> None:
    with start() as running, running.client() as client:
        (tmp_path / "pass").write_text("hold", encoding="ascii")
        for name in REQUESTS:
            late = ask(client, name, "a", **{"X-Request-Timeout": "0.5"})
            assert_told(late, 504, "timeout", "No answer was ready within 0.5 seconds, and the w")
        (tmp_path / "pass").unlink()
        running.wait_for(200)
        (tmp_path / "pass").write_text("fail", encoding="ascii")
        for name in REQUESTS:
            assert_told(ask(client, name, "a"), 500, "internal", "The service failed to answer.")
        (tmp_path / "pass").unlink()


def test_a_text_that_fails_alone_is_named(start: Start, tmp_path: Path) -> None:
    (tmp_path / "poison").write_text("bad", encoding="ascii")
    with start() as running, running.client() as client:
        for name, (_, _, field) in REQUESTS.items():
            answer = ask(client, name, "good", "bad")
            assert_told(answer, 500, "internal", "The model cannot compute an answer for this tex")
            assert [fault["loc"] for fault in answer.json()["errors"]] == [["body", field, 1]]


def test_while_the_model_loads(start: Start, tmp_path: Path) -> None:
    (tmp_path / "load").write_text("hold 0", encoding="ascii")
    loading = "The model is still loading: come back in a moment."
    with start(ready=False) as running, running.client() as client:
        for name in REQUESTS:
            assert_told(ask(client, name, "a"), 503, "not-ready", loading)
        for path in ("/health", "/ping", "/info", "/v1/models"):
            assert_told(client.get(path), 503, "not-ready", loading)
        assert client.get("/version").status_code == 200
        (tmp_path / "load").unlink()
        running.wait_for(200, "/ping")
        for name in REQUESTS:
            assert ask(client, name, "a").status_code == 200


def test_a_drain_turns_health_off_and_answers_the_rest(
    checkpoint_folder: Path, tmp_path: Path
) -> None:
    with service(checkpoint_folder, tmp_path, "--drain-seconds", "3") as running:
        with running.client() as client:
            running.process.send_signal(signal.SIGTERM)
            running.wait_for(503, "/health")
            refused = client.get("/ping")
            assert_told(refused, 503, "draining", "This replica is shutting down.")
            for name in REQUESTS:
                answer = ask(client, name, "a")
                assert (answer.status_code, answer.headers["connection"]) == (200, "close")
        assert running.process.wait(60) == 0
