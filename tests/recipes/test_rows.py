"""The rows that a stage learns from."""

import random
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from model.checkpoint.records import DataSource
from recipes.data import LABELS
from recipes.rows import (
    Rows,
    about_people,
    by_rule,
    cut_sentences,
    fill_masked_names,
    from_reviews,
    join,
    labelled,
    mix_targets,
    soften,
    written,
)
from recipes.templates import make_group_sets, read_examples
from training.data.augment import GIVEN_NAMES
from training.data.dataset import Dataset
from training.data.validation_split import text_key
from training.fit.rows import LEFT_OUT

SOURCE = DataSource(file="a.tsv", rows=10, sha256="0" * 64)
SOME = Dataset(tuple(f"s{n}" for n in range(10)), (0, 2) * 5, LABELS, (SOURCE,))


def teach(texts: Sequence[str]) -> NDArray[np.float32]:
    return np.array([[0.25, 0.5, 0.25]] * len(texts), np.float32)


def test_passes_over_a_source() -> None:
    drawn = labelled(SOME, 2.3, has_neutral=True, seed=0)
    assert sorted(Counter(drawn.texts).values()) == [2] * 7 + [3] * 3
    for text, target in zip(drawn.texts, drawn.targets.tolist(), strict=True):
        assert target == ([0.0, 0.0, 1.0] if int(text[1:]) % 2 else [1.0, 0.0, 0.0])
    part = labelled(SOME, 0.5, has_neutral=True, seed=0).texts
    assert part == labelled(SOME, 0.5, has_neutral=True, seed=0).texts
    assert part != labelled(SOME, 0.5, has_neutral=True, seed=1).texts
    # A source of two classes says nothing of neutral.
    pair = labelled(SOME, 1.0, has_neutral=False, seed=0)
    assert set(pair.targets[:, 1].tolist()) == {LEFT_OUT}


def test_the_teacher_fills_what_labels_do_not_say() -> None:
    taught = np.array([[0.25, 0.5, 0.25], [0.25, 0.5, 0.25]], np.float32)
    truth = np.array([[0.0, 0.0, 1.0], [0.0, LEFT_OUT, 1.0]], np.float32)
    assert mix_targets(taught, truth, 0.5).tolist() == [[0.125, 0.25, 0.625], [0.125, 0.5, 0.375]]


def test_labels_count_by_how_far_the_teacher_agrees() -> None:
    said = {"bad": [0.5, 0.25, 0.25], "so so": [0.25, 0.5, 0.25], "good": [0.25, 0.25, 0.5]}
    said |= {"great": [0.25, 0.5, 0.25], "a long one": [0.0, 0.0, 0.0]}
    truth = np.eye(3, dtype=np.float32)[[0, 1, 2, 2, 2]]
    mixed = soften(
        Rows(list(said), truth),
        lambda texts: np.array([said[text] for text in texts], np.float32),
        lambda text: len(text) < 6,
        soft=0.5,
    )
    # 3 of 4 agree, by chance 1/16 + 2/16 + 2/16: kappa is 7/11, and labels count 7/22.
    assert mixed.targets[2].tolist() == pytest.approx([15 / 88, 15 / 88, 58 / 88])
    assert mixed.targets[4].tolist() == [0.0, 0.0, 1.0]  # too long for the teacher
    assert mixed.targets.sum(axis=1) == pytest.approx(1.0)


@pytest.mark.parametrize(("count", "found"), [(5, 5), (1000, 40)])
def test_sentences_differ_and_are_of_some_length(count: int, found: int) -> None:
    texts = [f"This is number {number}. So? Is it number {number}?!" for number in range(20)]
    sentences = cut_sentences(texts, count, random.Random(0))
    assert len(set(sentences)) == len(sentences) == found
    assert all(sentence.endswith((".", "?!")) for sentence in sentences)
    rows = from_reviews(texts, count, teach, seed=0)
    assert rows.targets.tolist() == teach(rows.texts).tolist()


def test_rules_say_nothing_of_neutral_unless_they_are_sure_or_neutral() -> None:
    found = Counter(tuple(target) for target in by_rule(400, seed=0).targets.tolist())
    pair = {(1.0, LEFT_OUT, 0.0), (0.0, LEFT_OUT, 1.0)}
    whole = {(1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)}
    assert found.keys() == pair | whole


def test_every_group_gets_the_mean_of_all_as_its_target() -> None:
    def think(texts: Sequence[str]) -> NDArray[np.float32]:
        """Thinks well of women, whatever is said."""
        positive = np.array([0.9 if "woman" in text else 0.1 for text in texts], np.float32)
        return np.stack([1 - positive, 0 * positive, positive], axis=1)

    drawn = about_people(10, think, seed=4)
    assert len(drawn.texts) == len(drawn.targets) == 40
    for number, one in enumerate(make_group_sets(10, seed=4)):
        own = slice(4 * number, 4 * number + 4)
        assert set(drawn.texts[own]) <= set(one)
        mean = np.mean([0.9 if "woman" in text else 0.1 for text in one])
        np.testing.assert_allclose(drawn.targets[own, 2], mean, rtol=1e-5)


def test_a_share_is_changed_when_rows_are_joined() -> None:
    rows = Rows([f"It was not bad at all, number {n}." for n in range(200)], teach([""] * 200))
    joined = join([rows, rows], keep_out=frozenset(), noise=0.3, seed=0)
    changed = sum(old != new for old, new in zip([*rows.texts] * 2, joined.texts, strict=True))
    assert 80 < changed < 160
    assert joined.targets.shape == (400, 3)


def test_no_text_that_is_measured_on_is_joined() -> None:
    rows = Rows(["It was dull.", "So it was.", "IT WAS, dull"], np.eye(3, dtype=np.float32))
    joined = join([rows], keep_out={text_key("It was dull!")}, noise=0.0, seed=0)
    assert joined.texts == ["So it was."]
    assert joined.targets.tolist() == [[0.0, 1.0, 0.0]]


def test_what_was_written_one_by_one_is_sound_and_none_of_it_measures() -> None:
    rows = written()
    keys = [text_key(text) for text in rows.texts]
    assert len(set(keys)) == len(keys) == 2198
    assert not {*keys} & {text_key(example.text) for example in read_examples("held_out")}
    np.testing.assert_allclose(rows.targets.sum(axis=1), 1.0, rtol=1e-6)
    assert Counter(rows.targets.argmax(axis=1).tolist()) == {0: 910, 1: 674, 2: 614}


def test_masked_names_are_filled() -> None:
    texts = ["[NAME] and [NAME] won!", "Nobody won.", "[RELIGION] is old."]
    filled = fill_masked_names(texts, share=1.0, seed=0)
    assert set(filled[0].removesuffix(" won!").split(" and ")) <= set(GIVEN_NAMES)
    assert filled[1:] == texts[1:]
