"""Derivatives and attributions: against differences in float64, lazily and from several threads."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import Mock, patch

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from model.backends.cpu_kernels import KernelBackend
from model.backends.eager import CpuBackend
from model.backends.kernels import choose_set
from model.checkpoint.opening import open_checkpoint
from model.explain.attribution import Attributor, attribute
from model.loading import load_on as load_for
from model.loading import load_predictor
from model.network.config import EncoderConfig
from model.predictor import Predictor
from model.types import Batch, Encoding
from tests.builders import (
    MAX_LENGTH,
    WORDS,
    tiny_checkpoint,
    tiny_config,
    tiny_conv_checkpoint,
    tiny_manifest,
    tiny_network,
)
from tests.matching import exactly

Function = Callable[..., Tensor]
_EPSILON = 1e-5


def log_odds_of(folder: Path, text: Encoding, label: int) -> Function:
    """f in float64: of rows of token embeddings [N, T, D], and of factors of the heads [L, H]."""
    network = open_checkpoint(folder).load_network().double()

    def log_odds(embeddings: Tensor, heads: Tensor | None = None) -> Tensor:
        batch = Batch(torch.tensor([text.input_ids] * len(embeddings)), None)
        # The networks round to float32, in which differences are too rough.
        with torch.no_grad(), patch.object(Tensor, "float", lambda number: number):
            logits = network(batch, token_embeddings=embeddings, head_mask=heads).logits
            p = (logits / TEMPERATURE).softmax(dim=-1)[:, label]  # [N]
            return torch.log(p / (1 - p))

    return log_odds


def slopes(log_odds: Function, at: Tensor, way: Tensor) -> NDArray[np.float64]:
    """How f changes as each token alone goes its way, [T]; central differences."""
    moves = torch.diag_embed(torch.ones(len(at), dtype=torch.float64))[..., None] * way  # [T, T, D]
    up, down = log_odds(at + _EPSILON * moves), log_odds(at - _EPSILON * moves)
    result: NDArray[np.float64] = ((up - down) / (2 * _EPSILON)).numpy()
    return result


def slopes_by_head(log_odds: Function, at: Tensor, shape: tuple[int, int]) -> NDArray[np.float64]:
    """How f changes with the output of each head, [L, H]."""
    result = np.zeros(shape)
    for layer, head in np.ndindex(shape):
        heads = torch.ones(2, *shape, dtype=torch.float64)
        heads[:, layer, head] += torch.tensor([_EPSILON, -_EPSILON])
        up, down = (log_odds(at[None], each).item() for each in heads)
        result[layer, head] = (up - down) / (2 * _EPSILON)
    return result


TEMPERATURE = 1.5
TEXTS = ["A superb film.", "The plot is slow, but!"]
KINDS = ["encoder", "three classes", "conv", "conv without a mask"]
THREE = ("negative", "neutral", "positive")


def load(folder: Path, dtype: torch.dtype = torch.float32) -> Predictor:
    return load_predictor(open_checkpoint(folder), device="cpu", dtype=dtype)


@pytest.fixture(scope="module", params=KINDS)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("gradients") / "tiny"
    if request.param == "encoder":
        return tiny_checkpoint(path)
    if request.param == "three classes":
        config, manifest = tiny_config(labels=THREE), tiny_manifest(labels=THREE)
        return tiny_checkpoint(path, config=config, manifest=manifest)
    return tiny_conv_checkpoint(path, mask_padding=request.param == "conv")


@pytest.mark.parametrize("text", TEXTS)
def test_the_gradient_is_that_of_the_calibrated_log_odds(folder: Path, text: str) -> None:
    predictor = load(folder)
    encoding = predictor.encode(text, with_tokens=True)
    for index, label in enumerate(open_checkpoint(folder).manifest.labels):
        ends = predictor.gradients.ends(encoding, label=label)
        log_odds = log_odds_of(folder, encoding, index)
        way = (ends.text - ends.baseline).double()
        for place in (0.1, 0.6, 1.0):
            at = ends.baseline.double() + place * way
            found = predictor.gradients.along(ends, np.array([place]), np.ones(1))
            np.testing.assert_allclose(found, slopes(log_odds, at, way), rtol=1e-4, atol=1e-5)
        for value, embeddings in ((ends.value, ends.text), (ends.baseline_value, ends.baseline)):
            assert value == pytest.approx(log_odds(embeddings.double()[None]).item(), abs=1e-5)
    # One pass at the text is the path at its end.
    at_text, shares = predictor.gradients.at_text(encoding, label="positive")
    assert (at_text.value, at_text.baseline_value) == (ends.value, ends.baseline_value)
    assert (at_text.prediction, at_text.label) == (ends.prediction, "positive")
    np.testing.assert_allclose(shares, found, rtol=1e-5, atol=1e-7)


def test_the_baseline_is_padding_but_for_special_tokens(predictor: Predictor) -> None:
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
    embeddings = predictor.gradients.ends(encoding).text.double()
    shape = predictor.info.num_layers, predictor.info.num_heads
    positive = open_checkpoint(folder).manifest.labels.index("positive")
    expected = np.abs(slopes_by_head(log_odds_of(folder, encoding, positive), embeddings, shape))
    assert found.importance.dtype == np.float64
    np.testing.assert_allclose(found.importance, expected, rtol=1e-4, atol=1e-5)
    assert expected.max() > 0.01  # else anything small would do


def test_by_default_it_is_of_the_served_prediction_and_its_label(folder: Path) -> None:
    predictor = load(folder)
    encoding = predictor.encode(TEXTS[0], with_tokens=True)
    (served,) = predictor.predict([encoding])
    ends = predictor.gradients.ends(encoding)
    importance = predictor.gradients.head_importance(encoding)
    explanation = predictor.explain(encoding)
    is_encoder = isinstance(open_checkpoint(folder).config, EncoderConfig)
    assert explanation.residual_share == (0.5 if is_encoder else 0.0)
    for prediction in (ends.prediction, importance.prediction, explanation.prediction):
        assert prediction.probabilities == pytest.approx(served.probabilities, abs=1e-5)
        assert prediction.token_count == served.token_count
    assert ends.label == importance.label == served.label


def test_a_baseline_is_computed_once_for_each_length(
    checkpoint_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    predictor = load(checkpoint_folder)
    monkeypatch.setattr("model.explain.gradients._MOST_BASELINES", 2)
    passes = Mock(wraps=predictor.gradients._batch)
    monkeypatch.setattr(predictor.gradients, "_batch", passes)
    values = []
    # The second has the length of the first, which the fourth drops: the oldest.
    texts = {"good film": 2, "bad plot": 1, "good": 2, "a good film": 2, "dull film": 2}
    for text, count in texts.items():
        encoding = predictor.encode(text, with_tokens=True)
        values.append(predictor.gradients.ends(encoding, label="negative").baseline_value)
        assert passes.call_count == count
        passes.reset_mock()
    assert values[0] == values[1] == values[4]


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


def test_what_cannot_be_explained(predictor: Predictor) -> None:
    gradients, encoding = predictor.gradients, predictor.encode("good", with_tokens=True)
    message = exactly("label 'fair' does not exist: the model has negative, positive")
    with pytest.raises(ValueError, match=message):
        gradients.ends(encoding, label="fair")
    with pytest.raises(ValueError, match=message):
        gradients.head_importance(encoding, label="fair")
    with pytest.raises(ValueError, match="encode with with_tokens=True"):
        gradients.ends(predictor.encode("good"))
    assert gradients.head_importance(predictor.encode("good")).label
    for steps in (0, 257):
        message = exactly(f"steps must be from 1 to 256, got {steps}")
        with pytest.raises(ValueError, match=message):
            attribute(gradients, encoding, steps=steps)


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
    assert answers[0] == answers[1]


@pytest.mark.skipif(not torch._C._has_mkldnn, reason="torch has no oneDNN here")
def test_nothing_is_kept_for_each_size(
    checkpoint_folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """oneDNN makes and keeps code for each size that it meets; it says what it runs."""
    mkldnn = torch.backends.mkldnn
    for kind in (CpuBackend, KernelBackend) if choose_set("float32") else (CpuBackend,):
        backend = kind("cpu", "float32", threads=1)
        predictor = load_for(open_checkpoint(checkpoint_folder), backend)
        encoding = predictor.encode("a good film", with_tokens=True)
        with mkldnn.verbose(mkldnn.VERBOSE_ON):  # type: ignore[no-untyped-call]
            predictor.predict([encoding])
            assert ("primitive,exec" in capfd.readouterr().out) is (kind is CpuBackend)
            attribute(predictor.gradients, encoding, steps=3)
            predictor.gradients.head_importance(encoding)
            assert "primitive,exec" not in capfd.readouterr().out


word_lists = st.lists(st.sampled_from([*WORDS, "x", "filming!", "é"]), min_size=1, max_size=30)


@pytest.fixture(scope="module")
def usual_predictor(tmp_path_factory: pytest.TempPathFactory) -> Predictor:
    """Weights of the usual width: those of the other are so wide that its path is rough."""
    folder = tiny_checkpoint(
        tmp_path_factory.mktemp("usual") / "tiny", network=tiny_network(std=0.3)
    )
    return load_predictor(open_checkpoint(folder), device="cpu", dtype="float32")


def encode(predictor: Predictor, text: str) -> Encoding:
    return predictor.encode(text, with_tokens=True)


@given(word_lists)
def test_with_32_nodes_integrated_gradients_are_complete(
    usual_predictor: Predictor, words: list[str]
) -> None:
    found = attribute(usual_predictor.gradients, encode(usual_predictor, " ".join(words)))
    assert found.steps == 32
    assert abs(found.gap) < 1e-5
    assert found.gap == found.value - found.baseline_value - float(np.sum(found.attributions))


@pytest.mark.parametrize("max_batch_tokens", [1, 100])
def test_pieces_of_any_size_give_the_same(predictor: Predictor, max_batch_tokens: int) -> None:
    encoding = encode(predictor, "The plot drags, but the cast is superb!")
    whole = attribute(predictor.gradients, encoding, steps=20)
    attributor = Attributor(predictor.gradients, encoding, steps=20)
    pieces = attributor.pieces(max_batch_tokens)
    with ThreadPoolExecutor(4) as pool:
        shares = list(pool.map(attributor.integrate, reversed(pieces)))
    found = attributor.finish(shares)
    np.testing.assert_allclose(found.attributions, whole.attributions, rtol=0, atol=1e-6)
    assert (found.value, found.baseline_value) == (whole.value, whole.baseline_value)
    assert found.prediction == whole.prediction


@given(st.integers(1, 256), st.integers(1, MAX_LENGTH - 2), st.integers(1, 40_000))
def test_pieces_are_all_nodes_within_the_budget(
    predictor: Predictor, steps: int, words: int, max_batch_tokens: int
) -> None:
    encoding = encode(predictor, "a " * words)
    length = len(encoding.input_ids)
    pieces = Attributor(predictor.gradients, encoding, steps=steps).pieces(max_batch_tokens)
    max_batch_tokens = min(max_batch_tokens, 2_048)
    assert [node for piece in pieces for node in piece] == list(range(steps))
    sizes = [len(piece) for piece in pieces]
    assert max(sizes) - min(sizes) <= 1
    assert max(sizes) * length <= max(max_batch_tokens, length)
    # No more pieces than are needed.
    assert len(pieces) == -(-steps // max(1, max_batch_tokens // length))
    single = Attributor(predictor.gradients, encoding, method="gradient_x_input", steps=steps)
    assert single.pieces(max_batch_tokens) == [range(1)]


def test_by_word_tokens_are_summed_and_the_gap_stays(predictor: Predictor) -> None:
    text = "The PLOTS, very filming"
    encoding = encode(predictor, text)
    found = attribute(predictor.gradients, encoding, steps=16)
    assert (found.method, found.tokens) == ("integrated_gradients", encoding.tokens)
    assert found.encoding is encoding
    words = found.by_word()

    by_token = found.attributions
    assert [token.text for token in found.tokens] == [
        "[CLS]", "the", "plot", "##s", ",", "very", "film", "##ing", "[SEP]",
    ]  # fmt: skip
    spans = [(token.text, token.start, token.end, token.word) for token in words.tokens]
    assert spans == [
        ("[CLS]", 0, 0, None),
        ("The", 0, 3, 0),
        ("PLOTS,", 4, 10, 1),
        ("very", 11, 15, 2),
        ("filming", 16, 23, 3),
        ("[SEP]", 0, 0, None),
    ]
    assert words.attributions.tolist() == pytest.approx(
        [0, by_token[1], by_token[2:5].sum(), by_token[5], by_token[6:8].sum(), 0], abs=1e-12
    )
    assert words.gap == pytest.approx(found.gap, abs=1e-12)
    assert (words.value, words.steps, words.label) == (found.value, 16, found.label)
