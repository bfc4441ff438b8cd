"""The network that teaches: masks, positions and pooling, against transformers' own."""

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import MPNetModel

from model.errors import CheckpointError
from model.types import Batch
from recipes.mpnet import MPNetClassifier, load_mpnet
from tests.builders import VOCABULARY
from tests.matching import exactly
from tests.model.folders import edit
from tests.recipes.tiny_mpnet import tiny_mpnet, write_mpnet


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_mpnet(tmp_path_factory.mktemp("mpnet"))


@pytest.fixture(scope="module")
def ours(folder: Path) -> MPNetClassifier:
    return load_mpnet(folder, num_labels=3, dropout=0.1, attention_dropout=0.0, seed=0).eval()


@pytest.fixture(scope="module")
def theirs() -> MPNetModel:
    return tiny_mpnet()


@given(lengths=st.lists(st.integers(1, 12), min_size=1, max_size=4), seed=st.integers(0, 1000))
def test_same_as_transformers(
    ours: MPNetClassifier, theirs: MPNetModel, lengths: list[int], seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    input_ids = torch.randint(2, len(VOCABULARY), (len(lengths), max(lengths)), generator=generator)
    padding = torch.arange(max(lengths)) >= torch.tensor(lengths).unsqueeze(1)
    input_ids = input_ids.masked_fill(padding, 1)
    with torch.no_grad():
        found = ours(Batch(input_ids, padding)).logits
        states = theirs(input_ids, attention_mask=(~padding).long()).last_hidden_state
        kept = (~padding).unsqueeze(-1)
        expected = ours.classifier((states * kept).sum(dim=1) / kept.sum(dim=1))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
    if not padding.any():
        with torch.no_grad():
            torch.testing.assert_close(ours(Batch(input_ids, None)).logits, found)


def test_weights_are_not_offered(ours: MPNetClassifier) -> None:
    with pytest.raises(NotImplementedError, match="no attention weights"):
        ours(Batch(torch.tensor([[2, 3]]), None), need_weights=True)


def test_another_network_is_refused(tmp_path: Path) -> None:
    other = write_mpnet(tmp_path / "other")
    edit(other / "config.json", model_type="bert")
    message = f"{other / 'config.json'}: model_type is 'bert', must be 'mpnet'"
    with pytest.raises(CheckpointError, match=exactly(message)):
        load_mpnet(other, num_labels=2, dropout=0.0, attention_dropout=0.0, seed=0)


def test_missing_weights_are_named(tmp_path: Path) -> None:
    other = write_mpnet(tmp_path / "other")
    edit(other / "config.json", num_hidden_layers=3)
    message = r"lacks encoder\.layer\.2\.attention\.LayerNorm\.bias, "
    with pytest.raises(CheckpointError, match=message):
        load_mpnet(other, num_labels=2, dropout=0.0, attention_dropout=0.0, seed=0)
