"""The loop by itself: dropping tokens, stopping early, averaging."""

from pathlib import Path

import pytest
import torch

from model.tokenizer import Tokenizer
from tests.builders import tiny_network, tiny_tokenizer
from training.fit import Fitting, Rows
from training.inference import predict_logits
from training.recipe import Recipe

GOOD = ["good film", "great cast", "a warm plot", "superb", "funny movie", "love it"]
BAD = ["bad film", "poor cast", "a cold plot", "boring", "dull movie", "weak"]


def rows(tokenizer: Tokenizer) -> Rows:
    """A dozen texts of two classes."""
    return Rows([tokenizer.encode(text) for text in (*GOOD, *BAD)], [1] * 6 + [0] * 6)


def fitting(folder: Path, **changes: object) -> Fitting:
    """A run over a dozen texts."""
    content = {"batch_size": 4, "epochs": 3, "learning_rate": 1e-2, "dropout": 0.0, **changes}
    tokenizer = tiny_tokenizer()
    known = rows(tokenizer)
    return Fitting(
        tiny_network().train(),
        tokenizer,
        Recipe.model_validate(content),
        training=known,
        validation=known,
        device=torch.device("cpu"),
        bfloat16=False,
        state=folder / "state",
        identity={},
    )


def test_dropped_tokens_are_read_as_unknown_and_never_special_ones(tmp_path: Path) -> None:
    everything = fitting(tmp_path, token_dropout=0.999)
    tokenizer = tiny_tokenizer()
    torch.manual_seed(0)
    batch = everything._collate([2, 3])  # a warm plot; superb
    unknown, start, end, padding = (
        tokenizer.token_id(token) for token in ("[UNK]", "[CLS]", "[SEP]", "[PAD]")
    )
    assert batch.input_ids.tolist() == [
        [start, unknown, unknown, unknown, end],
        [start, unknown, end, padding, padding],
    ]


def test_without_dropping_the_texts_stay(tmp_path: Path) -> None:
    tokenizer = tiny_tokenizer()
    batch = fitting(tmp_path)._collate([2])
    assert batch.input_ids.tolist() == [tokenizer.encode("a warm plot").input_ids]


@pytest.mark.parametrize("average_decay", [0.0, 0.5])
def test_the_best_epoch_is_kept_and_patience_ends_the_run(
    tmp_path: Path, average_decay: float
) -> None:
    """So high a rate ruins what the first epochs learnt."""
    run = fitting(
        tmp_path,
        epochs=40,
        patience=2,
        learning_rate=0.5,
        warmup_share=0.5,
        average_decay=average_decay,
    )
    history = run.run(save_every=1000, stop=lambda: None, record=lambda _: None)
    losses = [measurement.validation_loss for measurement in history]
    best = losses.index(min(losses))
    assert len(history) == best + 1 + 2 < 40
    kept = predict_logits(
        run._network, run._validation.encodings, pad_token_id=0, device=torch.device("cpu")
    )
    logits = torch.from_numpy(kept).double()
    truth = torch.tensor([1] * 6 + [0] * 6)
    loss = torch.nn.functional.cross_entropy(logits, truth)
    assert float(loss) == pytest.approx(losses[best], abs=1e-6)


def test_a_dozen_texts_are_learnt(tmp_path: Path) -> None:
    run = fitting(tmp_path, epochs=30, patience=30)
    history = run.run(save_every=1000, stop=lambda: None, record=lambda _: None)
    assert history[-1].validation_accuracy == 1.0
    assert history[-1].training_loss < history[0].training_loss
    assert [measurement.step for measurement in history] == list(range(3, 93, 3))
