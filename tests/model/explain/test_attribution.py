"""Attributions: against an integral in float64, complete, in pieces and by word."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from model.checkpoint.opening import open_checkpoint
from model.explain.attribution import Attributor, attribute
from model.loading import load_predictor
from model.predictor import Predictor
from model.tokenization.tokenizer import Encoding
from tests.builders import MAX_LENGTH, WORDS, tiny_checkpoint, tiny_network
from tests.matching import exactly
from tests.model.derivatives import log_odds_of, slopes

CPU = torch.device("cpu")
TEXTS = ["A superb film.", "bad", "The plot drags, but the cast is superb!"]
texts = st.lists(st.sampled_from([*WORDS, "x", "filming!", "é"]), min_size=1, max_size=30)


@pytest.fixture(scope="module")
def predictor(checkpoint_folder: Path) -> Predictor:
    return load_predictor(open_checkpoint(checkpoint_folder), device=CPU, dtype=torch.float32)


@pytest.fixture(scope="module")
def usual_predictor(tmp_path_factory: pytest.TempPathFactory) -> Predictor:
    """Weights of the usual width: those of the other are so wide that its path is rough."""
    folder = tiny_checkpoint(
        tmp_path_factory.mktemp("usual") / "tiny", network=tiny_network(std=0.3)
    )
    return load_predictor(open_checkpoint(folder), device=CPU, dtype=torch.float32)


def encode(predictor: Predictor, text: str) -> Encoding:
    return predictor.encode(text, with_tokens=True)


@pytest.mark.parametrize("text", TEXTS)
def test_integrated_gradients_are_the_integral_of_the_gradient(
    predictor: Predictor, text: str
) -> None:
    encoding = encode(predictor, text)
    found = attribute(predictor.gradients, encoding, label="positive", steps=64)

    log_odds = log_odds_of(tiny_network(), 1, 1.5)
    ends = predictor.gradients.ends(encoding)
    way = (ends.text - ends.baseline).double()
    count = 500
    middles = [(step + 0.5) / count for step in range(count)]
    expected = np.mean(
        [slopes(log_odds, ends.baseline.double() + middle * way, way) for middle in middles], axis=0
    )
    np.testing.assert_allclose(found.attributions, expected, rtol=0, atol=1e-4)
    assert np.abs(expected).max() > 0.01  # else anything small would do
    assert (found.method, found.label, found.steps) == ("integrated_gradients", "positive", 64)
    assert found.tokens == encoding.tokens
    assert found.encoding is encoding


@given(texts)
def test_with_32_nodes_integrated_gradients_are_complete(
    usual_predictor: Predictor, words: list[str]
) -> None:
    found = attribute(usual_predictor.gradients, encode(usual_predictor, " ".join(words)))

    assert found.steps == 32
    assert abs(found.gap) < 1e-5
    assert found.gap == found.value - found.baseline_value - float(np.sum(found.attributions))


@pytest.mark.parametrize("max_batch_tokens", [1, 40, 100, 10_000])
def test_pieces_of_any_size_give_the_same(predictor: Predictor, max_batch_tokens: int) -> None:
    encoding = encode(predictor, TEXTS[2])
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
    found = attribute(predictor.gradients, encode(predictor, text), steps=16)
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
