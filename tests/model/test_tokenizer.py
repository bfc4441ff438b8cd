"""Offsets, words, truncation and special tokens, over all of Unicode."""

import json
import re
import unicodedata
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import decoders, models, pre_tokenizers

from model.errors import CheckpointError, TextTooLongError
from model.tokenizer import Token, Tokenizer, Truncation, load_tokenizer, wordpiece_tokenizer
from tests.builders import MAX_LENGTH, SPECIALS, VOCABULARY, tiny_tokenizer
from tests.matching import exactly

TOKENIZER = tiny_tokenizer()
LONG = tiny_tokenizer(max_length=100_000)
IDS = {token: index for index, token in enumerate(VOCABULARY)}
any_text = st.text()  # no surrogates
# Characters that some count as white space, or drop, and others do not.
ODD = "\x00\x1c\x1d\x1e\x1f\x85\xa0\xad\u0301\u200b\u200d\u200f\u202e\u2028\u2029\u3000\ufeff\ufffd"
odd_text = st.text(st.sampled_from("ab .,[]" + ODD + "é中🎬"))


def tokens_of(text: str, tokenizer: Tokenizer = LONG) -> tuple[Token, ...]:
    """Without `[CLS]` and `[SEP]`."""
    tokens = tokenizer.encode(text, with_tokens=True).tokens
    assert tokens is not None
    return tokens[1:-1]


def spans(text: str) -> list[tuple[str, int, int, int | None]]:
    return [(token.text, token.start, token.end, token.word) for token in tokens_of(text)]


def test_an_ordinary_text() -> None:
    encoding = TOKENIZER.encode("The plot drags.", with_tokens=True)

    assert encoding.tokens == (
        Token("[CLS]", 0, 0, True, None),
        Token("the", 0, 3, False, 0),
        Token("plot", 4, 8, False, 1),
        Token("d", 9, 10, False, 2),
        Token("##r", 10, 11, False, 2),
        Token("##a", 11, 12, False, 2),
        Token("##g", 12, 13, False, 2),
        Token("##s", 13, 14, False, 2),
        Token(".", 14, 15, False, 2),
        Token("[SEP]", 0, 0, True, None),
    )
    assert encoding.input_ids == [IDS[token.text] for token in encoding.tokens]
    assert encoding.truncated is False


def test_tokens_are_given_only_if_asked_for() -> None:
    assert TOKENIZER.encode("good").tokens is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # one code point outside the first plane is one character
        ("🎬 good", [("[UNK]", 0, 1, 0), ("good", 2, 6, 1)]),
        # a family of five code points
        ("👩‍👩‍👧 good", [("[UNK]", 0, 5, 0), ("good", 6, 10, 1)]),
        # an accent apart from its letter is dropped, and its place stays
        ("cafe\u0301 a", [*spans("cafe"), ("a", 6, 7, 1)]),
        ("café a", [*spans("cafe"), ("a", 5, 6, 1)]),
        # each CJK character is a token; without a space they are one word
        ("中文 good", [("[UNK]", 0, 1, 0), ("[UNK]", 1, 2, 0), ("good", 3, 7, 1)]),
        ("中good", [("[UNK]", 0, 1, 0), ("good", 1, 5, 0)]),
        # control characters are dropped inside a word
        ("go\x00od", [("good", 0, 5, 0)]),
        # white space for Python, a dropped control for the tokenizer
        ("x \x1ca", [("x", 0, 1, 0), ("a", 3, 4, 1)]),
        ("x\x1ca", [("x", 0, 1, 0), ("##a", 2, 3, 1)]),
        ("\x85a", [("a", 1, 2, 0)]),
        ("a\x85b", [("a", 0, 1, 0), ("##b", 2, 3, 1)]),
        # zero-width space: no white space for either, dropped by the tokenizer
        ("\u200b good", [("good", 2, 6, 1)]),
        ("x\u200ba", [("x", 0, 1, 0), ("##a", 2, 3, 0)]),
        # ideographic space: white space for both
        ("a\u3000b", [("a", 0, 1, 0), ("b", 2, 3, 1)]),
        ("a\u00a0b", [("a", 0, 1, 0), ("b", 2, 3, 1)]),
        # right to left, in logical order
        ("שלום a", [("[UNK]", 0, 4, 0), ("a", 5, 6, 1)]),
        ("\u202ea b", [("a", 1, 2, 0), ("b", 3, 4, 1)]),
        # one letter that becomes two on lower-casing
        ("İ a", [("i", 0, 1, 0), ("a", 2, 3, 1)]),
        ("  a\n\n b ", [("a", 2, 3, 0), ("b", 6, 7, 1)]),
        # visible, yet nothing of it is read
        ("\u0301", []),
        ("\ufffd", []),
        ("a.b", [("a", 0, 1, 0), (".", 1, 2, 0), ("b", 2, 3, 0)]),
        ("x" * 101, [("[UNK]", 0, 101, 0)]),
    ],
)
def test_offsets_and_words(text: str, expected: list[tuple[str, int, int, int]]) -> None:
    assert spans(text) == expected


