"""A vocabulary of the training texts' own."""

import hashlib
import os
import subprocess
import sys

from tests.training.tiny_runs import ROOT
from training.vocabulary import SPECIAL_TOKENS, train_tokenizer

TEXTS = [
    "I do n't like the unlikely film",
    "I don't like films",
    "the caf\u00e9 was lovely, lovelier than the film",
] * 5
HASH = """
import hashlib, sys
from tests.training.test_vocabulary import TEXTS
from training.vocabulary import train_tokenizer
content = train_tokenizer(TEXTS, vocab_size=90, max_length=16).to_json()
print(hashlib.sha256(content.encode()).hexdigest())
"""


def test_special_tokens_come_first() -> None:
    tokenizer = train_tokenizer(TEXTS, vocab_size=90, max_length=16)
    assert [tokenizer.token_id(token) for token in SPECIAL_TOKENS] == [0, 1, 2, 3, 4]
    assert tokenizer.pad_token_id == 0
    assert tokenizer.vocab_size <= 90
    assert tokenizer.token_id("film") is not None


def test_every_way_to_write_a_negation_reads_alike() -> None:
    tokenizer = train_tokenizer(TEXTS, vocab_size=90, max_length=16)
    ways = ["I don't like it", "I do n't like it", "i don\u2019t like it", "I DON'T like it"]
    first, *others = [tokenizer.encode(text, with_tokens=True) for text in ways]
    assert first.tokens is not None
    assert [token.text for token in first.tokens][1:6] == ["i", "do", "n", "'", "t"]
    for other, text in zip(others, ways[1:], strict=True):
        assert other.input_ids == first.input_ids
        assert other.tokens is not None
        quote = other.tokens[4]
        assert text[quote.start : quote.end] in {"'", "\u2019"}


def test_other_processes_learn_the_same() -> None:
    content = train_tokenizer(TEXTS, vocab_size=90, max_length=16).to_json()
    expected = hashlib.sha256(content.encode()).hexdigest()
    for hash_seed in ("1", "2"):
        ended = subprocess.run(
            [sys.executable, "-c", HASH],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert ended.stdout.strip() == expected
