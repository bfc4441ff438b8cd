"""Reads the tokenizer files of a folder so that ids equal those of transformers.

For a tokenizer of BERT, DistilBERT, RoBERTa or XLM-RoBERTa, transformers takes only the vocabulary
and the added tokens from `tokenizer.json`, and all options from `tokenizer_config.json`. The
generic classes take `tokenizer.json` as it is. Other classes are refused.

Added tokens in a text stay whole, special ones too. Only control tokens are read as plain text:
those with a role (`[CLS]`, `[PAD]`), and what the tokenizer itself puts around a text.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken

from model.errors import CheckpointError, TokenizerError, UnsupportedCheckpointError, shorten
from model.files import read_object
from model.tokenization import roberta
from model.tokenization.classes import CLASSES, DEFAULTS, OPTIONS, content_of
from model.tokenization.tokenizer import Tokenizer, no_panic
from model.tokenization.tokenizer_limits import check_parts, check_tokens
from model.tokenization.wordpiece import SPECIAL_TOKENS

# The first two are the generic class in transformers 4 and 5. The other two belong to the network
# that can be the teacher in training.
_AS_IT_IS = ("PreTrainedTokenizerFast", "TokenizersBackend", "MPNetTokenizer", "MPNetTokenizerFast")
_JSON = "tokenizer.json"
_ADDED = "added_tokens_decoder"
# The additional special tokens, by the names of transformers 5 and 4.
_EXTRA, _OLD_EXTRA = "extra_special_tokens", "additional_special_tokens"
# In the order in which transformers adds what the vocabulary lacks.
_ROLES = tuple(f"{role}_token" for role in ("bos", "eos", "unk", "sep", "pad", "cls", "mask"))
# What may have a role in a `tokenizer.json` of which no other file names the roles.
_USUAL = frozenset({*SPECIAL_TOKENS.values(), *roberta.SPECIAL_TOKENS.values()})


@dataclass(frozen=True, slots=True)
class _Files:
    """The tokenizer that the files of a folder describe, without truncation and padding."""

    path: Path
    backend: tokenizers.Tokenizer
    pad_token_id: int
    special_tokens: Mapping[str, str]
    control: frozenset[str]


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
            _keep_whole(files),
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
    options = _with_older(folder, options)
    defaults = SPECIAL_TOKENS if own is None else own.special_tokens
    tokens = {role: content_of(options.get(role)) or token for role, token in defaults.items()}
    path = folder / _JSON
    loaded = _read_json(path) if path.is_file() else None
    if loaded is None and own is not None:
        path = folder / own.vocabulary
        if not path.is_file():
            raise CheckpointError(folder / _JSON, f"is missing, and there is no {own.instead}")
    stated = (tokens if own is not None else {}) | {
        role: content for role in _ROLES if (content := content_of(options.get(role)))
    }
    roles = list(dict.fromkeys(stated[role] for role in _ROLES if role in stated))
    added = [_read_added(folder, options, roles)]
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
    _add_special(backend, roles, _extra_tokens(folder / OPTIONS, options))
    check_tokens(path, backend)
    control = {*tokens.values(), *roles, *(_USUAL if own is None else ())}
    if options.get("split_special_tokens") is True:  # so transformers reads all of them as text
        control |= {token.content for token in _added_to(backend) if token.special}
    pad_token_id = _pad_token_id(backend, options, tokens, config)
    return _Files(path, backend, pad_token_id, tokens, frozenset(control))


def _read(path: Path) -> dict[str, Any]:
    return read_object(path) if path.is_file() else {}


def _with_older(folder: Path, options: dict[str, Any]) -> dict[str, Any]:
    """Completes options as transformers 5 does with those of older releases."""
    if not options.get(_EXTRA) and _OLD_EXTRA in options:
        options = {**options, _EXTRA: options[_OLD_EXTRA]}
    if _ADDED in options:
        return options
    # Older releases also wrote the special tokens here, and transformers prefers these.
    older = _read(folder / "special_tokens_map.json")
    if isinstance(options.get(_EXTRA), list) and isinstance(older.get(_EXTRA), list):
        older = {**older, _EXTRA: [*options[_EXTRA], *older[_EXTRA]]}
    return {**options, **older}


def _extra_tokens(path: Path, options: Mapping[str, Any]) -> list[AddedToken]:
    """Returns the special tokens without one of the usual roles, in the order of transformers."""
    extra = options.get(_EXTRA, options.get(_OLD_EXTRA)) or []
    named = [
        value
        for key, value in options.items()
        if key.endswith("_token") and key not in _ROLES and content_of(value) is not None
    ]
    values = [*extra.values()] if isinstance(extra, dict) else extra
    if not isinstance(values, list):
        raise CheckpointError(path, f"{_EXTRA} is {shorten(repr(extra))}, must be a list of tokens")
    try:
        return [_special_token(value) for value in (*named, *values)]
    except (TypeError, ValueError) as error:
        raise CheckpointError(path, f"{_EXTRA} must be a list of tokens: {error}") from error


def _special_token(value: Any) -> AddedToken:  # noqa: ANN401 - whatever the file has
    if isinstance(value, str):
        return AddedToken(value, special=True)
    if content_of(value) is None:
        raise TypeError(f"{type(value).__name__} without a content")
    flags = {key: flag for key, flag in value.items() if key != "__type"}
    return AddedToken(**{"special": "__type" not in value, **flags})


def _class_of(folder: Path, options: Mapping[str, Any], config: Mapping[str, Any]) -> str:
    known = (*CLASSES, *_AS_IT_IS)
    for path, content in ((folder / OPTIONS, options), (folder / "config.json", config)):
        name = content.get("tokenizer_class")
        if isinstance(name, str) and name in known:
            return name
        if name is not None:
            raise UnsupportedCheckpointError(
                path,
                f"tokenizer_class is {shorten(repr(name))}, only {', '.join(known)} can be read",
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
    folder: Path, options: Mapping[str, Any], roles: Collection[str]
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
            extra = options.get(_EXTRA)
            special = {*roles, *map(content_of, extra if isinstance(extra, list) else ())}
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
            content = shorten(repr(token.content))
            raise CheckpointError(
                path,
                f"gives the added token {content} the id {token_id}, but behind this vocabulary it "
                f"has {found}",
            )


def _add_special(
    backend: tokenizers.Tokenizer, roles: Sequence[str], extra: Sequence[AddedToken]
) -> None:
    """Adds what no file gives an id."""
    known = {token.content for token in _added_to(backend)}
    new = [token for token in extra if token.content not in known]
    moves = any(backend.token_to_id(token.content) is None for token in new)
    # A role's token that the vocabulary lacks never occurs, but moves the ids of those behind it.
    backend.add_special_tokens(
        [
            role
            for role in roles
            if role not in known and (moves or backend.token_to_id(role) is not None)
        ]
    )
    backend.add_tokens(new)


def _added_to(backend: tokenizers.Tokenizer) -> Collection[AddedToken]:
    added: dict[int, AddedToken] = backend.get_added_tokens_decoder()
    return added.values()


def _keep_whole(files: _Files) -> tokenizers.Tokenizer:
    """Leaves only control tokens special, which `Tokenizer` reads as plain text.

    Raises:
        UnsupportedCheckpointError: then other tokens would be found than in transformers.
        TokenizerError: the tokenizer breaks on every text.
    """
    backend = files.backend
    with no_panic():
        control = files.control.union(backend.encode("").tokens)
    added = _added_to(backend)
    if all(token.special == (token.content in control) for token in added):
        return backend
    normalize = str if backend.normalizer is None else backend.normalizer.normalize_str
    forms: dict[bool, set[str]] = {True: set(), False: set()}
    with no_panic():
        for token in added:
            if token.normalized:
                forms[token.special].add(normalize(token.content))
    # Of two that look alike, the library finds the special one.
    if forms[True] & forms[False]:
        raise UnsupportedCheckpointError(
            files.path, "has added tokens that are alike once they are normalised: keep one of them"
        )
    content = json.loads(backend.to_str())
    for token in content["added_tokens"]:
        token["special"] = token["content"] in control
    return tokenizers.Tokenizer.from_str(json.dumps(content))


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
