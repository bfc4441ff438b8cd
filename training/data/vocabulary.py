"""Trains tokenizers on the training texts: word pieces, or whole words as in the course."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import tokenizers
from tokenizers import Regex, models, normalizers, pre_tokenizers, trainers

from model.tokenization.tokenizer import Tokenizer
from model.tokenization.wordpiece import wordpiece_tokenizer

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
PAD_ID, UNKNOWN_ID = 0, 1
_PAD, _UNKNOWN = SPECIAL_TOKENS[:2]
_LEAST_FREQUENCY = 2
# A letter takes two tokens, by itself and inside a word, so letters take at most two thirds.
_TOKENS_FOR_A_LETTER = 3
# Treebanks write `do n't`, people `don't`, phones a curly apostrophe. All are read alike.
_NOT = Regex(r"(?i)n't\b")
_CURLY, _STRAIGHT = "\u2019", "'"


def train_tokenizer(texts: Sequence[str], *, vocab_size: int, max_length: int) -> Tokenizer:
    """Trains a WordPiece tokenizer (Wu et al. 2016). Equal texts give equal tokenizers."""
    specials = {token: index for index, token in enumerate(SPECIAL_TOKENS)}
    learner = _backend(specials)
    alphabet = _alphabet(learner, texts, most=vocab_size // _TOKENS_FOR_A_LETTER)
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocab_size,
        min_frequency=_LEAST_FREQUENCY,
        # The trainer numbers continuations in the order of a hash map, which differs between
        # processes, and breaks ties by these numbers. Naming the letters here fixes the order.
        special_tokens=[*SPECIAL_TOKENS, *alphabet, *(f"##{letter}" for letter in alphabet)],
        initial_alphabet=alphabet,
        limit_alphabet=len(alphabet),
        show_progress=False,
    )
    learner.train_from_iterator(texts, trainer, length=len(texts))
    # The learner's post-processor still has the ids from before training.
    backend = _backend(learner.get_vocab())
    return Tokenizer(backend, max_length=max_length, pad_token_id=PAD_ID)


def _backend(vocabulary: dict[str, int]) -> tokenizers.Tokenizer:
    """Builds BERT's tokenizer, but splits negations off first."""
    backend = wordpiece_tokenizer(vocabulary, path=Path("vocab.txt"))
    backend.normalizer = normalizers.Sequence(
        [normalizers.Replace(_CURLY, _STRAIGHT), backend.normalizer]
    )
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(_NOT, behavior="isolated"), backend.pre_tokenizer]
    )
    return backend


def _alphabet(learner: tokenizers.Tokenizer, texts: Sequence[str], *, most: int) -> list[str]:
    """Finds the most frequent characters after normalisation, in the order of Unicode."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(learner.normalizer.normalize_str(text))
    frequent = [
        letter
        for letter, count in sorted(counts.items())
        if count >= _LEAST_FREQUENCY and not letter.isspace()
    ]
    # The sort is stable: of equally frequent letters, the first in Unicode are taken.
    return sorted(sorted(frequent, key=counts.__getitem__, reverse=True)[:most])


def train_word_tokenizer(
    texts: Sequence[str], *, num_words: int, max_length: int, padded_length: int | None = None
) -> Tokenizer:
    """Trains the tokenizer of the seed course: its most frequent words, numbered from 1.

    The course drops unknown words. Here `[UNK]` stands for each, so that a text keeps its order and
    `/attention` shows where such a word was. A network that reads padding needs a `padded_length`.
    """
    prepare = _word_backend({})
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(prepare.normalizer.normalize_str(text).split())
    # Of equally frequent words, the first in Unicode are taken.
    frequent = sorted(sorted(counts), key=counts.__getitem__, reverse=True)[:num_words]
    vocabulary = {_PAD: 0, **{word: number for number, word in enumerate(frequent, start=1)}}
    vocabulary[_UNKNOWN] = len(vocabulary)
    backend = _word_backend(vocabulary)
    # Never found in a text, whose brackets become spaces; this marks them as special.
    backend.add_special_tokens([_PAD, _UNKNOWN])
    return Tokenizer(backend, max_length=max_length, padded_length=padded_length)


def _word_backend(vocabulary: dict[str, int]) -> tokenizers.Tokenizer:
    backend = tokenizers.Tokenizer(models.WordLevel(vocabulary, unk_token=_UNKNOWN))
    backend.normalizer = normalizers.Sequence(
        [normalizers.Lowercase(), normalizers.Replace(Regex(r"[^\p{L}\p{N}]"), " ")]
    )
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return backend
