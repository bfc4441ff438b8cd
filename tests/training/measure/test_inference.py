"""Many texts in batches of like lengths: each gets the answer that it gets alone."""

import numpy as np
import pytest
import torch

from model import Batch, Predictor
from tests.builders import tiny_network, tiny_tokenizer
from training.data.batches import choose_batch_tokens
from training.measure import inference
from training.measure.inference import predict_logits, predict_probabilities

TEXTS = ["a good film", "bad", "it was very, very long " * 9, "the cast is superb!", "the plot"]
CPU = torch.device("cpu")


@pytest.mark.parametrize("max_batch_tokens", [1, 16, 4096])
def test_probabilities_are_those_of_each_text_alone(
    predictor: Predictor, max_batch_tokens: int
) -> None:
    answers = predict_probabilities(predictor, TEXTS, max_batch_tokens=max_batch_tokens)
    alone = [
        list(predictor.predict([predictor.encode(text)])[0].probabilities.values())
        for text in TEXTS
    ]
    assert answers.values.dtype == np.float64
    assert answers.values == pytest.approx(np.array(alone), abs=1e-6)
    assert len({round(row[0], 6) for row in alone}) == len(TEXTS)
    assert answers.truncated == 1


def test_many_windows_keep_order(predictor: Predictor, capsys: pytest.CaptureFixture[str]) -> None:
    answers = predict_probabilities(predictor, TEXTS * 1000, label="many")
    few = predict_probabilities(predictor, TEXTS)
    assert answers.values == pytest.approx(np.tile(few.values, (1000, 1)), abs=1e-6)
    assert answers.truncated == 1000
    assert "many: 5000/5000" in capsys.readouterr().err


def test_a_gpu_measures_more_tokens_at_once() -> None:
    assert list(map(choose_batch_tokens, ("cpu", "cuda", "cuda:1"))) == [2_048, 32_768, 32_768]


@pytest.mark.parametrize("max_batch_tokens", [1, 16, 4096])
def test_logits_are_those_of_each_text_alone(
    max_batch_tokens: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inference, "choose_batch_tokens", lambda _: max_batch_tokens)
    network, tokenizer = tiny_network(), tiny_tokenizer()
    encoded = [tokenizer.encode(text) for text in TEXTS]
    logits = predict_logits(network, encoded, pad_token_id=tokenizer.pad_token_id, device=CPU)
    alone = [
        network(Batch(torch.tensor([encoding.input_ids]), None)).logits[0].tolist()
        for encoding in encoded
    ]
    assert logits.dtype == np.float32
    assert logits == pytest.approx(np.array(alone), abs=1e-5)
