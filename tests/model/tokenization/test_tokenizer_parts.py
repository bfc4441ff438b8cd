"""What a `tokenizer.json` may hold: bounds on growth are true, and what is harmless is served."""

import json
from pathlib import Path
from typing import Any
from unicodedata import category

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from model.errors import CheckpointError
from model.tokenization.tokenizer_growth import GROWTH, growth_of, members_of_set
from model.tokenization.tokenizer_parts import MOST_GROWTH, check_parts

# All but surrogates, private use and code points without a character.
CHARACTERS = [
    chr(code) for code in range(0x110000) if category(chr(code)) not in ("Cs", "Co", "Cn")
]
EVERYWHERE = Path("tokenizer.json")


def parts_of(backend: Tokenizer) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(backend.to_str())
    return content


@pytest.mark.parametrize(
    "normalizer",
    [
        normalizers.BertNormalizer(),
        normalizers.BertNormalizer(strip_accents=False),
        normalizers.BertNormalizer(lowercase=False, strip_accents=True),
        normalizers.Lowercase(),
        normalizers.NFC(),
        normalizers.NFD(),
        normalizers.NFKC(),
        normalizers.NFKD(),
        normalizers.Nmt(),
        normalizers.Strip(),
        normalizers.StripAccents(),
    ],
    ids=lambda normalizer: type(normalizer).__name__,
)
def test_no_character_grows_beyond_its_bound(normalizer: Any) -> None:  # noqa: ANN401
    grown = max(len(normalizer.normalize_str(character)) for character in CHARACTERS)

    assert grown == GROWTH[type(normalizer).__name__]


replacements = st.builds(
    lambda is_set, pattern, content: {
        "type": "Replace",
        "pattern": {"Regex": f"[{pattern}]"} if is_set else {"String": pattern},
        "content": content,
    },
    st.booleans(),
    st.text("abc", min_size=1, max_size=3),
    st.text("abc", max_size=3),
)


@given(st.lists(replacements, max_size=4), st.text("abc"))
def test_replacing_never_exceeds_its_bound(steps: list[dict[str, Any]], text: str) -> None:
    grown = text
    for step in steps:
        ((kind, value),) = step["pattern"].items()
        pattern = Regex(value) if kind == "Regex" else value
        grown = normalizers.Replace(pattern, step["content"]).normalize_str(grown)

    assert len(grown) <= growth_of(steps) * len(text)


@pytest.mark.parametrize(
    ("pattern", "members"),
    [
        ("[ab]", "ab"),
        ("[a-c]", "abc"),
        ("[-a]", "-a"),
        ("[a-]", "a-"),
        ("[a-cx-z]", "abcxyz"),
        ("[ .*+?(){}|$]", " .*+?(){}|$"),
        ("[😀-😂]", "😀😁😂"),
    ],
)
def test_a_set_is_read_as_the_library_reads_it(pattern: str, members: str) -> None:
    assert members_of_set(pattern) == frozenset(members)
    text = "".join(map(chr, range(0x20, 0x7F))) + "😀😁😂😃é"
    rest = normalizers.Replace(Regex(pattern), "").normalize_str(text)
    assert set(text) - set(rest) == set(members)


@pytest.mark.parametrize(
    "pattern", ["[^a]", "[]", "[a][b]", "[[:alpha:]]", r"[\w]", "a", "(a)", "[a-\U0010ffff]"]
)
def test_what_is_more_than_a_set_is_not_one(pattern: str) -> None:
    assert members_of_set(pattern) is None


@pytest.mark.parametrize(
    "normalizer",
    [
        normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()]),
        normalizers.Sequence(
            [normalizers.NFD(), normalizers.StripAccents(), normalizers.Lowercase()]
        ),
        normalizers.Sequence([normalizers.Strip(), normalizers.Nmt(), normalizers.NFKD()]),
        normalizers.Sequence([normalizers.Replace("``", '"'), normalizers.Replace("''", '"')]),
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "pre_tokenizer",
    [
        pre_tokenizers.BertPreTokenizer(),
        pre_tokenizers.ByteLevel(),
        pre_tokenizers.CharDelimiterSplit("_"),
        pre_tokenizers.Metaspace(),
        pre_tokenizers.UnicodeScripts(),
        pre_tokenizers.Split("-", "isolated"),
        pre_tokenizers.Sequence(
            [
                pre_tokenizers.Whitespace(),
                pre_tokenizers.WhitespaceSplit(),
                pre_tokenizers.Punctuation(),
                pre_tokenizers.Digits(individual_digits=True),
            ]
        ),
    ],
    ids=lambda part: type(part).__name__,
)
def test_usual_parts_are_allowed(normalizer: Any, pre_tokenizer: Any) -> None:  # noqa: ANN401
    backend = Tokenizer(models.WordPiece({"[UNK]": 0}, unk_token="[UNK]"))
    backend.normalizer = normalizer
    backend.pre_tokenizer = pre_tokenizer

    check_parts(EVERYWHERE, parts_of(backend))


@pytest.mark.parametrize(
    "model",
    [
        models.WordPiece({"a": 0, "[UNK]": 1}, unk_token="[UNK]"),
        models.WordLevel({"a": 0, "[UNK]": 1}, unk_token="[UNK]"),
        models.BPE({"a": 0, "b": 1, "ab": 2}, [("a", "b")]),
        models.Unigram([("<unk>", 0.0), ("a", -1.0)], 0, byte_fallback=False),
    ],
    ids=lambda part: type(part).__name__,
)
@pytest.mark.parametrize(
    "post_processor",
    [
        processors.BertProcessing(("a", 0), ("a", 0)),
        processors.RobertaProcessing(("a", 0), ("a", 0)),
        processors.ByteLevel(),
        processors.Sequence([processors.ByteLevel()]),
        processors.TemplateProcessing(single="a $A", pair="$A $B", special_tokens=[("a", 0)]),
    ],
    ids=lambda part: type(part).__name__,
)
def test_usual_models_are_allowed(model: Any, post_processor: Any) -> None:  # noqa: ANN401
    backend = Tokenizer(model)
    backend.post_processor = post_processor
    backend.decoder = decoders.Sequence(
        [
            decoders.BPEDecoder(),
            decoders.ByteFallback(),
            decoders.ByteLevel(),
            decoders.Fuse(),
            decoders.Metaspace(),
            decoders.Replace("a", "b"),
            decoders.Strip("a", 0, 1),
            decoders.WordPiece(),
        ]
    )

    check_parts(EVERYWHERE, parts_of(backend))


def test_growth_up_to_the_bound_is_allowed() -> None:
    def content(length: int) -> dict[str, Any]:
        steps = [
            {"type": "Replace", "pattern": {"String": "a"}, "content": "b" * 2},
            {"type": "Replace", "pattern": {"String": "b"}, "content": "c" * length},
        ]
        model = {"type": "WordLevel", "vocab": {}, "unk_token": ""}
        return {"normalizer": {"type": "Sequence", "normalizers": steps}, "model": model}

    check_parts(EVERYWHERE, content(MOST_GROWTH // 2))
    steps = content(MOST_GROWTH // 2)["normalizer"]["normalizers"]
    steps.append({"type": "Replace", "pattern": {"String": "c"}, "content": "cc"})
    beyond = {**content(1), "normalizer": {"type": "Sequence", "normalizers": steps}}
    with pytest.raises(CheckpointError, match="128 characters of one, at most 64 are allowed"):
        check_parts(EVERYWHERE, beyond)
