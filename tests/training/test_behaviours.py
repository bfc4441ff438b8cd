"""Sentences made by rule."""

import re
from collections import Counter

from training.behaviours import make_examples

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


def test_the_seed_decides() -> None:
    assert make_examples(200, seed=0) == make_examples(200, seed=0)
    assert make_examples(200, seed=0) != make_examples(200, seed=1)


def test_every_gap_is_filled_and_every_sentence_is_one() -> None:
    for example in make_examples(4000, seed=2):
        assert not set(example.text) & set("{}")
        assert example.text[0].isupper()
        assert example.text[-1] in ".!?"
        assert not re.search(r"\ba [aeiou]|\b(?:an?|the) an? ", example.text, re.IGNORECASE)


def test_no_sentence_has_both_labels() -> None:
    labels: dict[str, set[bool]] = {}
    for example in make_examples(6000, seed=3):
        labels.setdefault(example.text, set()).add(example.positive)

    assert [text for text, both in labels.items() if len(both) > 1] == []
