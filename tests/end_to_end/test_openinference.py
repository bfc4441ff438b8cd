"""The Open Inference Protocol byte by byte: forms that its Python client does not send, and faults.

`tests/interop/test_triton.py` asks with that client.
"""

import gzip
import json
import signal
import struct
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import tiny_checkpoint, tiny_config
from tests.end_to_end.servers import RunningService, service, wait_until
from tests.end_to_end.test_compat_problems import assert_told

INFER = "/v2/models/tiny/infer"
ROUTE = "/v2/models/{model}/infer"
ROOM = "headlight_sending_bytes"
LENGTH = "Inference-Header-Content-Length"
ENCODED = "The body is encoded (Content-Encoding): send it as it is, or compress it with gzip."
LOADING = "The model is still loading: come back in a moment."
Start = Callable[..., AbstractContextManager[RunningService]]


def body(*texts: object, outputs: Sequence[str] = (), **members: Any) -> dict[str, Any]:  # noqa: ANN401
    """A request whose texts stand in its JSON."""
    tensor = {"name": "text", "shape": [len(texts)], "datatype": "BYTES", "data": list(texts)}
    asked = {"outputs": [{"name": name} for name in outputs]} if outputs else {}
    return {"inputs": [tensor], **asked, **members}


def ask(client: httpx.Client, *texts: object, **named: Any) -> httpx.Response:  # noqa: ANN401
    """Sends texts as JSON."""
    headers = {"content-type": "application/json", **named.pop("headers", {})}
    content = json.dumps(body(*texts, **named))  # half of a surrogate pair as an escape
    return client.post(INFER, content=content, headers=headers)


def outputs_of(answer: httpx.Response) -> dict[str, dict[str, Any]]:
    """The outputs of an answer in JSON, by their names."""
    assert answer.status_code == 200, answer.text
    return {output["name"]: output for output in answer.json()["outputs"]}


def packed(*texts: bytes) -> tuple[bytes, dict[str, str]]:
    """A body whose texts follow its JSON, and its header."""
    behind = b"".join(struct.pack("<I", len(text)) + text for text in texts)
    tensor = {
        "name": "text",
        "shape": [len(texts)],
        "datatype": "BYTES",
        "parameters": {"binary_data_size": len(behind)},
    }
    head = json.dumps({"inputs": [tensor]}).encode()
    return head + behind, {LENGTH: str(len(head))}


def test_an_answer_has_exactly_the_documented_form(client: httpx.Client) -> None:
    model = client.get("/model").json()
    text = "The plot is dull, but good."
    (expected,) = client.post("/predict", json={"sentences": [text]}).json()["predictions"]

    answer = ask(client, text, id="7", outputs=["probabilities", "label", "truncated"])

    assert answer.headers["content-type"] == "application/json"
    assert LENGTH not in answer.headers
    assert list(answer.json()) == ["model_name", "model_version", "id", "outputs"]
    probabilities, label, truncated = answer.json()["outputs"]
    assert answer.json()["model_name"] == "tiny"
    assert answer.json()["model_version"] == model["version"]
    assert answer.json()["id"] == "7"
    assert probabilities.pop("data") == pytest.approx(
        list(expected["probabilities"].values()), abs=1e-5
    )
    assert probabilities == {"name": "probabilities", "datatype": "FP32", "shape": [1, 2]}
    assert label == {
        "name": "label",
        "datatype": "BYTES",
        "shape": [1],
        "data": [expected["label"]],
    }
    assert truncated == {"name": "truncated", "datatype": "BOOL", "shape": [1], "data": [False]}


def test_json_is_answered_with_json_unless_bytes_are_asked_for(client: httpx.Client) -> None:
    plain = ask(client, "good")
    assert list(outputs_of(plain)) == [
        "label",
        "probabilities",
        "logits",
        "token_count",
        "truncated",
    ]
    binary = ask(client, "good", parameters={"binary_data_output": True})
    assert binary.headers["content-type"] == "application/octet-stream"
    size = int(binary.headers[LENGTH])
    head, behind = json.loads(binary.content[:size]), binary.content[size:]
    sizes = [output["parameters"]["binary_data_size"] for output in head["outputs"]]
    assert sizes == [4 + 8, 8, 8, 4, 1]
    assert len(behind) == sum(sizes)
    size, label, *numbers, count, truncated = struct.unpack("<I8s4fi?", behind)
    assert (size, label, count, truncated) == (8, b"negative", 3, False)
    expected = [*outputs_of(plain)["probabilities"]["data"], *outputs_of(plain)["logits"]["data"]]
    assert numbers == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("named", [None, "application/octet-stream", "application/json; a=b"])
