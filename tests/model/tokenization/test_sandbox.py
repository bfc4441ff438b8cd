"""Tokenizers that would fill the memory or run for ever, and the trial that finds them."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Regex, normalizers

from model.checkpoint.opening import open_checkpoint
from model.errors import CheckpointError, UnsupportedCheckpointError
from model.tokenization import sandbox, sandbox_child
from model.tokenization.reader import load_tokenizer
from model.tokenization.sandbox import try_tokenizer
from model.tokenization.tokenizer_limits import growth_of
from tests.builders import tiny_tokenizer
from tests.families import sentence_pieces
from tests.matching import exactly
from tests.model.folders import edit, read


def replace_script(folder: Path, monkeypatch: pytest.MonkeyPatch, content: str) -> None:
    script = folder / "script.py"
    script.write_text(content, encoding="utf-8")
    monkeypatch.setattr(sandbox, "_SCRIPT", script)


def test_a_sound_folder_passes(foreign: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its relative name, and without a look at modules that lie there."""
    monkeypatch.chdir(foreign)
    Path("json.py").write_text("raise SystemExit(7)", encoding="utf-8")
    decoder = replace({"Regex": REPEATS}, "")  # no text is decoded
    # It must be turned off before the first text is encoded.
    ids: dict[str, object] = {"pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]"}
    length = {"strategy": {"Fixed": 30_000_000}, "direction": "Right", "pad_to_multiple_of": None}
    edit(Path("tokenizer.json"), decoder=decoder, padding={**ids, **length})

    assert open_checkpoint(Path(), trial=True).tokenizer.encode("a film").truncated is False
    Path("tokenizer.json").write_text("[]", encoding="utf-8")
    message = "tokenizer.json: must hold a JSON object, holds list"
    with pytest.raises(CheckpointError, match=exactly(message)):
        try_tokenizer(Path())


def test_a_folder_of_a_vocabulary_alone_passes(foreign: Path) -> None:
    tokens = load_tokenizer(foreign, max_length=9)._backend.get_vocab()
    (foreign / "tokenizer.json").unlink()
    (foreign / "tokenizer_config.json").unlink()
    lines = sorted(tokens, key=tokens.__getitem__)
    (foreign / "vocab.txt").write_text("\n".join(lines), encoding="utf-8")

    try_tokenizer(foreign)


def test_it_imports_neither_torch_nor_the_rest_of_the_package(foreign: Path) -> None:
    """Torch would take longer than all else, and reserve more memory than the limit."""
    finished = subprocess.run(
        [sys.executable, "-X", "importtime", sandbox_child.__file__, str(foreign)],
        capture_output=True,
        text=True,
        check=True,
    )
    imported = {line.rpartition("|")[2].strip() for line in finished.stderr.splitlines()}

    assert "model.tokenization.tokenizer" in imported
    assert not {"torch", "numpy", "safetensors", "model.checkpoint.opening"} & imported
    assert finished.stdout.splitlines()[-1] == '{"step": "end"}'