def plain(text: str) -> str:
    """Lower case, without accents, as the vocabulary spells."""
    decomposed = unicodedata.normalize("NFD", text)
    bare = "".join(char for char in decomposed if unicodedata.category(char) != "Mn")
    return bare.lower()


@given(any_text | odd_text)
@example("a\x1c")
@example("\u3000\u200ba\x85 İ🎬")
def test_each_token_points_at_its_text(text: str) -> None:
    runs = [match.span() for match in re.finditer(r"\S+", text)]
    previous = 0
    for token in tokens_of(text):
        assert 0 <= token.start < token.end <= len(text)
        assert token.start >= previous
        previous = token.start
        assert not token.special
        assert token.word is not None
        start, end = runs[token.word]
        assert start <= token.start < end
        piece = token.text.removeprefix("##")
        if token.text != "[UNK]" and text.isascii():
            kept = re.sub(r"[\x00-\x1f\x7f]", "", text[token.start : token.end])
            assert plain(kept) == piece


@given(st.text(st.characters(exclude_categories=("Cc", "Cf", "Cn", "Co", "Cs")), max_size=40))
def test_nothing_that_can_be_seen_is_left_out(text: str) -> None:
    """Every character is in a token, but for spaces, accents and the replacement character."""
    covered = {place for token in tokens_of(text) for place in range(token.start, token.end)}

    for place, character in enumerate(text):
        if character.isspace() or character == "\ufffd" or plain(character) == "":
            continue
        assert place in covered


@given(st.lists(st.sampled_from([*SPECIALS, "[", "]", "CLS", "sep", " ", "good"])))
def test_special_tokens_typed_by_a_user_are_text(parts: list[str]) -> None:
    text = "".join(parts)
    inner = tokens_of(text)

    assert not {token.text for token in inner} & {"[PAD]", "[CLS]", "[SEP]", "[MASK]"}
    assert all(not token.special for token in inner)
    ids = LONG.encode(text).input_ids
    assert (ids[0], ids[-1]) == (IDS["[CLS]"], IDS["[SEP]"])
    assert set(ids[1:-1]).isdisjoint({IDS["[CLS]"], IDS["[SEP]"], IDS["[PAD]"], IDS["[MASK]"]})


def test_a_separator_typed_by_a_user_is_five_characters() -> None:
    assert spans("[SEP]") == [
        ("[UNK]", 0, 1, 0),
        ("s", 1, 2, 0),
        ("##e", 2, 3, 0),
        ("##p", 3, 4, 0),
        ("[UNK]", 4, 5, 0),
    ]


@given(any_text | odd_text)
def test_tokens_change_nothing_but_are_there(text: str) -> None:
    without, with_tokens = TOKENIZER.encode(text), TOKENIZER.encode(text, with_tokens=True)

    assert with_tokens.input_ids == without.input_ids
    assert with_tokens.truncated == without.truncated
    assert with_tokens.tokens is not None
    assert len(with_tokens.tokens) == len(with_tokens.input_ids)


WORDS = "a an and bad boring but cast cold deep dull"
WORD_IDS = [IDS[word] for word in WORDS.split()]


