"""A tokenizer from the files of a folder: read as transformers reads it, or refused."""

import errno
import json
import re
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from tokenizers import models
from transformers import AutoTokenizer

from model.errors import CheckpointError, UnsupportedCheckpointError
from model.tokenization.reader import load_tokenizer
from model.tokenization.wordpiece import wordpiece_tokenizer
from tests.builders import MAX_LENGTH, SPECIALS, VOCABULARY, tiny_tokenizer
from tests.matching import exactly

TOKENIZER = tiny_tokenizer()
IDS = {token: index for index, token in enumerate(VOCABULARY)}
WORDS = "a an and bad boring but cast cold deep dull"


def write(folder: Path, name: str, content: object) -> Path:
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_truncation_and_padding_of_the_file_are_turned_off(tmp_path: Path) -> None:
    backend = tokenizers.Tokenizer.from_str(TOKENIZER.to_json())
    backend.enable_truncation(4)
    backend.enable_padding(length=20)
    write(tmp_path, "tokenizer.json", backend.to_str())
    tokenizer = load_tokenizer(tmp_path, max_length=MAX_LENGTH)

    assert tokenizer.encode(WORDS) == TOKENIZER.encode(WORDS)
    assert tokenizer.encode("a").input_ids == [IDS["[CLS]"], IDS["a"], IDS["[SEP]"]]


def test_a_vocabulary_file_that_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deny(*_: object, **__: object) -> str:
        raise PermissionError(errno.EACCES, "Permission denied")

    write(tmp_path, "vocab.txt", "\n".join(VOCABULARY))
    monkeypatch.setattr(Path, "read_text", deny)  # root may read everything
    message = f"{tmp_path / 'vocab.txt'}: cannot be read: Permission denied"

    with pytest.raises(CheckpointError, match=exactly(message)):
        load_tokenizer(tmp_path, max_length=MAX_LENGTH)


def test_a_vocabulary_file_alone(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_bytes("\r\n".join([*VOCABULARY, ""]).encode())
    tokenizer = load_tokenizer(tmp_path, max_length=MAX_LENGTH)

    text = "The [SEP] plot drags, but 中 the café is superb 🎬."
    assert tokenizer.encode(text, with_tokens=True) == TOKENIZER.encode(text, with_tokens=True)
    assert tokenizer.vocab_size == len(VOCABULARY)


def test_line_separators_can_be_tokens_of_a_vocabulary_file(tmp_path: Path) -> None:
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "\u2028", "\x85", "", "a"]
    write(tmp_path, "vocab.txt", "\n".join(tokens))

    assert load_tokenizer(tmp_path, max_length=9).encode("a").input_ids == [2, 7, 3]


@pytest.mark.parametrize(
    ("options", "pad_token_id"),
    [
        ({}, 3),
        ({"pad_token": "[CLS]"}, 1),
        ({"pad_token": {"__type": "AddedToken", "content": "[PAD]"}}, 3),
        ({"pad_token": "<none>"}, 4),  # that of config.json
        ({"pad_token": {"content": "<none>"}}, 4),
        ({"pad_token": None}, 4),
    ],
)
def test_the_padding_id(options: dict[str, Any], pad_token_id: int, tmp_path: Path) -> None:
    """It is what an attribution starts from, so that of another token would change the answer."""
    write(tmp_path, "vocab.txt", "[UNK]\n[CLS]\n[SEP]\n[PAD]\na\n")
    write(tmp_path, "tokenizer_config.json", options)
    write(tmp_path, "config.json", {"pad_token_id": 4})

    assert load_tokenizer(tmp_path, max_length=9).pad_token_id == pad_token_id


