"""Turns text into tokens, and reads tokenizer files."""

from model.tokenization.reader import load_tokenizer
from model.tokenization.sandbox import try_tokenizer
from model.tokenization.sentences import MAX_SENTENCES, Span, split_sentences
from model.tokenization.tokenizer import (
    MOST_GROWN,
    TEXT_COLUMNS,
    Encoding,
    Token,
    Tokenizer,
    Truncation,
    check_text,
    count_unknown,
)
from model.tokenization.windows import MAX_WINDOWS, Reading
from model.tokenization.wordpiece import wordpiece_tokenizer
from model.tokenization.words import Words, group_words

__all__ = [
    "MAX_SENTENCES",
    "MAX_WINDOWS",
    "MOST_GROWN",
    "TEXT_COLUMNS",
    "Encoding",
    "Reading",
    "Span",
    "Token",
    "Tokenizer",
    "Truncation",
    "Words",
    "check_text",
    "count_unknown",
    "group_words",
    "load_tokenizer",
    "split_sentences",
    "try_tokenizer",
    "wordpiece_tokenizer",
]
