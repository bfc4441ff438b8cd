"""Builds a BERT tokenizer of the library `tokenizers` from a vocabulary."""

from collections.abc import Mapping
from pathlib import Path

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from model.errors import CheckpointError

# The roles that transformers knows, and their tokens in BERT.
SPECIAL_TOKENS: Mapping[str, str] = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}


def wordpiece_tokenizer(
    vocabulary: dict[str, int], *, path: Path, special_tokens: Mapping[str, str] = SPECIAL_TOKENS
) -> tokenizers.Tokenizer:
    """Builds a BERT tokenizer that lower-cases (Devlin et al. 2019; Wu et al. 2016).

    A special token that the vocabulary lacks is a CheckpointError of `path`.
    """
    unknown, begin, end = (special_tokens[f"{role}_token"] for role in ("unk", "cls", "sep"))
    missing = [token for token in (unknown, begin, end) if token not in vocabulary]
    if missing:
        raise CheckpointError(path, f"lacks the special tokens {', '.join(missing)}")
    backend = tokenizers.Tokenizer(models.WordPiece(vocabulary, unk_token=unknown))
    backend.normalizer = normalizers.BertNormalizer()
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece(prefix="##")
    backend.add_special_tokens([token for token in special_tokens.values() if token in vocabulary])
    backend.post_processor = processors.TemplateProcessing(
        single=f"{begin} $A {end}",
        pair=f"{begin} $A {end} $B:1 {end}:1",
        special_tokens=[(token, vocabulary[token]) for token in (begin, end)],
    )
    return backend