@pytest.mark.parametrize("encoding", [None, "gzip", "identity"])
def test_the_type_of_a_body_may_be_left_out(
    client: httpx.Client, named: str | None, encoding: str | None
) -> None:
    content, headers = packed(b"good", "\u00e9 bad".encode())
    headers |= {"content-type": named} if named else {}
    headers |= {"content-encoding": encoding} if encoding else {}
    content = gzip.compress(content) if encoding == "gzip" else content

    answer = client.post(INFER, content=content, headers=headers)

    assert outputs_of(answer)["label"]["shape"] == [2]
    assert "content-encoding" not in answer.headers


def test_data_may_be_nested_as_the_shape_is(client: httpx.Client) -> None:
    nested = body()
    nested["inputs"][0] |= {"shape": [2, 1], "data": [["good"], ["bad"]]}
    flat = ask(client, "good", "bad")
    assert outputs_of(client.post(INFER, json=nested)) == outputs_of(flat)


def test_truncation_is_told_beside_the_output(client: httpx.Client) -> None:
    long = "good " * 40
    answer = ask(client, "good", long, outputs=["label"])
    assert answer.headers["x-headlight-truncated"] == "1"
    assert "x-headlight-truncated" not in ask(client, "good").headers
    answer = ask(client, long, outputs=["tokens"])
    assert answer.headers["x-headlight-truncated"] == "0"
    assert outputs_of(answer)["tokens"]["shape"] == [1, 32]
    assert outputs_of(answer)["tokens"]["data"][:2] == ["[CLS]", "good"]


@pytest.mark.parametrize("binary", [True, False])
def test_too_many_weights_are_refused_before_they_are_computed(
    checkpoint_folder: Path, tmp_path: Path, binary: bool
) -> None:
    """The limit is 400, and the tiny model has two layers of two heads."""
    program = ("-W", "error", "-m", "tests.end_to_end.misbehaving", str(tmp_path))
    options = ("--max-attention-weights", "400")
    parameters = {"binary_data_output": binary}
    with service(checkpoint_folder, tmp_path, *options, program=program) as running:
        (tmp_path / "computed").unlink(missing_ok=True)
        with running.client() as client:
            over = ask(client, "good " * 9, outputs=["attention"], parameters=parameters)
            assert_told(
                over,
                413,
                "too-many-weights",
                "2 layers of 2 heads over 11 tokens are 484 weights; the limit is 400: send a "
                "shorter text, or ask POST /attention for fewer layers or heads.",
            )
            assert not (tmp_path / "computed").exists()
            at = ask(client, "good " * 8, outputs=["attention"], parameters=parameters)
            assert at.status_code == 200
            assert "attention" not in outputs_of(ask(client, "good " * 9))
            tokens = ask(client, "good " * 9, outputs=["tokens"])
            assert outputs_of(tokens)["tokens"]["shape"] == [1, 11]


@pytest.mark.parametrize("binary", [True, False])
def test_a_large_answer_takes_its_room_before_it_is_computed(tmp_path: Path, binary: bool) -> None:
    config = tiny_config(max_position_embeddings=256)
    checkpoint = tiny_checkpoint(tmp_path / "tiny", config=config)
    program = ("-W", "error", "-m", "tests.end_to_end.misbehaving", str(tmp_path))
    limits = ("--max-attention-weights", "300000", "--max-sending-bytes", "10000000")
    patient = ("--request-timeout", "60")
    text, parameters = "good " * 254, {"binary_data_output": binary}
    # Bytes while it is made: thrice four for each weight, or four and twice twelve.
    fitting, size = (3, 3 * 4 * 4 * 256**2) if binary else (1, 7 * 4 * 4 * 256**2)
    with (
        service(checkpoint, tmp_path, *limits, *patient, program=program) as running,
        running.client() as client,
        ThreadPoolExecutor() as pool,
    ):
        (tmp_path / "pass").write_text("hold", encoding="ascii")

        def explain() -> httpx.Response:
            with running.client() as other:
                return ask(other, text, outputs=["attention"], parameters=parameters)

        waiting = []
        for number in range(1, fitting + 1):
            waiting.append(pool.submit(explain))
            wait_until(lambda least=number * size: running.metric(ROOM) > least)  # type: ignore[misc]
        taken = running.metric(ROOM)
        assert_told(explain(), 503, "overloaded", "The answer takes up to ")
        (tmp_path / "pass").unlink()
        answers = [each.result() for each in waiting]
        assert {answer.status_code for answer in answers} == {200}
        assert sum(len(answer.content) for answer in answers) < taken <= 10_000_000
        wait_until(lambda: running.metric(ROOM) == 0)
        assert ask(client, text, outputs=["attention"], parameters=parameters).status_code == 200


