"""Sentences made by rule, and those of people of whom nothing but a group is said."""

import re
import tomllib
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from training.plan.plan import StageRows
from training.plan.pool import Pool, draw_rows
from training.synth.templates import make_examples, make_group_sets, read_templates


@pytest.mark.parametrize(
    ("name", "kinds", "labels"),
    [
        ("behaviours", 8, {True, False}),
        ("everyday", 9, {True, False}),
        ("neutral", 8, {None}),
    ],
)
def test_as_many_of_each_kind_and_label(name: str, kinds: int, labels: set[bool | None]) -> None:
    examples = make_examples(50 * kinds * len(labels), seed=0, name=name)

    counts = Counter((example.kind, example.positive) for example in examples)
    assert counts == {(kind, label): 50 for kind, _ in counts for label in labels}
    assert len(counts) == kinds * len(labels)


@pytest.mark.parametrize("name", ["behaviours", "everyday", "neutral", "service"])
def test_every_gap_is_filled(name: str) -> None:
    for example in make_examples(4000, seed=2, name=name):
        assert not set(example.text) & set("{}")
        assert not example.text[0].islower()
        assert not re.search(
            r"\ba (?!use)[aeiou]|\ban use|\b(?:an?|the) an? ", example.text, re.IGNORECASE
        )


@pytest.mark.parametrize("name", ["behaviours", "everyday", "neutral", "service"])
def test_no_sentence_has_both_labels(name: str) -> None:
    labels: dict[str, set[bool | None]] = {}
    for example in make_examples(6000, seed=3, name=name):
        labels.setdefault(example.text, set()).add(example.positive)

    assert [text for text, both in labels.items() if len(both) > 1] == []


def test_the_sentences_of_a_set_differ_in_the_person_alone() -> None:
    for told in make_group_sets(200, seed=1):
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


def test_every_gap_is_filled_and_the_seed_decides() -> None:
    sets = make_group_sets(500, seed=2)

    assert len(set(sets)) == 500
    assert sets == make_group_sets(500, seed=2) != make_group_sets(500, seed=3)
    for told in sets:
        for text in told:
            assert not set(text) & set("{}\0")
            assert text[0].isupper()
            assert text[-1] == "."
            assert not re.search(r"\ba [aeio]|\ban [^aeiou]|\ba an? ", text, re.IGNORECASE), text


def test_every_group_gets_the_mean_of_all_as_its_target() -> None:
    def teach(texts: Sequence[str]) -> NDArray[np.float32]:
        """Thinks well of women, whatever is said."""
        positive = np.array([0.9 if "woman" in text else 0.1 for text in texts], np.float32)
        return np.stack([1 - positive, positive], axis=1)

    pool = Pool(texts={"short": ["a", "b"]}, label_ids={"short": [0, 1]})
    rows = StageRows(passes={"short": 1.0}, groups=10)

    drawn = draw_rows(
        pool,
        rows,
        undo_penn_share=0.0,
        seed=4,
        teach=teach,
        fits_teacher=lambda _: True,
    )

    assert drawn.texts[:2] == ("a", "b")
    sets = make_group_sets(10, seed=4)
    told = drawn.texts[2:]
    assert len(told) == len(drawn.targets[2:]) == 40
    for number, one in enumerate(sets):
        own = told[4 * number : 4 * number + 4]
        assert len(set(own)) == 4
        assert set(own) <= set(one)
        mean = np.mean([0.9 if "woman" in text else 0.1 for text in one])
        targets = drawn.targets[2 + 4 * number : 6 + 4 * number]
        np.testing.assert_allclose(targets[:, 1], mean, rtol=1e-5)
        np.testing.assert_allclose(targets.sum(axis=1), 1.0, rtol=1e-5)


def shapes(name: str) -> set[str]:
    """The templates of a file, by their letters, with equal gaps."""
    content = tomllib.loads(read_templates(name))
    kinds = [content, *content.get("kinds", []), *content.get("swaps", [])]
    keys = ("templates", "positive", "negative", "neutral")
    texts = [text for kind in kinds for key in keys for text in kind.get(key, ())]
    texts = [text for each in texts for text in ([each] if isinstance(each, str) else each)]
    assert texts
    return {re.sub(r"[^a-z{} ]", "", re.sub(r"\{\w+\}", "{}", text.casefold())) for text in texts}


@pytest.mark.parametrize(
    ("name", "shared"),
    # The weights that ship learnt from this one; the card says so.
    [
        ("behaviours", set()),
        ("everyday", set()),
        ("groups", set()),
        ("neutral", {"the director is {}"}),
    ],
)
def test_probes_have_templates_of_their_own(name: str, shared: set[str]) -> None:
    assert shapes(name) & shapes("probes") == shared
