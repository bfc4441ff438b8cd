"""Derivatives and attributions: against differences in float64, lazily and from several threads."""

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from model.backends.eager import CpuBackend
from model.checkpoint.opening import open_checkpoint
from model.explain.attribution import Attributor, attribute
from model.loading import load_on as load_for
from model.loading import load_predictor
from model.network.architecture import Network
from model.network.conv_attention import ConvAttentionClassifier
from model.network.encoder import EncoderClassifier
from model.network.layers import EncoderLayer
from model.network.masks import mask_bias
from model.predictor import Predictor
from model.types import Encoding
from tests.builders import (
    MAX_LENGTH,
    WORDS,
    tiny_checkpoint,
    tiny_conv_checkpoint,
    tiny_manifest,
    tiny_network,
)
from tests.matching import exactly

Function = Callable[[Tensor], Tensor]  # float64 [N, T, D] to [N]
_EPSILON = 1e-5


def log_odds_of(network: Network, label: int, temperature: float) -> Function:
    """f of rows of token embeddings.

    Args:
        network: turned to float64.
        label: index of the class.
        temperature: of the checkpoint.
    """
    network.double()

    def log_odds(embeddings: Tensor) -> Tensor:
        with torch.no_grad():
            if isinstance(network, EncoderClassifier):
                logits = _encoder_logits(network, embeddings)
            else:
                logits = _conv_logits(network, embeddings)
            probabilities = (logits / temperature).softmax(dim=-1)  # [N, C]
            p: Tensor = probabilities[:, label]
            return torch.log(p / (1 - p))

    return log_odds


def _encoder_logits(network: EncoderClassifier, embeddings: Tensor) -> Tensor:
    parts = network.embeddings
    states = parts.norm(embeddings + parts.places(embeddings.shape[1]))
    for layer in network.layers:
        states, _ = layer(states, bias=None, need_weights=False)
    logits: Tensor = network.classifier(torch.tanh(network.pooler(states[:, 0])))
    return logits


def _conv_logits(network: ConvAttentionClassifier, embeddings: Tensor) -> Tensor:
    rows, length, size = embeddings.shape
    surplus = network.max_length - length
    padded = torch.cat([embeddings, embeddings.new_zeros(rows, surplus, size)], dim=1)
    assert network.convolution is not None
    assert network.attention is not None
    states = torch.relu(network._convolve(network.convolution, padded))
    bias = None
    if network.mask_padding:
        masked = torch.arange(network.max_length).expand(rows, 1, 1, -1) >= length
        bias = mask_bias(masked, states.dtype)
    states = network.attention.attend(
        states, states, states, bias=bias, need_weights=False
    ).hidden_states
    unit = network.classifier(states.flatten(1))
    return torch.cat([torch.zeros_like(unit), unit], dim=1)


def slopes(log_odds: Function, at: Tensor, way: Tensor) -> NDArray[np.float64]:
    """How f changes as each token alone goes its way; central differences.

    Args:
        log_odds: f.
        at: where, float64 [T, D].
        way: of each token, float64 [T, D].

    Returns:
        float64 [T].
    """
    moves = torch.diag_embed(torch.ones(len(at), dtype=torch.float64))[..., None] * way  # [T, T, D]
    up, down = log_odds(at + _EPSILON * moves), log_odds(at - _EPSILON * moves)
    result: NDArray[np.float64] = ((up - down) / (2 * _EPSILON)).numpy()
    return result


def slopes_by_head(network: Network, log_odds: Function, at: Tensor) -> NDArray[np.float64]:
    """How f changes with the output of each head, float64 [L, H].

    To scale the output of a head is to scale the columns of the output's weight that read it.
    """
    if isinstance(network, EncoderClassifier):
        attentions = [
            layer.attention for layer in network.layers if isinstance(layer, EncoderLayer)
        ]
    else:
        assert network.attention is not None
        attentions = [network.attention]
    result = []
    for attention in attentions:
        weight = attention.output.weight
        original = weight.detach().clone()
        width = weight.shape[1] // attention.num_heads
        for head in range(attention.num_heads):
            columns = slice(head * width, (head + 1) * width)
            values = []
            for scale in (1 + _EPSILON, 1 - _EPSILON):
                with torch.no_grad():
                    weight[:, columns] = original[:, columns] * scale
                values.append(log_odds(at[None]).item())
                with torch.no_grad():
                    weight.copy_(original)
            result.append((values[0] - values[1]) / (2 * _EPSILON))
    return np.array(result).reshape(len(attentions), -1)


