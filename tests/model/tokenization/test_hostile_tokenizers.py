"""Tokenizers that would fill the memory or run for ever: each is refused by file and field.

Each folder is first opened in a child process with limits, so that one which were not refused could
not harm this process.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from model.checkpoint.opening import open_checkpoint
from model.errors import CheckpointError, UnsupportedCheckpointError
from model.tokenization import reader, sandbox, sandbox_child
from model.tokenization.sandbox import try_tokenizer
from model.tokenization.tokenizer_parts import check_parts
from service.preflight import prepare
from service.settings import SettingsError
from tests.builders import tiny_tokenizer
from tests.model.folders import edit, read

SOUND: dict[str, Any] = json.loads(tiny_tokenizer().to_json())
NORMALIZERS = (
    "only BertNormalizer, Lowercase, NFC, NFD, NFKC, NFKD, Nmt, Strip, StripAccents, "
    "Precompiled, Replace, Sequence can be read"
)
PRE_TOKENIZERS = (
    "only BertPreTokenizer, ByteLevel, CharDelimiterSplit, Digits, Metaspace, Punctuation, "
    "Sequence, Split, UnicodeScripts, Whitespace, WhitespaceSplit can be read"
)
POST_PROCESSORS = (
    "only BertProcessing, ByteLevel, RobertaProcessing, Sequence, TemplateProcessing can be read"
)
DECODERS = (
    "only BPEDecoder, ByteFallback, ByteLevel, Fuse, Metaspace, Replace, Sequence, Strip, "
    "WordPiece can be read"
)
PATTERNS = (
    r"only a set of plain characters such as [ab], (?i)n't\b, [^\p{L}\p{N}],  {2,} and <(?=name>) "
    "can be read: a search could run for ever"
)
REPEATS = "(a+)+$"


def replace(pattern: dict[str, str], content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": pattern, "content": content}


def sequence(*parts: object, members: str = "normalizers") -> dict[str, Any]:
    return {"type": "Sequence", members: list(parts)}


def split(**pattern: str) -> dict[str, Any]:
    return {"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": False}


def nested(depth: int) -> dict[str, Any]:
    return {"type": "Lowercase"} if depth == 0 else sequence(nested(depth - 1))


def wordpiece(**changes: object) -> dict[str, Any]:
    return {**SOUND["model"], **changes}


def added(count: int, length: int = 1) -> list[dict[str, Any]]:
    return [
        {
            "id": len(SOUND["model"]["vocab"]) + number,
            "content": chr(0x4E00 + number % 20_000) * length,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": True,
            "special": False,
        }
        for number in range(count)
    ]


LONGER = replace({"String": "a"}, "a" * 16)
# These end the process that opens them, panic, or keep it busy for more than half a minute.
DEADLY: dict[str, tuple[dict[str, Any], str]] = {
    "a character becomes a megabyte": (
        {"normalizer": replace({"String": "a"}, "b" * 1_000_000)},
        "normalizer.content has 1000000 characters, must be a string of at most 32",
    ),
    "ten times sixteen times as long": (
        {"normalizer": sequence(*[LONGER] * 10)},
        f"normalizer can make {16**10} characters of one, at most 64 are allowed",
    ),
    "longer at each step": (
        {
            "normalizer": sequence(
                *(
                    replace({"String": one}, other * 32)
                    for one, other in ("ab", "bc", "cd", "de", "ef")
                )
            )
        },
        f"normalizer can make {32**5} characters of one, at most 64 are allowed",
    ),
    "a prefix that grows": (
        {
            "normalizer": sequence(
                {"type": "Prepend", "prepend": "a" * 1000},
                *[replace({"String": "a"}, "a" * 32)] * 5,
            )
        },
        f"normalizer.normalizers[0].type is 'Prepend', {NORMALIZERS}",
    ),
    "a replacement that searches for ever": (
        {"normalizer": replace({"Regex": REPEATS}, "")},
        f"normalizer.pattern.Regex is '{REPEATS}', {PATTERNS}",
    ),
    "a split that searches for ever": (
        {"pre_tokenizer": split(Regex=REPEATS)},
        f"pre_tokenizer.pattern.Regex is '{REPEATS}', {PATTERNS}",
    ),
    "a split inside a sequence": (
        {
            "pre_tokenizer": sequence(
                {"type": "WhitespaceSplit"}, split(Regex=REPEATS), members="pretokenizers"
            )
        },
        f"pre_tokenizer.pretokenizers[1].pattern.Regex is '{REPEATS}', {PATTERNS}",
    ),
    "a table that points outside itself": (
        {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "BAAAAP////8="}},
        "normalizer.precompiled_charsmap points outside itself: to unit 1073741568 of 1",
    ),
    "pieces of no length": (
        {"pre_tokenizer": {"type": "FixedLength", "length": 0}},
        f"pre_tokenizer.type is 'FixedLength', {PRE_TOKENIZERS}",
    ),
    "words of any length": (
        {"model": wordpiece(max_input_chars_per_word=10**9)},
        "model.max_input_chars_per_word is 1000000000, must be from 1 to 128",
    ),
    "a prefix of a megabyte in each comparison": (
        {"model": wordpiece(continuing_subword_prefix="#" * 10_000_000)},
        "model.continuing_subword_prefix has 10000000 characters, must have at most 16",
    ),
}
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    **DEADLY,
    "an id that the library counts up to": (
        {"model": wordpiece(vocab={**SOUND["model"]["vocab"], "far": 2**31})},
        "model.vocab gives the token 'far' the id 2147483648, must be a whole number from 0 to "
        "9999999",
    ),
    "an unknown normalizer": (
        {"normalizer": {"type": "Mystery"}},
        f"normalizer.type is 'Mystery', {NORMALIZERS}",
    ),
    "a normalizer without a type": (
        {"normalizer": {"lowercase": True}},
        f"normalizer.type is None, {NORMALIZERS}",
    ),
    "a normalizer that is no object": (
        {"normalizer": ["Lowercase"]},
        "normalizer must be an object, is list",
    ),
    "a sequence of nothing": (
        {"normalizer": {"type": "Sequence"}},
        "normalizer.normalizers must be a list",
    ),
    "too many parts": (
        {"normalizer": sequence(*[{"type": "Lowercase"}] * 64)},
        "normalizer has more than 64 parts",
    ),
    "too deep": (
        {"normalizer": nested(4)},
        "normalizer.normalizers[0].normalizers[0].normalizers[0].normalizers[0] is nested more "
        "than 4 deep",
    ),
    "kinds that multiply one another": (
        {"normalizer": sequence({"type": "NFKC"}, {"type": "NFD"})},
        "normalizer can make 72 characters of one, at most 64 are allowed",
    ),
    "all but letters become words": (
        {"normalizer": replace({"Regex": r"[^\p{L}\p{N}]"}, "b" * 33)},
        "normalizer.content has 33 characters, must be a string of at most 32",
    ),
    "a set that is subtracted": (
        {"normalizer": replace({"Regex": "[a-z&&[^b]]"}, "")},
        f"normalizer.pattern.Regex is '[a-z&&[^b]]', {PATTERNS}",
    ),
    "a set that repeats": (
        {"normalizer": replace({"Regex": "[ab]*"}, "")},
        f"normalizer.pattern.Regex is '[ab]*', {PATTERNS}",
    ),
    "an empty pattern": (
        {"normalizer": replace({"String": ""}, "b")},
        "normalizer.pattern.String has 0 characters, must have 1 to 256",
    ),
    "two patterns": (
        {"normalizer": replace({"String": "a", "Regex": REPEATS}, "b")},
        "normalizer.pattern must be an object with String or Regex",
    ),
    "a pattern of another kind": (
        {"pre_tokenizer": split(Glob="*")},
        "pre_tokenizer.pattern must be an object with String or Regex",
    ),
    "an unknown pre-tokenizer": (
        {"pre_tokenizer": {"type": "Delimiter"}},
        f"pre_tokenizer.type is 'Delimiter', {PRE_TOKENIZERS}",
    ),
    "an unknown post-processor": (
        {"post_processor": {"type": "Mystery"}},
        f"post_processor.type is 'Mystery', {POST_PROCESSORS}",
    ),
    "an unknown decoder": (
        {"decoder": {"type": "Mystery"}},
        f"decoder.type is 'Mystery', {DECODERS}",
    ),
    "a decoder that searches for ever": (
        {"decoder": replace({"Regex": REPEATS}, "")},
        f"decoder.pattern.Regex is '{REPEATS}', {PATTERNS}",
    ),
    "an unknown model": (
        {"model": {"type": "Mystery", "vocab": {}}},
        "model.type is 'Mystery', only BPE, Unigram, WordLevel, WordPiece can be read",
    ),
    "tokens by chance": (
        {"model": {"type": "BPE", "vocab": {"a": 0}, "merges": [], "dropout": 0.5}},
        "model.dropout is 0.5, must be null: a text must always give the same tokens",
    ),
    "a token of a thousand characters": (
        {"model": {"type": "WordLevel", "vocab": {"[UNK]": 0, "a" * 1000: 1}}},
        "model.vocab holds a token of 1000 characters, must have at most 512",
    ),
    "a piece of a thousand characters": (
        {"model": {"type": "Unigram", "unk_id": 0, "vocab": [["[UNK]", 0.0], ["a" * 1000, -1.0]]}},
        "model.vocab holds a token of 1000 characters, must have at most 512",
    ),
    "too many added tokens": (
        {"added_tokens": added(10_001)},
        "added_tokens holds 10001 tokens, at most 10000 are allowed",
    ),
    "an added token of a thousand characters": (
        {"added_tokens": added(1, length=1000)},
        "added_tokens holds a token of 1000 characters, must have 1 to 512 characters",
    ),
    "an empty added token": (
        {"added_tokens": added(1, length=0)},
        "added_tokens holds a token of 0 characters, must have 1 to 512 characters",
    ),
    "an added token that is no text": (
        {"added_tokens": [7]},
        "added_tokens holds a token of 7, must have 1 to 512 characters",
    ),
    "added tokens that are no list": (
        {"added_tokens": {"a": 1}},
        "added_tokens must be a list",
    ),
}
UNSUPPORTED = ("can be read", "for ever")


@pytest.fixture
def hostile(foreign: Path, request: pytest.FixtureRequest) -> Path:
    """Its `tokenizer.json` is taken as it is."""
    assert read(foreign / "tokenizer_config.json")["tokenizer_class"] == "PreTrainedTokenizerFast"
    edit(foreign / "tokenizer.json", **request.param[0])
    return foreign


@pytest.mark.parametrize(
    ("hostile", "fault"),
    [(case, case[1]) for case in REFUSED.values()],
    indirect=["hostile"],
    ids=list(REFUSED),
)
def test_a_hostile_tokenizer_is_refused_by_file_and_field(hostile: Path, fault: str) -> None:
    with pytest.raises(CheckpointError) as tried:
        try_tokenizer(hostile)
    assert (tried.value.path, tried.value.fault) == (hostile / "tokenizer.json", fault)
    kind = UnsupportedCheckpointError if fault.endswith(UNSUPPORTED) else CheckpointError
    assert type(tried.value) is kind

    # It was refused before it could do harm, so this process may open it too.
    with pytest.raises(CheckpointError) as opened:
        open_checkpoint(hostile)
    assert (opened.value.path, opened.value.fault) == (hostile / "tokenizer.json", fault)


@pytest.mark.parametrize("name", ["split", "megabyte"])
def test_a_tokenizer_is_refused_though_a_bert_would_not_use_it(name: str, foreign: Path) -> None:
    """What is checked must not depend on another file."""
    changes, fault = next(case for key, case in DEADLY.items() if name in key)
    edit(foreign / "tokenizer.json", **changes)
    edit(foreign / "tokenizer_config.json", tokenizer_class="BertTokenizer")

    with pytest.raises(CheckpointError) as caught:
        try_tokenizer(foreign)
    assert (caught.value.path, caught.value.fault) == (foreign / "tokenizer.json", fault)


def test_what_is_built_is_what_was_checked(foreign: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is replaced between the check and the building."""
    expected = open_checkpoint(foreign).tokenizer.to_json()

    def check_and_replace(path: Path, content: dict[str, Any]) -> None:
        check_parts(path, content)
        edit(path, normalizer={"type": "Lowercase"})

    monkeypatch.setattr(reader, "check_parts", check_and_replace)

    assert open_checkpoint(foreign).tokenizer.to_json() == expected


