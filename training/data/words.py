"""From texts to the tokenizer of the seed course: its most frequent words, each with a number."""

from collections import Counter
from collections.abc import Sequence

import tokenizers
from tokenizers import Regex, models, normalizers, pre_tokenizers

from model.tokenizer import Tokenizer

PAD, UNKNOWN = "[PAD]", "[UNK]"
_NOT_LETTER_OR_DIGIT = Regex(r"[^\p{L}\p{N}]")


def train_word_tokenizer(
    texts: Sequence[str], *, num_words: int, max_length: int, padded_length: int | None = None
) -> Tokenizer:
    """Numbers the most frequent words from 1, the most frequent first.

    Texts are lower-cased, and everything but letters and digits becomes a space. The course drops
    the words that it does not know; here `[UNK]` stands for each, so that a text keeps its order
    and `/attention` shows where such a word was.

    Args:
        texts: of the training rows alone.
        num_words: the most words; of those as frequent as each other the first in the order of
            Unicode are taken.
        max_length: the most words of a text.
        padded_length: of every text, for a network that reads padding too.
    """
    prepare = _backend({})
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(prepare.normalizer.normalize_str(text).split())
    frequent = sorted(sorted(counts), key=counts.__getitem__, reverse=True)[:num_words]
    vocabulary = {PAD: 0, **{word: number for number, word in enumerate(frequent, start=1)}}
    vocabulary[UNKNOWN] = len(vocabulary)
    backend = _backend(vocabulary)
    # Never found in a text, whose brackets become spaces: only so that they are known as such.
    backend.add_special_tokens([PAD, UNKNOWN])
    return Tokenizer(backend, max_length=max_length, padded_length=padded_length)


def _backend(vocabulary: dict[str, int]) -> tokenizers.Tokenizer:
    backend = tokenizers.Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    backend.normalizer = normalizers.Sequence(
        [normalizers.Lowercase(), normalizers.Replace(_NOT_LETTER_OR_DIGIT, " ")]
    )
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return backend
