"""Classifiers of transformers that are no BERT, asked over a socket, beside transformers."""

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from tests.end_to_end.routes import post, predict
from tests.end_to_end.servers import local_service
from tests.families import FAMILIES, LABELS, MAX_LENGTH, TEXTS, save_family

# `<s>` is text here, and special in transformers.
PLAIN = [text for text in TEXTS if "<s>" not in text]


@pytest.mark.parametrize("kind", FAMILIES)
def test_answers_and_maps_are_those_of_transformers(kind: str, tmp_path: Path) -> None:
    folder = save_family(tmp_path / kind, kind)
    network = AutoModelForSequenceClassification.from_pretrained(
        folder, attn_implementation="eager"
    ).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    with local_service(folder, tmp_path) as running, running.client() as client:
        predictions = predict(client, *PLAIN)
        for text, prediction in zip(PLAIN, predictions, strict=True):
            with torch.inference_mode():
                encoded = tokenizer(text, truncation=True, return_tensors="pt")
                theirs = network(**encoded, output_attentions=True)
            shares = dict(zip(LABELS, theirs.logits[0].softmax(-1).tolist(), strict=True))
            maps = torch.cat(theirs.attentions).numpy()
            assert prediction["probabilities"] == pytest.approx(shares, abs=1e-4)
            assert prediction["token_count"] == maps.shape[-1]
            answer = post(client, "/attention", sentence=text)
            assert (answer["layers"], answer["heads"]) == ([0, 1], [0, 1])
            np.testing.assert_allclose(answer["attention"], maps, rtol=0, atol=1e-4)
            assert answer["prediction"]["probabilities"] == pytest.approx(shares, abs=1e-4)
    assert {prediction["truncated"] for prediction in predictions} == {True, False}
    assert max(prediction["token_count"] for prediction in predictions) == MAX_LENGTH