@pytest.mark.parametrize(
    ("name", "content", "fault"),
    [
        (
            "vocab.txt",
            "\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a" * 513]),
            "the vocabulary holds a token of 513 characters, must have at most 512",
        ),
        (
            "added_tokens.json",
            json.dumps({"a" * 513: 97}),
            "the file holds a token of 513 characters, must have 1 to 512 characters",
        ),
        (
            "tokenizer_config.json",
            json.dumps({"added_tokens_decoder": {"97": {"content": ""}}}),
            "added_tokens_decoder holds a token of 0 characters, must have 1 to 512 characters",
        ),
    ],
)
def test_tokens_of_other_files_have_the_same_bounds(
    name: str, content: str, fault: str, foreign: Path
) -> None:
    (foreign / "tokenizer_config.json").unlink()
    if name == "vocab.txt":
        (foreign / "tokenizer.json").unlink()
    (foreign / name).write_text(content, encoding="utf-8")

    with pytest.raises(CheckpointError) as caught:
        try_tokenizer(foreign)
    assert (caught.value.path, caught.value.fault) == (foreign / name, fault)


def test_the_service_names_the_setting_the_file_and_the_field(foreign: Path) -> None:
    changes, fault = DEADLY["a split that searches for ever"]
    edit(foreign / "tokenizer.json", **changes)

    with pytest.raises(SettingsError) as caught:
        prepare({"checkpoint": str(foreign)})
    assert caught.value.faults == [f"--checkpoint: {foreign / 'tokenizer.json'}: {fault}"]