def raw(**changes: Any) -> dict[str, Any]:  # noqa: ANN401
    """A request of one text with other members of its input."""
    request = body("good")
    request["inputs"][0] |= changes
    return {
        **request,
        "inputs": [{name: each for name, each in request["inputs"][0].items() if each is not ...}],
    }


@pytest.mark.parametrize(
    ("sent", "detail"),
    [
        ([], "body: must be an object, got a list."),
        ({}, "body.inputs: is missing."),
        ({"inputs": 1}, "body.inputs: must be a list, got a number."),
        ({"inputs": []}, "body.inputs: must be a list of the one input that the model has: text."),
        (
            {"inputs": [{}] * 50_000},
            "body.inputs: must be a list of the one input that the model has: text.",
        ),
        (raw(name="texts"), "body.inputs.0.name: the model has one input: text."),
        (raw(name=["text"]), "body.inputs.0.name: must be a string, got a list."),
        (raw(datatype="FP32"), "body.inputs.0.datatype: must be BYTES, because the input is text."),
        (raw(data=...), "body.inputs.0: neither data nor binary_data_size is given: send one."),
        (
            raw(parameters={"binary_data_size": 4}),
            "body.inputs.0: both data and binary_data_size are given: send one.",
        ),
        (
            raw(data=..., parameters={"binary_data_size": 4}),
            "body.inputs: binary_data_size is 4 bytes in all, but 0 follow the JSON: give the size "
            "of every input that is sent as bytes, and the length of the JSON in " + LENGTH,
        ),
        (
            raw(data=..., parameters={"binary_data_size": -1}),
            "body.inputs.0.parameters.binary_data_size: must be at least 0, got -1.",
        ),
        (raw(shape=[2]), "body.inputs[0].data: must be a list of 2 elements, or lists in lists, "),
        (raw(shape=[1, 1, 1]), "body.inputs.0.shape: must be [N] or [N, 1] for N texts."),
        (raw(shape=[]), "body.inputs.0.shape: must be [N] or [N, 1] for N texts."),
        (raw(shape=[-1]), "body.inputs.0.shape.0: must be at least 0, got -1."),
        (raw(shape=[1.0]), "body.inputs.0.shape.0: must be a whole number, got a decimal "),
        (raw(shape=[10**30]), "body.inputs.0.shape: at most 40 texts are taken at once, got "),
        (raw(shape=[41]), "body.inputs.0.shape: at most 40 texts are taken at once, got 41."),
        (raw(data=["a"] * 41), "body.inputs.0.data: at most 40 texts are taken at once, got 41."),
        (raw(shape=[0], data=[]), "body.inputs[0].data: no text is given: send at least one."),
        (raw(data=[7]), "inputs[0].data[0]: the item is not a string: send text."),
        (raw(data=[["good"]]), "body.inputs[0].data: must be a list of 1 elements, or lists in li"),
        (raw(data="good"), "body.inputs[0].data: must be a list of 1 elements, or lists in lists"),
        (raw(data=["lone \udc80"]), "inputs[0].data[0]: the text is not valid Unicode: lone surro"),
        (raw(secret=1), "body.inputs.0: an unknown field is given; known are name, shape, "),
        (body("a", secret=1), "body: an unknown field is given; known are id, inputs, outputs, "),
        (body("a", id=7), "body.id: must be a string, got a number."),
        (body("a", id="\udc80"), "body.id: must be valid Unicode."),
        (body("a", outputs=["score"]), "body.outputs.0.name: the model has the outputs label, "),
        (body("a", outputs=["label"] * 9), "body.outputs: ask for each output once."),
        (
            body("a", parameters={"truncation": "middle"}),
            "body.parameters.truncation: must be 'right', ",
        ),
        (
            body("a", parameters={"timeout": -1}),
            "body.parameters.timeout: must be at least 0, got -1.",
        ),
        (
            body(" ", outputs=["attention"]),
            "inputs[0].data[0]: the text is blank: send at least one character",
        ),
        (
            body(None, outputs=["tokens"]),
            "inputs[0].data[0]: the item is not a string: send text.",
        ),
        (
            body("a", "b", outputs=["tokens"]),
            "body.outputs: attention and tokens work with one text, got 2: ",
        ),
    ],
)
def test_what_is_wrong_is_said(client: httpx.Client, sent: Any, detail: str) -> None:  # noqa: ANN401
    headers = {"content-type": "application/json"}
    answer = client.post(INFER, content=json.dumps(sent), headers=headers)
    assert_told(answer, 422, "invalid-request", detail)
    assert "secret" not in answer.text


