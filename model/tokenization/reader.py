"""Reads the tokenizer of a folder so that ids equal those of transformers.

`tokenizer.json` is taken as it is. A BERT may have a `vocab.txt` instead; its options stand in
`tokenizer_config.json`, which transformers follows too.

Added tokens in a text stay whole, special ones too. Only control tokens are read as plain text:
those with a role (`[CLS]`, `[PAD]`), and what the tokenizer itself puts around a text.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import Regex, normalizers, pre_tokenizers

from model.errors import CheckpointError, TokenizerError, is_fault, shorten
from model.files import read_object, read_text
from model.tokenization.tokenizer import MARGIN, Tokenizer, no_panic
from model.tokenization.wordpiece import SPECIAL_TOKENS, wordpiece_tokenizer

_OPTIONS = "tokenizer_config.json"
# The special tokens of RoBERTa and XLM-RoBERTa, by the roles that transformers knows.
_ROBERTA_TOKENS: Mapping[str, str] = {
    "bos_token": "<s>",
    "pad_token": "<pad>",
    "eos_token": "</s>",
    "unk_token": "<unk>",
    "cls_token": "<s>",
    "sep_token": "</s>",
    "mask_token": "<mask>",
}
_UNKNOWN = SPECIAL_TOKENS["unk_token"], _ROBERTA_TOKENS["unk_token"]
_BERTS = ("BertTokenizer", "BertTokenizerFast", "DistilBertTokenizer", "DistilBertTokenizerFast")
_ROBERTAS = (
    *("RobertaTokenizer", "RobertaTokenizerFast"),
    *("XLMRobertaTokenizer", "XLMRobertaTokenizerFast"),
)
# The first two are the generic class in transformers 4 and 5. The other two belong to the network
# that can be the teacher in training.
_OTHERS = ("PreTrainedTokenizerFast", "TokenizersBackend", "MPNetTokenizer", "MPNetTokenizerFast")
# The class where no file names one, by `model_type`.
_DEFAULTS: Mapping[str, str] = {
    "bert": "BertTokenizer",
    "distilbert": "DistilBertTokenizer",
    "roberta": "RobertaTokenizer",
    "xlm-roberta": "XLMRobertaTokenizer",
}
_MOST_TOKEN = 512  # characters, because answers repeat tokens


def load_tokenizer(
    folder: Path,
    *,
    max_length: int,
    padded_length: int | None = None,
    embeddings: int | None = None,
) -> Tokenizer:
    """Reads the tokenizer of a checkpoint folder, of at most `max_length` tokens a text.

    `padded_length` is that of every text, for a model that reads padding. `embeddings` are those of
    the network, if known. CheckpointError: a file is missing or damaged, contradicts another, or
    names a class of tokenizer that is not supported.
    """
    config, options = (_read(folder / name) for name in ("config.json", _OPTIONS))
    name = _class_of(folder, options, config)
    defaults = _ROBERTA_TOKENS if name in _ROBERTAS else SPECIAL_TOKENS
    roles = {role: _content(options.get(role)) or token for role, token in defaults.items()}
    path = folder / "tokenizer.json"
    if path.is_file():
        backend = _read_json(path)
        if name in _BERTS and isinstance(backend.normalizer, normalizers.BertNormalizer):
            backend.normalizer = _normalizer(folder / _OPTIONS, options)
    elif name in _BERTS and (folder / "vocab.txt").is_file():
        path = folder / "vocab.txt"
        # splitlines would also split at characters that are tokens of some vocabularies.
        lines = enumerate(read_text(path).split("\n"))
        vocabulary = {token: index for index, token in lines if token}
        backend = wordpiece_tokenizer(vocabulary, path=path, special_tokens=roles)
        backend.normalizer = _normalizer(folder / _OPTIONS, options)
    else:
        raise CheckpointError(path, f"is missing: {_write_it(folder)}")
    _check_tokens(path, backend, _stated_tokens(folder, options))
    control = {*SPECIAL_TOKENS.values(), *_ROBERTA_TOKENS.values()}
    control.update(filter(None, (_content(options.get(role)) for role in _ROBERTA_TOKENS)))
    if options.get("split_special_tokens") is True:  # so transformers reads all of them as text
        added = backend.get_added_tokens_decoder().values()
        control.update(token.content for token in added if token.special)
    try:
        tokenizer = Tokenizer(
            _read_as_text(backend, control, may_occur={roles["unk_token"], *_UNKNOWN}),
            max_length=max_length,
            pad_token_id=_pad_token_id(backend, options, roles, config),
            padded_length=padded_length,
            special_tokens=roles,
        )
    except (ValueError, TokenizerError) as error:
        raise CheckpointError(path, str(error)) from error
    if embeddings is not None and tokenizer.vocab_size > embeddings:
        raise CheckpointError(
            path,
            f"has ids up to {tokenizer.vocab_size - 1}, but config.json gives the network "
            f"{embeddings} embeddings",
        )
    return tokenizer


def _read(path: Path) -> dict[str, Any]:
    return read_object(path) if path.is_file() else {}


def _write_it(folder: Path) -> str:
    name = str(folder)
    return (
        "have transformers write it "
        f"(AutoTokenizer.from_pretrained({name!r}).save_pretrained({name!r}))"
    )


def _content(token: object) -> str | None:
    """Returns the text of a special token, which transformers writes as a string or an object."""
    if isinstance(token, dict):
        token = token.get("content")
    return token if isinstance(token, str) else None


def _class_of(folder: Path, options: Mapping[str, Any], config: Mapping[str, Any]) -> str:
    known = (*_BERTS, *_ROBERTAS, *_OTHERS)
    for path, content in ((folder / _OPTIONS, options), (folder / "config.json", config)):
        name = content.get("tokenizer_class")
        if isinstance(name, str) and name in known:
            return name
        if name is not None:
            raise CheckpointError(
                path,
                f"tokenizer_class is {shorten(repr(name))}, only {', '.join(known)} can be read",
            )
    return _DEFAULTS.get(str(config.get("model_type", "bert")), _OTHERS[0])


def _read_json(path: Path) -> tokenizers.Tokenizer:
    content = read_object(path)
    try:
        backend = tokenizers.Tokenizer.from_str(json.dumps(content))
        # Before the first text is encoded: padding to millions of tokens would fill the memory.
        backend.no_truncation()
        backend.no_padding()
        _check_parts(path, backend, json.dumps(content.get("pre_tokenizer")))
        # No vocabulary has this word. Without a token for unknown words, fail now, not later.
        backend.encode("\N{UGARITIC LETTER ALPA}" * 101)
    except BaseException as error:
        if not is_fault(error):  # such as a CheckpointError
            raise
        raise CheckpointError(path, f"is not a tokenizer: {error}") from error
    return backend


def _check_parts(path: Path, backend: tokenizers.Tokenizer, pre_tokenizer: str) -> None:
    """Refuses what would read parts of texts, or equal texts, differently."""
    if '"FixedLength"' in pre_tokenizer:
        raise CheckpointError(
            path, "pre_tokenizer.type is 'FixedLength', which cannot read a text from its end"
        )
    most = getattr(backend.model, "max_input_chars_per_word", 1)
    if not 1 <= most <= MARGIN:
        raise CheckpointError(
            path, f"model.max_input_chars_per_word is {most}, must be from 1 to {MARGIN}"
        )
    if dropout := getattr(backend.model, "dropout", None):
        raise CheckpointError(
            path,
            f"model.dropout is {dropout}, must be null: a text must always give the same tokens",
        )


def _normalizer(path: Path, options: Mapping[str, Any]) -> normalizers.BertNormalizer:
    def flag(name: str, *, default: bool | None) -> bool | None:
        value = options.get(name, default)
        if value is default or isinstance(value, bool):
            return value
        raise CheckpointError(path, f"{name} is {shorten(repr(value))}, must be true or false")

    return normalizers.BertNormalizer(
        lowercase=bool(flag("do_lower_case", default=True)),
        strip_accents=flag("strip_accents", default=None),
        handle_chinese_chars=bool(flag("tokenize_chinese_chars", default=True)),
    )


def _stated_tokens(folder: Path, options: Mapping[str, Any]) -> dict[str | None, int | None]:
    """Returns the added tokens that other files name, and their ids if they name them."""
    # The names of transformers 5 and 4.
    extra = options.get("extra_special_tokens") or options.get("additional_special_tokens") or []
    extra = extra.values() if isinstance(extra, dict) else extra
    by_text = _read(folder / "added_tokens.json")
    by_id = options.get("added_tokens_decoder") or {}
    try:
        return {
            **{_content(token): None for token in extra},
            **{token: int(number) for token, number in by_text.items()},
            **{_content(token): int(number) for number, token in by_id.items()},
        }
    except (AttributeError, TypeError, ValueError) as error:
        raise CheckpointError(
            folder / _OPTIONS, f"does not name added tokens by their ids: {error}"
        ) from error


def _check_tokens(
    path: Path, backend: tokenizers.Tokenizer, stated: Mapping[str | None, int | None]
) -> None:
    longest = max(map(len, backend.get_vocab(with_added_tokens=True)), default=0)
    if longest > _MOST_TOKEN:
        raise CheckpointError(
            path, f"holds a token of {longest} characters, must have at most {_MOST_TOKEN}"
        )
    added = backend.get_added_tokens_decoder()
    known = {token.content: number for number, token in added.items()}
    for token, number in stated.items():
        if token not in known or number not in (None, known[token]):
            numbered = "" if number is None else f" with the id {number}"
            raise CheckpointError(
                path,
                f"lacks the added token {shorten(repr(token))}{numbered}, which another file of "
                f"the folder names: {_write_it(path.parent)}",
            )


def _read_as_text(
    backend: tokenizers.Tokenizer, control: set[str], *, may_occur: set[str]
) -> tokenizers.Tokenizer:
    """Makes control tokens plain text where a user types them, and keeps other added ones whole."""
    with no_panic():
        control = control.union(backend.encode("").tokens)
    added = backend.get_added_tokens_decoder().values()
    if any(token.special != (token.content in control) for token in added):
        content = json.loads(backend.to_str())
        for token in content["added_tokens"]:
            token["special"] = token["content"] in control
        backend = tokenizers.Tokenizer.from_str(json.dumps(content))
    backend.encode_special_tokens = True
    # Some models know control tokens as pieces. A split behind the first character prevents them.
    known = {token: backend.token_to_id(token) for token in sorted(control - may_occur)}
    with no_panic():
        pieces = [
            f"{re.escape(token[0])}(?={re.escape(token[1:])})"
            for token, number in known.items()
            if number is not None and number in backend.encode(token, add_special_tokens=False).ids
        ]
    if pieces:
        parts = [pre_tokenizers.Split(Regex("|".join(pieces)), "merged_with_previous")]
        if backend.pre_tokenizer is not None:
            parts.insert(0, backend.pre_tokenizer)
        backend.pre_tokenizer = pre_tokenizers.Sequence(parts)
    return backend


def _pad_token_id(
    backend: tokenizers.Tokenizer,
    options: Mapping[str, Any],
    roles: Mapping[str, str],
    config: Mapping[str, Any],
) -> int:
    token = options.get("pad_token", roles["pad_token"])
    found = backend.token_to_id(_content(token) or "")
    stated = config.get("pad_token_id")
    if found is None and isinstance(stated, int):
        return stated
    return found or 0
