"""Reads the tokenizer files of a folder so that ids equal those of transformers.

For a tokenizer of BERT, DistilBERT, RoBERTa or XLM-RoBERTa, transformers takes only the vocabulary
and the added tokens from `tokenizer.json`, and all options from `tokenizer_config.json`. The
generic classes take `tokenizer.json` as it is. Other classes are refused.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken

from model.errors import CheckpointError, TokenizerError, UnsupportedCheckpointError
from model.files import read_object
from model.tokenization.classes import CLASSES, DEFAULTS, OPTIONS, content_of
from model.tokenization.tokenizer import Tokenizer
from model.tokenization.tokenizer_limits import check_parts, check_tokens
from model.tokenization.wordpiece import SPECIAL_TOKENS

# The first two are the generic class in transformers 4 and 5. The other two belong to the network
# that can be the teacher in training.
_AS_IT_IS = ("PreTrainedTokenizerFast", "TokenizersBackend", "MPNetTokenizer", "MPNetTokenizerFast")
_JSON = "tokenizer.json"
_ADDED = "added_tokens_decoder"


@dataclass(frozen=True, slots=True)
class _Files:
    """The tokenizer that the files of a folder describe, without truncation and padding."""

    path: Path
    backend: tokenizers.Tokenizer
    pad_token_id: int
    special_tokens: Mapping[str, str]


def load_tokenizer(folder: Path, *, max_length: int, padded_length: int | None = None) -> Tokenizer:
    """Reads the tokenizer of a checkpoint folder, of at most `max_length` tokens a text.

    Args:
        padded_length: the length of every text, for a model that reads padding; else None.

    Raises:
        CheckpointError: a file is missing, damaged or contradicts another.
        UnsupportedCheckpointError: this class of tokenizer is not supported.
    """
    files = _read_files(folder)
    try:
        return Tokenizer(
            files.backend,
            max_length=max_length,
            pad_token_id=files.pad_token_id,
            padded_length=padded_length,
            special_tokens=files.special_tokens,
        )
    except (ValueError, TokenizerError) as error:
        raise CheckpointError(files.path, str(error)) from error


def _read_files(folder: Path) -> _Files:
    config = _read(folder / "config.json")
    options = _read(folder / OPTIONS)
    name = _class_of(folder, options, config)
    own = CLASSES.get(name)
    roles = SPECIAL_TOKENS if own is None else own.special_tokens
    options = _with_older(folder, options, roles)
    tokens = {role: content_of(options.get(role)) or token for role, token in roles.items()}
    path = folder / _JSON
    loaded = _read_json(path) if path.is_file() else None
    if loaded is None and own is not None:
        path = folder / own.vocabulary
        if not path.is_file():
            raise CheckpointError(folder / _JSON, f"is missing, and there is no {own.instead}")
    added = [_read_added(folder, options, tokens)]
    if own is not None:
        if loaded is not None and _ADDED not in options:
            added.append((path, loaded.get_added_tokens_decoder()))
        backend = own.build(path, loaded, options, tokens)
    elif loaded is not None:
        backend = loaded
    else:
        raise CheckpointError(path, f"is missing, which a {name} is read from")
    for source, new in added:
        _add(backend, new, source)
    check_tokens(path, backend)
    return _Files(path, backend, _pad_token_id(backend, options, tokens, config), tokens)


def _read(path: Path) -> dict[str, Any]:
    return read_object(path) if path.is_file() else {}


def _with_older(folder: Path, options: dict[str, Any], roles: Mapping[str, str]) -> dict[str, Any]:
    if _ADDED in options:
        return options
    # Older releases also wrote the special tokens here, and transformers prefers these.
    tokens = _read(folder / "special_tokens_map.json")
    return {**options, **{role: tokens[role] for role in roles if role in tokens}}


def _class_of(folder: Path, options: Mapping[str, Any], config: Mapping[str, Any]) -> str:
    known = (*CLASSES, *_AS_IT_IS)
    for path, content in ((folder / OPTIONS, options), (folder / "config.json", config)):
        name = content.get("tokenizer_class")
        if isinstance(name, str) and name in known:
            return name
        if name is not None:
            raise UnsupportedCheckpointError(
                path, f"tokenizer_class is {name!r}, only {', '.join(known)} can be read"
            )
    # Neither file names a class, so transformers chooses by the network.
    return DEFAULTS.get(str(config.get("model_type", "bert")), _AS_IT_IS[0])


def _read_json(path: Path) -> tokenizers.Tokenizer:
    content = read_object(path)
    try:
        backend = tokenizers.Tokenizer.from_str(json.dumps(content))
        # Before the first text is encoded: padding to millions of tokens would fill the memory.
        backend.no_truncation()
        backend.no_padding()
        check_parts(path, backend)
        # No vocabulary has this word. Without a token for unknown words, fail now, not later.
        backend.encode("\N{UGARITIC LETTER ALPA}" * 101)
    except (CheckpointError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # the Rust side raises bare Exception, and panics
        raise CheckpointError(path, f"is not a tokenizer: {error}") from error
    return backend


def _read_added(
    folder: Path, options: Mapping[str, Any], special_tokens: Mapping[str, str]
) -> tuple[Path, Mapping[int, AddedToken]]:
    """Reads the added tokens by their ids; returns the file that names them too."""
    path = folder / (OPTIONS if _ADDED in options else "added_tokens.json")
    try:
        if _ADDED in options:
            tokens = {
                int(token_id): AddedToken(**{**token, "content": str(token["content"])})
                for token_id, token in options[_ADDED].items()
            }
        else:
            special = frozenset(special_tokens.values())
            tokens = {
                int(token_id): AddedToken(
                    token, normalized=token not in special, special=token in special
                )
                for token, token_id in _read(path).items()
            }
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(path, f"does not name added tokens by their ids: {error}") from error
    return path, tokens


def _add(backend: tokenizers.Tokenizer, tokens: Mapping[int, AddedToken], path: Path) -> None:
    # All at once: the library prepares its search again for each call.
    backend.add_tokens([token for _, token in sorted(tokens.items())])
    for token_id, token in sorted(tokens.items()):
        found = backend.token_to_id(token.content)
        if found != token_id:
            raise CheckpointError(
                path,
                f"gives the added token {token.content!r} the id {token_id}, but behind this "
                f"vocabulary it has {found}",
            )


def _pad_token_id(
    backend: tokenizers.Tokenizer,
    options: Mapping[str, Any],
    special_tokens: Mapping[str, str],
    config: Mapping[str, Any],
) -> int:
    token = options.get("pad_token", special_tokens["pad_token"])
    found = backend.token_to_id(content_of(token) or "")
    stated = config.get("pad_token_id")
    if found is None and isinstance(stated, int):
        return stated
    return found or 0
