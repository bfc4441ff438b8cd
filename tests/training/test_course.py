"""`headlight-train fit --preset course`: as the course trains, and served like any other."""

from pathlib import Path

import pytest
import torch

from model import ConvAttentionConfig, load_predictor, open_checkpoint
from tests.training.tiny_runs import read_history, write_sentences
from training.__main__ import main

CPU = torch.device("cpu")


LABELS = ("negative", "neutral", "positive")


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run on three classes, at a rate that learns them from few rows."""
    folder = tmp_path_factory.mktemp("course")
    rows = write_sentences(folder / "rows.tsv", rows=320, labels=LABELS)
    command = ["fit", str(rows), "--preset", "course", "--output", str(folder / "out")]
    assert main([*command, "--learning-rate", "1e-2", "--threads", "1"]) == 0
    return folder


def test_the_checkpoint_is_the_network_of_the_course(fitted: Path) -> None:
    checkpoint = open_checkpoint(fitted / "out")
    predictor = load_predictor(checkpoint, device=CPU, dtype=torch.float32)

    assert isinstance(checkpoint.config, ConvAttentionConfig)
    assert predictor.info.architecture == "ConvAttentionClassifier"
    assert predictor.info.parameters == 324_971
    assert (predictor.info.num_layers, predictor.info.num_heads) == (1, 4)
    assert predictor.info.max_length == 32
    assert predictor.info.hidden_size == 100
    recipe = checkpoint.manifest.recipe
    assert recipe["conv_attention"]["num_words"] == 1000
    assert (recipe["hold_out"], recipe["keep"], recipe["embedding_l2"]) == ("last", "last", 0.001)
    (answer,) = predictor.predict([predictor.encode("the film was dull")])
    assert predictor.info.labels == LABELS == tuple(answer.probabilities)


def test_it_runs_ten_epochs_at_one_rate_and_keeps_the_last_weights(fitted: Path) -> None:
    history = read_history(fitted / "out.run")
    (metric,) = open_checkpoint(fitted / "out").manifest.metrics

    steps = [(number, 4 * number) for number in range(1, 11)]  # batches of 64
    assert [(point.epoch, point.step) for point in history] == steps
    assert {point.learning_rate for point in history} == {0.01}
    assert metric.rows == 64
    assert metric.accuracy == pytest.approx(history[-1].validation_accuracy, abs=1 / 64)
    assert metric.accuracy > 0.6  # guessing is right for a third