@pytest.mark.parametrize("outputs", [(), ("attention",)])
def test_a_text_may_be_refused_for_its_length(client: httpx.Client, outputs: list[str]) -> None:
    answer = ask(client, "good " * 40, outputs=outputs, parameters={"truncation": "error"})
    assert_told(
        answer,
        422,
        "text-too-long",
        "inputs[0].data[0]: the text has 42 tokens and the model reads at most 32: shorten it, or "
        "set truncation to right or left.",
    )
    assert [fault["loc"] for fault in answer.json()["errors"]] == [["body", "inputs", 0, "data", 0]]


def test_what_is_no_body_is_told(client: httpx.Client) -> None:
    content, headers = packed(b"good")
    for missing in (client.post(INFER), client.post(INFER, content=b"{", headers={LENGTH: "0"})):
        assert_told(missing, 400, "malformed-json", "The body is empty: send a JSON object.")
    hint = f" If tensors follow the JSON as bytes, give its length in {LENGTH}."
    unsplit = client.post(INFER, content=content)
    assert_told(unsplit, 400, "malformed-json", "The body is not JSON: Extra data, at line 1, ")
    assert unsplit.json()["detail"].endswith(hint)
    for length in ("-1", "x", "1.0", "9" * 30):
        wrong = client.post(INFER, content=content, headers={LENGTH: length})
        detail = f"{LENGTH}: must be the number of bytes of the JSON, given once."
        assert_told(wrong, 422, "invalid-request", detail)
    longer = client.post(INFER, content=content, headers={LENGTH: str(len(content) + 1)})
    detail = f"{LENGTH}: says {len(content) + 1} bytes, but the body has {len(content)}: give "
    assert_told(longer, 422, "invalid-request", detail)
    cut = client.post(INFER, content=content[:-1], headers=headers)
    assert_told(cut, 422, "invalid-request", "body.inputs: binary_data_size is 8 bytes in all, bu")
    typed = client.post(INFER, content=content, headers={**headers, "content-type": "text/plain"})
    assert_told(typed, 415, "unsupported-media-type", "The body must be application/json or app")
    coded = client.post(INFER, content=content, headers={**headers, "content-encoding": "br"})
    assert_told(coded, 415, "unsupported-media-type", ENCODED)
    picky = client.post(INFER, content=content, headers={**headers, "accept": "image/png"})
    assert_told(picky, 406, "not-acceptable", "")


def test_a_body_is_limited_as_sent_and_unpacked(client: httpx.Client) -> None:
    large = client.post(INFER, content=b" " * 250_001)
    assert_told(large, 413, "payload-too-large", "The body has 250001 bytes; the limit is 250000 ")
    bomb = gzip.compress(b" " * 50_000_000)
    assert len(bomb) < 60_000
    unpacked = client.post(INFER, content=bomb, headers={"content-encoding": "gzip"})
    assert_told(
        unpacked, 413, "payload-too-large", "The body is longer than it may be once it is unpacked"
    )
    broken = client.post(INFER, content=b"x" + bomb, headers={"content-encoding": "gzip"})
    assert_told(broken, 400, "malformed-json", "The body is not gzip, though Content-")