def test_no_tokenizer_at_all_is_refused(tmp_path: Path) -> None:
    message = f"{tmp_path / 'tokenizer.json'}: is missing, and there is no vocab.txt instead"

    with pytest.raises(CheckpointError, match=exactly(message)):
        load_tokenizer(tmp_path, max_length=9)


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"{}", "is not a tokenizer: Model missing."),
        (TOKENIZER.to_json()[:-1].encode(), "is not JSON: "),
        (TOKENIZER.to_json().replace('"vocab":', '"words":').encode(), "is not a tokenizer: "),
        (
            TOKENIZER.to_json().replace('"unk_token":"[UNK]"', '"unk_token":"<none>"').encode(),
            "is not a tokenizer: ",
        ),
    ],
)
def test_a_damaged_tokenizer_is_refused(content: bytes, fault: str, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_bytes(content)

    with pytest.raises(CheckpointError, match=f"^{re.escape(str(path))}: {re.escape(fault)}"):
        load_tokenizer(tmp_path, max_length=9)


@pytest.mark.parametrize(
    ("name", "content", "fault"),
    [
        ("vocab.txt", b"[UNK]\n\xff\n", "is not UTF-8: invalid start byte"),
        ("vocab.txt", b"[UNK]\na\n", "lacks the special tokens [CLS], [SEP]"),
        ("tokenizer_config.json", b"[]", "must hold a JSON object, holds list"),
    ],
)
def test_damaged_companions_are_refused(
    name: str, content: bytes, fault: str, tmp_path: Path
) -> None:
    write(tmp_path, "vocab.txt", "\n".join(VOCABULARY))
    (tmp_path / name).write_bytes(content)

    with pytest.raises(CheckpointError, match=exactly(f"{tmp_path / name}: {fault}")):
        load_tokenizer(tmp_path, max_length=9)


@pytest.mark.parametrize("name", ["tokenizer.json", "vocab.txt"])
def test_a_limit_without_room_names_the_file(name: str, tmp_path: Path) -> None:
    content = TOKENIZER.to_json() if name == "tokenizer.json" else "\n".join(VOCABULARY)
    path = write(tmp_path, name, content)
    message = (
        f"{path}: max_length is 2, but 2 special tokens leave no room for text: it must be at "
        "least 3"
    )

    with pytest.raises(CheckpointError, match=exactly(message)):
        load_tokenizer(tmp_path, max_length=2)


TOKENS = {token: index for index, token in enumerate((*VOCABULARY, "A", "é", "中"))}
TEXTS = ["A film is a film", "Zork zorks the zork.", "É é", "中文 a", "a" * 101]


def backend_json(**changes: object) -> dict[str, Any]:
    """A BERT's `tokenizer.json` that lower-cases, with changes."""
    content: dict[str, Any] = json.loads(wordpiece_tokenizer(TOKENS, path=Path()).to_str())
    return {**content, **changes}


def save_folder(folder: Path, files: dict[str, object]) -> None:
    write(folder, "config.json", {"model_type": "bert"})
    for name, content in files.items():
        write(folder, name, content)


VOCAB = "\n".join(TOKENS) + "\n"
CASED = {"do_lower_case": False, "tokenizer_class": "BertTokenizer"}
ZORK = {
    "content": "zork",
    "lstrip": False,
    "normalized": True,
    "rstrip": False,
    "single_word": False,
    "special": False,
}
FOREIGN = ["<pad>", "<unk>", "<s>", "</s>", "<mask>"]
ROLES = ["pad_token", "unk_token", "cls_token", "sep_token", "mask_token"]
RENAMED = [FOREIGN[SPECIALS.index(token)] if token in SPECIALS else token for token in TOKENS]


@pytest.mark.parametrize(
    "files",
    [
        {"vocab.txt": VOCAB},
        {"vocab.txt": VOCAB, "tokenizer_config.json": CASED},
        {"vocab.txt": VOCAB, "tokenizer_config.json": {**CASED, "strip_accents": True}},
        {"vocab.txt": VOCAB, "tokenizer_config.json": {"strip_accents": False}},
        {"vocab.txt": VOCAB, "tokenizer_config.json": {"tokenize_chinese_chars": False}},
        {"vocab.txt": VOCAB, "added_tokens.json": {"zork": len(TOKENS), "film": TOKENS["film"]}},
        {
            "vocab.txt": VOCAB,
            "tokenizer_config.json": {"added_tokens_decoder": {str(len(TOKENS)): ZORK}},
        },
        {
            "vocab.txt": "\n".join(RENAMED),
            "tokenizer_config.json": dict(zip(ROLES, FOREIGN, strict=True)),
        },
        {
            "vocab.txt": "\n".join(RENAMED),
            "special_tokens_map.json": {
                role: {"content": token, "lstrip": False, "normalized": False, "rstrip": False}
                for role, token in zip(ROLES, FOREIGN, strict=True)
            },
        },
        {"tokenizer.json": backend_json()},
        {"tokenizer.json": backend_json(), "tokenizer_config.json": CASED},
        {
            "tokenizer.json": backend_json(),
            "tokenizer_config.json": {"tokenize_chinese_chars": False, "strip_accents": False},
        },
        {"tokenizer.json": backend_json(post_processor=None)},
        {"tokenizer.json": backend_json(pre_tokenizer=None, normalizer=None)},
        {
            "tokenizer.json": backend_json(
                added_tokens=[*backend_json()["added_tokens"], {"id": len(TOKENS), **ZORK}]
            )
        },
        # Of these, tokenizer.json is taken as it is.
        {
            "tokenizer.json": backend_json(),
            "tokenizer_config.json": {**CASED, "tokenizer_class": "PreTrainedTokenizerFast"},
        },
        {
            "tokenizer.json": backend_json(),
            "tokenizer_config.json": {"tokenizer_class": "TokenizersBackend"},
            "added_tokens.json": {"zork": len(TOKENS)},
        },
    ],
)
def test_the_ids_are_those_of_transformers(files: dict[str, object], tmp_path: Path) -> None:
    save_folder(tmp_path, files)
    theirs = AutoTokenizer.from_pretrained(tmp_path)

    ours = load_tokenizer(tmp_path, max_length=200)

    assert [ours.encode(text).input_ids for text in TEXTS] == theirs(TEXTS)["input_ids"]


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        ("tokenizer_config.json", "BertJapaneseTokenizer"),
        ("tokenizer_config.json", ["x"]),
        ("config.json", ""),
    ],
)
def test_another_class_is_refused(place: str, kind: object, tmp_path: Path) -> None:
    save_folder(tmp_path, {"vocab.txt": VOCAB})
    write(tmp_path, place, {"model_type": "bert", "tokenizer_class": kind})
    message = (
        f"{tmp_path / place}: tokenizer_class is {kind!r}, only BertTokenizer, "
        "BertTokenizerFast, DistilBertTokenizer, DistilBertTokenizerFast, RobertaTokenizer, "
        "RobertaTokenizerFast, XLMRobertaTokenizer, XLMRobertaTokenizerFast, "
        "PreTrainedTokenizerFast, TokenizersBackend, MPNetTokenizer, MPNetTokenizerFast can be read"
    )

    with pytest.raises(UnsupportedCheckpointError, match=exactly(message)):
        load_tokenizer(tmp_path, max_length=MAX_LENGTH)


