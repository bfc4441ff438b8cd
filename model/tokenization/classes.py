"""Names the classes of tokenizers that are built here as transformers builds them.

transformers takes a vocabulary from the files of the folder, options from `tokenizer_config.json`,
and everything else from the class.
"""

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import tokenizers
from tokenizers import models

from model.errors import CheckpointError, shorten
from model.files import check_size, read_object
from model.tokenization import roberta, wordpiece
from model.tokenization.roberta import byte_level_tokenizer, sentence_piece_tokenizer
from model.tokenization.wordpiece import wordpiece_tokenizer

OPTIONS = "tokenizer_config.json"
_MERGES = "merges.txt"
_GENERIC = "PreTrainedTokenizerFast"

Options = Mapping[str, Any]
Tokens = Mapping[str, str]
Build = Callable[[Path, tokenizers.Tokenizer | None, Options, Tokens], tokenizers.Tokenizer]


@dataclass(frozen=True, slots=True)
class TokenizerClass:
    """A class of tokenizers.

    Args:
        special_tokens: its tokens by the roles that transformers knows.
        vocabulary: the file that older releases wrote instead of `tokenizer.json`; if it is
            missing too, so is the tokenizer.
        build: makes the tokenizer of the path of the vocabulary, the tokenizer of `tokenizer.json`
            if that is the path, the options and the special tokens.
    """

    special_tokens: Tokens
    vocabulary: str
    instead: str
    build: Build


def content_of(token: object) -> str | None:
    """Returns the text of a special token, which transformers writes as a string or an object."""
    if isinstance(token, dict):
        token = token.get("content")
    return token if isinstance(token, str) else None


def _build_bert(
    path: Path, loaded: tokenizers.Tokenizer | None, options: Options, tokens: Tokens
) -> tokenizers.Tokenizer:
    if loaded is None:
        vocabulary = _read_lines(path)
    else:
        _check_kind(path, loaded, models.WordPiece, "BertTokenizer")
        vocabulary = loaded.get_vocab(with_added_tokens=False)
    option = path.parent / OPTIONS
    chinese_characters = _flag(option, options, "tokenize_chinese_chars", default=True)
    return wordpiece_tokenizer(
        vocabulary,
        path=path,
        lowercase=bool(_flag(option, options, "do_lower_case", default=True)),
        strip_accents=_flag(option, options, "strip_accents", default=None),
        chinese_characters=bool(chinese_characters),
        special_tokens=tokens,
    )


def _build_roberta(
    path: Path, loaded: tokenizers.Tokenizer | None, options: Options, tokens: Tokens
) -> tokenizers.Tokenizer:
    if loaded is None:
        vocabulary = read_object(path)
        merges = _read_merges(path.with_name(_MERGES))
    else:
        _check_kind(path, loaded, models.BPE, "RobertaTokenizer")
        content = json.loads(loaded.to_str())["model"]
        vocabulary = content["vocab"]
        merges = [(left, right) for left, right in content["merges"]]
    option = path.parent / OPTIONS
    return byte_level_tokenizer(
        vocabulary,
        merges,
        path=path,
        special_tokens=tokens,
        add_prefix_space=bool(_flag(option, options, "add_prefix_space", default=False)),
        trim_offsets=bool(_flag(option, options, "trim_offsets", default=True)),
    )


def _build_xlm_roberta(
    path: Path, loaded: tokenizers.Tokenizer | None, options: Options, tokens: Tokens
) -> tokenizers.Tokenizer:
    if loaded is None:
        raise CheckpointError(
            path,
            "cannot be read, and there is no tokenizer.json: have transformers write one "
            f"(AutoTokenizer.from_pretrained({str(path.parent)!r})"
            f".save_pretrained({str(path.parent)!r}))",
        )
    _check_kind(path, loaded, models.Unigram, "XLMRobertaTokenizer")
    content = json.loads(loaded.to_str())
    return sentence_piece_tokenizer(
        [(token, score) for token, score in content["model"]["vocab"]],
        _charsmap_of(content.get("normalizer")),
        path=path,
        special_tokens=tokens,
        add_prefix_space=bool(
            _flag(path.parent / OPTIONS, options, "add_prefix_space", default=True)
        ),
    )


def _charsmap_of(normalizer: Options | None) -> bytes | None:
    """Returns the table of the first `Precompiled` part; transformers reads no other part."""
    parts = [] if normalizer is None else normalizer.get("normalizers", [normalizer])
    for part in parts:
        if part["type"] == "Precompiled":
            return base64.b64decode(part["precompiled_charsmap"])
    return None


def _check_kind(path: Path, loaded: tokenizers.Tokenizer, kind: type, name: str) -> None:
    if not isinstance(loaded.model, kind):
        raise CheckpointError(
            path,
            f"has a model of the kind {type(loaded.model).__name__}, but a {name} has "
            f"{kind.__name__}: to have it read as it is, set tokenizer_class in {OPTIONS} to "
            f"{_GENERIC}",
        )


def _read_lines(path: Path) -> dict[str, int]:
    # splitlines would also split at characters that are tokens of some vocabularies.
    lines = _read_text(path).split("\n")
    return {token: index for index, token in enumerate(lines) if token}


def _read_merges(path: Path) -> list[tuple[str, str]]:
    merges = []
    for number, line in enumerate(_read_text(path).split("\n"), start=1):
        if not line or line.startswith("#version"):
            continue
        left, _, right = line.partition(" ")
        if not left or not right or " " in right:
            raise CheckpointError(path, f"line {number} must hold two tokens with a space between")
        merges.append((left, right))
    return merges


def _read_text(path: Path) -> str:
    check_size(path)
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise CheckpointError(path, f"is not UTF-8: {error.reason}") from error
    except OSError as error:
        raise CheckpointError(path, f"cannot be read: {error.strerror}") from error


def _flag(
    path: Path, options: Mapping[str, Any], name: str, *, default: bool | None
) -> bool | None:
    value = options.get(name, default)
    if value is default or isinstance(value, bool):
        return value
    raise CheckpointError(path, f"{name} is {shorten(repr(value))}, must be true or false")


_BERT = TokenizerClass(wordpiece.SPECIAL_TOKENS, "vocab.txt", "vocab.txt instead", _build_bert)
_ROBERTA = TokenizerClass(
    roberta.SPECIAL_TOKENS, "vocab.json", "vocab.json instead", _build_roberta
)
_XLM_ROBERTA = TokenizerClass(
    roberta.SPECIAL_TOKENS,
    "sentencepiece.bpe.model",
    "sentencepiece.bpe.model that transformers could make one of",
    _build_xlm_roberta,
)
# In transformers 5 the two names of a class are the same.
CLASSES: Mapping[str, TokenizerClass] = MappingProxyType(
    {
        f"{name}{ending}": own
        for name, own in (
            ("BertTokenizer", _BERT),
            ("DistilBertTokenizer", _BERT),
            ("RobertaTokenizer", _ROBERTA),
            ("XLMRobertaTokenizer", _XLM_ROBERTA),
        )
        for ending in ("", "Fast")
    }
)
#: the class of a network for which no file names one, by `model_type`
DEFAULTS: Mapping[str, str] = MappingProxyType(
    {
        "bert": "BertTokenizer",
        "distilbert": "BertTokenizer",
        "roberta": "RobertaTokenizer",
        "xlm-roberta": "XLMRobertaTokenizer",
    }
)
