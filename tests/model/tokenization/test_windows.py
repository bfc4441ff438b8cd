"""Long texts: windows and their joined answers, and excerpts that stand for the whole."""

import math
from itertools import pairwise
from pathlib import Path
from unittest.mock import patch

import pytest
import tokenizers
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import normalizers

from model import Prediction
from model.errors import TextTooLongError
from model.tokenization import tokenizer as tokenizer_module
from model.tokenization.tokenizer import (
    MARGIN,
    Tokenizer,
    check_growth,
    divide,
    most_tokens,
    window_step,
)
from model.tokenization.wordpiece import wordpiece_tokenizer
from model.types import Truncation
from tests.builders import MAX_LENGTH, VOCABULARY, tiny_tokenizer
from tests.matching import exactly

ROOM = MAX_LENGTH - 2
TOKENIZER = tiny_tokenizer()
LONG = tiny_tokenizer(max_length=100_000)
CLS, SEP = VOCABULARY.index("[CLS]"), VOCABULARY.index("[SEP]")


@given(count=st.integers(0, 3000), room=st.integers(1, 600))
def test_windows_hold_every_token_and_are_no_more_than_needed(count: int, room: int) -> None:
    windows = divide(count, room)
    assert windows[0].start == 0
    assert windows[-1].stop == count
    assert all(window.stop - window.start == room for window in windows[:-1])
    assert all(
        later.start - earlier.start == window_step(room) and later.start <= earlier.stop
        for earlier, later in pairwise(windows)
    )
    if len(windows) > 1:
        assert room // 4 < windows[-1].stop - windows[-1].start <= room
    assert most_tokens(room, len(windows)) >= count
    assert len(windows) == 1 or most_tokens(room, len(windows) - 1) < count


def test_a_window_begins_three_quarters_after_the_one_before() -> None:
    assert divide(894, 510) == [slice(0, 510), slice(383, 893), slice(766, 894)]
    assert divide(0, 510) == [slice(0, 0)]
    assert most_tokens(510, 64) == 24_639


texts = st.text(st.sampled_from("ab .,[]é中🎬\u0301\u3000\x1c"), max_size=300)


@given(text=texts)
def test_windows_of_a_text_are_cut_out_of_its_tokens(text: str) -> None:
    whole = LONG.encode(text, with_tokens=True)
    assert whole.tokens is not None
    ids, tokens = whole.input_ids[1:-1], whole.tokens[1:-1]
    windows = TOKENIZER.encode_windows(text, max_windows=64)
    parts = divide(len(ids), ROOM)
    assert [window.input_ids for window in windows] == [[CLS, *ids[part], SEP] for part in parts]
    for number, (window, part) in enumerate(zip(windows, parts, strict=True)):
        assert (window.window, window.windows, window.truncated) == (number, len(parts), False)
        assert (window.tokens, window.text) == (None, None)
        shown = TOKENIZER.encode_windows(text, max_windows=64, with_tokens=True)[number]
        assert shown.tokens is not None
        assert (shown.input_ids, shown.tokens[1:-1]) == (window.input_ids, tokens[part])
        assert (shown.window, shown.windows, shown.text) == (number, len(parts), text)


def test_a_text_that_just_fits_into_the_windows_is_not_refused() -> None:
    most = most_tokens(ROOM, 4)
    assert len(TOKENIZER.encode_windows("good " * most, max_windows=4)) == 4
    message = (
        "the text takes 5 windows of 32 tokens and may have at most 4: divide it, or set "
        "truncation to right or left"
    )
    with pytest.raises(TextTooLongError, match=exactly(message)):
        TOKENIZER.encode_windows("good " * (most + 1), max_windows=4)


def test_of_a_far_longer_text_only_a_part_is_counted() -> None:
    text = "good " * 100_000
    with pytest.raises(TextTooLongError, match=r"the text takes more than \d\d? windows"):
        TOKENIZER.encode_windows(text, max_windows=2)


