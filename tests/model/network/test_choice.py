"""A choice among some of a model's labels: exact probabilities, and choices that are refused."""

import math

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from model import Choice, Encoding
from model.network.labels import choose_among
from model.types import Prediction

THREE = ("negative", "neutral", "positive")
LOGITS = (1.0, 4.0, 2.0)


def prediction() -> Prediction:
    encoding = Encoding([1, 2, 3], truncated=True)
    rows = np.array([LOGITS], np.float32)
    (made,) = Prediction.of_batch(rows, [encoding], THREE, 2.0)
    assert isinstance(made, Prediction)
    return made


def test_a_choice_is_the_softmax_of_its_logits() -> None:
    whole = prediction().warned("not-english")
    narrowed = Choice(("negative", "positive"), 0.5).narrow(whole)
    positive = 1 / (1 + math.exp(-2))
    assert whole.label == "neutral"
    assert narrowed.label == "positive"
    assert narrowed.score == pytest.approx(positive, abs=1e-12)
    assert list(narrowed.probabilities) == ["negative", "positive"]
    assert math.fsum(narrowed.probabilities.values()) == pytest.approx(1, abs=1e-15)
    assert (narrowed.token_count, narrowed.truncated, narrowed.windows) == (3, True, 1)
    assert list(narrowed.logits) == [1.0, 2.0]
    assert narrowed.warnings == ("not-english",)
    assert narrowed.log_odds("positive", temperature=0.5) == pytest.approx(2)


@given(st.lists(st.lists(st.floats(-30, 30, width=32), min_size=3, max_size=3), min_size=1))
def test_answers_have_every_digit_of_a_softmax_in_python(rows: list[list[float]]) -> None:
    texts = [Encoding([1] * count, truncated=False) for count in range(1, len(rows) + 1)]
    pair = Choice(("negative", "positive"), 0.5)
    for made, row, text in zip(
        Prediction.of_batch(np.array(rows, np.float32), texts, THREE, 1.3), rows, texts, strict=True
    ):
        assert isinstance(made, Prediction)
        for said, logits, labels, temperature in (
            (made, row, THREE, 1.3),
            (pair.narrow(made), row[::2], pair.labels, pair.temperature),
        ):
            powers = [math.exp((each - max(logits)) / temperature) for each in logits]
            shares = [power / math.fsum(powers) for power in powers]
            assert orjson.loads(orjson.dumps(said.members())) == {
                "label": labels[shares.index(max(shares))],
                "score": max(shares),
                "probabilities": dict(zip(labels, shares, strict=True)),
                "token_count": len(text.input_ids),
                "truncated": False,
            }


def test_of_equal_classes_the_first_is_taken() -> None:
    alike = Prediction.of([1.0, 1.0], ("no", "yes"), 1.0, token_count=3, truncated=False)
    assert (alike.label, alike.score) == ("no", 0.5)


def test_without_a_temperature_of_its_own_the_others_are_only_left_out() -> None:
    whole = prediction()
    among = choose_among(["positive", "negative"], THREE, 2.0).narrow(whole).probabilities
    rest = whole.probabilities["negative"] + whole.probabilities["positive"]
    for label, probability in among.items():
        assert probability == pytest.approx(whole.probabilities[label] / rest, abs=1e-12)


def test_labels_come_in_the_order_of_the_model_and_only_the_pair_has_its_temperature() -> None:
    pair = choose_among(["positive", "negative"], THREE, 2.0, 0.5)
    assert pair == Choice(("negative", "positive"), 0.5)
    other = choose_among(["positive", "neutral"], THREE, 2.0, 0.5)
    assert other == Choice(("neutral", "positive"), 2.0)
    assert choose_among(THREE, THREE, 2.0, 0.5) == Choice(THREE, 2.0)
