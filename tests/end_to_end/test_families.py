"""Classifiers of transformers that are no BERT, asked over a socket, beside transformers."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from tests.end_to_end.servers import local_service
from tests.families import FAMILIES, LABELS, MAX_LENGTH, TEXTS, save_family

# `<s>` is text here, and special in transformers.
PLAIN = [text for text in TEXTS if "<s>" not in text]


@pytest.fixture(scope="module", params=FAMILIES)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    kind: str = request.param
    return save_family(tmp_path_factory.mktemp(kind) / kind, kind)


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[httpx.Client]:
    with local_service(folder, folder.parent) as running, running.client() as client:
        yield client


@pytest.fixture(scope="module")
def theirs(folder: Path) -> dict[str, Any]:
    """What transformers says of each text alone: probabilities, and maps [L, H, T, T]."""
    network = AutoModelForSequenceClassification.from_pretrained(
        folder, attn_implementation="eager"
    ).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    said = {}
    for text in PLAIN:
        with torch.inference_mode():
            encoded = tokenizer(text, truncation=True, return_tensors="pt")
            answer = network(**encoded, output_attentions=True)
        maps = torch.cat(answer.attentions).numpy()
        said[text] = dict(zip(LABELS, answer.logits[0].softmax(-1).tolist(), strict=True)), maps
    return said


def test_a_batch_has_the_answers_of_transformers(
    client: httpx.Client, theirs: dict[str, Any]
) -> None:
    predictions = client.post("/predict", json={"sentences": PLAIN}).json()["predictions"]

    for text, prediction in zip(PLAIN, predictions, strict=True):
        probabilities, maps = theirs[text]
        assert prediction["probabilities"] == pytest.approx(probabilities, abs=1e-4)
        assert prediction["token_count"] == maps.shape[-1]
    cut = [prediction["truncated"] for prediction in predictions]
    assert set(cut) == {True, False}
    assert max(prediction["token_count"] for prediction in predictions) == MAX_LENGTH


def test_every_map_is_that_of_transformers(client: httpx.Client, theirs: dict[str, Any]) -> None:
    for text in PLAIN:
        answer = client.post("/attention", json={"sentence": text}).json()
        probabilities, maps = theirs[text]
        assert (answer["layers"], answer["heads"]) == ([0, 1], [0, 1])
        np.testing.assert_allclose(answer["attention"], maps, rtol=0, atol=1e-4)
        assert answer["prediction"]["probabilities"] == pytest.approx(probabilities, abs=1e-4)
