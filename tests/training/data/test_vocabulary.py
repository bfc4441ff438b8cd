"""A vocabulary of the training texts' own."""

import json
import os
import random
import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st

from model.tokenizer import Tokenizer
from tests.training.tiny_runs import ROOT
from training.data.vocabulary import PAD_ID, SPECIAL_TOKENS, UNKNOWN_ID, train_tokenizer

TEXTS = [
    "I do n't like the unlikely film",
    "I don't like films",
    "the caf\u00e9 was lovely, lovelier than the film",
] * 5
# Many pieces are as frequent as each other, so that ties must be broken.
CHANCE = random.Random(0)
WORDS = ["".join(CHANCE.choices("abcdefgh", k=6)) for _ in range(200)]
TIES = [" ".join(WORDS[start : start + 10]) for start in range(190)]
TRAIN = """
import json, sys
from training.data.vocabulary import train_tokenizer
print(train_tokenizer(json.load(sys.stdin), vocab_size=150, max_length=16).to_json())
"""


def vocabulary(tokenizer: Tokenizer) -> dict[str, int]:
    """The tokens and their ids."""
    content: dict[str, int] = json.loads(tokenizer.to_json())["model"]["vocab"]
    return content


def test_special_tokens_come_first() -> None:
    tokenizer = train_tokenizer(TEXTS, vocab_size=120, max_length=16)

    assert [tokenizer.token_id(token) for token in SPECIAL_TOKENS] == [0, 1, 2, 3, 4]
    assert (PAD_ID, UNKNOWN_ID) == (0, 1)
    assert tokenizer.pad_token_id == 0
    assert tokenizer.max_length == 16
    assert tokenizer.special_tokens() == {
        "pad_token": "[PAD]",
        "unk_token": "[UNK]",
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
        "mask_token": "[MASK]",
    }
    assert tokenizer.encode("film").input_ids == [2, tokenizer.token_id("film"), 3]


def test_a_text_is_cut_at_the_limit() -> None:
    tokenizer = train_tokenizer(TEXTS, vocab_size=120, max_length=6)

    encoding = tokenizer.encode("the film the film the film")
    assert len(encoding.input_ids) == 6
    assert encoding.truncated


def test_every_way_to_write_a_negation_reads_alike() -> None:
    tokenizer = train_tokenizer(TEXTS, vocab_size=120, max_length=16)
    ways = ["I don't like it", "I do n't like it", "i don\u2019t like it", "I DON'T like it"]
    first, *others = [tokenizer.encode(text, with_tokens=True) for text in ways]
    assert first.tokens is not None
    assert [token.text for token in first.tokens][1:6] == ["i", "do", "n", "'", "t"]
    for other, text in zip(others, ways[1:], strict=True):
        assert other.input_ids == first.input_ids
        assert other.tokens is not None
        quote = other.tokens[4]
        assert text[quote.start : quote.end] in {"'", "\u2019"}


def test_case_and_accents_are_read_alike() -> None:
    tokenizer = train_tokenizer(TEXTS, vocab_size=120, max_length=16)

    assert tokenizer.encode("CAF\u00c9").input_ids == tokenizer.encode("cafe").input_ids


def test_a_letter_that_comes_once_is_unknown() -> None:
    tokenizer = train_tokenizer([*TEXTS, "\u03a9"], vocab_size=120, max_length=16)

    assert tokenizer.encode("\u03a9").input_ids == [2, UNKNOWN_ID, 3]


def test_of_too_many_letters_the_most_frequent_are_kept() -> None:
    letters = [chr(0x4E00 + number) for number in range(100)]
    texts = ["".join(letters[number:]) for number in range(100)] * 2

    tokenizer = train_tokenizer(texts, vocab_size=100, max_length=16)

    found = {token for token in vocabulary(tokenizer) if token in letters}
    assert found == set(letters[-33:])
    assert tokenizer.vocab_size <= 100


@given(
    texts=st.lists(st.text(max_size=30), max_size=8),
    times=st.integers(1, 3),
    vocab_size=st.integers(100, 150),
)
def test_ids_are_dense_and_within_the_size(texts: list[str], times: int, vocab_size: int) -> None:
    tokenizer = train_tokenizer(texts * times, vocab_size=vocab_size, max_length=16)

    ids = vocabulary(tokenizer)
    assert sorted(ids.values()) == list(range(len(ids)))
    assert len(ids) <= vocab_size
    assert [ids[token] for token in SPECIAL_TOKENS] == [0, 1, 2, 3, 4]


def test_other_processes_learn_the_same() -> None:
    expected = train_tokenizer([*TEXTS, *TIES], vocab_size=150, max_length=16).to_json()

    for hash_seed in ("1", "2"):
        ended = subprocess.run(
            [sys.executable, "-c", TRAIN],
            cwd=ROOT,
            input=json.dumps([*TEXTS, *TIES]),
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert ended.stdout.rstrip("\n") == expected
