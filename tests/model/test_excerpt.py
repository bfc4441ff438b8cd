"""What is kept of a long text is as if all of it had been tokenized, which it was not."""

from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from model import excerpt
from model.errors import TextTooLongError
from model.excerpt import MARGIN, Excerpt, excerpts
from model.tokenizer import Truncation
from tests.builders import tiny_tokenizer
from tests.matching import exactly

ROOM = 5
TOKENIZER = tiny_tokenizer(max_length=ROOM + 2)
pieces = st.sampled_from(
    ["the plot drags ", "good", ".", " ", "中", "e\u0301", "\u0301", "\u200b", "x", "bad-", "🎬\n"]
)
# A hundred times the same, so that texts are longer than an excerpt and words than 100 characters.
long_texts = st.lists(st.tuples(pieces, st.sampled_from([1, 2, 40, 99, 101, 150, 700]))).map(
    lambda runs: "".join(piece * count for piece, count in runs)
)


@given(text=long_texts, truncation=st.sampled_from(["right", "left"]), with_tokens=st.booleans())
@example("x" * 140 + "." * 300, "left", True)
@example("." * 300 + "x" * 140, "right", True)
@example(" " * 400 + "good" * 30 + " bad", "left", True)
def test_an_excerpt_gives_what_the_whole_gives(
    text: str, truncation: Truncation, with_tokens: bool
) -> None:
    with patch.object(excerpt, "_CHARACTERS_A_TOKEN", 1):
        some = TOKENIZER.encode(text, truncation=truncation, with_tokens=with_tokens)
    with patch.object(excerpt, "_CHARACTERS_A_TOKEN", len(text) + 1):
        whole = TOKENIZER.encode(text, truncation=truncation, with_tokens=with_tokens)

    assert some == whole


@pytest.mark.parametrize("from_end", [False, True])
def test_excerpts_grow_from_one_end_to_the_whole(from_end: bool) -> None:
    first = 16 * (ROOM + MARGIN)
    length = 5 * first
    sizes = [first, 4 * first]

    assert list(excerpts(length, room=ROOM, from_end=from_end)) == [
        *(
            Excerpt(length - size, length, False) if from_end else Excerpt(0, size, False)
            for size in sizes
        ),
        Excerpt(0, length, True),
    ]
    assert list(excerpts(first, room=ROOM, from_end=from_end)) == [Excerpt(0, first, True)]


@pytest.mark.parametrize("truncation", ["right", "left", "error"])
def test_no_more_is_tokenized_than_it_takes(truncation: Truncation) -> None:
    read: list[int] = []

    class Backend:
        def __getattr__(self, name: str) -> object:
            return getattr(TOKENIZER._backend, name)

        def encode_batch_fast(self, texts: list[str], **options: bool) -> object:
            read.extend(map(len, texts))
            return TOKENIZER._backend.encode_batch_fast(texts, **options)

    tokenizer = tiny_tokenizer(max_length=ROOM + 2)
    tokenizer._backend = Backend()  # type: ignore[assignment]
    message = (
        "the text has more than 2130 tokens and the model reads at most 7: shorten it, or set "
        "truncation to right or left"
    )
    if truncation == "error":
        with pytest.raises(TextTooLongError, match=exactly(message)):
            tokenizer.encode("." * 1_000_000, truncation=truncation)
    else:
        assert tokenizer.encode("." * 1_000_000, truncation=truncation).truncated

    assert read == [16 * (ROOM + MARGIN)]
