"""The trial of a tokenizer in a process of its own: what it lets through, and how it ends."""

import subprocess
import sys
from pathlib import Path

import pytest

from model.checkpoint.opening import open_checkpoint
from model.errors import CheckpointError
from model.tokenization import sandbox, sandbox_child
from model.tokenization.reader import load_tokenizer
from model.tokenization.sandbox import try_tokenizer
from tests.matching import exactly

DEFAULT = Path(__file__).parents[3] / "checkpoints" / "default"


def replace_script(folder: Path, monkeypatch: pytest.MonkeyPatch, content: str) -> None:
    script = folder / "script.py"
    script.write_text(content, encoding="utf-8")
    monkeypatch.setattr(sandbox, "_SCRIPT", script)


def test_a_sound_folder_passes(foreign: Path) -> None:
    try_tokenizer(foreign)
    assert open_checkpoint(foreign, trial=True).config == open_checkpoint(foreign).config


def test_the_default_folder_passes() -> None:
    try_tokenizer(DEFAULT)


def test_a_folder_of_a_vocabulary_alone_passes(foreign: Path) -> None:
    tokens = load_tokenizer(foreign, max_length=9)._backend.get_vocab()
    (foreign / "tokenizer.json").unlink()
    (foreign / "tokenizer_config.json").unlink()
    lines = sorted(tokens, key=tokens.__getitem__)
    (foreign / "vocab.txt").write_text("\n".join(lines), encoding="utf-8")

    try_tokenizer(foreign)


def test_a_name_is_relative_to_the_folder_of_the_caller(
    foreign: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(foreign.parent)
    (foreign / "tokenizer.json").write_text("[]", encoding="utf-8")
    message = "tiny/tokenizer.json: must hold a JSON object, holds list"

    with pytest.raises(CheckpointError, match=exactly(message)):
        try_tokenizer(Path(foreign.name))


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


def test_modules_of_the_current_folder_are_not_imported(
    foreign: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (foreign / "json.py").write_text("raise SystemExit(7)", encoding="utf-8")
    monkeypatch.chdir(foreign)

    try_tokenizer(foreign)


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
        f"{foreign / 'tokenizer.json'}: did not end within 3 s of its trial, while it was opened"
    )

    with pytest.raises(CheckpointError, match=exactly(message)):
        try_tokenizer(foreign, timeout=3)
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
