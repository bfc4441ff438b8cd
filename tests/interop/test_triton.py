"""`tritonclient.http` and `tritonclient.http.aio`, unchanged."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import httpx
import numpy as np
import pytest
from tritonclient.http import InferenceServerClient, InferInput, InferRequestedOutput
from tritonclient.http.aio import InferenceServerClient as AsyncInferenceServerClient
from tritonclient.utils import InferenceServerException

from tests.end_to_end.routes import predict
from tests.end_to_end.servers import RunningService

# The awaiting client leaves the answers of its questions for health unread.
pytestmark = pytest.mark.filterwarnings("ignore:Unclosed connection:ResourceWarning")

Call = Callable[..., Any]
TEXTS = ["A superb film.", "a dull, boring plot", "good \u00e9\U0001f600"]
DEFAULT = ["label", "probabilities", "logits", "token_count", "truncated"]


def call_client(running: RunningService, method: str, *values: Any, **named: Any) -> Any:  # noqa: ANN401
    with InferenceServerClient(f"127.0.0.1:{running.port}") as client:
        return getattr(client, method)(*values, **named)


def call_async_client(running: RunningService, method: str, *values: Any, **named: Any) -> Any:  # noqa: ANN401
    async def call() -> Any:  # noqa: ANN401
        async with AsyncInferenceServerClient(f"127.0.0.1:{running.port}") as client:
            return await getattr(client, method)(*values, **named)

    return asyncio.run(call())


@pytest.fixture(params=[call_client, call_async_client], ids=["sync", "async"])
def call(request: pytest.FixtureRequest) -> Call:
    """Calls a method of the one client and of the other."""
    return request.param  # type: ignore[no-any-return]


def texts_input(texts: Sequence[object], *, binary: bool = True) -> list[InferInput]:
    tensor = InferInput("text", [len(texts)], "BYTES")
    return [tensor.set_data_from_numpy(np.array(texts, np.object_), binary_data=binary)]


def wanted(*names: str, binary: bool = True) -> list[InferRequestedOutput]:
    return [InferRequestedOutput(name, binary_data=binary) for name in names]


def spelled(labels: Any) -> list[str]:  # noqa: ANN401
    """The texts of a BYTES tensor: bytes where they came behind the JSON, else strings."""
    return [each.decode() if isinstance(each, bytes) else each for each in labels.reshape(-1)]


def shares(predictions: Sequence[dict[str, Any]]) -> Any:  # noqa: ANN401
    """The probabilities of predictions, to compare."""
    return [list(each["probabilities"].values()) for each in predictions]


def refused(call: Call, *values: Any, **named: Any) -> tuple[str, str]:  # noqa: ANN401
    """The status and the message that a client shows."""
    with pytest.raises(InferenceServerException) as caught:
        call(*values, **named)
    return caught.value.status(), caught.value.message()


def version(running: RunningService) -> str:
    with running.client() as client:
        return str(client.get("/model").json()["version"])


def test_health_and_metadata(call: Call, running: RunningService) -> None:
    right = version(running)
    assert call(running, "is_server_live") is True
    assert call(running, "is_server_ready") is True
    assert call(running, "is_model_ready", "tiny") is True
    assert call(running, "is_model_ready", "tiny", right) is True
    assert call(running, "is_model_ready", "tiny", "1") is False
    assert call(running, "is_model_ready", "other") is False
    server = call(running, "get_server_metadata")
    assert (server["name"], server["extensions"]) == ("headlight", ["binary_tensor_data"])
    expected = {
        "name": "tiny",
        "versions": [right],
        "platform": "pytorch_safetensors",
        "inputs": [{"name": "text", "datatype": "BYTES", "shape": [-1]}],
        "outputs": [
            {"name": "label", "datatype": "BYTES", "shape": [-1]},
            {"name": "probabilities", "datatype": "FP32", "shape": [-1, 2]},
            {"name": "logits", "datatype": "FP32", "shape": [-1, 2]},
            {"name": "token_count", "datatype": "INT32", "shape": [-1]},
            {"name": "truncated", "datatype": "BOOL", "shape": [-1]},
            {"name": "attention", "datatype": "FP32", "shape": [1, 2, 2, -1, -1]},
            {"name": "tokens", "datatype": "BYTES", "shape": [1, -1]},
        ],
        "parameters": {"labels": ["negative", "positive"]},
    }
    assert call(running, "get_model_metadata", "tiny") == expected
    assert call(running, "get_model_metadata", "tiny", right) == expected


@pytest.mark.parametrize(("binary_in", "binary_out"), [(True, None), (False, True), (True, False)])
def test_texts_are_classified(
    call: Call,
    running: RunningService,
    plain: httpx.Client,
    binary_in: bool,
    binary_out: bool | None,
) -> None:
    outputs = None if binary_out is None else wanted(*DEFAULT, binary=binary_out)
    result = call(
        running,
        "infer",
        "tiny",
        texts_input(TEXTS, binary=binary_in),
        outputs=outputs,
        request_id="a-7",
    )

    expected = predict(plain, *TEXTS)
    answer = result.get_response()
    assert (answer["model_name"], answer["model_version"]) == ("tiny", version(running))
    assert answer["id"] == "a-7"
    assert [output["name"] for output in answer["outputs"]] == DEFAULT
    for output in answer["outputs"]:
        assert ("data" in output) is (binary_out is False)
    assert spelled(result.as_numpy("label")) == [each["label"] for each in expected]
    probabilities = result.as_numpy("probabilities")
    assert (probabilities.dtype, probabilities.shape) == (np.float32, (3, 2))
    np.testing.assert_allclose(probabilities, shares(expected), rtol=0, atol=1e-5)
    logits = result.as_numpy("logits")
    assert (logits.dtype, logits.shape) == (np.float32, (3, 2))
    powers = np.exp(logits.astype(np.float64) / 1.5)  # the temperature of the tiny model
    np.testing.assert_allclose(powers / powers.sum(1, keepdims=True), probabilities, atol=1e-5)
    counts = result.as_numpy("token_count")
    assert counts.dtype == np.int32
    assert counts.tolist() == [each["token_count"] for each in expected]
    assert result.as_numpy("truncated").dtype == np.bool_
    assert result.as_numpy("truncated").tolist() == [False, False, False]


@pytest.mark.parametrize("binary", [True, False], ids=["bytes", "json"])
def test_one_text_is_answered_with_its_attention(
    call: Call, running: RunningService, binary: bool
) -> None:
    text = "A superb, warm film."
    names = ("attention", "tokens", *DEFAULT)
    result = call(
        running, "infer", "tiny", texts_input([text]), outputs=wanted(*names, binary=binary)
    )

    with running.client() as client:
        whole = client.post("/attention", json={"sentence": text}).json()
    attention = result.as_numpy("attention")
    tokens = [token["text"] for token in whole["tokens"]]
    assert attention.dtype == np.float32
    assert attention.shape == (1, 2, 2, len(tokens), len(tokens))
    np.testing.assert_allclose(attention[0], whole["attention"], rtol=0, atol=1e-5)
    np.testing.assert_allclose(attention.sum(-1), 1.0, rtol=0, atol=1e-5)
    assert result.as_numpy("tokens").shape == (1, len(tokens))
    assert spelled(result.as_numpy("tokens")) == tokens
    assert spelled(result.as_numpy("label")) == [whole["prediction"]["label"]]
    expected = [list(whole["prediction"]["probabilities"].values())]
    np.testing.assert_allclose(result.as_numpy("probabilities"), expected, rtol=0, atol=1e-5)
    assert result.as_numpy("logits").shape == (1, 2)
    assert result.as_numpy("token_count").tolist() == [len(tokens)]


def test_a_request_may_be_compressed(
    call: Call, running: RunningService, plain: httpx.Client
) -> None:
    inputs = texts_input(TEXTS)
    result = call(running, "infer", "tiny", inputs, request_compression_algorithm="gzip")
    expected = shares(predict(plain, *TEXTS))
    np.testing.assert_allclose(result.as_numpy("probabilities"), expected, rtol=0, atol=1e-5)
    deflated = {"request_compression_algorithm": "deflate"}
    assert refused(call, running, "infer", "tiny", inputs, **deflated)[0] == "415"


def test_parameters_of_the_request(
    call: Call, running: RunningService, plain: httpx.Client
) -> None:
    long = "bad " * 40 + "good " * 40
    left = {"truncation": "left"}
    result = call(running, "infer", "tiny", texts_input([long]), parameters=left)
    expected = shares(predict(plain, long, truncation="left"))
    np.testing.assert_allclose(result.as_numpy("probabilities"), expected, rtol=0, atol=1e-5)
    assert result.as_numpy("truncated").tolist() == [True]
    error = {"truncation": "error"}
    shown = refused(call, running, "infer", "tiny", texts_input([long]), parameters=error)
    assert shown[0] == "422"
    assert shown[1].startswith("inputs[0].data[0]: ")
    # Those that say nothing to a model without state.
    ignored = {"sequence_id": 7, "sequence_start": True, "priority": 3, "timeout": 60_000_000}
    assert call(running, "infer", "tiny", texts_input(["good"]), **ignored) is not None


@pytest.mark.parametrize("binary", [True, False], ids=["bytes", "json"])
@pytest.mark.parametrize("order", [("text", "id", "ids"), ("id", "ids", "text"), ("ids", "TEXT")])
def test_the_texts_are_the_input_that_the_metadata_names_or_the_only_one(
    call: Call, running: RunningService, plain: httpx.Client, order: Sequence[str], binary: bool
) -> None:
    given = {
        "ids": ("INT64", np.arange(60, dtype=np.int64).reshape(1, 4, 15)),
        "id": ("BYTES", np.array([["a superb id", "1"]] * 20, np.object_)),
        **dict.fromkeys(("text", "TEXT"), ("BYTES", np.array(TEXTS, np.object_))),
    }
    inputs = [
        InferInput(name, list(given[name][1].shape), given[name][0]).set_data_from_numpy(
            given[name][1], binary_data=binary
        )
        for name in order
    ]
    result = call(running, "infer", "tiny", inputs)
    expected = shares(predict(plain, *TEXTS))
    np.testing.assert_allclose(result.as_numpy("probabilities"), expected, rtol=0, atol=1e-5)


def test_an_error_is_shown_with_its_place(call: Call, running: RunningService) -> None:
    numbers = InferInput("text", [1], "FP32").set_data_from_numpy(np.zeros(1, np.float32))
    held = InferInput("text", [1], "BYTES")
    held.set_shared_memory("region", 8)
    for inputs, named, status, place in (
        ([numbers], {}, "422", "inputs: "),
        ([held], {}, "422", "inputs"),
        (texts_input(["good", b"caf\xe9"]), {}, "422", "inputs[0].data[1]: "),
        (texts_input(["good"]), {"model_version": "1"}, "404", ""),
        (texts_input(["good"]), {"timeout": 1}, "504", ""),
    ):
        shown = refused(call, running, "infer", "tiny", inputs, **named)
        assert shown[0] == status
        assert shown[1].startswith(place)
        assert len(shown[1]) > len(place) + 10
