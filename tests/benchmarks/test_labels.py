"""Answers of both forms, and when two servers disagree."""

import pytest

from benchmarks.errors import AnswerError, MismatchError
from benchmarks.labels import Answer, compare, read_answers
from benchmarks.texts import SENTENCES

AGREED = [Answer("positive")] * len(SENTENCES)


def test_the_form_of_the_service_is_read() -> None:
    body = b"""{"model": {}, "predictions": [
        {"label": "a", "probabilities": {"a": 0.9, "b": 0.1}},
        {"label": "b", "probabilities": {"a": 0.49, "b": 0.51}},
        {"label": "c", "probabilities": {"a": 0.1, "b": 0.41, "c": 0.49}}]}"""

    assert read_answers(body) == [Answer("a"), Answer("b", near=True), Answer("c")]


def test_the_form_of_the_peer_is_read() -> None:
    body = b'[{"label": "a", "score": 0.9}, {"label": "b", "score": 0.51}]'

    assert read_answers(body) == [Answer("a"), Answer("b")]


@pytest.mark.parametrize("body", [b"", b"3", b"{}", b"[1]", b'[{"score": 1}]', b"[null]"])
def test_anything_else_is_an_error(body: bytes) -> None:
    with pytest.raises(AnswerError, match=r"^the answer holds no predictions: "):
        read_answers(body)


def test_the_same_labels_are_accepted() -> None:
    compare(AGREED, AGREED, sentences=SENTENCES, peer="peer")


def test_a_label_that_rounding_can_turn_is_accepted() -> None:
    compare([Answer("negative", near=True), *AGREED[1:]], AGREED, sentences=SENTENCES, peer="peer")


def test_another_label_is_refused() -> None:
    ours = [AGREED[0], Answer("negative"), Answer("negative"), *AGREED[3:]]

    with pytest.raises(MismatchError) as caught:
        compare(ours, AGREED, sentences=SENTENCES, peer="other")

    assert str(caught.value) == (
        f"the servers disagree about 2 of 200 sentences, first about {SENTENCES[1]!r}: "
        "headlight says negative, other positive"
    )


def test_a_missing_answer_is_refused() -> None:
    with pytest.raises(MismatchError, match=r"^other answered 199 of 200 sentences$"):
        compare(AGREED, AGREED[1:], sentences=SENTENCES, peer="other")