@pytest.mark.parametrize("max_length", [3, 7, 11, 12, 13])
@pytest.mark.parametrize("truncation", ["right", "left"])
def test_truncation_keeps_one_end(max_length: int, truncation: Truncation) -> None:
    encoding = tiny_tokenizer(max_length=max_length).encode(
        WORDS, truncation=truncation, with_tokens=True
    )

    room = min(10, max_length - 2)
    kept = WORD_IDS[-room:] if truncation == "left" else WORD_IDS[:room]
    assert encoding.input_ids == [IDS["[CLS]"], *kept, IDS["[SEP]"]]
    assert encoding.truncated is (max_length < 12)
    assert encoding.tokens is not None
    words = [token.word for token in encoding.tokens[1:-1]]
    assert words == (list(range(10 - room, 10)) if truncation == "left" else list(range(room)))
    assert [WORDS[token.start : token.end] for token in encoding.tokens[1:-1]] == [
        VOCABULARY[token_id] for token_id in kept
    ]


def test_a_text_that_just_fits_is_never_refused() -> None:
    encoding = tiny_tokenizer(max_length=12).encode(WORDS, truncation="error")

    assert encoding.input_ids == [IDS["[CLS]"], *WORD_IDS, IDS["[SEP]"]]
    assert encoding.truncated is False


@pytest.mark.parametrize("max_length", [3, 11])
def test_a_text_too_long_is_refused_with_both_counts(max_length: int) -> None:
    message = (
        f"the text has 12 tokens and the model reads at most {max_length}: shorten it, or set "
        "truncation to right or left"
    )

    with pytest.raises(TextTooLongError, match=exactly(message)) as caught:
        tiny_tokenizer(max_length=max_length).encode(WORDS, truncation="error")
    assert (caught.value.token_count, caught.value.max_length) == (12, max_length)


@given(text=any_text | odd_text, max_length=st.integers(3, 12))
def test_truncation_of_any_text(text: str, max_length: int) -> None:
    short = tiny_tokenizer(max_length=max_length)
    whole = LONG.encode(text).input_ids
    too_long = len(whole) > max_length
    right = short.encode(text, truncation="right")
    left = short.encode(text, truncation="left")

    assert right.truncated is left.truncated is too_long
    if too_long:
        assert right.input_ids == [*whole[: max_length - 1], whole[-1]]
        assert left.input_ids == [whole[0], *whole[1 - max_length :]]
        with pytest.raises(TextTooLongError) as caught:
            short.encode(text, truncation="error")
        assert caught.value.token_count == len(whole)
    else:
        assert right.input_ids == left.input_ids == whole
        assert short.encode(text, truncation="error").input_ids == whole


@pytest.mark.parametrize("max_length", [-1, 0, 2])
def test_a_limit_without_room_is_refused(max_length: int) -> None:
    message = (
        f"max_length is {max_length}, but 2 special tokens leave no room for text: it must be at "
        "least 3"
    )

    with pytest.raises(ValueError, match=exactly(message)):
        tiny_tokenizer(max_length=max_length)


