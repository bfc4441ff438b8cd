"""The Open Inference Protocol byte by byte: forms that its Python client does not send, and errors.

`tests/interop/test_triton.py` asks with that client.
"""

import json
import struct
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.builders import tiny_checkpoint, tiny_config
from tests.end_to_end.conftest import Start
from tests.end_to_end.misbehaving import patches
from tests.end_to_end.routes import INFER, JSON, assert_problem, tensor
from tests.end_to_end.servers import RunningService, local_service, wait_until

ROOM = "headlight_sending_bytes"
LENGTH = "Inference-Header-Content-Length"


def ask(client: httpx.Client, *texts: object, **named: Any) -> httpx.Response:  # noqa: ANN401
    """Sends texts as JSON, half of a surrogate pair as an escape."""
    headers = {**JSON, **named.pop("headers", {})}
    content = json.dumps(tensor(list(texts), *named.pop("outputs", ()), **named))
    return client.post(INFER, content=content, headers=headers)


def outputs_of(answer: httpx.Response) -> dict[str, dict[str, Any]]:
    assert answer.status_code == 200, answer.text
    return {output["name"]: output for output in answer.json()["outputs"]}


def packed(*texts: bytes) -> tuple[bytes, dict[str, str]]:
    """A body whose texts follow its JSON, and its header."""
    behind = b"".join(struct.pack("<I", len(text)) + text for text in texts)
    given = {
        "name": "text",
        "shape": [len(texts)],
        "datatype": "BYTES",
        "parameters": {"binary_data_size": len(behind)},
    }
    head = json.dumps({"inputs": [given]}).encode()
    return head + behind, {LENGTH: str(len(head))}


def test_paths_of_kserve(client: httpx.Client) -> None:
    version = client.get("/model").json()["version"]
    for path, expected in (
        ("/v2/models", {"models": ["tiny"]}),
        ("/v2/health/ready", {"ready": True}),
        (f"/v2/models/tiny/versions/{version}/ready", {"name": "tiny", "ready": True}),
    ):
        answer = client.get(path)
        assert (answer.status_code, answer.json()) == (200, expected)
        assert client.head(path).status_code == 200
    versioned = client.post(f"/v2/models/tiny/versions/{version}/infer", json=tensor(["good"]))
    assert outputs_of(versioned) == outputs_of(ask(client, "good"))
    # The same name, spelled in another way; and one that nothing has.
    assert client.post("/v2/models/ti%6ey/infer", json=tensor(["a"])).status_code == 200
    other = client.post(f"/v2/models/other/versions/{version}/infer", json=tensor(["a"]))
    assert_problem(other, 404, "not-found", foreign=True)
    assert "other" not in other.text
    assert_problem(client.get(INFER), 405, "method-not-allowed", foreign=True)