# As in the script itself, but every rule lets everything through: the trial alone is left.
WITHOUT_RULES = f"""
import runpy, sys
from pathlib import Path
names = runpy.run_path({sandbox_child.__file__!r})
names["import_alone"]()
from model.tokenization import reader as reader
reader.check_parts = lambda path, content: None
names["main"].__globals__.update(_MOST_PROCESSOR_SECONDS=3)
names["main"](Path(sys.argv[1]))
"""


MEMORY = "was ended by SIGABRT (most likely out of memory) in its trial, "
TIME = "was ended by SIGXCPU (out of processor time) in its trial, at the text of "
PANIC = "fails in its trial, at the text of "
SEARCH = "TokenizerError: the tokenizer broke on a text (PanicException)"
ENDS = {
    "a character becomes a megabyte": f"{MEMORY}at the text of 24 of U+0061",
    "ten times sixteen times as long": f"{MEMORY}while it was opened",
    "longer at each step": f"{MEMORY}while it was opened",
    "a prefix that grows": f"{MEMORY}while it was opened",
    "a replacement that searches for ever": f"{PANIC}24 of U+0061: {SEARCH}",
    "a split that searches for ever": f"{PANIC}24 of U+0041: {SEARCH}",
    "a split inside a sequence": f"{PANIC}24 of U+0041: {SEARCH}",
    "a table that points outside itself": "is not a tokenizer: index out of bounds: ",
    "pieces of no length": "is not a tokenizer: chunk size must be non-zero",
    "words of any length": f"{TIME}one letter",
    # At which text the time is over depends on the machine.
    "a prefix of a megabyte in each comparison": TIME,
}


