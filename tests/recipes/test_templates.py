"""Sentences made by rule, and those of people of whom nothing but a group is said."""

import re
from collections import Counter

import pytest

from recipes.data import overlap_with
from recipes.templates import make_examples, make_group_sets, read_examples


@pytest.mark.parametrize(
    ("name", "kinds", "labels"),
    [
        ("behaviours", 8, {True, False}),
        ("complaints", 28, {True, False, None}),
        ("everyday", 9, {True, False}),
        ("neutral", 8, {None}),
    ],
)
def test_as_many_of_each_kind_and_label(name: str, kinds: int, labels: set[bool | None]) -> None:
    share = 3 if name == "complaints" else 50  # some of its sentences have no gap
    examples = make_examples(share * kinds * len(labels), seed=0, name=name)
    counts = Counter((example.kind, example.positive) for example in examples)
    assert counts == {(kind, label): share for kind, _ in counts for label in labels}
    assert len(counts) == kinds * len(labels)


def test_sentences_held_out_are_of_the_same_kinds_and_are_not_made() -> None:
    made, held_out = make_examples(50_000, seed=0, name="complaints"), read_examples("held_out")
    assert {example.kind for example in made} == {example.kind for example in held_out}
    assert len(held_out) == 197
    overlaps = overlap_with([example.text for example in held_out])
    assert [example.text for example in made if overlaps(example.text)] == []


@pytest.mark.parametrize("name", ["behaviours", "complaints", "everyday", "neutral", "service"])
def test_every_gap_is_filled_and_no_sentence_has_two_labels(name: str) -> None:
    labels: dict[str, set[bool | None]] = {}
    for example in make_examples(2000, seed=2, name=name):
        labels.setdefault(example.text, set()).add(example.positive)
        assert not set(example.text) & set("{}")
        assert not example.text[0].islower()
        assert not re.search(
            r"\ba (?!use)[aeiou]|\ban use|\b(?:an?|the) an? ", example.text, re.IGNORECASE
        )
    assert [text for text, both in labels.items() if len(both) > 1] == []


def test_the_sentences_of_a_set_differ_in_the_person_alone() -> None:
    for told in make_group_sets(60, seed=1):
        assert len(told) == len(set(told)) > 60
        start = common(told)
        end = common([text[::-1] for text in told])
        people = {text[start : len(text) - end] for text in told}
        assert len(people) == len(told)
        assert max(map(len, people)) < 24


def common(texts: tuple[str, ...] | list[str]) -> int:
    """How many characters all begin with."""
    shortest = min(map(len, texts))
    return next((at for at in range(shortest) if len({text[at] for text in texts}) > 1), shortest)


def test_the_seed_decides_and_every_article_fits() -> None:
    sets = make_group_sets(100, seed=2)
    assert len(set(sets)) == 100
    assert sets == make_group_sets(100, seed=2) != make_group_sets(100, seed=3)
    for text in (text for told in sets for text in told):
        assert not set(text) & set("{}\0")
        assert text[0].isupper()
        assert not re.search(r"\ba [aeio]|\ban [^aeiou]|\ba an? ", text, re.IGNORECASE), text
