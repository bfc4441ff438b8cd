"""A tokenizer from the files of a folder: read as transformers reads it, or refused."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken
from transformers import AutoTokenizer

from model.errors import CheckpointError
from model.tokenization.reader import load_tokenizer
from model.tokenization.wordpiece import wordpiece_tokenizer
from tests.builders import MAX_LENGTH, SPECIALS, VOCABULARY, tiny_tokenizer
from tests.families import FAMILIES, tokenizer_of
from tests.matching import exactly

LONG = 100_000
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


TOKENS = {token: index for index, token in enumerate((*VOCABULARY, "A", "é", "中"))}
VOCAB = "\n".join(TOKENS) + "\n"
OPTIONS = "tokenizer_config.json"
CASED = {"do_lower_case": False, "tokenizer_class": "BertTokenizer"}
LOWER = wordpiece_tokenizer(TOKENS, path=Path()).to_str()
ROLES = ["pad_token", "unk_token", "cls_token", "sep_token", "mask_token"]
RENAMED = dict(zip(SPECIALS, ["<pad>", "<unk>", "<s>", "</s>", "<mask>"], strict=True))


@pytest.mark.parametrize(
    "files",
    [
        {"vocab.txt": VOCAB},
        {"vocab.txt": VOCAB, OPTIONS: CASED},
        {"vocab.txt": VOCAB, OPTIONS: {**CASED, "strip_accents": True}},
        {"vocab.txt": VOCAB, OPTIONS: {"tokenize_chinese_chars": False}},
        {
            "vocab.txt": "\n".join(RENAMED.get(token, token) for token in TOKENS),
            OPTIONS: dict(zip(ROLES, RENAMED.values(), strict=True)),
        },
        {"tokenizer.json": LOWER},
        {"tokenizer.json": LOWER, OPTIONS: CASED},
        # Of this class, tokenizer.json is taken as it is.
        {"tokenizer.json": LOWER, OPTIONS: {**CASED, "tokenizer_class": "PreTrainedTokenizerFast"}},
    ],
)
def test_ids_of_a_bert_are_those_of_transformers(files: dict[str, object], tmp_path: Path) -> None:
    write(tmp_path, "config.json", {"model_type": "bert"})
    for name, content in files.items():
        write(tmp_path, name, content)
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    texts = ["A film is a film", "Zork zorks the zork.", "É é", "中文 a", "a" * 101]
    ours = load_tokenizer(tmp_path, max_length=200)
    assert [ours.encode(text).input_ids for text in texts] == theirs(texts)["input_ids"]


def test_lines_of_a_vocabulary_file(tmp_path: Path) -> None:
    """They may end as on Windows, and other separators of lines can be tokens."""
    (tmp_path / "vocab.txt").write_bytes("\r\n".join([*VOCABULARY, ""]).encode())
    text = "The [SEP] plot drags, but 中 the café is superb 🎬."
    encoding = load_tokenizer(tmp_path, max_length=MAX_LENGTH).encode(text, with_tokens=True)
    assert encoding == TOKENIZER.encode(text, with_tokens=True)
    write(tmp_path, "vocab.txt", "\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "\u2028", "", "a"]))
    assert load_tokenizer(tmp_path, max_length=9).encode("a").input_ids == [2, 6, 3]


@pytest.mark.parametrize(
    ("options", "pad_token_id"),
    [
        ({}, 3),
        ({"pad_token": {"__type": "AddedToken", "content": "[CLS]"}}, 1),
        ({"pad_token": "<none>"}, 4),  # that of config.json
        ({"pad_token": None}, 4),
    ],
)
def test_the_padding_id(options: dict[str, Any], pad_token_id: int, tmp_path: Path) -> None:
    """It is what an attribution starts from, so that of another token would change the answer."""
    write(tmp_path, "vocab.txt", "[UNK]\n[CLS]\n[SEP]\n[PAD]\na\n")
    write(tmp_path, OPTIONS, options)
    write(tmp_path, "config.json", {"pad_token_id": 4})
    assert load_tokenizer(tmp_path, max_length=9).pad_token_id == pad_token_id


@pytest.mark.parametrize(
    ("name", "content", "error"),
    [
        ("tokenizer.json", b"{}", "is not a tokenizer: Model missing."),
        ("tokenizer.json", TOKENIZER.to_json()[:-1].encode(), "is not JSON: "),
        (
            "tokenizer.json",
            TOKENIZER.to_json().replace('"unk_token":"[UNK]"', '"unk_token":"<none>"').encode(),
            "is not a tokenizer: ",
        ),
        ("vocab.txt", b"[UNK]\na\n", "lacks the special tokens [CLS], [SEP]"),
        (OPTIONS, b'{"strip_accents": 1}', "strip_accents is 1, must be true or false"),
        (
            OPTIONS,
            b'{"added_tokens_decoder": {"x": "a"}}',
            "does not name added tokens by their ids: invalid literal for int() with base 10: 'x'",
        ),
        (
            OPTIONS,
            b'{"extra_special_tokens": 7}',
            "does not name added tokens by their ids: 'int' object is not iterable",
        ),
    ],
)
def test_a_damaged_file_is_refused(name: str, content: bytes, error: str, tmp_path: Path) -> None:
    write(tmp_path, "vocab.txt", VOCAB)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(CheckpointError, match=f"^{re.escape(f'{tmp_path / name}: {error}')}"):
        load_tokenizer(tmp_path, max_length=9)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("bert", ".gitignore"),
        ("roberta", "merges.txt"),
        ("xlm-roberta", "sentencepiece.bpe.model"),
        ("roberta", "vocab.txt"),
    ],
)
def test_without_a_file_that_is_read_one_line_says_how_to_write_it(
    kind: str, name: str, tmp_path: Path
) -> None:
    write(tmp_path, "config.json", {"model_type": kind})
    write(tmp_path, name, "")
    message = (
        f"{tmp_path / 'tokenizer.json'}: is missing: have transformers write it "
        f"(AutoTokenizer.from_pretrained('{tmp_path}').save_pretrained('{tmp_path}'))"
    )
    with pytest.raises(CheckpointError, match=exactly(message)):
        load_tokenizer(tmp_path, max_length=9)


@pytest.mark.parametrize(
    ("place", "kind"), [(OPTIONS, "BertJapaneseTokenizer"), ("config.json", ["x"])]
)
def test_another_class_is_refused(place: str, kind: object, tmp_path: Path) -> None:
    write(tmp_path, "vocab.txt", VOCAB)
    write(tmp_path, place, {"model_type": "bert", "tokenizer_class": kind})
    message = (
        f"{tmp_path / place}: tokenizer_class is {kind!r}, only BertTokenizer, "
        "BertTokenizerFast, DistilBertTokenizer, DistilBertTokenizerFast, RobertaTokenizer, "
        "RobertaTokenizerFast, XLMRobertaTokenizer, XLMRobertaTokenizerFast, "
        "PreTrainedTokenizerFast, TokenizersBackend, MPNetTokenizer, MPNetTokenizerFast can be read"
    )
    with pytest.raises(CheckpointError, match=exactly(message)):
        load_tokenizer(tmp_path, max_length=MAX_LENGTH)


@pytest.mark.parametrize("name", ["tokenizer.json", "vocab.txt"])
def test_a_limit_without_room_names_the_file(name: str, tmp_path: Path) -> None:
    path = write(tmp_path, name, TOKENIZER.to_json() if name == "tokenizer.json" else VOCAB)
    message = (
        f"{path}: max_length is 2, but 2 special tokens leave no room for text: it must be at "
        "least 3"
    )
    with pytest.raises(CheckpointError, match=exactly(message)):
        load_tokenizer(tmp_path, max_length=2)


SPECIAL = [
    AddedToken("[USER]", special=True),
    AddedToken("[URL]", special=True, lstrip=True),
    AddedToken("#Tag", special=True, normalized=True),
    AddedToken("new york", special=True, rstrip=True, single_word=True),
]
PLAIN = [
    AddedToken("zork", single_word=True),
    AddedToken("Café", lstrip=True, rstrip=True),
    AddedToken("USER", normalized=False),
    AddedToken("[USER][URL]"),
]
PIECES = [token.content for token in (*SPECIAL, *PLAIN)]
OTHERS = [*map(str.lower, PIECES), *map(str.upper, PIECES), *"xé中.[ \t\x00\u3000", "film", "films"]
ADDED = [*((kind, None) for kind in FAMILIES), ("xlm-roberta", "PreTrainedTokenizerFast")]


def save(folder: Path, kind: str, tokenizer_class: str | None = None) -> None:
    made = tokenizer_of(kind, max_length=LONG)
    made.add_special_tokens({"extra_special_tokens": SPECIAL})
    made.add_tokens(PLAIN)
    made.save_pretrained(folder)
    write(folder, "config.json", {"model_type": kind})
    if tokenizer_class is not None:
        options = json.loads((folder / OPTIONS).read_text())
        write(folder, OPTIONS, {**options, "tokenizer_class": tokenizer_class})


@pytest.mark.parametrize(("kind", "tokenizer_class"), ADDED)
def test_added_tokens_stay_whole_as_in_transformers_and_control_tokens_are_text(
    kind: str, tokenizer_class: str | None, tmp_path: Path
) -> None:
    save(tmp_path, kind, tokenizer_class)
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    ours = load_tokenizer(tmp_path, max_length=LONG)

    @given(st.lists(st.sampled_from([*PIECES, *OTHERS])).map("".join) | st.text())
    def check(text: str) -> None:
        expected = theirs(text, return_offsets_mapping=True)
        encoding = ours.encode(text, with_tokens=True)
        assert encoding.tokens is not None
        assert encoding.input_ids == ours.encode(text).input_ids == expected["input_ids"]
        assert [(token.start, token.end) for token in encoding.tokens] == expected["offset_mapping"]

    check()
    vocabulary = theirs.get_vocab()
    roles = [theirs.cls_token, theirs.sep_token, theirs.pad_token, theirs.mask_token]
    ids = ours.encode(f"[USER]{''.join(roles)} x {' '.join(roles)}[USER]").input_ids[1:-1]
    assert ids.count(vocabulary["[USER]"]) == 2
    assert set(ids).isdisjoint(map(vocabulary.get, roles))
    again = tmp_path / "again"
    again.mkdir()
    write(again, "tokenizer.json", ours.to_json())
    write(again, OPTIONS, {"tokenizer_class": "PreTrainedTokenizerFast"})
    assert load_tokenizer(again, max_length=LONG).to_json() == ours.to_json()


def test_a_folder_in_which_special_tokens_are_text(tmp_path: Path) -> None:
    save(tmp_path, "roberta")
    options = json.loads((tmp_path / OPTIONS).read_text())
    write(tmp_path, OPTIONS, {**options, "split_special_tokens": True})
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    encoding = load_tokenizer(tmp_path, max_length=LONG).encode("a [USER] zork #tag")
    assert encoding.input_ids == theirs("a [USER] zork #tag")["input_ids"]
    assert theirs.convert_tokens_to_ids("[USER]") not in encoding.input_ids


@pytest.mark.parametrize(
    ("name", "content", "lacking"),
    [
        ("added_tokens.json", {"zork": len(TOKENS)}, f"'zork' with the id {len(TOKENS)}"),
        ("added_tokens.json", {"[CLS]": 90}, "'[CLS]' with the id 90"),
        (OPTIONS, {"extra_special_tokens": ["film"]}, "'film'"),
        (OPTIONS, {"additional_special_tokens": {"a": {"content": "b"}}}, "'b'"),
        (
            OPTIONS,
            {"added_tokens_decoder": {"2": {"content": "[CLS]"}, "3": {"content": "zork"}}},
            "'zork' with the id 3",
        ),
    ],
)
def test_an_added_token_that_only_another_file_names_is_refused(
    name: str, content: object, lacking: str, tmp_path: Path
) -> None:
    """Its id, and those of tokens behind it, would not be those of transformers."""
    write(tmp_path, "vocab.txt", VOCAB)
    write(tmp_path, name, content)
    message = (
        f"{tmp_path / 'vocab.txt'}: lacks the added token {lacking}, which another file of the "
        "folder names: have transformers write it "
    )
    with pytest.raises(CheckpointError, match=f"^{re.escape(message)}"):
        load_tokenizer(tmp_path, max_length=9)


@pytest.mark.parametrize("space", [" ", " " * 80, " " * 60_000])
@pytest.mark.parametrize("truncation", ["right", "left"])
def test_a_long_text_is_not_cut_within_an_added_token(
    truncation: Any,  # noqa: ANN401
    space: str,
    tmp_path: Path,
) -> None:
    made = tokenizer_of("roberta", max_length=LONG)
    is_left = truncation == "left"
    long = AddedToken("-=" * 250, special=True, lstrip=not is_left, rstrip=is_left)
    tail = AddedToken("#=" * 200, special=True)
    made.add_special_tokens({"extra_special_tokens": [long, tail]})
    made.save_pretrained(tmp_path)
    write(tmp_path, "config.json", {"model_type": "roberta"})
    ours = load_tokenizer(tmp_path, max_length=8)
    for times in (1, 4):
        text = (2 * tail.content + space + long.content) * times + space + 2 * tail.content
        ids = made(text)["input_ids"][1:-1]
        kept = ids[-6:] if is_left else ids[:6]
        assert ours.encode(text, truncation=truncation).input_ids[1:-1] == kept