@pytest.fixture
def without_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "script.py"
    script.write_text(WITHOUT_RULES, encoding="utf-8")
    monkeypatch.setattr(sandbox, "_SCRIPT", script)


@pytest.mark.usefixtures("without_rules")
@pytest.mark.parametrize(
    ("hostile", "end"),
    [(DEADLY[name], end) for name, end in ENDS.items()],
    indirect=["hostile"],
    ids=list(ENDS),
)
def test_the_trial_alone_finds_what_would_end_the_process(hostile: Path, end: str) -> None:
    assert ENDS.keys() == DEADLY.keys()

    with pytest.raises(CheckpointError) as caught:
        try_tokenizer(hostile)
    assert caught.value.path == hostile / "tokenizer.json"
    assert caught.value.fault.startswith(end)


@pytest.mark.usefixtures("without_rules")
@pytest.mark.parametrize("hostile", [DEADLY["a split that searches for ever"]], indirect=True)
def test_the_service_tries_before_it_opens(hostile: Path) -> None:
    """Here the rules still refuse it in this process, in other words."""
    with pytest.raises(SettingsError) as caught:
        prepare({"checkpoint": str(hostile)})
    (fault,) = caught.value.faults
    assert fault.startswith(
        f"--checkpoint: {hostile / 'tokenizer.json'}: {PANIC}24 of U+0041: {SEARCH}"
    )
