"""Thumbnails of attention: every cell and every strongest key, against the whole maps."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from model import AttentionOptions, Predictor, Thumbnail, load_predictor, open_checkpoint
from model.explain.thumbnails import make_thumbnails, shrink, thumbnail_side
from model.explain.views import Reduce, reduce_weights
from model.tokenization.tokenizer import Token
from model.tokenization.words import group_words

TEXT = "a good film with a plot that drags but a cast so warm that it is good"
SHARES = st.floats(0, 1, width=32)


@pytest.fixture(scope="module")
def predictor(checkpoint_folder: Path) -> Predictor:
    checkpoint = open_checkpoint(checkpoint_folder)
    return load_predictor(checkpoint, device=torch.device("cpu"), dtype=torch.float32)


@given(st.data(), st.integers(1, 40), st.integers(8, 12))
def test_a_cell_is_the_largest_of_its_rows_and_columns(
    data: st.DataObject, length: int, side: int
) -> None:
    maps = data.draw(arrays(np.float32, (2, length, length), elements=SHARES))
    shrunk = shrink(maps, side)
    kept = min(side, length)
    expected = np.zeros((2, kept, kept), np.float32)
    for query in range(length):
        for key in range(length):
            cell = (slice(None), query * kept // length, key * kept // length)
            expected[cell] = np.maximum(expected[cell], maps[:, query, key])
    np.testing.assert_array_equal(shrunk, expected)


@pytest.mark.parametrize("reduce", ["none", "mean", "max", "rollout"])
@pytest.mark.parametrize("by_word", [False, True])
@pytest.mark.parametrize("special", [False, True])
def test_thumbnails_are_those_of_the_view(
    predictor: Predictor, reduce: Reduce, *, by_word: bool, special: bool
) -> None:
    encoding = predictor.encode(TEXT, with_tokens=True)
    assert encoding.tokens is not None
    words = group_words(TEXT, encoding.tokens) if by_word else None
    whole = predictor.explain(encoding)
    view = reduce_weights(
        whole.attention, reduce=reduce, words=words, residual_share=whole.residual_share
    )
    names = encoding.tokens if words is None else words.tokens
    shown = [at for at, token in enumerate(names) if special or not token.special]
    assert len(shown) > 8

    thumbnail = Thumbnail(8, special, reduce, words)
    (told,) = predictor.explain_batch([AttentionOptions(encoding, thumbnail=thumbnail)])

    assert told.prediction == whole.prediction
    np.testing.assert_array_equal(told.attention, shrink(view[:, :, shown][..., shown], 8))
    assert told.attention.shape[-1] == 8 == thumbnail_side(names, 8, special=special)
    assert told.strongest is not None
    np.testing.assert_array_equal(told.strongest.keys, view.argmax(axis=-1))
    np.testing.assert_array_equal(told.strongest.weights, view.max(axis=-1))


def test_chosen_heads_in_a_batch_with_whole_maps(predictor: Predictor) -> None:
    encodings = [predictor.encode(text, with_tokens=True) for text in ("a good film", TEXT)]
    small = AttentionOptions(encodings[1], [1], [0], Thumbnail(9))
    whole, told = predictor.explain_batch([AttentionOptions(encodings[0]), small])

    assert whole.strongest is None
    assert whole.attention.shape[:2] == (2, 2)
    alone = predictor.explain(encodings[1], layers=[1], heads=[0])
    np.testing.assert_allclose(told.attention, shrink(alone.attention, 9), atol=1e-6)


def test_a_text_of_special_tokens_alone_keeps_them() -> None:
    tokens = [
        Token("[CLS]", 0, 0, special=True, word=None),
        Token("[SEP]", 0, 0, special=True, word=None),
    ]
    weights: Any = np.array([[[0.25, 0.75], [0.5, 0.5]]], np.float32)
    maps, strongest = make_thumbnails([weights], tokens, Thumbnail(8, special=False))

    np.testing.assert_array_equal(maps, weights[None])
    assert strongest.keys.tolist() == [[[1, 0]]]
    assert thumbnail_side(tokens, 8, special=False) == 2
