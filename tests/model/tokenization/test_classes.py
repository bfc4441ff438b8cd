"""What a folder's files say of its tokenizer, read as transformers reads them or refused."""

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, models
from transformers import AutoTokenizer

from model.errors import CheckpointError, UnsupportedCheckpointError
from model.tokenization.reader import load_tokenizer
from model.tokenization.wordpiece import wordpiece_tokenizer
from tests.builders import MAX_LENGTH, SPECIALS, VOCABULARY
from tests.matching import exactly

TOKENS = {token: index for index, token in enumerate((*VOCABULARY, "A", "é", "中"))}
TEXTS = ["A film is a film", "Zork zorks the zork.", "É é", "中文 a", "a" * 101]


def write(path: Path, content: object) -> None:
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    path.write_text(text, encoding="utf-8")


def backend_json(**changes: object) -> dict[str, Any]:
    """A BERT's `tokenizer.json` that lower-cases, with changes."""
    content: dict[str, Any] = json.loads(wordpiece_tokenizer(TOKENS, path=Path()).to_str())
    return {**content, **changes}


def save(folder: Path, files: dict[str, object]) -> None:
    write(folder / "config.json", {"model_type": "bert"})
    for name, content in files.items():
        write(folder / name, content)


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
        {"vocab.txt": VOCAB, "added_tokens.json": {"zork": len(TOKENS)}},
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
            "tokenizer_config.json": {**CASED, "tokenizer_class": "BertTokenizerFast"},
        },
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
        {"tokenizer.json": backend_json(), "added_tokens.json": {"zork": len(TOKENS)}},
        # Of these, tokenizer.json is taken as it is.
        {
            "tokenizer.json": backend_json(),
            "tokenizer_config.json": {**CASED, "tokenizer_class": "PreTrainedTokenizerFast"},
        },
        {
            "tokenizer.json": backend_json(post_processor=None),
            "tokenizer_config.json": {"tokenizer_class": "TokenizersBackend"},
        },
        {
            "tokenizer.json": backend_json(),
            "tokenizer_config.json": {"tokenizer_class": "TokenizersBackend"},
            "added_tokens.json": {"zork": len(TOKENS)},
        },
    ],
)
def test_the_ids_are_those_of_transformers(files: dict[str, object], tmp_path: Path) -> None:
    save(tmp_path, files)
    theirs = AutoTokenizer.from_pretrained(tmp_path)

    ours = load_tokenizer(tmp_path, max_length=200)

    assert [ours.encode(text).input_ids for text in TEXTS] == theirs(TEXTS)["input_ids"]


def test_special_tokens_of_other_names_stay_text(tmp_path: Path) -> None:
    save(
        tmp_path,
        {
            "vocab.txt": "\n".join(RENAMED),
            "tokenizer_config.json": dict(zip(ROLES, FOREIGN, strict=True)),
        },
    )

    tokenizer = load_tokenizer(tmp_path, max_length=MAX_LENGTH)

    ids = tokenizer.encode("a <s>").input_ids
    assert (ids[0], ids[-1]) == (RENAMED.index("<s>"), RENAMED.index("</s>"))
    assert RENAMED.index("<s>") not in ids[1:-1]
    assert tokenizer.pad_token_id == RENAMED.index("<pad>")


@pytest.mark.parametrize("name", ["vocab.txt", "tokenizer.json"])
@pytest.mark.parametrize("place", ["tokenizer_config.json", "config.json"])
@pytest.mark.parametrize("kind", ["BertJapaneseTokenizer", "DebertaV2TokenizerFast", "", ["x"]])
def test_another_class_is_refused(kind: object, place: str, name: str, tmp_path: Path) -> None:
    save(tmp_path, {name: VOCAB if name == "vocab.txt" else backend_json()})
    write(tmp_path / place, {"model_type": "bert", "tokenizer_class": kind})
    message = (
        f"{tmp_path / place}: tokenizer_class is {kind!r}, only BertTokenizer, "
        "BertTokenizerFast, DistilBertTokenizer, DistilBertTokenizerFast, RobertaTokenizer, "
        "RobertaTokenizerFast, XLMRobertaTokenizer, XLMRobertaTokenizerFast, "
        "PreTrainedTokenizerFast, TokenizersBackend, MPNetTokenizer, MPNetTokenizerFast can be read"
    )

    with pytest.raises(UnsupportedCheckpointError, match=exactly(message)):
        load_tokenizer(tmp_path, max_length=MAX_LENGTH)


def test_a_generic_class_needs_its_file(tmp_path: Path) -> None:
    save(tmp_path, {"vocab.txt": VOCAB})
    write(tmp_path / "tokenizer_config.json", {"tokenizer_class": "TokenizersBackend"})
    message = f"{tmp_path / 'tokenizer.json'}: is missing, which a TokenizersBackend is read from"

    with pytest.raises(CheckpointError, match=exactly(message)):
        load_tokenizer(tmp_path, max_length=MAX_LENGTH)


def test_a_bert_of_another_kind_is_refused(tmp_path: Path) -> None:
    words = Tokenizer(models.WordLevel(TOKENS, unk_token="[UNK]"))
    save(tmp_path, {"tokenizer.json": words.to_str()})
    message = (
        f"{tmp_path / 'tokenizer.json'}: has a model of the kind WordLevel, but a BertTokenizer "
        "has WordPiece: to have it read as it is, set tokenizer_class in tokenizer_config.json "
        "to PreTrainedTokenizerFast"
    )

    with pytest.raises(CheckpointError, match=exactly(message)):
        load_tokenizer(tmp_path, max_length=MAX_LENGTH)
    write(tmp_path / "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast"})
    assert load_tokenizer(tmp_path, max_length=9).encode("film").input_ids == [TOKENS["film"]]


@pytest.mark.parametrize(
    ("name", "content", "fault"),
    [
        (
            "tokenizer_config.json",
            {"do_lower_case": "no"},
            "do_lower_case is 'no', must be true or false",
        ),
        (
            "tokenizer_config.json",
            {"strip_accents": 1},
            "strip_accents is 1, must be true or false",
        ),
        (
            "tokenizer_config.json",
            {"tokenize_chinese_chars": None},
            "tokenize_chinese_chars is None, must be true or false",
        ),
        (
            "added_tokens.json",
            {"zork": len(TOKENS) + 1},
            f"gives the added token 'zork' the id {len(TOKENS) + 1}, but behind this vocabulary it "
            f"has {len(TOKENS)}",
        ),
        (
            "added_tokens.json",
            {"zork": "x"},
            "does not name added tokens by their ids: invalid literal for int() with base 10: 'x'",
        ),
        (
            "tokenizer_config.json",
            {"added_tokens_decoder": []},
            "does not name added tokens by their ids: 'list' object has no attribute 'items'",
        ),
        (
            "tokenizer_config.json",
            {"added_tokens_decoder": {"0": {}}},
            "does not name added tokens by their ids: 'content'",
        ),
        ("added_tokens.json", [], "must hold a JSON object, holds list"),
    ],
)
@pytest.mark.parametrize("vocabulary", ["vocab.txt", "tokenizer.json"])
def test_options_that_make_no_sense_are_refused(
    name: str, content: object, fault: str, vocabulary: str, tmp_path: Path
) -> None:
    save(tmp_path, {vocabulary: VOCAB if vocabulary == "vocab.txt" else backend_json()})
    write(tmp_path / name, content)

    with pytest.raises(CheckpointError, match=exactly(f"{tmp_path / name}: {fault}")):
        load_tokenizer(tmp_path, max_length=MAX_LENGTH)