def test_a_system_without_limits_tries_all_the_same(
    foreign: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_script(
        tmp_path,
        monkeypatch,
        "import runpy, sys\n"
        "sys.modules['resource'] = None\n"
        f"runpy.run_path({sandbox_child.__file__!r}, run_name='__main__')\n",
    )

    try_tokenizer(foreign)


@pytest.mark.parametrize(
    ("script", "fault"),
    [
        ("import os; os.abort()", "was ended by SIGABRT (most likely out of memory)"),
        ("import os; os.kill(os.getpid(), 9)", "was ended by SIGKILL"),
        ("import os; os.kill(os.getpid(), 40)", "was ended by signal 40"),
        ("raise SystemExit(3)", "ended with status 3"),
        ("", "ended with status 0"),
    ],
)
def test_a_child_that_ends_early_is_a_fault(
    script: str, fault: str, foreign: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_script(tmp_path, monkeypatch, script)
    message = f"{foreign / 'tokenizer.json'}: {fault} in its trial, while it was opened"

    with pytest.raises(CheckpointError, match=exactly(message)):
        try_tokenizer(foreign)


def test_a_child_that_never_ends_is_killed(
    foreign: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = tmp_path / "pid"
    replace_script(
        tmp_path,
        monkeypatch,
        f"import os, pathlib, threading\npathlib.Path({str(pid)!r}).write_text(str(os.getpid()))\n"
        "threading.Event().wait()",
    )
    message = (
        f"{foreign / 'tokenizer.json'}: did not end within 1 s of its trial, while it was opened"
    )

    with pytest.raises(CheckpointError, match=exactly(message)):
        try_tokenizer(foreign, timeout=1)
    assert not pid.exists() or not Path(f"/proc/{pid.read_text()}").exists()


def test_a_process_that_cannot_be_started_is_a_fault(
    foreign: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    message = (
        f"{foreign / 'tokenizer.json'}: cannot be tried: no process could be started: No such "
        "file or directory"
    )

    with pytest.raises(CheckpointError, match=exactly(message)):
        try_tokenizer(foreign)


SOUND: dict[str, Any] = json.loads(tiny_tokenizer().to_json())
REPEATS = "(a+)+$"


def replace(pattern: dict[str, str], content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": pattern, "content": content}


def sequence(*parts: object, members: str = "normalizers") -> dict[str, Any]:
    return {"type": "Sequence", members: list(parts)}


def split(pattern: str) -> dict[str, Any]:
    regex = {"Regex": pattern}
    return {"type": "Split", "pattern": regex, "behavior": "Isolated", "invert": False}


def wordpiece(**changes: object) -> dict[str, Any]:
    return {**SOUND["model"], **changes}


def added(count: int, length: int = 1) -> list[dict[str, Any]]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "special"), False)
    return [
        {
            "id": len(SOUND["model"]["vocab"]) + number,
            "content": chr(0x4E00 + number % 20_000) * length,
            "normalized": True,
            **flags,
        }
        for number in range(count)
    ]


LONGER = replace({"String": "a"}, "a" * 16)
UNBOUNDED: tuple[dict[str, Any], str] = (
    {"normalizer": replace({"String": "a"}, "b" * 1_000_000)},
    "normalizer can make 1000000 characters of one, at most 64 are allowed",
)
FROM_THE_START: tuple[dict[str, Any], str] = (
    {"pre_tokenizer": {"type": "FixedLength", "length": 3}},
    "pre_tokenizer.type is 'FixedLength', which cannot read a text from its end",
)
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a character becomes a megabyte": UNBOUNDED,
    "ten times sixteen times as long": (
        {"normalizer": sequence(*[LONGER] * 10)},
        f"normalizer can make {16**10} characters of one, at most 64 are allowed",
    ),
    "a prefix that grows": (
        {"normalizer": sequence({"type": "Prepend", "prepend": "a"}, *[LONGER] * 2)},
        "normalizer can make 512 characters of one, at most 64 are allowed",
    ),
    "a table that points outside itself": (
        {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "BAAAAP////8="}},
        "is not a tokenizer: index out of bounds: ",
    ),
    "pieces of one length": FROM_THE_START,
    "words of any length": (
        {"model": wordpiece(max_input_chars_per_word=129)},
        "model.max_input_chars_per_word is 129, must be from 1 to 128",
    ),
    "tokens by chance": (
        {"model": {"type": "BPE", "vocab": {"a": 0}, "merges": [], "dropout": 0.5}},
        "model.dropout is 0.5, must be null: a text must always give the same tokens",
    ),
    "a piece of a thousand characters": (
        {"model": {"type": "Unigram", "unk_id": 0, "vocab": [["[UNK]", 0.0], ["a" * 1000, -1.0]]}},
        "holds a token of 1000 characters, must have at most 512",
    ),
    "an added token of a thousand characters": (
        {"added_tokens": added(1, length=1000)},
        "holds a token of 1000 characters, must have at most 512",
    ),
    "an unknown normalizer": ({"normalizer": {"type": "Mystery"}}, "is not a tokenizer: "),
    "an unknown model": ({"model": {"type": "Mystery", "vocab": {}}}, "is not a tokenizer: "),
    "an added token that is no text": ({"added_tokens": [7]}, "is not a tokenizer: "),
}
ENDLESS: dict[str, tuple[dict[str, Any], str]] = {
    "a replacement": ({"normalizer": replace({"Regex": REPEATS}, "")}, "24 of U+0061"),
    "a split": (
        {"pre_tokenizer": sequence(split(REPEATS), members="pretokenizers")},
        "24 of U+0041",
    ),
    "a split of a pair of letters": (
        {"pre_tokenizer": split("(?:жш|жшжш)+$")},
        "the letters of жшжшжш",
    ),
}
# The trial lets them through, and so nothing is harmed; the network has no such embeddings.
BEYOND_THE_NETWORK = {
    "an id that the library counts up to": (
        {"model": wordpiece(vocab={**SOUND["model"]["vocab"], "far": 2**31})},
        2**31,
    ),
    **{
        f"an id around every text in place of {number}": (
            {
                "post_processor": json.loads(
                    json.dumps(SOUND["post_processor"]).replace(f"[{number}]", "[999999]")
                )
            },
            999_999,
        )
        for number in (2, 3)
    },
    "many added tokens": ({"added_tokens": added(10_001)}, 10_097),
}
HARMLESS = {
    "many parts": {"normalizer": sequence(*[{"type": "Lowercase"}] * 100)},
    "kinds that multiply one another": {"normalizer": sequence({"type": "NFKC"}, {"type": "NFD"})},
    "an empty pattern": {"normalizer": replace({"String": ""}, "b")},
    "an empty added token": {"added_tokens": [{**added(1)[0], "content": ""}]},
}


@pytest.fixture
def hostile(foreign: Path, request: pytest.FixtureRequest) -> Path:
    """Its `tokenizer.json` is taken as it is."""
    assert read(foreign / "tokenizer_config.json")["tokenizer_class"] == "PreTrainedTokenizerFast"
    edit(foreign / "tokenizer.json", **request.param)
    return foreign


@pytest.mark.parametrize(
    ("hostile", "fault"), REFUSED.values(), indirect=["hostile"], ids=list(REFUSED)
)
def test_a_hostile_tokenizer_is_refused_by_its_file(hostile: Path, fault: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        load_tokenizer(hostile, max_length=32)

    assert caught.value.path == hostile / "tokenizer.json"
    assert caught.value.fault.startswith(fault)


@pytest.mark.parametrize(
    ("hostile", "text"), ENDLESS.values(), indirect=["hostile"], ids=list(ENDLESS)
)
def test_a_search_without_end_is_found_by_its_text(hostile: Path, text: str) -> None:
    message = (
        f"{hostile / 'tokenizer.json'}: fails in its trial, at the text of {text}: TokenizerError: "
        "the tokenizer broke on a text (PanicException): check the files of the tokenizer"
    )
    with pytest.raises(CheckpointError, match=exactly(message)):
        open_checkpoint(hostile, trial=True)


@pytest.mark.parametrize(
    ("hostile", "largest"),
    BEYOND_THE_NETWORK.values(),
    indirect=["hostile"],
    ids=list(BEYOND_THE_NETWORK),
)
def test_ids_beyond_the_network_are_refused(hostile: Path, largest: int) -> None:
    with pytest.raises(CheckpointError, match=f"has ids up to {largest}, but config.json gives"):
        open_checkpoint(hostile)


@pytest.mark.parametrize("hostile", HARMLESS.values(), indirect=True, ids=list(HARMLESS))
def test_what_does_no_harm_is_served(hostile: Path) -> None:
    tokenizer = open_checkpoint(hostile).tokenizer

    assert len(tokenizer.encode("a good film " * 5_000, with_tokens=True).input_ids) == 32


@pytest.mark.parametrize(
    ("hostile", "fault"), [UNBOUNDED, FROM_THE_START], indirect=["hostile"], ids=["growth", "kind"]
)
def test_the_trial_refuses_what_a_bert_would_not_use(hostile: Path, fault: str) -> None:
    """What is checked must not depend on another file."""
    edit(hostile / "tokenizer_config.json", tokenizer_class="BertTokenizer")

    with pytest.raises(CheckpointError) as caught:
        try_tokenizer(hostile)
    assert (caught.value.path, caught.value.fault) == (hostile / "tokenizer.json", fault)
    assert isinstance(caught.value, UnsupportedCheckpointError) == ("FixedLength" in fault)


replacements = st.builds(
    lambda is_set, pattern, content: replace(
        {"Regex": f"[{pattern}]"} if is_set else {"String": pattern}, content
    ),
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


def test_the_table_of_sentencepiece_makes_18_characters_of_one() -> None:
    from transformers.convert_slow_tokenizer import import_protobuf

    pieces = import_protobuf().ModelProto()  # type: ignore[no-untyped-call]
    pieces.ParseFromString(sentence_pieces())
    table = normalizers.Precompiled(pieces.normalizer_spec.precompiled_charsmap)
    part = json.loads(table.__getstate__())

    assert growth_of([part]) == 18
    assert growth_of([{"type": "NFKC"}, replace({"Regex": "[x]"}, "b" * 62)]) == 62 * 18
    assert growth_of([replace({"String": "a"}, "bb"), part, part]) == 2 * 18**2


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("vocab.txt", "\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a" * 513])),
        ("added_tokens.json", json.dumps({"a" * 513: 97})),
    ],
)
def test_tokens_of_other_files_have_the_same_bound(name: str, content: str, foreign: Path) -> None:
    (foreign / "tokenizer_config.json").unlink()
    if name == "vocab.txt":
        (foreign / "tokenizer.json").unlink()
    (foreign / name).write_text(content, encoding="utf-8")

    with pytest.raises(CheckpointError, match="holds a token of 513 characters, must have at most"):
        load_tokenizer(foreign, max_length=9)


# As in the script itself, but without bounds: only the limits of the child are left.
WITHOUT_BOUNDS = f"""
import runpy, sys
from pathlib import Path
names = runpy.run_path({sandbox_child.__file__!r})
names["import_alone"]()
from model.tokenization import reader
reader.check_parts = lambda path, backend: None
names["main"].__globals__.update(_MOST_PROCESSOR_SECONDS=2)
names["main"](Path(sys.argv[1]))
"""


@pytest.mark.parametrize(
    ("hostile", "end"),
    [
        (
            UNBOUNDED[0],
            "was ended by SIGABRT (most likely out of memory) in its trial, at the text of 24 of "
            "U+0061",
        ),
        (
            {"model": wordpiece(max_input_chars_per_word=10**9)},
            "was ended by SIGXCPU (out of processor time) in its trial, at the text of one letter",
        ),
    ],
    indirect=["hostile"],
    ids=["memory", "time"],
)
def test_the_child_has_limits(
    hostile: Path, end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_script(tmp_path, monkeypatch, WITHOUT_BOUNDS)

    with pytest.raises(CheckpointError) as caught:
        try_tokenizer(hostile)
    assert (caught.value.path, caught.value.fault) == (hostile / "tokenizer.json", end)
