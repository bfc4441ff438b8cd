"""Reads the tokenizer files of a folder so that ids equal those of transformers.

The meaning of a file depends on the class that transformers reads it with. For a BERT tokenizer,
transformers takes only the vocabulary and the added tokens from `tokenizer.json`, and all options
from `tokenizer_config.json`. The generic classes take `tokenizer.json` as it is. Other classes
split text in other ways. They are refused: guessed ids would silently give wrong answers.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken, models

from model.errors import CheckpointError, UnsupportedCheckpointError
from model.files import check_size, read_object
from model.tokenizer_parts import check_added_tokens, check_parts, check_vocabulary
from model.wordpiece import SPECIAL_TOKENS, wordpiece_tokenizer

_BERT = ("BertTokenizer", "BertTokenizerFast")
# The first two are the generic class in transformers 4 and 5. The other two belong to the network
# that can be the teacher in training.
_AS_IT_IS = ("PreTrainedTokenizerFast", "TokenizersBackend", "MPNetTokenizer", "MPNetTokenizerFast")
_JSON, _VOCABULARY, _OPTIONS = "tokenizer.json", "vocab.txt", "tokenizer_config.json"
_ADDED = "added_tokens_decoder"


@dataclass(frozen=True, slots=True)
class TokenizerFiles:
    """The tokenizer that the files of a folder describe.

    Args:
        path: the file that holds the vocabulary.
        backend: the tokenizer, without truncation and padding.
        pad_token_id: the id that pads a batch.
    """

    path: Path
    backend: tokenizers.Tokenizer
    pad_token_id: int


def read_tokenizer_files(folder: Path) -> TokenizerFiles:
    """Reads the tokenizer of a checkpoint folder as transformers does.

    Args:
        folder: has `tokenizer.json`, or `vocab.txt` as older releases of transformers wrote it
            for BERT. May also have `tokenizer_config.json`, `special_tokens_map.json`,
            `added_tokens.json` and `config.json`.

    Raises:
        CheckpointError: a file is missing, damaged or contradicts another.
        UnsupportedCheckpointError: this class of tokenizer, or a part of it, is not supported.
    """
    options, config = _read_options(folder), _read(folder / "config.json")
    path = folder / _JSON
    if not path.is_file():
        path = folder / _VOCABULARY
        if not path.is_file():
            raise CheckpointError(
                folder / _JSON, f"is missing, and there is no {_VOCABULARY} instead"
            )
    name = _class_of(folder, options, config)
    backend = _read_json(path) if path.name == _JSON else None
    added = [_read_added(folder, options)]
    if name in _BERT:
        if backend is not None and _ADDED not in options:
            added.append((path, backend.get_added_tokens_decoder()))
        backend = _read_bert(path, backend, options)
    elif backend is None:
        raise CheckpointError(folder / _JSON, f"is missing, which a {name} is read from")
    for source, tokens in added:
        _add(backend, tokens, source)
    return TokenizerFiles(path, backend, _pad_token_id(backend, options, config))


def _read(path: Path) -> dict[str, Any]:
    return read_object(path) if path.is_file() else {}


def _read_options(folder: Path) -> dict[str, Any]:
    options = _read(folder / _OPTIONS)
    if _ADDED in options:
        return options
    # Older releases also wrote the special tokens here, and transformers prefers these.
    tokens = _read(folder / "special_tokens_map.json")
    return {**options, **{role: tokens[role] for role in SPECIAL_TOKENS if role in tokens}}


def _class_of(folder: Path, options: Mapping[str, Any], config: Mapping[str, Any]) -> str:
    for path, content in ((folder / _OPTIONS, options), (folder / "config.json", config)):
        name = content.get("tokenizer_class")
        if isinstance(name, str) and name in (*_BERT, *_AS_IT_IS):
            return name
        if name is not None:
            raise UnsupportedCheckpointError(
                path,
                f"tokenizer_class is {name!r}, only {', '.join((*_BERT, *_AS_IT_IS))} can be read",
            )
    # Neither file names a class, so transformers chooses by the network.
    return _BERT[0] if config.get("model_type") in ("bert", None) else _AS_IT_IS[0]


def _read_json(path: Path) -> tokenizers.Tokenizer:
    content = read_object(path)
    check_parts(path, content)
    try:
        # What was checked, not the file again: it may have changed, or be read in another way.
        backend = tokenizers.Tokenizer.from_str(json.dumps(content))
        # Before the first text is encoded: padding to millions of tokens would fill the memory.
        backend.no_truncation()
        backend.no_padding()
        # No vocabulary has this word. Without a token for unknown words, fail now, not later.
        backend.encode("\N{UGARITIC LETTER ALPA}" * 101)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # the Rust side raises bare Exception, and panics
        raise CheckpointError(path, f"is not a tokenizer: {error}") from error
    return backend


def _read_bert(
    path: Path, found: tokenizers.Tokenizer | None, options: Mapping[str, Any]
) -> tokenizers.Tokenizer:
    if found is None:
        vocabulary = _read_vocabulary(path)
    elif isinstance(found.model, models.WordPiece):
        vocabulary = found.get_vocab(with_added_tokens=False)
    else:
        raise CheckpointError(
            path,
            f"is of the kind {type(found.model).__name__}, but a {_BERT[0]} is of the kind "
            f"WordPiece: to have it read as it is, set tokenizer_class in {_OPTIONS} to "
            f"{_AS_IT_IS[0]}",
        )
    option = path.parent / _OPTIONS
    chinese_characters = _flag(option, options, "tokenize_chinese_chars", default=True)
    return wordpiece_tokenizer(
        vocabulary,
        path=path,
        lowercase=bool(_flag(option, options, "do_lower_case", default=True)),
        strip_accents=_flag(option, options, "strip_accents", default=None),
        chinese_characters=bool(chinese_characters),
        special_tokens={
            role: _content(options.get(role)) or token for role, token in SPECIAL_TOKENS.items()
        },
    )


def _read_vocabulary(path: Path) -> dict[str, int]:
    check_size(path)
    try:
        # splitlines would also split at characters that are tokens of some vocabularies.
        lines = path.read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise CheckpointError(path, f"is not UTF-8: {error.reason}") from error
    except OSError as error:
        raise CheckpointError(path, f"cannot be read: {error.strerror}") from error
    check_vocabulary(path, "the vocabulary", lines)
    return {token: index for index, token in enumerate(lines) if token}


def _flag(
    path: Path, options: Mapping[str, Any], name: str, *, default: bool | None
) -> bool | None:
    value = options.get(name, default)
    if value is default or isinstance(value, bool):
        return value
    raise CheckpointError(path, f"{name} is {value!r}, must be true or false")


def _content(token: object) -> str | None:
    """Returns the text of a special token, which transformers writes as a string or an object."""
    if isinstance(token, dict):
        token = token.get("content")
    return token if isinstance(token, str) else None


def _read_added(folder: Path, options: Mapping[str, Any]) -> tuple[Path, Mapping[int, AddedToken]]:
    """Reads the added tokens by their ids; returns the file that names them too."""
    path = folder / (_OPTIONS if _ADDED in options else "added_tokens.json")
    try:
        if _ADDED in options:
            tokens = {
                int(token_id): AddedToken(**{**token, "content": str(token["content"])})
                for token_id, token in options[_ADDED].items()
            }
        else:
            special = {
                _content(options.get(role)) or token for role, token in SPECIAL_TOKENS.items()
            }
            tokens = {
                int(token_id): AddedToken(
                    token, normalized=token not in special, special=token in special
                )
                for token, token_id in _read(path).items()
            }
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(path, f"does not name added tokens by their ids: {error}") from error
    field = _ADDED if _ADDED in options else "the file"
    check_added_tokens(path, field, [token.content for token in tokens.values()])
    return path, tokens


def _add(backend: tokenizers.Tokenizer, tokens: Mapping[int, AddedToken], path: Path) -> None:
    for token_id, token in sorted(tokens.items()):
        backend.add_tokens([token])
        found = backend.token_to_id(token.content)
        if found != token_id:
            raise CheckpointError(
                path,
                f"gives the added token {token.content!r} the id {token_id}, but behind this "
                f"vocabulary it has {found}",
            )


def _pad_token_id(
    backend: tokenizers.Tokenizer, options: Mapping[str, Any], config: Mapping[str, Any]
) -> int:
    token = options.get("pad_token", SPECIAL_TOKENS["pad_token"])
    found = backend.token_to_id(_content(token) or "")
    stated = config.get("pad_token_id")
    if found is None and isinstance(stated, int):
        return stated
    return found or 0
