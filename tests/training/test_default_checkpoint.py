"""The checkpoint that ships does not get worse unnoticed: floors of accuracy on fixed samples."""

import numpy as np
import pytest
import torch

from model import Predictor, load_predictor, open_checkpoint
from tests.documentation.markdown import ROOT
from tests.shared_data import shared_file
from training.data.dataset import read_dataset
from training.measure.inference import predict_probabilities

# Far enough below what was measured on the whole sets that another processor passes too.
FLOORS = {"sst/dev": 0.85, "uci/amazon": 0.90, "uci/imdb": 0.90, "uci/yelp": 0.88}
SAMPLE = 200
GOOD = (
    "The staff went out of their way to help us, what a lovely stay.",
    "Battery lasts two days and the screen is gorgeous.",
    "I laughed from the first scene to the last.",
    "Best soup in town, and the waiter remembered our names.",
    "A smart, moving and beautifully acted drama.",
    "Works perfectly, arrived early, great value.",
    "I love this book and will read it again.",
    "Wonderful concert, the band was fantastic!",
    "Easy to set up and very reliable.",
    "The view is amazing and the room was spotless.",
)
BAD = (
    "The staff was rude and the room smelled awful.",
    "Broke after two days and nobody answers my mails.",
    "A dull, lifeless film that wastes a good cast.",
    "Cold soup, dirty tables, terrible service.",
    "I want my money back, what a disappointment.",
    "The worst flight I have ever been on.",
    "Boring from the first page to the last.",
    "Poor sound and a cheap, ugly design.",
    "Do not buy this, it is a complete waste of money.",
    "The app crashes all the time and support is useless.",
)


@pytest.fixture(scope="module")
def predictor() -> Predictor:
    checkpoint = open_checkpoint(ROOT / "checkpoints" / "default")
    return load_predictor(checkpoint, device=torch.device("cpu"), dtype=torch.float32)


def positive(predictor: Predictor, texts: tuple[str, ...]) -> list[bool]:
    values = predict_probabilities(predictor, texts).values
    return [bool(row[1] > row[0]) for row in values]


def test_plain_sentences_of_many_kinds_are_right(predictor: Predictor) -> None:
    right = sum(positive(predictor, GOOD)) + sum(not it for it in positive(predictor, BAD))

    assert right >= 18


@pytest.mark.parametrize("name", FLOORS)
def test_a_sample_of_a_public_set_is_above_its_floor(predictor: Predictor, name: str) -> None:
    dataset = read_dataset([shared_file(f"{name}.tsv.gz")]).take(range(SAMPLE))

    values = predict_probabilities(predictor, dataset.texts).values

    accuracy = float((values.argmax(axis=1) == np.array(dataset.label_ids)).mean())
    assert accuracy >= FLOORS[name]
