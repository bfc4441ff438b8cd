"""The checkpoint that ships does not get worse unnoticed: floors of accuracy on fixed samples."""

import numpy as np
import pytest

from model import Predictor, load_predictor, open_checkpoint
from tests.documentation.markdown import ROOT
from tests.shared_data import shared_file
from training.data.dataset import read_dataset
from training.measure.inference import predict_probabilities

# Far enough below what was measured on the whole sets that another processor passes too.
FLOORS = {"sst/dev": 0.85, "uci/amazon": 0.90, "uci/imdb": 0.90, "uci/yelp": 0.88}
SAMPLE = 200


@pytest.fixture(scope="module")
def predictor() -> Predictor:
    checkpoint = open_checkpoint(ROOT / "checkpoints" / "default")
    return load_predictor(checkpoint, device="cpu", dtype="float32")


@pytest.mark.parametrize("name", FLOORS)
def test_a_sample_of_a_public_set_is_above_its_floor(predictor: Predictor, name: str) -> None:
    dataset = read_dataset([shared_file(f"{name}.tsv.gz")]).take(range(SAMPLE))
    values = predict_probabilities(predictor, dataset.texts).values
    # The sets have two classes: which of these is more probable?
    indices = [predictor.info.labels.index(label) for label in dataset.labels]
    accuracy = float((values[:, indices].argmax(axis=1) == np.array(dataset.label_ids)).mean())
    assert accuracy >= FLOORS[name]
