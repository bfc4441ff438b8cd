"""Changes to training texts that leave their sentiment alone."""

import pytest

from training.augment import undo_penn, undo_penn_in_some


@pytest.mark.parametrize(
    ("penn", "plain"),
    [
        ("I do n't like it .", "I don't like it."),
        ("it 's a film , not a -lrb- very -rrb- good one !", "it's a film, not a (very) good one!"),
        ("They 're `` fine ''", 'They\'re " fine "'),
        ("ca n't , wo n't", "can't, won't"),
        ("nothing to do", "nothing to do"),
    ],
)
def test_undone(penn: str, plain: str) -> None:
    assert undo_penn(penn) == plain


def test_a_share_of_those_in_the_style_is_changed_and_always_the_same() -> None:
    texts = [f"do n't {number}" for number in range(200)] + ["fine , really"] * 10
    changed = undo_penn_in_some(texts, share=0.5, seed=1)
    assert changed == undo_penn_in_some(texts, share=0.5, seed=1)
    assert 70 < sum(text.startswith("don't") for text in changed) < 130
    assert changed[200:] == ("fine , really",) * 10
    assert undo_penn_in_some(texts, share=0.0, seed=1) == tuple(texts)
