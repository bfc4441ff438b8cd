"""The rows of a stage."""

import random
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from training.fit.rows import LEFT_OUT
from training.plan.plan import StageRows
from training.plan.pool import Pool, SoftDataset, cut_sentences, draw_rows, mix_targets
from training.synth.templates import make_examples

POOL = Pool(
    texts={
        "short": [f"s{number}" for number in range(10)],
        "long": [f"l{number} " * 9 for number in range(10)],
        "bare": [f"This is number {number}. Is it a good one? No!" for number in range(20)],
    },
    label_ids={"short": [0, 1] * 5, "long": [1] * 10},
)


def teach(texts: Sequence[str]) -> NDArray[np.float32]:
    return np.array([[0.25, 0.75]] * len(texts), np.float32).reshape(-1, 2)


Ask = Callable[[Sequence[str]], NDArray[np.float32]]


def draw(
    pool: Pool,
    rows: StageRows,
    *,
    seed: int = 0,
    teach: Ask | None = None,
    fits_teacher: Callable[[str], bool] = lambda _: True,
    ask_expert: Ask | None = None,
) -> SoftDataset:
    return draw_rows(
        pool,
        rows,
        undo_penn_share=0.0,
        seed=seed,
        teach=teach,
        fits_teacher=fits_teacher,
        ask_expert=ask_expert,
    )


def test_passes_over_sources() -> None:
    rows = StageRows(passes={"short": 2.3, "long": 0.4})

    drawn = draw(POOL, rows)

    counts = Counter(drawn.texts)
    short = [counts[text] for text in POOL.texts["short"]]
    assert sorted(short) == [2] * 7 + [3] * 3
    assert sorted(counts[text] for text in POOL.texts["long"]) == [0] * 6 + [1] * 4
    for text, target in zip(drawn.texts, drawn.targets, strict=True):
        positive = text.startswith("l") or int(text[1:]) % 2
        assert target.tolist() == ([0.0, 1.0] if positive else [1.0, 0.0])


def test_another_seed_takes_another_part() -> None:
    rows = StageRows(passes={"long": 0.5})

    def taken(seed: int) -> tuple[str, ...]:
        return draw(POOL, rows, seed=seed).texts

    assert taken(0) == taken(0)
    assert taken(0) != taken(1)


def test_the_teacher_softens_what_it_reads_whole() -> None:
    rows = StageRows(passes={"short": 1.0, "long": 1.0}, soft=0.5)

    drawn = draw(POOL, rows, teach=teach, fits_teacher=lambda text: len(text) < 5)

    for text, target in zip(drawn.texts, drawn.targets, strict=True):
        if text.startswith("l"):
            assert target.tolist() == [0.0, 1.0]
        else:
            label = int(text[1:]) % 2
            assert target.tolist() == [[0.625, 0.375], [0.125, 0.875]][label]


def test_sentences_are_cut_for_the_teacher_and_rules_have_labels() -> None:
    rows = StageRows(passes={"short": 1.0}, sentences={"bare": 7}, rules=32)

    drawn = draw(POOL, rows, teach=teach)

    assert len(drawn.texts) == len(drawn.targets) == 10 + 32 + 7
    assert drawn.targets[10:42].sum(axis=0).tolist() == [16.0, 16.0]
    assert drawn.targets[42:].tolist() == [[0.25, 0.75]] * 7
    assert all(len(text.split()) >= 4 for text in drawn.texts[42:])


def test_noise_comes_after_the_teacher() -> None:
    heard: list[str] = []

    def listen(texts: Sequence[str]) -> NDArray[np.float32]:
        heard.extend(texts)
        return teach(texts)

    rows = StageRows(passes={"long": 1.0}, soft=1.0, noise=1.0)

    drawn = draw(POOL, rows, teach=listen)

    assert heard == POOL.texts["long"]
    assert sum(old != new for old, new in zip(heard, drawn.texts, strict=True)) >= 5


@pytest.mark.parametrize(("count", "found"), [(5, 5), (1000, 40)])
def test_sentences_differ_and_are_of_some_length(count: int, found: int) -> None:
    rng = random.Random(0)
    texts = [f"This is number {number}. So? Is it number {number}?!" for number in range(20)]

    sentences = cut_sentences(texts, count, rng)

    assert len(set(sentences)) == len(sentences) == found
    assert all(sentence.endswith((".", "?!")) for sentence in sentences)


def test_rules_are_shared_among_the_files_of_templates() -> None:
    rows = StageRows(passes={"short": 1.0}, rules=72, templates=("behaviours", "everyday"))

    drawn = draw(POOL, rows, seed=4)

    own = make_examples(36, seed=4, name="behaviours")
    others = make_examples(36, seed=4, name="everyday")
    assert drawn.texts[10:] == tuple(example.text for example in [*own, *others])
    assert drawn.targets[10:, 1].tolist() == [1.0 if e.positive else 0.0 for e in [*own, *others]]