def test_a_tokenizer_without_special_tokens() -> None:
    backend = tokenizers.Tokenizer(models.WordPiece(IDS, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = Tokenizer(backend, max_length=2)

    encoding = tokenizer.encode("a bad film", with_tokens=True)

    assert encoding.input_ids == [IDS["a"], IDS["bad"]]
    assert encoding.truncated is True
    assert encoding.tokens == (Token("a", 0, 1, False, 0), Token("bad", 2, 5, False, 1))


def test_a_token_that_begins_with_a_space_belongs_to_the_word_behind_it() -> None:
    vocabulary = {"[UNK]": 0, "a": 1, "Ġb": 2, "Ġ": 3}
    backend = tokenizers.Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)

    encoding = Tokenizer(backend, max_length=9).encode("a b ", with_tokens=True)

    assert encoding.tokens == (
        Token("a", 0, 1, False, 0),
        Token("Ġb", 1, 3, False, 1),
        Token("Ġ", 3, 4, False, 1),  # behind the last word
    )


def test_vocab_size_is_one_more_than_the_largest_id() -> None:
    assert TOKENIZER.vocab_size == len(VOCABULARY)
    sparse = wordpiece_tokenizer({"[UNK]": 0, "[CLS]": 7, "[SEP]": 90}, path=Path("vocab.txt"))
    assert Tokenizer(sparse, max_length=9).vocab_size == 91


def test_the_id_of_a_token() -> None:
    assert TOKENIZER.token_id("superb") == IDS["superb"]
    assert TOKENIZER.token_id("absent") is None


def test_an_empty_vocabulary_has_no_ids() -> None:
    assert Tokenizer(tokenizers.Tokenizer(models.BPE()), max_length=9).vocab_size == 0


def test_special_tokens_by_role() -> None:
    assert TOKENIZER.special_tokens() == {
        "pad_token": "[PAD]",
        "unk_token": "[UNK]",
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
        "mask_token": "[MASK]",
    }
    few = wordpiece_tokenizer({"[UNK]": 0, "[CLS]": 1, "[SEP]": 2}, path=Path("vocab.txt"))
    assert Tokenizer(few, max_length=9).special_tokens() == {
        "unk_token": "[UNK]",
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
    }


@pytest.mark.parametrize(
    ("options", "text", "tokens"),
    [
        ({}, "Ä 中a", ["a", "中", "a"]),
        ({"lowercase": False}, "Ä 中a", ["Ä", "中", "a"]),
        ({"lowercase": False}, "ä", ["ä"]),
        ({"strip_accents": False}, "Ä", ["ä"]),
        ({"lowercase": False, "strip_accents": True}, "Ä", ["A"]),
        ({"chinese_characters": False}, "中a", ["[UNK]"]),
    ],
)
def test_options_of_the_normalizer(options: dict[str, bool], text: str, tokens: list[str]) -> None:
    vocabulary = ["[UNK]", "[CLS]", "[SEP]", "a", "A", "ä", "Ä", "中"]
    backend = wordpiece_tokenizer(
        {token: index for index, token in enumerate(vocabulary)}, path=Path("vocab.txt"), **options
    )

    assert backend.encode(text, add_special_tokens=False).tokens == tokens


def test_a_vocabulary_without_special_tokens_is_refused() -> None:
    message = "some/vocab.txt: lacks the special tokens [CLS], [SEP]"

    with pytest.raises(CheckpointError, match=exactly(message)):
        wordpiece_tokenizer({"[UNK]": 0, "a": 1}, path=Path("some/vocab.txt"))


def test_tokens_decode_to_words() -> None:
    backend = tokenizers.Tokenizer.from_str(TOKENIZER.to_json())

    assert isinstance(backend.decoder, decoders.WordPiece)
    assert backend.decode(LONG.encode("superbly funny!").input_ids) == "superbly funny!"


def write(folder: Path, name: str, content: object) -> Path:
    text = content if isinstance(content, str) else json.dumps(content)
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def with_backend_settings(tokenizer: Tokenizer) -> tokenizers.Tokenizer:
    backend = tokenizers.Tokenizer.from_str(tokenizer.to_json())
    backend.enable_truncation(4)
    backend.enable_padding(length=20)
    return backend


def test_truncation_and_padding_of_the_file_are_turned_off(tmp_path: Path) -> None:
    write(tmp_path, "tokenizer.json", with_backend_settings(TOKENIZER).to_str())
    tokenizer = load_tokenizer(tmp_path, max_length=MAX_LENGTH)

    assert tokenizer.encode(WORDS).input_ids == TOKENIZER.encode(WORDS).input_ids
    assert tokenizer.encode(WORDS).truncated is False
    assert tokenizer.encode("a").input_ids == [IDS["[CLS]"], IDS["a"], IDS["[SEP]"]]


def test_written_and_read_is_the_same(tmp_path: Path) -> None:
    write(tmp_path, "tokenizer.json", TOKENIZER.to_json())
    tokenizer = load_tokenizer(tmp_path, max_length=MAX_LENGTH)

    assert tokenizer.to_json() == TOKENIZER.to_json()
    text = "The [SEP] plot drags, but 中 the cafe\u0301 is superb 🎬."
    assert tokenizer.encode(text, with_tokens=True) == TOKENIZER.encode(text, with_tokens=True)


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_vocabulary_file_alone(newline: str, tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_bytes((newline.join(VOCABULARY) + newline).encode())
    tokenizer = load_tokenizer(tmp_path, max_length=MAX_LENGTH)

    text = "The [SEP] plot drags, but 中 the café is superb 🎬."
    assert tokenizer.encode(text, with_tokens=True) == TOKENIZER.encode(text, with_tokens=True)
    assert tokenizer.vocab_size == len(VOCABULARY)


def test_line_separators_can_be_tokens_of_a_vocabulary_file(tmp_path: Path) -> None:
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "\u2028", "\x85", "", "a"]
    write(tmp_path, "vocab.txt", "\n".join(tokens))

    assert load_tokenizer(tmp_path, max_length=9).encode("a").input_ids == [2, 7, 3]


@pytest.mark.parametrize(
    ("options", "text", "ids"),
    [
        ({}, "Ä", [2, 4, 3]),
        ({"do_lower_case": False}, "Ä", [2, 6, 3]),
        ({"do_lower_case": False, "strip_accents": True}, "Ä", [2, 5, 3]),
        ({"do_lower_case": True, "strip_accents": False}, "Ä", [2, 1, 3]),
        ({"strip_accents": None, "pad_token": "[PAD]"}, "Ä", [2, 4, 3]),
        ({"tokenize_chinese_chars": False}, "中a", [2, 1, 3]),
        ({"tokenize_chinese_chars": True}, "中a", [2, 1, 4, 3]),
    ],
)
def test_options_of_a_vocabulary_file(
    options: dict[str, Any], text: str, ids: list[int], tmp_path: Path
) -> None:
    write(tmp_path, "vocab.txt", "\n".join([*SPECIALS[:4], "a", "A", "Ä"]))
    write(tmp_path, "tokenizer_config.json", options)

    assert load_tokenizer(tmp_path, max_length=9).encode(text).input_ids == ids


@pytest.mark.parametrize(
    ("options", "pad_token_id"),
    [
        ({}, 3),
        ({"pad_token": "[CLS]"}, 1),
        ({"pad_token": "<none>"}, 0),
        ({"pad_token": None}, 0),
        ({"pad_token": {"content": "[PAD]"}}, 0),  # padding is masked, so any id will do
    ],
)
def test_the_padding_id(options: dict[str, Any], pad_token_id: int, tmp_path: Path) -> None:
    write(tmp_path, "vocab.txt", "[UNK]\n[CLS]\n[SEP]\n[PAD]\na\n")
    write(tmp_path, "tokenizer_config.json", options)

    assert load_tokenizer(tmp_path, max_length=9).pad_token_id == pad_token_id


def test_no_tokenizer_at_all_is_refused(tmp_path: Path) -> None:
    message = f"{tmp_path / 'tokenizer.json'}: is missing, and there is no vocab.txt instead"

    with pytest.raises(CheckpointError, match=exactly(message)):
        load_tokenizer(tmp_path, max_length=9)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"not JSON",
        b"\xff",
        TOKENIZER.to_json()[:-1].encode(),
        TOKENIZER.to_json().replace('"unk_token":"[UNK]"', '"unk_token":"<none>"').encode(),
    ],
)
def test_a_damaged_tokenizer_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_bytes(content)

    with pytest.raises(CheckpointError, match=f"^{re.escape(str(path))}: is not a tokenizer: "):
        load_tokenizer(tmp_path, max_length=9)