@settings(max_examples=150)
@given(
    content=st.binary(max_size=80) | st.just(packed(b"good")[0]) | st.just(packed(b"")[0]),
    length=st.none() | st.integers(0, 120).map(str) | st.just(packed(b"good")[1][LENGTH]),
    encoding=st.sampled_from([None, "gzip"]),
)
def test_no_body_is_a_fault_of_the_service(
    client: httpx.Client, content: bytes, length: str | None, encoding: str | None
) -> None:
    headers = {LENGTH: length} if length else {}
    headers |= {"content-encoding": encoding} if encoding else {}
    answer = client.post(INFER, content=content, headers=headers)
    assert answer.status_code in {200, 400, 422}
    assert ("error" in answer.json()) is (answer.status_code != 200)


def test_large_bodies_are_read_aside(client: httpx.Client) -> None:
    texts = [f"{word} ".encode() * 400 for word in ("good", "bad", "film", "plot")] * 10
    content, headers = packed(*texts)
    assert len(content) > 65_536
    by_predict = client.post("/predict", json={"sentences": [text.decode() for text in texts]})
    labels = [each["label"] for each in by_predict.json()["predictions"]]
    answer = client.post(INFER, content=content, headers=headers)
    assert outputs_of(answer)["label"]["data"] == labels


def test_paths_of_kserve(client: httpx.Client) -> None:
    version = client.get("/model").json()["version"]
    ready = {"name": "tiny", "ready": True}
    for path, expected in (
        ("/v2/models", {"models": ["tiny"]}),
        ("/v2/health/live", {"live": True}),
        ("/v2/health/ready", {"ready": True}),
        ("/v2/models/tiny/ready", ready),
        (f"/v2/models/tiny/versions/{version}/ready", ready),
    ):
        answer = client.get(path)
        assert (answer.status_code, answer.json()) == (200, expected)
        assert client.head(path).status_code == 200
    metadata = client.get("/v2/models/tiny").json()
    assert client.get(f"/v2/models/tiny/versions/{version}").json() == metadata
    versioned = client.post(f"/v2/models/tiny/versions/{version}/infer", json=body("good"))
    assert outputs_of(versioned) == outputs_of(ask(client, "good"))


def test_what_is_not_served_is_not_found(client: httpx.Client) -> None:
    version = client.get("/model").json()["version"]
    other = "No model of this name is served: GET /v2/models lists what is."
    old = f"This version of the model is not served: ask for {version}, or for none."
    for method, path, detail in (
        ("GET", "/v2/models/other", other),
        ("GET", "/v2/models/other/ready", other),
        ("POST", "/v2/models/other/infer", other),
        ("POST", "/v2/models/ti%6ey/infer", other),
        ("POST", f"/v2/models/other/versions/{version}/infer", other),
        ("GET", "/v2/models/tiny/versions/1", old),
        ("GET", "/v2/models/tiny/versions/1/ready", old),
        ("POST", "/v2/models/tiny/versions/1/infer", old),
        ("GET", "/v2/models/tiny/stats", "Nothing is at this path: GET /docs shows what there is."),
        ("POST", "/v2/repository/index", "Nothing is at this path: GET /docs shows what there "),
    ):
        answer = client.request(method, path, json=body("a") if method == "POST" else None)
        if path == "/v2/models/ti%6ey/infer":  # the same name, spelled in another way
            assert answer.status_code == 200
        else:
            assert_told(answer, 404, "not-found", detail)
            assert "other" not in answer.text
    refused = client.get(INFER)
    assert_told(refused, 405, "method-not-allowed", "This path answers POST.")


def test_the_interface_is_described(client: httpx.Client) -> None:
    document = client.get("/openapi.json").json()
    operation = document["paths"][ROUTE]["post"]
    names = {"model": True, LENGTH: False, "X-Request-Timeout": False}
    assert {each["name"]: each["required"] for each in operation["parameters"]} == names
    media = {"application/json", "application/octet-stream"}
    assert set(operation["requestBody"]["content"]) == media
    assert set(operation["responses"]["200"]["content"]) == media
    assert {"404", "413", "503"} <= set(operation["responses"])
    example = operation["requestBody"]["content"]["application/json"]["examples"]["two"]["value"]
    assert client.post(INFER, json=example).status_code == 200
    outputs = document["components"]["schemas"]["WantedOutput"]["properties"]["name"]["enum"]
    metadata = client.get("/v2/models/tiny").json()
    assert outputs == [output["name"] for output in metadata["outputs"]]
    with_version = document["paths"]["/v2/models/{model}/versions/{version}"]["get"]
    assert [each["name"] for each in with_version["parameters"]][:2] == ["model", "version"]


