"""What is kept of a long text is as if all of it had been tokenized, which it was not."""

from pathlib import Path
from unittest.mock import patch

import pytest
import tokenizers
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import normalizers

from model.errors import TextGrowsError, TextTooLongError
from model.tokenization import tokenizer
from model.tokenization.tokenizer import (
    MARGIN,
    Excerpt,
    Tokenizer,
    Truncation,
    check_growth,
    excerpts,
)
from model.tokenization.wordpiece import wordpiece_tokenizer
from tests.builders import VOCABULARY, tiny_tokenizer
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
    with patch.object(tokenizer, "_CHARACTERS_A_TOKEN", 1):
        some = TOKENIZER.encode(text, truncation=truncation, with_tokens=with_tokens)
    with patch.object(tokenizer, "_CHARACTERS_A_TOKEN", len(text) + 1):
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


# One character that NFKC makes 18 of.
LIGATURE = "\N{ARABIC LIGATURE SALLALLAHOU ALAYHE WASALLAM}"


def compatible_tokenizer() -> Tokenizer:
    """BERT's, but NFKC comes first."""
    backend: tokenizers.Tokenizer = wordpiece_tokenizer(
        {token: number for number, token in enumerate(VOCABULARY)}, path=Path("vocab.txt")
    )
    backend.normalizer = normalizers.Sequence([normalizers.NFKC(), backend.normalizer])
    # One word, so that no part of it gives enough tokens.
    backend.pre_tokenizer = tokenizers.pre_tokenizers.CharDelimiterSplit("|")
    return Tokenizer(backend, max_length=ROOM + 2)


@pytest.mark.parametrize("truncation", ["right", "left", "error"])
@pytest.mark.parametrize("with_tokens", [False, True])
def test_a_text_that_grows_too_much_is_refused_before_it_is_encoded(
    truncation: Truncation, with_tokens: bool
) -> None:
    tokenizer = compatible_tokenizer()
    read: list[int] = []

    class Backend:
        def __getattr__(self, name: str) -> object:
            return getattr(tokenizer_backend, name)

        def encode_batch(self, texts: list[str], **options: bool) -> object:
            read.extend(map(len, texts))
            return tokenizer_backend.encode_batch(texts, **options)

        encode_batch_fast = encode_batch

    tokenizer_backend = tokenizer._backend
    tokenizer._backend = Backend()  # type: ignore[assignment]
    message = (
        "136192 characters of the text become more than 1000000 when they are normalised: shorten "
        "it"
    )
    # The fourth part: 16 * 133 characters, and four times as many each time.
    with pytest.raises(TextGrowsError, match=exactly(message)) as caught:
        tokenizer.encode(LIGATURE * 600_000, truncation=truncation, with_tokens=with_tokens)

    assert (caught.value.characters, caught.value.limit) == (136_192, 1_000_000)
    assert read == [2_128, 8_512, 34_048]


def test_a_text_that_grows_little_is_read_to_its_end() -> None:
    encoding = compatible_tokenizer().encode("\N{LATIN SMALL LIGATURE FI}" * 600_000 + "|good")

    assert encoding.input_ids[2] == VOCABULARY.index("good")
    assert encoding.truncated is False


@pytest.mark.parametrize(
    ("length", "grown", "refused"),
    [
        (16_384, 64, False),  # at once, because that is bounded
        (16_385, 62, True),
        (16_385, 61, False),
        (250_000, 4, False),
        (300_000, 4, False),
        (300_000, 5, True),
    ],
)
def test_growth_is_bounded_by_a_million_and_by_four_times(
    length: int, grown: int, refused: bool
) -> None:
    pieces: list[int] = []

    def normalize(text: str) -> str:
        pieces.append(len(text))
        return text * grown

    if refused:
        with pytest.raises(TextGrowsError):
            check_growth("a" * length, normalize)
    else:
        check_growth("a" * length, normalize)
        assert sum(pieces) == (length if length > 16_384 else 0)
    assert max(pieces, default=0) <= 16_384
