"""Added tokens: whole in a text, as in transformers; only control tokens are plain text."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken
from transformers import AutoTokenizer

from model.errors import CheckpointError
from model.tokenization.reader import load_tokenizer
from model.tokenization.tokenizer import Tokenizer
from tests.families import FAMILIES, tokenizer_of
from tests.matching import exactly

LONG = 100_000
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
LAYOUTS = ["own class", "generic class", "decoder", "map", "names"]
PIECES = [token.content for token in (*SPECIAL, *PLAIN)]
OTHERS = [*map(str.lower, PIECES), *map(str.upper, PIECES), *"xé.[ \t\x00\u3000", "film", "  "]


def save(folder: Path, kind: str, layout: str, **changes: object) -> None:
    """Saves a tokenizer with added tokens in one of the layouts that releases wrote."""
    made = tokenizer_of(kind, folder, max_length=LONG)
    made.add_special_tokens({"extra_special_tokens": SPECIAL})
    made.add_tokens(PLAIN)
    made.save_pretrained(folder)
    options = json.loads((folder / "tokenizer_config.json").read_text())
    content = json.loads((folder / "tokenizer.json").read_text())
    added = {token.pop("id"): token for token in map(dict, content["added_tokens"])}
    files: dict[str, Any] = {"config.json": {"model_type": kind}}
    if layout == "generic class":
        options["tokenizer_class"] = "PreTrainedTokenizerFast"
    if layout == "decoder":
        options["added_tokens_decoder"] = added
        options["additional_special_tokens"] = options.pop("extra_special_tokens")
    if layout in ("map", "names"):
        extra = [token.content for token in SPECIAL]
        content["added_tokens"] = content["added_tokens"][: len(content["added_tokens"]) - 8]
        options.pop("extra_special_tokens")
        if layout == "map":
            files["special_tokens_map.json"] = {"additional_special_tokens": extra}
            files["added_tokens.json"] = {token["content"]: at for at, token in added.items()}
        else:
            options["user_token"] = extra[0]
            options["extra_special_tokens"] = {
                f"other_{at}": token for at, token in enumerate(extra)
            }
    files |= {"tokenizer.json": content, "tokenizer_config.json": {**options, **changes}}
    for name, new in files.items():
        (folder / name).write_text(json.dumps(new))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", FAMILIES)
def test_ids_and_offsets_are_those_of_transformers(kind: str, layout: str, tmp_path: Path) -> None:
    save(tmp_path, kind, layout)
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    ours = load_tokenizer(tmp_path, max_length=LONG)

    @given(st.lists(st.sampled_from([*PIECES, *OTHERS])).map("".join))
    def check(text: str) -> None:
        expected = theirs(text, return_offsets_mapping=True)
        encoding = ours.encode(text, with_tokens=True)
        assert encoding.tokens is not None
        assert encoding.input_ids == ours.encode(text).input_ids == expected["input_ids"]
        assert [(token.start, token.end) for token in encoding.tokens] == expected["offset_mapping"]

    check()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", FAMILIES)
def test_control_tokens_beside_them_are_text(kind: str, layout: str, tmp_path: Path) -> None:
    save(tmp_path, kind, layout)
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    vocabulary = theirs.get_vocab()
    roles = [theirs.cls_token, theirs.sep_token, theirs.pad_token, theirs.mask_token]
    tokenizer = load_tokenizer(tmp_path, max_length=LONG)

    ids = tokenizer.encode(f"[USER]{''.join(roles)} x {' '.join(roles)}[USER]").input_ids[1:-1]

    assert ids.count(vocabulary["[USER]"]) == 2
    if layout != "generic class" or kind != "xlm-roberta":  # there they are pieces of the model
        assert set(ids).isdisjoint(map(vocabulary.get, roles))


def test_a_folder_in_which_special_tokens_are_text(tmp_path: Path) -> None:
    save(tmp_path, "roberta", "own class", split_special_tokens=True)
    theirs = AutoTokenizer.from_pretrained(tmp_path)

    text = "a [USER] zork #tag"

    encoding = load_tokenizer(tmp_path, max_length=LONG).encode(text)
    assert encoding.input_ids == theirs(text)["input_ids"]
    assert theirs.convert_tokens_to_ids("[USER]") not in encoding.input_ids


@pytest.mark.parametrize("extra", [["[USER]"], ["a"], []])
def test_a_role_that_the_vocabulary_lacks_moves_ids_as_there(
    extra: list[str], tmp_path: Path
) -> None:
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n")
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    options = {"tokenizer_class": "BertTokenizer", "extra_special_tokens": extra}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(options))
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    ours = load_tokenizer(tmp_path, max_length=LONG)

    assert ours.encode("a[USER]").input_ids == theirs("a[USER]")["input_ids"]
    # One that nothing needs would ask for an embedding of its own.
    assert ours.vocab_size == (7 if extra == ["[USER]"] else 5)


@pytest.mark.parametrize("space", [" ", " " * 80, " " * 3_000, " " * 60_000])
@pytest.mark.parametrize("truncation", ["right", "left"])
def test_a_long_text_is_not_cut_within_one(truncation: Any, space: str, tmp_path: Path) -> None:  # noqa: ANN401
    made = tokenizer_of("roberta", tmp_path, max_length=LONG)
    is_left = truncation == "left"
    long = AddedToken("-=" * 250, special=True, lstrip=not is_left, rstrip=is_left)
    tail = AddedToken("#=" * 200, special=True)
    made.add_special_tokens({"extra_special_tokens": [long, tail]})
    made.save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "roberta"}')
    ours = load_tokenizer(tmp_path, max_length=8)

    for times in (1, 4):
        text = (2 * tail.content + space + long.content) * times + space + 2 * tail.content
        ids = made(text)["input_ids"][1:-1]
        kept = ids[-6:] if is_left else ids[:6]
        assert ours.encode(text, truncation=truncation).input_ids[1:-1] == kept


@pytest.mark.parametrize(
    ("extra", "fault"),
    [
        (7, "is 7, must be a list of tokens"),
        ([{"lstrip": True}], "must be a list of tokens: dict without a content"),
        ({"a": None}, "must be a list of tokens: NoneType without a content"),
        ([{"content": "x", "lstrip": 1}], "must be a list of tokens: "),
    ],
)
def test_what_is_no_list_of_tokens_is_refused(extra: object, fault: str, tmp_path: Path) -> None:
    save(tmp_path, "distilbert", "own class", extra_special_tokens=extra)
    place = tmp_path / "tokenizer_config.json"

    with pytest.raises(CheckpointError, match=f"^{place}: extra_special_tokens {fault}"):
        load_tokenizer(tmp_path, max_length=LONG)


def test_a_special_token_that_looks_like_another_is_refused(tmp_path: Path) -> None:
    made = tokenizer_of("distilbert", tmp_path, max_length=LONG)
    made.add_tokens([AddedToken("ZORK")])
    made.add_special_tokens({"extra_special_tokens": [AddedToken("zork", normalized=True)]})
    made.save_pretrained(tmp_path)
    message = (
        f"{tmp_path / 'tokenizer.json'}: has added tokens that are alike once they are normalised: "
        "keep one of them"
    )

    with pytest.raises(CheckpointError, match=exactly(message)):
        load_tokenizer(tmp_path, max_length=LONG)


def test_a_tokenizer_that_is_written_reads_the_same(tmp_path: Path) -> None:
    save(tmp_path, "distilbert", "own class")
    tokenizer: Tokenizer = load_tokenizer(tmp_path, max_length=LONG)
    again = tmp_path / "again"
    again.mkdir()
    (again / "tokenizer.json").write_text(tokenizer.to_json())
    (again / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')
    text = "[USER] [URL] zork #TAG [CLS]"

    expected = tokenizer.encode(text)
    assert load_tokenizer(again, max_length=LONG).encode(text) == expected