def test_a_page_from_elsewhere_may_not_ask_unasked(client: httpx.Client) -> None:
    """A browser sends a body without a type to any server, and asks it nothing before."""
    content, headers = packed(b"good")
    for site in ("cross-site", "same-site"):
        answer = client.post(INFER, content=content, headers={**headers, "sec-fetch-site": site})
        detail = "A page of another origin sent this: name "
        assert_told(answer, 403, "cross-site", detail)
    own = client.post(INFER, content=content, headers={**headers, "sec-fetch-site": "same-origin"})
    assert own.status_code == 200


def test_a_page_that_is_named_may_ask(checkpoint_folder: Path, tmp_path: Path) -> None:
    page = {"origin": "https://a.example", "sec-fetch-site": "cross-site"}
    content, headers = packed(b"good")
    allowed = ("--allowed-origins", "https://a.example")
    with (
        service(checkpoint_folder, tmp_path, *allowed) as running,
        running.client(**page) as client,
    ):
        asked = {
            "access-control-request-method": "POST",
            "access-control-request-headers": LENGTH.lower(),
        }
        assert client.options(INFER, headers=asked).status_code == 200
        answer = client.post(INFER, content=content, headers=headers)
        assert answer.status_code == 200
        assert LENGTH in answer.headers["access-control-expose-headers"]


@pytest.mark.parametrize("chosen", ["off", "huggingface,mlflow"])
def test_the_family_can_be_switched_off(
    checkpoint_folder: Path, tmp_path: Path, chosen: str
) -> None:
    off = {"HEADLIGHT_COMPAT": chosen}
    with (
        service(checkpoint_folder, tmp_path, settings=off) as running,
        running.client() as client,
    ):
        for answer in (ask(client, "good"), client.get("/v2"), client.get("/v2/health/live")):
            assert answer.status_code == 404
            assert "error" not in answer.json()
        assert ROUTE not in running.metrics()
        assert ROUTE not in client.get("/openapi.json").json()["paths"]


@pytest.fixture
def start(checkpoint_folder: Path, tmp_path: Path) -> Start:
    """Starts a service that misbehaves as files in `tmp_path` say."""

    def start(*options: str, ready: bool = True) -> AbstractContextManager[RunningService]:
        program = ("-W", "error", "-m", "tests.end_to_end.misbehaving", str(tmp_path))
        return service(checkpoint_folder, tmp_path, *options, program=program, ready=ready)

    return start


def test_a_full_queue_refuses(start: Start, tmp_path: Path) -> None:
    """First after the body is read, then by its head, when nothing has room."""
    one_client = {"X-Forwarded-For": "192.0.2.1"}
    full_at_128 = ("--max-sentences", "4", "--max-queue-tokens", "128", "--max-batch-tokens", "32")
    long = "good " * 30
    with (
        start(*full_at_128, "--trusted-proxies", "127.0.0.1") as running,
        running.client(**one_client) as client,
        ThreadPoolExecutor() as pool,
    ):
        version = client.get("/model").json()["version"]
        (tmp_path / "pass").write_text("hold", encoding="ascii")
        waiting = [pool.submit(ask, client, *[long] * 4)]
        wait_until(lambda: running.metric("headlight_queue_tokens") == 96)
        refused = ask(client, long, long)
        assert_told(refused, 503, "overloaded", "96 tokens are waiting, the request has 64, ")
        assert refused.json()["retry_after"] == int(refused.headers["retry-after"]) >= 1
        waiting.append(pool.submit(ask, client, long))
        wait_until(lambda: running.metric("headlight_queue_tokens") == 128)
        explained = ask(client, long, outputs=["attention"])
        assert_told(explained, 503, "overloaded", "128 tokens are waiting, ")
        before = running.log.read_text("utf-8").count('"status":503')
        for path, route in (
            (INFER, ROUTE),
            (
                f"/v2/models/tiny/versions/{version}/infer",
                "/v2/models/{model}/versions/{version}/infer",
            ),
        ):
            series = f'headlight_requests_total{{method="POST",route="{route}",status="503"}}'
            counted = running.metric(series)
            by_head = client.post(path, content=b"not even JSON")
            assert_told(by_head, 503, "overloaded", "128 tokens are waiting, one usually has ")
            assert running.metric(series) == counted + 1
        assert running.log.read_text("utf-8").count('"status":503') == before
        (tmp_path / "pass").unlink()
        assert [future.result().status_code for future in waiting] == [200, 200]


