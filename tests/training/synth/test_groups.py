"""Sentences about people of whom nothing but a group is said."""

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from training.plan.plan import StageRows
from training.plan.pool import Pool, draw_rows
from training.synth.groups import make_sets


def test_the_sentences_of_a_set_differ_in_the_person_alone() -> None:
    for told in make_sets(200, seed=1):
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
    sets = make_sets(500, seed=2)

    assert len(set(sets)) == 500
    assert sets == make_sets(500, seed=2) != make_sets(500, seed=3)
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
    sets = make_sets(10, seed=4)
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
