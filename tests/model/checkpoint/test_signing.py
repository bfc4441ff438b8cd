"""Signatures of checkpoint folders: what is accepted, and how each error is told."""

import json
import os
import socket
from pathlib import Path
from typing import NoReturn

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from model_signing import hashing

from model.checkpoint.opening import open_checkpoint
from model.checkpoint.saving import check_place
from model.checkpoint.signing import verify_checkpoint
from model.errors import CheckpointError, ConfigurationError
from model.files import SIGNATURE, WEIGHTS
from tests.matching import exactly
from tests.model.keys import KeyPair, elliptic_pair, rsa_pair, sign


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """A signature is verified without a look-up or a connection."""

    def fail(*_: object, **__: object) -> NoReturn:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    monkeypatch.setattr(socket.socket, "connect", fail)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> KeyPair:
    return elliptic_pair(tmp_path_factory.mktemp("keys"))


@pytest.fixture
def signed(folder: Path, keys: KeyPair) -> Path:
    """A folder that the owner of `keys` has signed."""
    sign(folder, keys)
    verify_checkpoint(folder, keys.public)
    return folder


def refuse(folder: Path, keys: KeyPair, *reasons: str, file: str = SIGNATURE) -> None:
    """Asserts that a folder is refused in one line that holds the reasons."""
    with pytest.raises(CheckpointError) as caught:
        verify_checkpoint(folder, keys.public)
    assert caught.value.path == folder / file
    assert "\n" not in str(caught.value)
    for reason in reasons:
        assert reason in caught.value.fault


NOT_SIGNED = "is no signature of these files by the key "


def test_a_signed_folder_opens_and_may_be_replaced(signed: Path, keys: KeyPair) -> None:
    assert open_checkpoint(signed).manifest.temperature == 1.5
    check_place(signed)
    # Model-signing leaves files of git out, and nothing here reads them.
    (signed / ".gitattributes").write_text("* text", encoding="utf-8")
    verify_checkpoint(signed, keys.public)


def test_files_and_the_folder_itself_may_be_links_as_in_the_cache_of_the_hub(
    signed: Path, keys: KeyPair, tmp_path: Path
) -> None:
    blob = (signed / "config.json").rename(tmp_path / "blob")
    (signed / "config.json").symlink_to(blob)
    (tmp_path / "current").symlink_to(signed)
    verify_checkpoint(tmp_path / "current", keys.public)
    blob.write_text("{}", encoding="utf-8")
    refuse(signed, keys, f"{NOT_SIGNED}{keys.public}: ", "Hash mismatch for 'config.json'")


def test_an_unsigned_folder(folder: Path, keys: KeyPair) -> None:
    refuse(
        folder,
        keys,
        "is missing, and a key is set: sign the folder (model_signing sign key "
        f"{folder} --private_key PRIVATE.pem --signature {folder / SIGNATURE})",
    )


@pytest.mark.parametrize("content", ["", "[]", "{}", "[" * 9_999])
def test_garbage_in_place_of_the_signature(content: str, folder: Path, keys: KeyPair) -> None:
    (folder / SIGNATURE).write_text(content, encoding="utf-8")
    refuse(folder, keys, NOT_SIGNED)


def test_a_signature_by_another_key(
    signed: Path, keys: KeyPair, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sign(signed, elliptic_pair(tmp_path, "other"))
    refuse(signed, keys, f"{NOT_SIGNED}{keys.public}: Key mismatch")
    bundle = json.loads((signed / SIGNATURE).read_bytes())
    del bundle["verificationMaterial"]["publicKey"]["hint"]
    (signed / SIGNATURE).write_text(json.dumps(bundle), encoding="utf-8")
    refuse(signed, keys, f"{NOT_SIGNED}{keys.public}: InvalidSignature")
    assert capsys.readouterr() == ("", "")


def test_a_file_that_is_changed_removed_or_added(signed: Path, keys: KeyPair) -> None:
    content = bytearray((signed / WEIGHTS).read_bytes())
    content[len(content) // 2] ^= 1
    (signed / WEIGHTS).write_bytes(content)
    refuse(signed, keys, f"Hash mismatch for '{WEIGHTS}'")
    (signed / WEIGHTS).unlink()
    refuse(signed, keys, f"Missing files in model 'tiny': {WEIGHTS}")
    (signed / "more").mkdir()
    (signed / "more" / "notes.txt").write_text("{}", encoding="utf-8")
    refuse(signed, keys, "Extra files found in model 'tiny': more/notes.txt")


def test_a_file_that_the_signer_left_out(folder: Path, keys: KeyPair) -> None:
    """Model-signing can leave files out; they could be anything."""
    (folder / "vocab.txt").write_text("[PAD]", encoding="utf-8")
    form = hashing.Config().set_ignored_paths(paths=["vocab.txt", SIGNATURE])
    sign(folder, keys, form)
    fault = "is not covered by model.sig: remove it, or sign again"
    refuse(folder, keys, fault, file="vocab.txt")


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_what_is_no_regular_file(kind: str, signed: Path, keys: KeyPair) -> None:
    path = signed / "more"
    if kind == "link":
        path.symlink_to(signed.parent, target_is_directory=True)
    else:
        os.mkfifo(path)
    fault = "is a device, a pipe or a linked folder: put a regular file there"
    refuse(signed, keys, fault, file="more")


def test_keys_that_cannot_be_used(signed: Path, tmp_path: Path, keys: KeyPair) -> None:
    text = tmp_path / "text.pem"
    text.write_text("no key", encoding="utf-8")
    koblitz = elliptic_pair(tmp_path, "koblitz", curve=ec.SECP256K1())
    curves = "give an elliptic-curve key (P-256, P-384 or P-521) in PEM form"
    for key in (text, keys.private, rsa_pair(tmp_path).public, koblitz.public):
        fault = f"{key}: is not a public key that can verify: {curves}"
        with pytest.raises(ConfigurationError, match=exactly(fault)):
            verify_checkpoint(signed, key)
    missing = tmp_path / "missing.pem"
    fault = f"{missing}: cannot be read: No such file or directory"
    with pytest.raises(ConfigurationError, match=exactly(fault)):
        verify_checkpoint(signed, missing)
