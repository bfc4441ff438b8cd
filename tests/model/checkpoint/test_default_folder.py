"""The folder that ships is read by transformers too, and fits into a repository and an image."""

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from model.checkpoint.opening import open_checkpoint
from model.network.batch import collate
from tests.model.parity import ask

FOLDER = Path(__file__).parents[3] / "checkpoints" / "default"
TEXTS = [
    "The plot drags, but the cast is superb.",
    "I don't think, given the price, that it was bad \N{FACE WITH TEARS OF JOY} \N{PILE OF POO}!",
    "Café 中文 İstanbul\u200b\x00\u3000x",
    "It isn't good. " * 200,
]


@pytest.fixture(scope="module")
def sources() -> tuple[object, object]:
    theirs = AutoModelForSequenceClassification.from_pretrained(
        FOLDER, attn_implementation="eager", dtype=torch.float32
    ).eval()
    return theirs, AutoTokenizer.from_pretrained(FOLDER)


def test_transformers_gives_the_same_logits_and_weights(sources: tuple[object, object]) -> None:
    theirs, their_tokenizer = sources
    checkpoint = open_checkpoint(FOLDER)
    encodings = [checkpoint.tokenizer.encode(text) for text in TEXTS]

    ids = their_tokenizer(TEXTS, truncation=True)["input_ids"]  # type: ignore[operator]
    assert ids == [encoding.input_ids for encoding in encodings]
    for encoding in encodings:
        batch = collate([encoding], pad_token_id=checkpoint.tokenizer.pad_token_id)
        logits, attentions = ask(theirs, batch)
        with torch.inference_mode():
            ours = checkpoint.load_network()(batch, need_weights=True)
        torch.testing.assert_close(ours.logits, logits, rtol=0, atol=1e-4)
        for our_weights, their_weights in zip(ours.attention_weights, attentions, strict=True):
            torch.testing.assert_close(our_weights, their_weights, rtol=0, atol=1e-4)


def test_it_is_at_most_50_megabytes() -> None:
    sizes = {path.name: path.stat().st_size for path in FOLDER.iterdir()}

    assert sum(sizes.values()) <= 50_000_000, sizes
