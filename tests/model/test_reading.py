"""Tests how the results of a text's windows and sentences are joined."""

from collections.abc import Iterator, Sequence
from typing import cast

from model import Encoding, Prediction, Predictor
from model.errors import NotFiniteError
from model.reading import join_results
from model.types import EncodedText, Span, TextResult


class _Joins:
    """Joins windows as a label with the number of windows."""

    def join(self, windows: Sequence[Prediction]) -> Prediction:
        return _prediction("+".join(each.best for each in windows))


def _prediction(label: str) -> Prediction:
    return Prediction(label, 1.0, {label: 1.0}, 3, False)


PREDICTOR = cast("Predictor", _Joins())
PART = Encoding([1], False)


def test_the_first_error_is_that_of_the_text_and_the_next_text_keeps_its_results() -> None:
    first, second = NotFiniteError(1, 2), NotFiniteError(2, 2)
    text = EncodedText([PART, PART], [[PART]], [Span(0, 3)])
    results: Iterator[Prediction | NotFiniteError] = iter(
        [_prediction("a"), first, second, _prediction("next")]
    )
    assert join_results(PREDICTOR, text, results) is first
    assert join_results(PREDICTOR, EncodedText([PART]), results) == TextResult(_prediction("next"))