@pytest.mark.parametrize("binary", [True, False])
def test_a_large_answer_takes_its_room_before_it_is_computed(
    tmp_path: Path, binary: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.app.SENDING_BYTES", 10_000_000)
    config = tiny_config(max_position_embeddings=256)
    checkpoint = tiny_checkpoint(tmp_path / "tiny", config=config)
    limits = ("--max-attention-weights", "300000")
    text, parameters = "good " * 254, {"binary_data_output": binary}
    # Bytes while it is made: thrice four for each weight, or four and twice twelve.
    fitting, size = (3, 3 * 4 * 4 * 256**2) if binary else (1, 7 * 4 * 4 * 256**2)
    with (
        local_service(
            *(checkpoint, tmp_path, *limits, "--request-timeout", "60"), changes=patches(tmp_path)
        ) as running,
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
        says = "The answer takes up to "
        refused = explain()
        assert_problem(refused, 503, "overloaded", says=says, foreign=True)
        assert refused.headers["retry-after"] == "5"
        (tmp_path / "pass").unlink()
        answers = [each.result() for each in waiting]
        assert {answer.status_code for answer in answers} == {200}
        assert sum(len(answer.content) for answer in answers) < taken <= 10_000_000
        wait_until(lambda: running.metric(ROOM) == 0)
        assert ask(client, text, outputs=["attention"], parameters=parameters).status_code == 200


def test_too_many_weights_are_refused_before_they_are_computed(
    running: RunningService, client: httpx.Client
) -> None:
    """The limit is 400, and the tiny model has two layers of two heads."""
    computed = running.metric("headlight_texts_total")
    over = ask(client, "good " * 9, outputs=["attention"])
    says = "2 layers of 2 heads over 11 tokens are 484 weights; the limit is 400"
    assert_problem(over, 413, "too-many-weights", says=says, foreign=True)
    assert running.metric("headlight_texts_total") == computed
    assert ask(client, "good " * 8, outputs=["attention"]).status_code == 200
    tokens = ask(client, "good " * 9, outputs=["tokens"])
    assert outputs_of(tokens)["tokens"]["shape"] == [1, 11]


def changed(**changes: Any) -> dict[str, Any]:  # noqa: ANN401
    """A request of one text with other members of its input; without those that are `...`."""
    request = tensor(["good"])
    members = request["inputs"][0] | changes
    return {**request, "inputs": [{name: each for name, each in members.items() if each != ...}]}


OTHER = {"name": "ids", "datatype": "INT64", "shape": [1, 50, 1], "data": list(range(50))}
OWN, NAMED = tensor([" "])["inputs"][0], {**tensor(["a"])["inputs"][0], "name": "id"}


@pytest.mark.parametrize(
    ("sent", "loc"),
    [
        ([], ()),
        (changed(datatype="FP32"), ("inputs",)),
        (changed(shape=[]), ("inputs", 0, "shape")),
        (changed(shape=[41]), ("inputs", 0, "shape")),
        ({"inputs": [OTHER, NAMED, OWN]}, ("inputs", 2, "data", 0)),
        ({"inputs": [OTHER, NAMED, {**NAMED, "name": "review"}]}, ("inputs",)),
        ({"inputs": [OWN, NAMED, OWN]}, ("inputs",)),
        ({"inputs": [{**OTHER, "name": "text"}, NAMED]}, ("inputs",)),
        ({"inputs": [OTHER] * 16 + tensor(["a"])["inputs"]}, ("inputs",)),
        (changed(data=...), ("inputs", 0)),
        (changed(shape=[1, 1, 1]), ("inputs", 0, "shape")),
        (tensor(["a"], secret=1), ()),
        (tensor(["a"], "score"), ("outputs", 0, "name")),
        (tensor(["a"], *["label"] * 9), ("outputs",)),
        (tensor(["a"], parameters={"timeout": -1}), ("parameters", "timeout")),
        (tensor(["a", "b"], "tokens"), ("outputs",)),
    ],
)
def test_what_is_wrong_is_named(
    client: httpx.Client,
    sent: Any,  # noqa: ANN401
    loc: tuple[str | int, ...],
) -> None:
    answer = client.post(INFER, content=json.dumps(sent), headers=JSON)
    assert_problem(answer, 422, "invalid-request", ("body", *loc), foreign=True)
    assert "secret" not in answer.text


def test_a_text_that_is_too_long_and_what_is_no_body_are_problems(client: httpx.Client) -> None:
    refused = ask(client, "good " * 40, parameters={"truncation": "error"})
    loc = ("body", "inputs", 0, "data", 0)
    assert_problem(refused, 422, "text-too-long", loc, says="42 tokens", foreign=True)
    content, headers = packed(b"good")
    for sent, extra, status, kind in (
        (b"", {}, 400, "malformed-json"),
        (b"{", {LENGTH: "0"}, 400, "malformed-json"),
        (content, {**headers, "content-type": "text/plain"}, 415, "unsupported-media-type"),
        (content, {**headers, "accept": "image/png"}, 406, "not-acceptable"),
    ):
        assert_problem(client.post(INFER, content=sent, headers=extra), status, kind, foreign=True)
    wrong = client.post(INFER, content=content, headers={LENGTH: "x"})
    assert_problem(wrong, 422, "invalid-request", ("header", LENGTH), foreign=True)


@pytest.mark.parametrize("allowed", [False, True])
def test_only_pages_that_are_named_may_ask(
    start: Start, client: httpx.Client, allowed: bool
) -> None:
    """A browser sends a body without a type to any server, and asks it nothing before."""
    page = {"origin": "https://a.example", "sec-fetch-site": "cross-site"}
    content, headers = packed(b"good")
    options = ("--allowed-origins", "https://a.example")
    with start(*options) as running, running.client() if allowed else nullcontext(client) as asking:
        answer = asking.post(INFER, content=content, headers={**headers, **page})
        if allowed:
            wanted = {"access-control-request-method": "POST", **page}
            wanted["access-control-request-headers"] = LENGTH.lower()
            assert asking.options(INFER, headers=wanted).status_code == 200
            assert answer.status_code == 200
            assert LENGTH in answer.headers["access-control-expose-headers"]
        else:
            assert_problem(answer, 403, "cross-site", foreign=True)
            own = {**headers, "sec-fetch-site": "same-origin"}
            assert asking.post(INFER, content=content, headers=own).status_code == 200
