"""Tokenizers that would fill the memory or run for ever, and the trial that finds them."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import tokenizers

from model.checkpoint.opening import open_checkpoint
from model.errors import CheckpointError
from model.tokenization import sandbox, sandbox_child
from model.tokenization.reader import load_tokenizer
from model.tokenization.sandbox import try_tokenizer
from tests.builders import VOCABULARY, tiny_tokenizer
from tests.matching import exactly
from tests.model.folders import edit, read
from tests.programs import ROOT, run_python

SOUND: dict[str, Any] = json.loads(tiny_tokenizer().to_json())
PROCESSOR = json.dumps(SOUND["post_processor"])
REPEATS = "(a+)+$"


@pytest.fixture(autouse=True)
def _nothing_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def replace_script(folder: Path, monkeypatch: pytest.MonkeyPatch, content: str) -> None:
    script = folder / "script.py"
    script.write_text(content, encoding="utf-8")
    monkeypatch.setattr(sandbox, "_SCRIPT", script)


def replace(pattern: dict[str, str], content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": pattern, "content": content}


def split(pattern: str) -> dict[str, Any]:
    regex = {"Regex": pattern}
    return {"type": "Split", "pattern": regex, "behavior": "Isolated", "invert": False}


def wordpiece(**changes: object) -> dict[str, Any]:
    return {**SOUND["model"], **changes}


def added(content: object) -> list[object]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "special"), False)
    number = len(SOUND["model"]["vocab"])
    return [{"id": number, "content": content, "normalized": True, **flags}]


def test_a_tokenizer_is_tried_once(foreign: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Mock(wraps=subprocess.run)
    monkeypatch.setattr(subprocess, "run", run)
    for _ in range(2):
        try_tokenizer(foreign)
        assert run.call_count == 1
    edit(foreign / "tokenizer.json", model=wordpiece(max_input_chars_per_word=50))
    try_tokenizer(foreign)
    assert run.call_count == 2
    monkeypatch.setattr(tokenizers, "__version__", "0")
    try_tokenizer(foreign)
    assert run.call_count == 3
    for shipped in (ROOT / "checkpoints").glob("*/config.json"):
        try_tokenizer(shipped.parent)
    assert run.call_count == 3


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


def test_it_imports_neither_torch_nor_the_rest_of_the_package(tmp_path: Path) -> None:
    """Torch would take longer than all else, and reserve more memory than the limit."""
    (tmp_path / "vocab.txt").write_text("\n".join(VOCABULARY), encoding="utf-8")
    finished = run_python("-X", "importtime", sandbox_child.__file__, tmp_path)
    imported = {line.rpartition("|")[2].strip() for line in finished.stderr.splitlines()}
    assert "model.tokenization.tokenizer" in imported
    assert not {"torch", "numpy", "safetensors", "model.checkpoint.opening"} & imported
    assert finished.stdout.splitlines()[-1] == '{"step": "end"}'


def test_a_system_without_limits_tries_all_the_same(
    foreign: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAYON_NUM_THREADS", "2")
    monkeypatch.setattr(sandbox_child, "resource", None)
    sandbox_child.limit(foreign)


@pytest.mark.parametrize(
    ("script", "end"),
    [
        ("import os; os.abort()", "ended with status -6 (most likely out of memory) in its trial"),
        ("", "ended with status 0 in its trial"),
        ("import threading; threading.Event().wait()", "did not end within 1 s of its trial"),
    ],
)
def test_a_child_that_does_not_finish_is_an_error(
    script: str, end: str, foreign: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_script(tmp_path, monkeypatch, script)
    message = f"{foreign / 'tokenizer.json'}: {end}, while it was opened"
    with pytest.raises(CheckpointError, match=exactly(message)):
        try_tokenizer(foreign, timeout=1 if "threading" in script else 120)


def test_a_process_that_cannot_be_started_is_an_error(
    foreign: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    message = (
        f"{foreign / 'tokenizer.json'}: cannot be tried: no process could be started: No such "
        "file or directory"
    )
    with pytest.raises(CheckpointError, match=exactly(message)):
        try_tokenizer(foreign)


@pytest.fixture
def hostile(foreign: Path, request: pytest.FixtureRequest) -> Path:
    """Its `tokenizer.json` is taken as it is."""
    assert read(foreign / "tokenizer_config.json")["tokenizer_class"] == "PreTrainedTokenizerFast"
    edit(foreign / "tokenizer.json", **request.param)
    return foreign


@pytest.mark.parametrize(
    ("hostile", "error"),
    [
        (
            {"model": wordpiece(max_input_chars_per_word=129)},
            "model.max_input_chars_per_word is 129, must be from 1 to 128",
        ),
        (
            {"model": {"type": "BPE", "vocab": {"a": 0}, "merges": [], "dropout": 0.5}},
            "model.dropout is 0.5, must be null: a text must always give the same tokens",
        ),
        ({"added_tokens": added("é" * 513)}, "holds a token of 513 characters, must have at most"),
        ({"added_tokens": [7]}, "is not a tokenizer: "),
        ({"normalizer": {"type": "Mystery"}}, "is not a tokenizer: "),
        (  # a table that points outside itself
            {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "BAAAAP////8="}},
            "is not a tokenizer: ",
        ),
    ],
    indirect=["hostile"],
)
def test_a_hostile_tokenizer_is_refused_by_its_file(hostile: Path, error: str) -> None:
    message = re.escape(f"{hostile / 'tokenizer.json'}: {error}")
    with pytest.raises(CheckpointError, match=f"^{message}"):
        load_tokenizer(hostile, max_length=32)


@pytest.mark.parametrize(
    ("hostile", "error"),
    [
        (
            {"normalizer": replace({"Regex": REPEATS}, "")},
            "fails in its trial, at the text of 24 of U+0061: the tokenizer broke on a text "
            "(PanicException): check the files of the tokenizer",
        ),
        (
            {"pre_tokenizer": split("(?:жш|жшжш)+$")},
            "fails in its trial, at the text of 400 letters of жшжшжш: the tokenizer broke on a "
            "text (PanicException): check the files of the tokenizer",
        ),
        (
            {"normalizer": replace({"String": "€"}, "b" * 100_000)},
            "ended with status -6 (most likely out of memory) in its trial, at the text of 400 "
            "letters of €",
        ),
        (
            {"pre_tokenizer": {"type": "FixedLength", "length": 3}},
            "pre_tokenizer.type is 'FixedLength', which cannot read a text from its end",
        ),
    ],
    indirect=["hostile"],
    ids=["a search without end", "one in a pattern", "growth", "a kind that is not supported"],
)
def test_the_trial_finds_what_would_break_a_service(hostile: Path, error: str) -> None:
    with pytest.raises(CheckpointError, match=exactly(f"{hostile / 'tokenizer.json'}: {error}")):
        open_checkpoint(hostile, trial=True)


# As in the script itself, but without bounds and with little time.
SHORT_OF_TIME = f"""
import runpy, sys
from pathlib import Path
names = runpy.run_path({sandbox_child.__file__!r})
names["import_alone"]()
from model.tokenization import reader
reader._check_parts = lambda *_: None
names["main"].__globals__.update(_MOST_PROCESSOR_SECONDS=2)
names["main"](Path(sys.argv[1]))
"""


@pytest.mark.parametrize(
    "hostile", [{"model": wordpiece(max_input_chars_per_word=10**9)}], indirect=True
)
def test_the_child_has_little_processor_time(
    hostile: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_script(tmp_path, monkeypatch, SHORT_OF_TIME)
    message = (
        f"{hostile / 'tokenizer.json'}: ended with status -24 (out of processor time) in its "
        "trial, at the text of one letter"
    )
    with pytest.raises(CheckpointError, match=exactly(message)):
        try_tokenizer(hostile)


@pytest.mark.parametrize(
    ("hostile", "largest"),
    [
        ({"model": wordpiece(vocab={**SOUND["model"]["vocab"], "far": 2**31})}, 2**31),
        (  # an id around every text
            {"post_processor": json.loads(PROCESSOR.replace("[3]", "[999999]"))},
            999_999,
        ),
    ],
    indirect=["hostile"],
)
def test_ids_beyond_the_network_are_refused(hostile: Path, largest: int) -> None:
    with pytest.raises(CheckpointError, match=f"has ids up to {largest}, but config.json gives"):
        open_checkpoint(hostile)