CPU = torch.device("cpu")
TEMPERATURE = 1.5
TEXTS = ["A superb film.", "The plot is slow, but!"]
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
    monkeypatch.setattr("model.explain.gradients._MOST_BASELINES", 2)
    passes = Mock(wraps=predictor.gradients._network.batch)
    monkeypatch.setattr(predictor.gradients._network, "batch", passes)
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


def test_a_text_of_which_nothing_is_left(tmp_path: Path) -> None:
    predictor = load(tiny_conv_checkpoint(tmp_path / "conv"))
    encoding = predictor.encode("!!!", with_tokens=True)
    ends = predictor.gradients.ends(encoding)

    assert ends.value == pytest.approx(ends.baseline_value, abs=1e-6)
    assert predictor.gradients.along(ends, np.ones(1), np.ones(1)).tolist() == [0.0]


def test_a_label_that_is_not_there(predictor: Predictor) -> None:
    gradients, encoding = predictor.gradients, predictor.encode("good", with_tokens=True)
    message = exactly("label 'fair' does not exist: the model has negative, positive")

    with pytest.raises(ValueError, match=message):
        gradients.ends(encoding, label="fair")
    with pytest.raises(ValueError, match=message):
        gradients.head_importance(encoding, label="fair")


def test_tokens_are_needed_to_know_the_baseline(predictor: Predictor) -> None:
    with pytest.raises(ValueError, match="encode with with_tokens=True"):
        predictor.gradients.ends(predictor.encode("good"))
    assert predictor.gradients.head_importance(predictor.encode("good")).label


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


def test_nothing_of_it_stays_behind(predictor: Predictor) -> None:
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


@pytest.mark.skipif(not torch._C._has_mkldnn, reason="torch has no oneDNN here")
def test_nothing_is_kept_for_each_size(
    checkpoint_folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """oneDNN makes and keeps code for each size that it meets; it says what it runs."""
    backend = CpuBackend(CPU, torch.float32, threads=1)
    predictor = load_for(open_checkpoint(checkpoint_folder), backend)
    encoding = predictor.encode("a good film", with_tokens=True)
    mkldnn = torch.backends.mkldnn
    with mkldnn.verbose(mkldnn.VERBOSE_ON):  # type: ignore[no-untyped-call]
        predictor.predict([encoding])
        assert "primitive,exec" in capfd.readouterr().out
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
    return load_predictor(open_checkpoint(folder), device=CPU, dtype=torch.float32)


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


@pytest.mark.parametrize("max_batch_tokens", [1, 40, 100, 10_000])
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


@given(st.integers(1, 256), st.integers(1, MAX_LENGTH - 2), st.integers(1, 2000))
def test_pieces_are_all_nodes_within_the_budget(
    predictor: Predictor, steps: int, words: int, max_batch_tokens: int
) -> None:
    encoding = encode(predictor, "a " * words)
    length = len(encoding.input_ids)

    pieces = Attributor(predictor.gradients, encoding, steps=steps).pieces(max_batch_tokens)

    assert [node for piece in pieces for node in piece] == list(range(steps))
    sizes = [len(piece) for piece in pieces]
    assert max(sizes) - min(sizes) <= 1
    assert max(sizes) * length <= max(max_batch_tokens, length)
    # No more pieces than are needed.
    assert len(pieces) == -(-steps // max(1, max_batch_tokens // length))


def test_gradient_x_input_is_a_single_piece(predictor: Predictor) -> None:
    attributor = Attributor(
        predictor.gradients, encode(predictor, "good"), method="gradient_x_input", steps=7
    )
    assert attributor.pieces(1) == [range(1)]


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


@pytest.mark.parametrize("steps", [0, -1, 257])
def test_the_number_of_steps_has_limits(predictor: Predictor, steps: int) -> None:
    message = exactly(f"steps must be from 1 to 256, got {steps}")
    with pytest.raises(ValueError, match=message):
        attribute(predictor.gradients, encode(predictor, "good"), steps=steps)
