"""The predictor: probabilities, their order, and the weights of the same pass."""

import math
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from model import errors
from model.checkpoint.opening import open_checkpoint
from model.loading import load_predictor
from model.predictor import Predictor
from model.types import AttentionOptions, Encoding, Prediction
from tests.builders import MAX_LENGTH, WORDS, tiny_conv_checkpoint
from tests.matching import exactly

TEXTS = ["A superb film.", "bad", "The plot drags, but the cast is superb!", "love " * 40]
words = st.lists(st.sampled_from(WORDS), min_size=1, max_size=40).map(" ".join)
any_text = words | st.text(min_size=1).map(lambda text: text + "x")


def test_int8_is_for_encoders(tmp_path: Path) -> None:
    checkpoint = open_checkpoint(tiny_conv_checkpoint(tmp_path / "course"))
    message = "dtype int8 is for encoders, and course is a ConvAttentionClassifier: use auto"
    with pytest.raises(errors.ConfigurationError, match=exactly(message)):
        load_predictor(checkpoint, device="cpu", dtype="int8")


@given(st.lists(any_text, min_size=1, max_size=6))
def test_each_text_gets_its_own_answer_in_its_place(predictor: Predictor, texts: list[str]) -> None:
    encodings = [predictor.encode(text) for text in texts]
    together = predictor.predict(encodings)
    assert len(together) == len(texts)
    for encoding, prediction in zip(encodings, together, strict=True):
        (alone,) = predictor.predict([encoding])
        for label, probability in alone.probabilities.items():
            assert prediction.probabilities[label] == pytest.approx(probability, abs=1e-5)
        assert sum(prediction.probabilities.values()) == pytest.approx(1.0, abs=1e-12)
        assert prediction.score == max(prediction.probabilities.values())
        assert prediction.label == prediction.best
        assert prediction.probabilities[prediction.best] == prediction.score
        assert prediction.token_count == len(encoding.input_ids) <= MAX_LENGTH
        assert prediction.truncated is encoding.truncated


def test_texts_are_checked_before_they_are_encoded(predictor: Predictor) -> None:
    one_window = partial(predictor.encode_window, number=0)
    for encode in (predictor.encode, predictor.encode_windows, one_window):
        with pytest.raises(errors.BlankTextError):
            encode(" \u200b ")
    with pytest.raises(errors.InputError):
        predictor.encode("a\ud800")
    with pytest.raises(errors.TextTooLongError):
        predictor.encode("a " * 40, truncation="error")
    assert predictor.encode("a " * 29 + "bad", truncation="left").input_ids[1:2] == [5]
    assert len(predictor.encode("a " * 40, truncation="left").input_ids) == MAX_LENGTH


def test_a_window_that_is_not_there_is_refused(predictor: Predictor) -> None:
    with pytest.raises(
        errors.NoSuchPartError, match=exactly("the text has 2 windows, 0 to 1, got 2")
    ):
        predictor.encode_window("a " * 40, 2)
    with pytest.raises(errors.NoSuchPartError, match=exactly("the text has 1 window, 0, got 1")):
        predictor.encode_window("a", 1)


@given(st.lists(any_text, min_size=1, max_size=5), st.data())
def test_texts_explained_together_are_as_explained_alone(
    predictor: Predictor, texts: list[str], data: st.DataObject
) -> None:
    choices = st.none() | st.lists(st.integers(0, 1), min_size=1)
    questions = [
        AttentionOptions(
            predictor.encode(text, with_tokens=True), data.draw(choices), data.draw(choices)
        )
        for text in texts
    ]

    together = predictor.explain_batch(questions)

    for found, question in zip(together, questions, strict=True):
        encoding = question.encoding
        whole = predictor.explain(encoding)
        length = len(encoding.input_ids)
        assert whole.attention.dtype == np.float32
        assert whole.attention.shape == (2, 2, length, length)
        assert whole.attention.min() >= 0.0
        np.testing.assert_allclose(whole.attention.sum(axis=-1), 1.0, rtol=0, atol=1e-5)
        layers, heads = (
            tuple(sorted({*(chosen or (0, 1))})) for chosen in (question.layers, question.heads)
        )
        assert found.encoding is encoding
        assert (found.layers, found.heads, found.residual_share) == (layers, heads, 0.5)
        expected = whole.attention[np.ix_(layers, heads)]
        np.testing.assert_allclose(found.attention, expected, rtol=0, atol=1e-5)
        part = predictor.explain(encoding, layers=question.layers, heads=question.heads)
        np.testing.assert_array_equal(part.attention, expected)
        assert part.prediction == whole.prediction
        (predicted,) = predictor.predict([encoding])
        for each in (found.prediction, whole.prediction):
            assert each.probabilities == pytest.approx(predicted.probabilities, abs=1e-4)
            assert each.token_count == length
            assert each.truncated is encoding.truncated


@pytest.mark.parametrize("kind", ["layer", "head"])
def test_a_choice_of_what_is_not_there_or_of_nothing(kind: str, predictor: Predictor) -> None:
    encoding = predictor.encode("a film", with_tokens=True)
    for chosen in ([0, -1], [2], [99, 0]):
        wrong = next(index for index in chosen if index != 0)
        message = exactly(f"{kind} {wrong} does not exist: the model has 0 to 1")
        with pytest.raises(IndexError, match=message):
            predictor.explain(encoding, **{f"{kind}s": chosen})
    message = exactly(f"no {kind} is chosen: give one or more from 0 to 1, or None")
    with pytest.raises(IndexError, match=message):
        predictor.explain(encoding, **{f"{kind}s": []})


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_logits_that_are_not_finite_are_counted_by_text(value: float) -> None:
    logits = np.array([[-3e38, 3e38], [value, 1.0], [value, value]], np.float32)
    good, *bad = Prediction.of_batch(logits, [Encoding([1], False)] * 3, ("no", "yes"), 1e-3)
    assert isinstance(good, Prediction)
    assert good.probabilities == {"no": 0.0, "yes": 1.0}
    assert good.logits == logits[0].tolist()
    for error in bad:
        assert isinstance(error, errors.NotFiniteError)
        assert (error.count, error.total) == (2, 3)
