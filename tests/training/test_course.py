"""`headlight-train fit --preset course`: as the course trains, here on three classes."""

from pathlib import Path

import pytest

from model import ConvAttentionConfig, load_predictor, open_checkpoint
from tests.training.tiny_runs import read_history, write_sentences
from training.__main__ import main


def test_ten_epochs_at_one_rate_and_the_last_weights(tmp_path: Path) -> None:
    labels = ("negative", "neutral", "positive")
    rows = write_sentences(tmp_path / "rows.tsv", rows=320, labels=labels)
    command = ["fit", str(rows), "--preset", "course", "--output", str(tmp_path / "out")]

    # The rate of the preset needs more rows.
    assert main([*command, "--learning-rate", "1e-2", "--threads", "1"]) == 0

    checkpoint = open_checkpoint(tmp_path / "out")
    predictor = load_predictor(checkpoint, device="cpu", dtype="float32")
    assert isinstance(checkpoint.config, ConvAttentionConfig)
    assert predictor.info.parameters == 324_971
    recipe = checkpoint.manifest.recipe
    assert recipe["conv_attention"]["num_words"] == 1000
    assert (recipe["validation_split"], recipe["keep"]) == ("last", "last")
    assert recipe["embedding_l2"] == 0.001
    (answer,) = predictor.predict([predictor.encode("the film was dull")])
    assert predictor.info.labels == labels == tuple(answer.probabilities)
    history = read_history(tmp_path / "out.run")
    steps = [(number, 4 * number) for number in range(1, 11)]  # batches of 64
    assert [(point.epoch, point.step) for point in history] == steps
    assert {point.learning_rate for point in history} == {0.01}
    (metric,) = checkpoint.manifest.metrics
    assert metric.rows == 64
    assert metric.accuracy == pytest.approx(history[-1].validation_accuracy, abs=1 / 64)
    assert metric.accuracy > 0.6  # guessing is right for a third
