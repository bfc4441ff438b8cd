"""Derivatives: against differences in float64, lazily and from several threads."""

import math
import os
import shutil
import subprocess
import sys
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch

from model.backends.cpu_packed import can_pack
from model.checkpoint.opening import Checkpoint, open_checkpoint
from model.loading import load_predictor
from model.network.batch import Batch
from model.predictor import Predictor
from model.tokenization.tokenizer import Encoding
from tests.builders import (
    tiny_checkpoint,
    tiny_conv_checkpoint,
    tiny_manifest,
    tiny_network,
)
from tests.matching import exactly
from tests.model.derivatives import log_odds_of, slopes, slopes_by_head

CPU = torch.device("cpu")
TEMPERATURE = 1.5
TEXTS = ["A superb film.", "bad", "The plot is slow, but!"]
KINDS = ["encoder", "conv", "conv without a mask"]


def load(folder: Path, dtype: torch.dtype = torch.float32) -> Predictor:
    return load_predictor(open_checkpoint(folder), device=CPU, dtype=dtype)


@pytest.fixture(scope="module", params=KINDS)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of each kind of network."""
    path = tmp_path_factory.mktemp("gradients") / "tiny"
    if request.param == "encoder":
        return tiny_checkpoint(path)
    return tiny_conv_checkpoint(path, mask_padding=request.param == "conv")


@pytest.mark.parametrize("label", ["negative", "positive"])
@pytest.mark.parametrize("text", TEXTS)
def test_the_gradient_is_that_of_the_calibrated_log_odds(
    folder: Path, text: str, label: str
) -> None:
    predictor = load(folder)
    encoding = predictor.encode(text, with_tokens=True)
    ends = predictor.gradients.ends(encoding, label=label)

    log_odds = log_odds_of(
        open_checkpoint(folder).load_network(), ["negative", "positive"].index(label), TEMPERATURE
    )
    way = (ends.text - ends.baseline).double()
    for place in (0.1, 0.6, 1.0):
        at = ends.baseline.double() + place * way
        found = predictor.gradients.along(ends, np.array([place]), np.ones(1))
        np.testing.assert_allclose(found, slopes(log_odds, at, way), rtol=1e-4, atol=1e-5)
    assert ends.value == pytest.approx(log_odds(ends.text.double()[None]).item(), abs=1e-5)
    baseline_value = log_odds(ends.baseline.double()[None]).item()
    assert ends.baseline_value == pytest.approx(baseline_value, abs=1e-5)


def test_the_baseline_is_padding_but_for_special_tokens(checkpoint_folder: Path) -> None:
    predictor = load(checkpoint_folder)
    encoding = predictor.encode("A superb film.", with_tokens=True)
    table = tiny_network().embeddings.tokens.weight

    ends = predictor.gradients.ends(encoding)

    assert torch.equal(ends.text, table[encoding.input_ids])
    expected = table[[encoding.input_ids[0], 0, 0, 0, 0, encoding.input_ids[-1]]]
    assert torch.equal(ends.baseline, expected)


@pytest.mark.parametrize("text", TEXTS)
def test_the_importance_of_heads_is_how_the_log_odds_change_with_them(
    folder: Path, text: str
) -> None:
    predictor = load(folder)
    encoding = predictor.encode(text, with_tokens=True)

    found = predictor.gradients.head_importance(encoding, label="positive")

    network = open_checkpoint(folder).load_network()
    embeddings = predictor.gradients.ends(encoding).text.double()
    expected = np.abs(slopes_by_head(network, log_odds_of(network, 1, TEMPERATURE), embeddings))
    assert found.importance.dtype == np.float64
    assert found.importance.shape == (predictor.info.num_layers, predictor.info.num_heads)
    np.testing.assert_allclose(found.importance, expected, rtol=1e-4, atol=1e-5)
    assert expected.max() > 0.01  # else anything small would do


def test_the_log_odds_are_those_of_the_prediction_and_of_its_label_by_default(
    folder: Path,
) -> None:
    predictor = load(folder)
    for text in TEXTS:
        encoding = predictor.encode(text, with_tokens=True)
        (served,) = predictor.predict([encoding])
        ends = predictor.gradients.ends(encoding)
        importance = predictor.gradients.head_importance(encoding)

        for prediction in (ends.prediction, importance.prediction):
            assert prediction.probabilities == pytest.approx(served.probabilities, abs=1e-5)
            assert prediction.token_count == served.token_count
        assert ends.label == importance.label == served.label
        p = served.score
        assert ends.value == pytest.approx(math.log(p / (1 - p)), abs=1e-3)


@pytest.mark.parametrize("text", TEXTS)
def test_one_pass_at_the_text_is_the_path_at_its_end(folder: Path, text: str) -> None:
    predictor = load(folder)
    encoding = predictor.encode(text, with_tokens=True)
    ends = predictor.gradients.ends(encoding, label="negative")

    found, shares = predictor.gradients.at_text(encoding, label="negative")

    assert (found.value, found.baseline_value) == (ends.value, ends.baseline_value)
    assert (found.prediction, found.label) == (ends.prediction, "negative")
    along = predictor.gradients.along(ends, np.ones(1), np.ones(1))
    np.testing.assert_allclose(shares, along, rtol=1e-5, atol=1e-7)
    assert predictor.gradients.at_text(encoding)[0].label == ends.prediction.label


def test_a_baseline_is_computed_once_for_each_length(
    checkpoint_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    predictor = load(checkpoint_folder)
    gradients, encode = predictor.gradients, predictor.encode
    passes: list[int] = []
    batch = gradients._batch

    def counted(encoding: Encoding, size: int) -> Batch:
        passes.append(size)
        return batch(encoding, size)

    monkeypatch.setattr(gradients, "_batch", counted)
    monkeypatch.setattr("model.explain.gradients._MOST_BASELINES", 2)

    def baseline(text: str) -> float:
        passes.clear()
        return gradients.ends(encode(text, with_tokens=True), label="negative").baseline_value

    first = baseline("good film")
    assert passes == [1, 1]
    assert baseline("bad plot") == first
    assert passes == [1]
    for text in ("good", "a good film"):
        baseline(text)
        assert passes == [1, 1]
    assert baseline("good film") == first  # the oldest was dropped
    assert passes == [1, 1]


def test_where_a_model_is_sure_the_log_odds_are_still_a_number(tmp_path: Path) -> None:
    manifest = tiny_manifest(temperature=0.001)
    predictor = load(tiny_checkpoint(tmp_path / "tiny", manifest=manifest))
    encoding = predictor.encode("A superb film.", with_tokens=True)

    ends = predictor.gradients.ends(encoding)

    assert ends.prediction.score == pytest.approx(1.0, abs=1e-12)
    assert 100 < ends.value < 1e5
    shares = predictor.gradients.along(ends, np.ones(1), np.ones(1))
    assert np.isfinite(shares).all()
    assert np.abs(shares).max() > 1


def test_a_text_of_which_nothing_is_left(tmp_path: Path) -> None:
    predictor = load(tiny_conv_checkpoint(tmp_path / "conv"))
    encoding = predictor.encode("!!!", with_tokens=True)
    ends = predictor.gradients.ends(encoding)

    assert ends.value == pytest.approx(ends.baseline_value, abs=1e-6)
    assert predictor.gradients.along(ends, np.ones(1), np.ones(1)).tolist() == [0.0]


def test_a_label_that_is_not_there(checkpoint_folder: Path) -> None:
    gradients = load(checkpoint_folder).gradients
    encoding = load(checkpoint_folder).encode("good", with_tokens=True)
    message = exactly("label 'fair' does not exist: the model has negative, positive")

    with pytest.raises(ValueError, match=message):
        gradients.ends(encoding, label="fair")
    with pytest.raises(ValueError, match=message):
        gradients.head_importance(encoding, label="fair")


def test_tokens_are_needed_to_know_the_baseline(checkpoint_folder: Path) -> None:
    predictor = load(checkpoint_folder)

    with pytest.raises(ValueError, match="encode with with_tokens=True"):
        predictor.gradients.ends(predictor.encode("good"))
    assert predictor.gradients.head_importance(predictor.encode("good")).label


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_weights_are_read_once(tmp_path: Path, dtype: torch.dtype) -> None:
    folder = tiny_checkpoint(tmp_path / "tiny")
    read = Checkpoint.load_network
    with mock.patch.object(Checkpoint, "load_network", autospec=True, side_effect=read) as reads:
        predictor = load(folder, dtype)
    shutil.rmtree(folder)
    encoding = predictor.encode("good film", with_tokens=True)

    predictor.predict([encoding])
    predictor.gradients.ends(encoding)
    predictor.gradients.head_importance(encoding)
    assert reads.call_count == 1


def test_it_computes_in_float32_whatever_is_served(tmp_path: Path) -> None:
    folder = tiny_checkpoint(tmp_path / "tiny", dtype=torch.bfloat16)
    answers = []
    for dtype in (torch.float32, torch.bfloat16):
        predictor = load(folder, dtype)
        encoding = predictor.encode("A superb film.", with_tokens=True)
        ends = predictor.gradients.ends(encoding)
        answers.append(
            (ends.value, predictor.gradients.head_importance(encoding).importance.tolist())
        )
        with predictor.gradients._network.use() as network:
            kinds = {
                parameter.dtype
                for name, parameter in network.named_parameters()
                if name != "embeddings.tokens.weight"
            }
        assert kinds == {torch.float32}
    assert answers[0] == answers[1]


def test_nothing_of_it_stays_behind(checkpoint_folder: Path) -> None:
    predictor = load(checkpoint_folder)
    encoding = predictor.encode("good film", with_tokens=True)
    before = predictor.gradients.head_importance(encoding).importance
    ends = predictor.gradients.ends(encoding)
    predictor.gradients.along(ends, np.array([0.5]), np.ones(1))

    with predictor.gradients._network.use() as network:
        assert all(
            parameter.grad is None and not parameter.requires_grad
            for parameter in network.parameters()
        )
    assert not ends.text.requires_grad
    np.testing.assert_array_equal(predictor.gradients.head_importance(encoding).importance, before)


PROGRAM = """
import sys
from pathlib import Path
import torch
from model import attribute, load_predictor, open_checkpoint
from model.backends import device
device.can_run = lambda *_: False  # oneDNN shall predict, so that it has something to tell
predictor = load_predictor(
    open_checkpoint(Path(sys.argv[1])), device=torch.device("cpu"), dtype=torch.float32
)
encoding = predictor.encode("a good film", with_tokens=True)
predictor.predict([encoding])
print("from here on", flush=True)
attribute(predictor.gradients, encoding, steps=3)
predictor.gradients.head_importance(encoding)
"""


@pytest.mark.skipif(not can_pack(CPU, torch.float32), reason="torch has no oneDNN here")
def test_nothing_is_kept_for_each_size(checkpoint_folder: Path) -> None:
    """oneDNN makes and keeps code for each size that it meets; it tells what it runs."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(checkpoint_folder)],
        cwd=Path(__file__).parents[3],
        env={**os.environ, "ONEDNN_VERBOSE": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    before, after = done.stdout.split("from here on")
    assert "primitive,exec" in before
    assert "primitive,exec" not in after
