"""The commands that sign a checkpoint and verify it."""

from pathlib import Path

import pytest

from model.checkpoint.signing import SIGNATURE, verify_checkpoint
from tests.builders import tiny_checkpoint
from tests.model.keys import KeyPair, elliptic_pair
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


def test_what_does_not_open_is_not_signed(
    tmp_path: Path, keys: KeyPair, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tiny_checkpoint(tmp_path / "tiny")
    (folder / "tokenizer.json").unlink()
    assert main(["sign", str(folder), "--key", str(keys.private)]) == 1
    fault = f"headlight-train: {folder / 'tokenizer.json'}: is missing\n"
    assert capsys.readouterr() == ("", fault)
    assert not (folder / SIGNATURE).exists()
