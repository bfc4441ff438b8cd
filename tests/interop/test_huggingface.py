"""`InferenceClient` and `AsyncInferenceClient` of huggingface_hub, unchanged."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import AsyncInferenceClient, InferenceClient
from huggingface_hub.errors import HfHubHTTPError

from tests.end_to_end.servers import RunningService

Ask = Callable[..., Any]
TEXTS = ["A superb film.", "a dull, boring plot"]


def ask_client(url: str, *values: Any, token: str | None = None, **named: Any) -> Any:  # noqa: ANN401
    with InferenceClient(url, token=token, timeout=60) as client:
        return client.text_classification(*values, **named)


def ask_async_client(url: str, *values: Any, token: str | None = None, **named: Any) -> Any:  # noqa: ANN401
    async def ask() -> Any:  # noqa: ANN401
        async with AsyncInferenceClient(url, token=token, timeout=60) as client:
            return await client.text_classification(*values, **named)

    return asyncio.run(ask())


@pytest.fixture(autouse=True)
def _without_a_token(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The client sends the token of this machine's user to any server."""
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "none"))


@pytest.fixture(params=[ask_client, ask_async_client], ids=["sync", "async"])
def ask(request: pytest.FixtureRequest) -> Ask:
    """Asks with the one client and with the other."""
    return request.param  # type: ignore[no-any-return]


def ranked(running: RunningService, text: str) -> list[tuple[str, float]]:
    with running.client() as client:
        (prediction,) = client.post("/predict", json={"sentences": [text]}).json()["predictions"]
    return sorted(prediction["probabilities"].items(), key=lambda each: -float(each[1]))


def pairs(labels: Any) -> list[tuple[str, Any]]:  # noqa: ANN401
    """What the client gives, to compare."""
    return [(each.label, pytest.approx(each.score)) for each in labels]


@pytest.mark.parametrize("path", ["", "/", "/hf"])
def test_labels_come_the_best_first(running: RunningService, ask: Ask, path: str) -> None:
    labels = ask(running.url + path, TEXTS[0])
    assert pairs(labels) == ranked(running, TEXTS[0])
    assert all(type(each).__name__ == "TextClassificationOutputElement" for each in labels)


def test_a_list_of_texts(running: RunningService) -> None:
    """The client is typed for one text, and passes a list on; it returns the first entry."""
    labels = ask_client(f"{running.url}/hf", TEXTS)
    assert pairs(labels) == ranked(running, TEXTS[0])


def test_health_and_info(running: RunningService) -> None:
    with InferenceClient(running.url, provider="hf-inference", timeout=60) as client:
        assert client.health_check() is True
        info = client.get_endpoint_info()
    assert info["model_id"] == "tiny"
    assert info["max_client_batch_size"] == 8


def test_a_bad_text_is_explained_in_our_words(running: RunningService, ask: Ask) -> None:
    with pytest.raises(HfHubHTTPError) as raised:
        ask(f"{running.url}/hf", " ")
    assert raised.value.response.status_code == 422
    assert "inputs: the text is blank" in str(raised.value)
