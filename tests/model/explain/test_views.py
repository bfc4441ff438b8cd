"""Views of attention and smaller maps, against the plain definition of each, and pictures."""

import xml.etree.ElementTree as ET
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from model import AttentionOptions, Downsampling, Prediction, Predictor, Token
from model.explain import views
from model.explain.pictures import draw, svg_picture
from model.explain.views import View
from model.tokenization.words import group_words
from model.types import Reduce, Words


def raw(layers: int, heads: int, length: int, seed: int) -> NDArray[np.float32]:
    """Weights whose rows sum to 1, some of them sharp."""
    chance = np.random.default_rng(seed)
    rows = chance.dirichlet(np.full(length, 0.3), size=(layers, heads, length))
    return rows.astype(np.float32)


@st.composite
def cases(draw: st.DrawFn) -> tuple[NDArray[np.float32], list[tuple[int, ...]]]:
    """Raw weights, and a split of their tokens into words."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=6))
    ends = np.cumsum(sizes)
    groups = [tuple(range(end - size, end)) for end, size in zip(ends, sizes, strict=True)]
    attention = raw(
        draw(st.integers(1, 3)), draw(st.integers(1, 3)), sum(sizes), draw(st.integers(0, 99))
    )
    return attention, groups


def by_definition(
    attention: NDArray[np.float32], groups: list[tuple[int, ...]]
) -> NDArray[np.float64]:
    """Words by loops: columns summed, rows averaged."""
    layers, heads, _, _ = attention.shape
    joined = np.zeros((layers, heads, len(groups), len(groups)))
    for query, asking in enumerate(groups):
        for key, asked in enumerate(groups):
            block = attention[:, :, asking][..., asked].astype(np.float64)  # [L, H, asking, asked]
            joined[:, :, query, key] = block.sum(axis=-1).mean(axis=-1)
    return joined


@given(cases())
def test_words_the_mean_and_the_largest_are_those_of_their_definitions(
    case: tuple[NDArray[np.float32], list[tuple[int, ...]]],
) -> None:
    attention, groups = case
    joined = views.join_words(attention, Words((), tuple(groups)))
    np.testing.assert_allclose(joined, by_definition(attention, groups), atol=1e-6)
    np.testing.assert_allclose(joined.sum(axis=-1), 1, atol=1e-5)
    mean = views.reduce_weights(attention, reduce="mean", words=None)
    assert mean.shape[:2] == views.reduced_shape("mean", *attention.shape[:2])
    np.testing.assert_allclose(mean[:, 0], attention.mean(axis=1), atol=1e-6)
    largest = views.reduce_weights(attention, reduce="max", words=None)
    np.testing.assert_array_equal(largest[:, 0], attention.max(axis=1))
    # of words, not words of the largest: else a weight could exceed 1
    words = views.reduce_weights(attention, reduce="max", words=Words((), tuple(groups)))
    np.testing.assert_allclose(words[:, 0], by_definition(attention, groups).max(axis=1), atol=1e-6)


def test_a_rollout_by_hand() -> None:
    first = np.array([[[1.0, 0.0], [0.5, 0.5]], [[0.0, 1.0], [0.5, 0.5]]])  # mean: all 0.5
    second = np.array([[[1.0, 0.0], [1.0, 0.0]], [[1.0, 0.0], [1.0, 0.0]]])
    attention = np.stack([first, second]).astype(np.float32)
    # 0.5 A + 0.5 I: [[0.75, 0.25], [0.25, 0.75]], then [[1, 0], [0.5, 0.5]] times it.
    np.testing.assert_allclose(views.rollout(attention), [[0.75, 0.25], [0.5, 0.5]], atol=1e-7)


def test_a_rollout_without_a_residual_connection_is_the_attention_alone() -> None:
    attention = raw(layers=2, heads=3, length=4, seed=0)
    first, second = attention.mean(axis=1)
    found = views.reduce_weights(attention, reduce="rollout", words=None, residual_share=0.0)
    np.testing.assert_allclose(found[0, 0], second @ first, atol=1e-6)
    # Half and half by default, as around an encoder's attention.
    np.testing.assert_array_equal(
        views.reduce_weights(attention, reduce="rollout", words=None)[0, 0],
        views.rollout(attention, residual_share=0.5),
    )


def test_a_rollout_of_words_follows_tokens() -> None:
    attention = raw(2, 2, 4, seed=3)
    groups = [(0,), (1, 2), (3,)]
    found = views.reduce_weights(attention, reduce="rollout", words=Words((), tuple(groups)))
    expected = by_definition(views.rollout(attention)[None, None], groups)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert found.shape[:2] == views.reduced_shape("rollout", 2, 2)
    other_way = views.rollout(views.join_words(attention, Words((), tuple(groups))))
    assert np.abs(found[0, 0] - other_way).max() > 0.01


def test_raw_weights_are_left_as_they_are() -> None:
    attention = raw(2, 2, 4, seed=1)
    attention[0, 0, 0, 0] = np.nextafter(np.float32(1), np.float32(2))
    assert views.reduce_weights(attention, reduce="none", words=None) is attention


def test_names() -> None:
    assert [views.view_name("none", level) for level in ("token", "word")] == ["raw", "word"]
    assert views.view_name("max", "token") == "max"
    assert views.view_name("mean", "word", is_downsampled=True) == "mean+word+thumbnail"


TEXT = "a good film with a plot that drags but a cast so warm that it is good"
SHARES = st.floats(0, 1, width=32)


@given(st.data(), st.integers(1, 40), st.integers(8, 12))
def test_a_cell_is_the_largest_of_its_rows_and_columns(
    data: st.DataObject, length: int, side: int
) -> None:
    maps = data.draw(arrays(np.float32, (2, length, length), elements=SHARES))
    shrunk = views.shrink(maps, side)
    kept = min(side, length)
    expected = np.zeros((2, kept, kept), np.float32)
    for query in range(length):
        for key in range(length):
            cell = (slice(None), query * kept // length, key * kept // length)
            expected[cell] = np.maximum(expected[cell], maps[:, query, key])
    np.testing.assert_array_equal(shrunk, expected)


@pytest.mark.parametrize("reduce", ["none", "max", "rollout"])
@pytest.mark.parametrize("by_word", [False, True])
@pytest.mark.parametrize("special", [False, True])
def test_smaller_maps_are_those_of_the_view(
    predictor: Predictor, reduce: Reduce, *, by_word: bool, special: bool
) -> None:
    encoding = predictor.encode(TEXT, with_tokens=True)
    assert encoding.tokens is not None
    words = group_words(TEXT, encoding.tokens) if by_word else None
    whole = predictor.explain(encoding)
    view = views.reduce_weights(
        whole.attention, reduce=reduce, words=words, residual_share=whole.residual_share
    )
    names = encoding.tokens if words is None else words.tokens
    shown = [at for at, token in enumerate(names) if special or not token.special]
    assert len(shown) > 8

    small = AttentionOptions(encoding, downsampling=Downsampling(8, special, reduce, words))
    told, beside = predictor.explain_batch([small, AttentionOptions(encoding, [1], [0])])

    assert beside.strongest is None
    np.testing.assert_array_equal(beside.attention, whole.attention[1:, :1])
    assert told.prediction == whole.prediction
    np.testing.assert_array_equal(told.attention, views.shrink(view[:, :, shown][..., shown], 8))
    assert told.attention.shape[-1] == 8 == views.downsampled_side(names, 8, special=special)
    assert told.strongest is not None
    np.testing.assert_array_equal(told.strongest.keys, view.argmax(axis=-1))
    np.testing.assert_array_equal(told.strongest.weights, view.max(axis=-1))


def test_a_text_of_special_tokens_alone_keeps_them() -> None:
    tokens = [Token(text, 0, 0, special=True, word=None) for text in ("[CLS]", "[SEP]")]
    weights: Any = np.array([[[0.25, 0.75], [0.5, 0.5]]], np.float32)
    maps, strongest = views.downsample([weights], tokens, Downsampling(8, special=False))
    np.testing.assert_array_equal(maps, weights[None])
    assert strongest.keys.tolist() == [[[1, 0]]]
    assert views.downsampled_side(tokens, 8, special=False) == 2


PREDICTION = Prediction("go<od", 0.75, {"bad": 0.25, "go<od": 0.75}, 3, truncated=False)


@given(st.lists(st.text(min_size=1, max_size=30), min_size=1, max_size=4))
def test_any_token_can_be_drawn(texts: list[str]) -> None:
    tokens = [Token(text, 0, 1, special=False, word=place) for place, text in enumerate(texts)]
    size = len(tokens)
    weights = np.full((1, 1, size, size), 1 / size, np.float32)
    view = View("raw", PREDICTION, tokens, (3,), (5,), weights)
    picture = ET.fromstring(svg_picture([draw(view, "<a&b> 0123")]))  # noqa: S314 - made here
    cells = [element for element in picture.iter() if "data-weight" in element.attrib]
    assert [cell.get("data-weight") for cell in cells] == [f"{weights[0, 0, 0, 0]:.8f}"] * size**2
    assert {cell.get("fill-opacity") for cell in cells} == {"1.000"}
    wrong = View("raw", PREDICTION, tokens, (3,), (5,), weights + 1)
    with pytest.raises(ValueError, match="a weight of attention is not a number from 0 to 1"):
        draw(wrong)