def test_a_generic_class_needs_its_file(tmp_path: Path) -> None:
    save_folder(tmp_path, {"vocab.txt": VOCAB})
    write(tmp_path, "tokenizer_config.json", {"tokenizer_class": "TokenizersBackend"})
    message = f"{tmp_path / 'tokenizer.json'}: is missing, which a TokenizersBackend is read from"

    with pytest.raises(CheckpointError, match=exactly(message)):
        load_tokenizer(tmp_path, max_length=MAX_LENGTH)


def test_a_bert_of_another_kind_is_refused(tmp_path: Path) -> None:
    words = tokenizers.Tokenizer(models.WordLevel(TOKENS, unk_token="[UNK]"))
    save_folder(tmp_path, {"tokenizer.json": words.to_str()})
    message = (
        f"{tmp_path / 'tokenizer.json'}: has a model of the kind WordLevel, but a BertTokenizer "
        "has WordPiece: to have it read as it is, set tokenizer_class in tokenizer_config.json "
        "to PreTrainedTokenizerFast"
    )

    with pytest.raises(CheckpointError, match=exactly(message)):
        load_tokenizer(tmp_path, max_length=MAX_LENGTH)
    write(tmp_path, "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast"})
    assert load_tokenizer(tmp_path, max_length=9).encode("film").input_ids == [TOKENS["film"]]


SENSELESS: dict[str, list[tuple[object, str]]] = {
    "tokenizer_config.json": [
        ({"do_lower_case": "no"}, "do_lower_case is 'no', must be true or false"),
        ({"strip_accents": 1}, "strip_accents is 1, must be true or false"),
        (
            {"tokenize_chinese_chars": None},
            "tokenize_chinese_chars is None, must be true or false",
        ),
        (
            {"added_tokens_decoder": []},
            "does not name added tokens by their ids: 'list' object has no attribute 'items'",
        ),
        (
            {"added_tokens_decoder": {"0": {}}},
            "does not name added tokens by their ids: 'content'",
        ),
    ],
    "added_tokens.json": [
        (
            {"zork": len(TOKENS) + 1},
            f"gives the added token 'zork' the id {len(TOKENS) + 1}, but behind this vocabulary it "
            f"has {len(TOKENS)}",
        ),
        (
            {"zork": "x"},
            "does not name added tokens by their ids: invalid literal for int() with base 10: 'x'",
        ),
        ([], "must hold a JSON object, holds list"),
    ],
}


@pytest.mark.parametrize(
    ("name", "content", "fault"),
    [(name, *row) for name, rows in SENSELESS.items() for row in rows],
)
def test_options_that_make_no_sense_are_refused(
    name: str, content: object, fault: str, tmp_path: Path
) -> None:
    save_folder(tmp_path, {"vocab.txt": VOCAB, name: content})

    with pytest.raises(CheckpointError, match=exactly(f"{tmp_path / name}: {fault}")):
        load_tokenizer(tmp_path, max_length=MAX_LENGTH)