@pytest.mark.parametrize(
    ("name", "content", "fault"),
    [
        ("vocab.txt", b"[UNK]\n\xff\n", "is not UTF-8: invalid start byte"),
        ("vocab.txt", b"[UNK]\na\n", "lacks the special tokens [CLS], [SEP]"),
        (
            "tokenizer_config.json",
            b"{",
            "is not JSON: Expecting property name enclosed in double quotes: line 1 column 2 "
            "(char 1)",
        ),
        ("tokenizer_config.json", b"[]", "must hold a JSON object, holds list"),
    ],
)
def test_damaged_companions_are_refused(
    name: str, content: bytes, fault: str, tmp_path: Path
) -> None:
    write(tmp_path, "vocab.txt", "\n".join(VOCABULARY))
    (tmp_path / name).write_bytes(content)

    with pytest.raises(CheckpointError, match=exactly(f"{tmp_path / name}: {fault}")):
        load_tokenizer(tmp_path, max_length=9)


@pytest.mark.parametrize("name", ["tokenizer.json", "vocab.txt"])
def test_a_limit_without_room_names_the_file(name: str, tmp_path: Path) -> None:
    content = TOKENIZER.to_json() if name == "tokenizer.json" else "\n".join(VOCABULARY)
    path = write(tmp_path, name, content)
    message = (
        f"{path}: max_length is 2, but 2 special tokens leave no room for text: it must be at "
        "least 3"
    )

    with pytest.raises(CheckpointError, match=exactly(message)):
        load_tokenizer(tmp_path, max_length=2)
