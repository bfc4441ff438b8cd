"""Checkpoint folders of the course's classifier: written, read, refused when they do not fit."""

from pathlib import Path

import pytest
import torch

from model import load_predictor, open_checkpoint
from model.errors import CheckpointError
from model.files import CONFIG, MANIFEST, WEIGHTS
from tests.builders import tiny_conv_checkpoint, tiny_conv_config, tiny_conv_network
from tests.matching import exactly
from tests.model.folders import edit

CPU = torch.device("cpu")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tiny_conv_checkpoint(tmp_path / "conv")


@pytest.mark.parametrize("mask_padding", [True, False])
def test_what_is_written_is_read(tmp_path: Path, mask_padding: bool) -> None:
    path = tiny_conv_checkpoint(tmp_path / "conv", mask_padding=mask_padding)

    checkpoint = open_checkpoint(path)
    network = checkpoint.load_network()

    assert checkpoint.config == tiny_conv_config(mask_padding=mask_padding)
    expected = tiny_conv_network(checkpoint.config).state_dict()
    assert network.state_dict().keys() == expected.keys()
    assert all(torch.equal(weight, expected[name]) for name, weight in network.state_dict().items())


def test_the_predictor_answers_in_both_forms(tmp_path: Path) -> None:
    lengths = []
    for mask_padding in (True, False):
        path = tiny_conv_checkpoint(tmp_path / f"conv{mask_padding}", mask_padding=mask_padding)
        predictor = load_predictor(open_checkpoint(path), device=CPU, dtype=torch.float32)
        predictor.warm_up()
        encoding = predictor.encode("a good film", with_tokens=True)
        explanation = predictor.explain(encoding)
        (prediction,) = predictor.predict([encoding])
        assert explanation.prediction.score == pytest.approx(prediction.score, abs=1e-5)
        lengths.append(explanation.attention.shape)
        assert explanation.residual_share == 0.0

    assert lengths == [(1, 2, 3, 3), (1, 2, 8, 8)]


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"num_heads": 3}, "attention.query.weight has shape (8, 8), config.json asks for (12, 8)"),
        ({"num_filters": 0}, "num_filters: must be at least 1 (got 0)"),
        ({"mask_padding": "no"}, "mask_padding: must be true or false (got 'no')"),
        (
            {"id2label": {"0": "a", "1": "b", "2": "c"}},
            "classifier.weight has shape (1, 64), config.json asks for (3, 64)",
        ),
    ],
)
def test_sizes_that_do_not_fit_are_refused(
    folder: Path, changes: dict[str, object], fault: str
) -> None:
    (folder / MANIFEST).unlink()
    edit(folder / CONFIG, **changes, transformers_version="5.0.0")
    place = folder / (WEIGHTS if "has shape" in fault else CONFIG)

    with pytest.raises(CheckpointError, match=exactly(f"{place}: {fault}")):
        open_checkpoint(folder)
