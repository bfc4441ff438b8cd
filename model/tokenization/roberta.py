"""Builds the tokenizers of RoBERTa and XLM-RoBERTa as transformers 5 does.

It takes only the vocabulary from `tokenizer.json`, and the table of XLM-RoBERTa's normalizer.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, processors

from model.errors import CheckpointError

# The roles that transformers knows, and their tokens in RoBERTa and XLM-RoBERTa.
SPECIAL_TOKENS: Mapping[str, str] = MappingProxyType(
    {
        "bos_token": "<s>",
        "pad_token": "<pad>",
        "eos_token": "</s>",
        "unk_token": "<unk>",
        "cls_token": "<s>",
        "sep_token": "</s>",
        "mask_token": "<mask>",
    }
)
_SPACE = "\N{LOWER ONE EIGHTH BLOCK}"
# transformers' XLM-RoBERTa takes this id, whatever the file says.
_UNKNOWN_ID = 3
_TAG = re.compile(r"<(/?\w{1,30}>)", re.ASCII)


def byte_level_tokenizer(
    vocabulary: dict[str, int],
    merges: Sequence[tuple[str, str]],
    *,
    path: Path,
    special_tokens: Mapping[str, str],
    add_prefix_space: bool = False,
    trim_offsets: bool = True,
) -> tokenizers.Tokenizer:
    """Builds a RoBERTa tokenizer: pairs of bytes are merged (Sennrich et al. 2016)."""
    _check_special_tokens(path, vocabulary, special_tokens)
    try:
        model = models.BPE(
            vocabulary, list(merges), continuing_subword_prefix="", end_of_word_suffix=""
        )
    except Exception as error:  # the Rust side raises bare Exception
        fault = str(error).partition("\n")[0]
        raise CheckpointError(
            path, f"holds a vocabulary or merges that do not fit: {fault}"
        ) from error
    backend = tokenizers.Tokenizer(model)
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space)
    backend.decoder = decoders.ByteLevel()
    _add_special_tokens(backend, special_tokens)
    begin, end = special_tokens["cls_token"], special_tokens["sep_token"]
    backend.post_processor = processors.RobertaProcessing(
        (end, vocabulary[end]), (begin, vocabulary[begin]), trim_offsets, add_prefix_space
    )
    return backend


def sentence_piece_tokenizer(
    vocabulary: Sequence[tuple[str, float]],
    charsmap: bytes | None,
    *,
    path: Path,
    special_tokens: Mapping[str, str],
    add_prefix_space: bool = True,
) -> tokenizers.Tokenizer:
    """Builds an XLM-RoBERTa tokenizer: the most likely pieces (Kudo 2018).

    The vocabulary holds the special tokens as pieces. So a `<s>` that a user types would become the
    special token. Here a word is split behind the `<`, and no other text has other pieces.
    """
    ids = {token: index for index, (token, _) in enumerate(vocabulary)}
    _check_special_tokens(path, ids, special_tokens)
    if len(vocabulary) <= _UNKNOWN_ID:
        raise CheckpointError(path, f"holds {len(vocabulary)} pieces, must have more")
    backend = tokenizers.Tokenizer(
        models.Unigram(list(vocabulary), unk_id=_UNKNOWN_ID, byte_fallback=False)
    )
    if charsmap is not None:
        backend.normalizer = normalizers.Precompiled(charsmap)
    scheme = "always" if add_prefix_space else "never"
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.WhitespaceSplit(),
            pre_tokenizers.Metaspace(replacement=_SPACE, prepend_scheme=scheme),
            pre_tokenizers.Split(
                Regex(_before_rest_of(path, special_tokens.values())), "merged_with_previous"
            ),
        ]
    )
    backend.decoder = decoders.Metaspace(replacement=_SPACE, prepend_scheme=scheme)
    _add_special_tokens(backend, special_tokens)
    begin, end = special_tokens["bos_token"], special_tokens["eos_token"]
    backend.post_processor = processors.TemplateProcessing(
        single=[begin, "$A", end],
        pair=[begin, "$A", end, end, "$B", end],
        special_tokens=[(begin, ids[begin]), (end, ids[end])],
    )
    return backend


def _before_rest_of(path: Path, tokens: Iterable[str]) -> str:
    """Returns a pattern for the first character of each special token."""
    rests = []
    for token in dict.fromkeys(tokens):
        found = _TAG.fullmatch(token)
        if found is None:
            raise CheckpointError(
                path, f"has the special token {token!r}, which must look like <name>"
            )
        rests.append(found[1])
    return f"<(?={'|'.join(rests)})"


def _check_special_tokens(
    path: Path, vocabulary: Mapping[str, int], special_tokens: Mapping[str, str]
) -> None:
    needed = dict.fromkeys(
        special_tokens[f"{role}_token"] for role in ("bos", "eos", "cls", "sep", "unk", "pad")
    )
    missing = [token for token in needed if token not in vocabulary]
    if missing:
        raise CheckpointError(path, f"lacks the special tokens {', '.join(missing)}")


def _add_special_tokens(backend: tokenizers.Tokenizer, special_tokens: Mapping[str, str]) -> None:
    known = [token for token in special_tokens.values() if backend.token_to_id(token) is not None]
    backend.add_special_tokens(list(dict.fromkeys(known)))
