"""Sentences made by rule."""

import re
from collections import Counter

import pytest

from training.synth.behaviours import make_examples

KINDS = {
    "plain",
    "negation near",
    "negation far",
    "change of mind",
    "whose opinion",
    "answers",
    "people",
    "weighing",
}


def test_as_many_of_each_kind_and_label() -> None:
    examples = make_examples(800, seed=0)

    counts = Counter((example.kind, example.positive) for example in examples)
    assert counts == {(kind, positive): 50 for kind in KINDS for positive in (True, False)}


def test_everyday_sentences_of_nine_kinds() -> None:
    examples = make_examples(1800, seed=0, name="everyday")

    counts = Counter((example.kind, example.positive) for example in examples)
    assert len(counts) == 18
    assert set(counts.values()) == {100}


def test_the_seed_decides() -> None:
    assert make_examples(200, seed=0) == make_examples(200, seed=0)
    assert make_examples(200, seed=0) != make_examples(200, seed=1)


@pytest.mark.parametrize("name", ["behaviours", "everyday"])
def test_every_gap_is_filled(name: str) -> None:
    for example in make_examples(4000, seed=2, name=name):
        assert not set(example.text) & set("{}")
        assert not example.text[0].islower()
        assert not re.search(
            r"\ba (?!use)[aeiou]|\ban use|\b(?:an?|the) an? ", example.text, re.IGNORECASE
        )


def test_every_sentence_is_one() -> None:
    for example in make_examples(4000, seed=2):
        assert example.text[0].isupper()
        assert example.text[-1] in ".!?"


@pytest.mark.parametrize("name", ["behaviours", "everyday"])
def test_no_sentence_has_both_labels(name: str) -> None:
    labels: dict[str, set[bool]] = {}
    for example in make_examples(6000, seed=3, name=name):
        labels.setdefault(example.text, set()).add(example.positive)

    assert [text for text, both in labels.items() if len(both) > 1] == []