@pytest.mark.parametrize("outputs", [(), ("attention",)])
def test_a_deadline_and_a_failed_pass_are_told(
    start: Start, tmp_path: Path, outputs: list[str]
) -> None:
    late = "No answer was ready within 0.5 seconds, and the work was dropped: send fewer or shor"
    with start() as running, running.client() as client:
        (tmp_path / "pass").write_text("hold", encoding="ascii")
        by_header = ask(client, "a", outputs=outputs, headers={"X-Request-Timeout": "0.5"})
        assert_told(by_header, 504, "timeout", late)
        by_parameter = ask(client, "a", outputs=outputs, parameters={"timeout": 500_000})
        assert_told(by_parameter, 504, "timeout", late)
        wait_until(lambda: running.metric("headlight_queue_tokens") == 0)
        # Never longer than the request has.
        both = ask(
            client,
            "a",
            outputs=outputs,
            parameters={"timeout": 3_600_000_000},
            headers={"X-Request-Timeout": "0.5"},
        )
        assert_told(both, 504, "timeout", late)
        (tmp_path / "pass").unlink()
        running.wait_for(200)
        (tmp_path / "pass").write_text("fail", encoding="ascii")
        failed = ask(client, "a", outputs=outputs)
        assert_told(failed, 500, "internal", "The service failed to answer.")
        (tmp_path / "pass").unlink()
        running.wait_for(200, "/v2/health/ready")


def test_a_text_that_fails_alone_is_named(start: Start, tmp_path: Path) -> None:
    (tmp_path / "poison").write_text("bad", encoding="ascii")
    with start() as running, running.client() as client:
        answer = ask(client, "good", "bad")
        assert_told(answer, 500, "internal", "The model cannot compute an answer for this tex")
        assert [fault["loc"] for fault in answer.json()["errors"]] == [
            ["body", "inputs", 0, "data", 1]
        ]


def test_while_the_model_loads(start: Start, tmp_path: Path) -> None:
    (tmp_path / "load").write_text("hold 0", encoding="ascii")
    with start(ready=False) as running, running.client() as client:
        assert client.get("/v2/health/live").json() == {"live": True}
        for path in ("/v2/health/ready", "/v2/models/tiny/ready"):
            assert_told(client.get(path), 503, "not-ready", LOADING)
        for outputs in ((), ("attention",)):
            assert_told(ask(client, "a", outputs=outputs), 503, "not-ready", LOADING)
        # The checkpoint says these.
        assert client.get("/v2/models/tiny").json()["name"] == "tiny"
        (tmp_path / "load").unlink()
        running.wait_for(200, "/v2/health/ready")
        assert ask(client, "a").status_code == 200


def test_a_drain_turns_readiness_off_and_answers_the_rest(
    checkpoint_folder: Path, tmp_path: Path
) -> None:
    with service(checkpoint_folder, tmp_path, "--drain-seconds", "3") as running:
        with running.client() as client:
            running.process.send_signal(signal.SIGTERM)
            running.wait_for(503, "/v2/health/ready")
            refused = client.get("/v2/models/tiny/ready")
            assert_told(refused, 503, "draining", "This replica is shutting down.")
            assert client.get("/v2/health/live").status_code == 200
            answer = ask(client, "a")
            assert (answer.status_code, answer.headers["connection"]) == (200, "close")
        assert running.process.wait(60) == 0


def test_no_text_and_no_id_is_logged(client: httpx.Client, running: RunningService) -> None:
    for outputs in ((), ("attention",), ("score",)):
        ask(client, "zebracorn", outputs=outputs, id="quokka")
    content, headers = packed(b"zebracorn \xff")
    assert client.post(INFER, content=content, headers=headers).status_code == 422
    log = running.log.read_text("utf-8")
    assert ROUTE in log
    assert "zebracorn" not in log
    assert "quokka" not in log