def prediction(logits: list[float], tokens: int) -> Prediction:
    return Prediction("", 0.0, {"no": 0.0, "yes": 0.0}, tokens, truncated=False, logits=logits)


def test_the_logits_of_windows_are_weighted_by_their_tokens() -> None:
    only = prediction([1.0, 3.0], 30)
    assert Prediction.of_windows([only], temperature=2.0) is only
    joined = Prediction.of_windows([only, prediction([2.0, -1.0], 10)], temperature=2.0)
    assert joined.logits == [1.25, 2.0]
    yes = 1 / (1 + math.exp(-0.75 / 2.0))
    assert joined.probabilities == pytest.approx({"no": 1 - yes, "yes": yes}, abs=1e-15)
    assert (joined.label, joined.score) == ("yes", joined.probabilities["yes"])
    assert (joined.token_count, joined.truncated, joined.windows) == (40, False, 2)


SHORT_ROOM = 5
SHORT = tiny_tokenizer(max_length=SHORT_ROOM + 2)
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
@settings(max_examples=50)
def test_an_excerpt_gives_what_the_whole_gives(
    text: str, truncation: Truncation, with_tokens: bool
) -> None:
    with patch.object(tokenizer_module, "_CHARACTERS_A_TOKEN", 1):
        some = SHORT.encode(text, truncation=truncation, with_tokens=with_tokens)
    with patch.object(tokenizer_module, "_CHARACTERS_A_TOKEN", len(text) + 1):
        whole = SHORT.encode(text, truncation=truncation, with_tokens=with_tokens)
    assert some == whole


def spy(tokenizer: Tokenizer) -> list[int]:
    """The lengths of all texts that its backend encodes from here on."""
    backend = tokenizer._backend
    read: list[int] = []

    class Backend:
        def __getattr__(self, name: str) -> object:
            return getattr(backend, name)

        def encode_batch(self, texts: list[str], **options: bool) -> object:
            read.extend(map(len, texts))
            return backend.encode_batch(texts, **options)

        encode_batch_fast = encode_batch

    tokenizer._backend = Backend()  # type: ignore[assignment]
    return read


@pytest.mark.parametrize("truncation", ["right", "left", "error"])
def test_no_more_is_tokenized_than_it_takes(truncation: Truncation) -> None:
    tokenizer = tiny_tokenizer(max_length=SHORT_ROOM + 2)
    read = spy(tokenizer)
    message = (
        "the text has more than 2130 tokens and the model reads at most 7: shorten it, or set "
        "truncation to right or left"
    )
    if truncation == "error":
        with pytest.raises(TextTooLongError, match=exactly(message)):
            tokenizer.encode("." * 1_000_000, truncation=truncation)
    else:
        assert tokenizer.encode("." * 1_000_000, truncation=truncation).truncated
    assert read == [16 * (SHORT_ROOM + MARGIN)]


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
    return Tokenizer(backend, max_length=SHORT_ROOM + 2)


def test_a_text_that_grows_too_much_is_refused_before_it_is_encoded() -> None:
    tokenizer = compatible_tokenizer()
    read = spy(tokenizer)
    message = (
        "136192 characters of the text become more than 1000000 when they are normalised: shorten "
        "it"
    )
    # The fourth part: 16 * 133 characters, and four times as many each time.
    with pytest.raises(TextTooLongError, match=exactly(message)):
        tokenizer.encode(LIGATURE * 600_000)
    assert read == [2_128, 8_512, 34_048]


@pytest.mark.parametrize(
    ("length", "grown", "refused"),
    [
        (16_384, 64, False),  # at once, because that is bounded
        (16_385, 62, True),
        (16_385, 61, False),
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
        with pytest.raises(TextTooLongError):
            check_growth("a" * length, normalize)
    else:
        check_growth("a" * length, normalize)
        assert sum(pieces) == (length if length > 16_384 else 0)
    assert max(pieces, default=0) <= 16_384
