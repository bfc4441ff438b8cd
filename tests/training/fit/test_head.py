"""The first classifier of a pretrained encoder: scikit-learn's logistic regression."""

from typing import cast

import numpy as np
import pytest
import torch
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from model.network.layers import EncoderLayer
from model.types import Batch
from tests.builders import tiny_config, tiny_network, tiny_tokenizer
from tests.training.tiny_runs import CPU
from training.fit import head
from training.fit.recipe import Recipe
from training.fit.rows import encode_rows
from training.measure.inference import predict_logits

WORDS = ("good", "bad", "plot", "film", "cast", "warm", "cold", "dull")
LABELS = ("awful", "fair", "great")


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize(("rows", "class_weights"), [(3, "none"), (60, "none"), (60, "balanced")])
def test_the_start_equals_scikit_learns_on_the_same_features(
    rows: int, class_weights: str, classes: int
) -> None:
    """Of three rows a class has one, so the strength is not searched for."""
    network, tokenizer = tiny_network(tiny_config(labels=LABELS[:classes])), tiny_tokenizer()
    draw = np.random.default_rng(0)
    texts = [" ".join(draw.choice(WORDS, size=4)) for _ in range(rows)]
    truth = [number % classes for number in range(rows)]
    encoded = encode_rows(tokenizer, texts, truth)

    recipe = Recipe.model_validate({"class_weights": class_weights, "seed": 3})
    head.fit_head(network, encoded, recipe, 0, CPU)

    found = predict_logits(network, encoded.encodings, pad_token_id=0, device=CPU.device)
    states: list[np.ndarray] = []
    network.classifier.register_forward_pre_hook(lambda _, args: states.append(args[0].numpy()))
    for encoding in encoded.encodings:
        predict_logits(network, [encoding], pad_token_id=0, device=CPU.device)
    features = np.concatenate(states).astype(np.float64)  # [N, D]
    weight = "balanced" if class_weights == "balanced" else None
    regression = LogisticRegression(C=0.01, solver="newton-cg", class_weight=weight)
    expected = make_pipeline(StandardScaler(), regression)
    if rows > classes * 2:
        expected = GridSearchCV(
            expected,
            {"logisticregression__C": [1e-4, 1e-3, 1e-2, 1e-1, 1.0]},
            scoring="neg_log_loss",
            cv=StratifiedKFold(3, shuffle=True, random_state=3),
        )
    expected.fit(features, truth)
    assert softmax(found, axis=1) == pytest.approx(expected.predict_proba(features), abs=1e-5)


def test_the_last_layer_that_is_kept_averages_all_tokens() -> None:
    """The mean of the states below, standardised over the rows; a text is read by itself."""
    network, tokenizer = tiny_network(tiny_config(num_hidden_layers=3)), tiny_tokenizer()
    rows = encode_rows(tokenizer, [f"{one} {two} a" for one in WORDS for two in WORDS], [0, 1] * 32)
    means = []
    for encoding in rows.encodings:
        states = network.embeddings(torch.tensor([encoding.input_ids]))
        states, _ = network.layers[0](states, bias=None, need_weights=False)
        means.append(states.mean(dim=1))
    mean = torch.cat(means)  # [N, D]

    head.average_tokens(network, 2, rows, 0, CPU)

    assert len(network.layers) == 2
    read: list[torch.Tensor] = []
    last = cast("EncoderLayer", network.layers[-1])
    last.attention.output.register_forward_hook(lambda *args: read.append(args[2][:, 0]))
    length = len(rows.encodings[0].input_ids)
    batch = Batch(torch.tensor([rows.encodings[0].input_ids]), None)
    torch.testing.assert_close(
        network(batch, need_weights=True).attention_weights[-1],
        torch.full((1, 2, length, length), 1 / length),
    )
    expected = 4 * (mean - mean.mean(dim=0)) / mean.std(dim=0)
    torch.testing.assert_close(read[0], expected[:1], atol=1e-3, rtol=1e-3)