THREE = Pool(
    texts={
        "whole": ["bad", "so so", "good", "great"],
        "two": ["awful", "fine"],
    },
    label_ids={"whole": [0, 1, 2, 2], "two": [0, 2]},
    num_labels=3,
    known={"two": (0, 2)},
)


def teach_three(texts: Sequence[str]) -> NDArray[np.float32]:
    """Calls nothing negative but what is bad, and `great` neutral."""
    said = {
        "bad": [0.5, 0.25, 0.25],
        "so so": [0.25, 0.5, 0.25],
        "good": [0.25, 0.25, 0.5],
        "great": [0.25, 0.5, 0.25],
        "awful": [0.25, 0.5, 0.25],
        "fine": [0.125, 0.5, 0.375],
    }
    return np.array([said[text] for text in texts], np.float32)


def test_a_source_that_lacks_classes_says_nothing_of_them() -> None:
    rows = StageRows(passes={"whole": 1.0, "two": 1.0})

    drawn = draw(THREE, rows)

    targets = dict(zip(drawn.texts, drawn.targets.tolist(), strict=True))
    assert targets["so so"] == [0.0, 1.0, 0.0]
    assert targets["awful"] == [1.0, LEFT_OUT, 0.0]
    assert targets["fine"] == [0.0, LEFT_OUT, 1.0]


def test_rules_say_nothing_of_the_classes_between() -> None:
    rows = StageRows(passes={"whole": 1.0}, rules=32)

    drawn = draw(THREE, rows)

    made = drawn.targets[4:].tolist()
    assert made.count([1.0, LEFT_OUT, 0.0]) == made.count([0.0, LEFT_OUT, 1.0]) == 16


def test_the_teacher_fills_what_labels_do_not_say() -> None:
    taught = np.array([[0.25, 0.5, 0.25], [0.25, 0.5, 0.25]], np.float32)
    labelled = np.array([[0.0, 0.0, 1.0], [0.0, LEFT_OUT, 1.0]], np.float32)

    mixed = mix_targets(taught, labelled, np.array([0.5, 0.5]))

    assert mixed.tolist() == [[0.125, 0.25, 0.625], [0.125, 0.5, 0.375]]


def test_labels_count_by_how_far_the_teacher_agrees() -> None:
    rows = StageRows(passes={"whole": 1.0, "two": 1.0}, soft=0.5, agreement=True)

    drawn = draw(THREE, rows, teach=teach_three)

    targets = dict(zip(drawn.texts, drawn.targets.tolist(), strict=True))
    # "whole": 3 of 4 agree, by chance 1/16 + 2/16 + 2/16: kappa is 7/11, and labels count 7/22.
    assert targets["good"] == pytest.approx([15 / 88, 15 / 88, 58 / 88])
    # "two": judged between its own classes, where both agree: kappa 1.
    assert targets["awful"] == pytest.approx([0.375, 0.5, 0.125])
    assert drawn.targets.sum(axis=1) == pytest.approx(1.0)


def test_the_expert_shares_what_the_teacher_leaves_to_its_classes() -> None:
    rows = StageRows(
        passes={"whole": 1.0, "two": 1.0}, soft=1.0, sentences={"bare": 1}, expert=("two", "bare")
    )
    pool = Pool(
        texts={**THREE.texts, "bare": ["This one is bad."]},
        label_ids=THREE.label_ids,
        num_labels=3,
        known=THREE.known,
    )
    heard: list[str] = []

    def teach_more(texts: Sequence[str]) -> NDArray[np.float32]:
        known = [text for text in texts if text != "This one is bad."]
        rest = [[0.25, 0.5, 0.25]] * (len(texts) - len(known))
        return np.concatenate(
            [teach_three(known) if known else np.zeros((0, 3)), rest or np.zeros((0, 3))]
        ).astype(np.float32)

    def ask_expert(texts: Sequence[str]) -> NDArray[np.float32]:
        heard.extend(texts)
        return np.array([[0.75, LEFT_OUT, 0.25]] * len(texts), np.float32)

    drawn = draw(pool, rows, teach=teach_more, ask_expert=ask_expert)

    assert sorted(heard) == ["This one is bad.", "awful", "fine"]
    targets = dict(zip(drawn.texts, drawn.targets.tolist(), strict=True))
    assert targets["awful"] == targets["fine"] == [0.375, 0.5, 0.125]
    assert targets["This one is bad."] == [0.375, 0.5, 0.125]
    assert targets["good"] == [0.25, 0.25, 0.5]


def test_sentences_that_are_neither_have_the_class_between() -> None:
    rows = StageRows(passes={"whole": 1.0}, rules=32, templates=("behaviours", "neutral"))

    drawn = draw(THREE, rows)

    made = drawn.targets[4:].tolist()
    assert made.count([0.0, 1.0, 0.0]) == 16
    assert made.count([1.0, LEFT_OUT, 0.0]) == made.count([0.0, LEFT_OUT, 1.0]) == 8
