"""`headlight-train fit --preset course`: as the course trains, and served like any other."""

from pathlib import Path

import pytest
import torch

from model import ConvAttentionConfig, load_predictor, open_checkpoint
from tests.training.tiny_runs import Refusal, write_sentences
from training.__main__ import main
from training.measure.history import read_history

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("course")
    rows = write_sentences(folder / "rows.tsv", rows=320)
    command = ["fit", str(rows), "--preset", "course", "--output", str(folder / "out")]
    assert main(command) == 0
    return folder


def test_the_checkpoint_is_the_network_of_the_course(fitted: Path) -> None:
    checkpoint = open_checkpoint(fitted / "out")
    predictor = load_predictor(checkpoint, device=CPU, dtype=torch.float32)

    assert isinstance(checkpoint.config, ConvAttentionConfig)
    assert predictor.info.architecture == "ConvAttentionClassifier"
    assert predictor.info.parameters == 318_569
    assert (predictor.info.num_layers, predictor.info.num_heads) == (1, 4)
    assert predictor.info.max_length == 32
    assert predictor.info.hidden_size == 100
    recipe = checkpoint.manifest.recipe
    assert recipe["conv_attention"]["num_words"] == 1000
    assert (recipe["hold_out"], recipe["keep"], recipe["embedding_l2"]) == ("last", "last", 0.001)


def test_it_runs_ten_epochs_at_one_rate_and_keeps_the_last_weights(fitted: Path) -> None:
    history = read_history(fitted / "out.run" / "history.jsonl")
    (metric,) = open_checkpoint(fitted / "out").manifest.metrics

    steps = [(number, 4 * number) for number in range(1, 11)]  # batches of 64
    assert [(point.epoch, point.step) for point in history] == steps
    assert {point.learning_rate for point in history} == {0.001}
    assert metric.rows == 64
    assert metric.accuracy == pytest.approx(history[-1].validation_accuracy, abs=1 / 64)


def test_three_classes_are_learnt(fitted: Path) -> None:
    labels = ("negative", "neutral", "positive")
    rows = write_sentences(fitted / "three.tsv", rows=600, labels=labels)
    output = fitted / "three"
    options = ("--epochs", "10", "--learning-rate", "1e-2")

    assert main(["fit", str(rows), "--preset", "course", "--output", str(output), *options]) == 0

    checkpoint = open_checkpoint(output)
    predictor = load_predictor(checkpoint, device=CPU, dtype=torch.float32)
    (answer,) = predictor.predict([predictor.encode("the film was dull")])
    (validation,) = checkpoint.manifest.metrics
    assert predictor.info.labels == labels == tuple(answer.probabilities)
    assert validation.accuracy > 0.6  # guessing is right for a third


def test_what_the_network_cannot_do_is_refused(fitted: Path, refusal: Refusal) -> None:
    rows = fitted / "rows.tsv"
    command = ["fit", str(rows), "--preset", "course", "--output", str(fitted / "refused")]

    assert refusal([*command, "--init-from", "x"]) == (
        "the course's classifier is trained from scratch: leave out --init-from, or choose another "
        "preset"
    )
