"""How the results of a text's windows and sentences are joined."""

from collections.abc import Iterator
from unittest.mock import Mock

from model import Encoding, Prediction
from model.errors import NotFiniteError
from model.reading import join_results
from model.types import EncodedText, Span, TextResult

PREDICTOR = Mock(join=lambda windows: windows[0])
PART = Encoding([1], False)


def test_the_first_error_is_that_of_the_text_and_the_next_text_keeps_its_results() -> None:
    first, second = NotFiniteError(1, 2), NotFiniteError(2, 2)
    before, after = (Prediction(name, 1.0, {name: 1.0}, 3, False) for name in ("before", "after"))
    text = EncodedText([PART, PART], [[PART]], [Span(0, 3)])
    results: Iterator[Prediction | NotFiniteError] = iter([before, first, second, after])
    assert join_results(PREDICTOR, text, results) is first
    assert join_results(PREDICTOR, EncodedText([PART]), results) == TextResult(after)
