"""The commands that sign a checkpoint and verify it."""

import subprocess
import sys
from pathlib import Path

import pytest

from model.checkpoint.signing import SIGNATURE, verify_checkpoint
from tests.builders import tiny_checkpoint
from tests.model.keys import KeyPair, elliptic_pair
from tests.test_architecture import ROOT
from training.__main__ import main


@pytest.fixture
def keys(tmp_path: Path) -> KeyPair:
    return elliptic_pair(tmp_path / "keys")


def test_what_one_signs_the_other_verifies(
    tmp_path: Path, keys: KeyPair, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tiny_checkpoint(tmp_path / "tiny")
    assert main(["sign", str(folder), "--key", str(keys.private)]) == 0
    told = capsys.readouterr()
    assert told.err == ""
    assert told.out.startswith("signed version ")
    assert told.out.endswith(f": {folder / SIGNATURE}\n")
    verify_checkpoint(folder, keys.public)

    assert main(["verify", str(folder), "--key", str(keys.public)]) == 0
    line = f"{folder}: signed by the key {keys.public}, and unchanged since\n"
    assert capsys.readouterr() == (line, "")

    (folder / "config.json").write_text("{}", encoding="utf-8")
    assert main(["verify", str(folder), "--key", str(keys.public)]) == 1
    fault = f"{folder / 'config.json'}: was changed after {SIGNATURE} was made"
    assert capsys.readouterr() == ("", f"headlight-train: {fault}\n")


def test_what_does_not_open_is_not_signed(
    tmp_path: Path, keys: KeyPair, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tiny_checkpoint(tmp_path / "tiny")
    (folder / "tokenizer.json").unlink()
    assert main(["sign", str(folder), "--key", str(keys.private)]) == 1
    fault = f"headlight-train: {folder / 'tokenizer.json'}: is missing\n"
    assert capsys.readouterr() == ("", fault)
    assert not (folder / SIGNATURE).exists()


@pytest.mark.parametrize("command", ["sign", "verify"])
@pytest.mark.parametrize("package", ["model_signing", "cryptography", "OpenSSL"])
def test_one_line_says_what_to_install(
    command: str, package: str, checkpoint_folder: Path, keys: KeyPair
) -> None:
    program = (
        f"import sys; sys.modules['{package}'] = None; "
        "from training.__main__ import main; sys.exit(main(sys.argv[1:]))"
    )
    key = keys.private if command == "sign" else keys.public
    ended = subprocess.run(
        [sys.executable, "-c", program, command, str(checkpoint_folder), "--key", str(key)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    [line] = ended.stderr.splitlines()
    name = line.removeprefix("headlight-train: ").partition(" ")[0]
    assert name.partition(".")[0] == package
    assert line == (
        f"headlight-train: {name} is not installed, which signatures need: .venv/bin/pip install "
        "--constraint constraints.txt --editable '.[signing]'"
    )
