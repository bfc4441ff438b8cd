"""Signatures of checkpoint folders: what is accepted, and how each error is told."""

import base64
import json
import os
import socket
from pathlib import Path
from typing import NoReturn

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st
from model_signing import hashing

from model.checkpoint.opening import open_checkpoint
from model.checkpoint.saving import check_place
from model.checkpoint.signing import verify_checkpoint
from model.errors import CheckpointError, SigningKeyError
from model.files import SIGNATURE
from tests.builders import tiny_checkpoint
from tests.matching import exactly
from tests.model.folders import FILES
from tests.model.keys import KeyPair, elliptic_pair, rsa_pair, sign


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """A signature is verified without a look-up or a connection."""

    def refuse(*_: object, **__: object) -> NoReturn:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> KeyPair:
    return elliptic_pair(tmp_path_factory.mktemp("keys"))


@pytest.fixture
def signed(folder: Path, keys: KeyPair) -> Path:
    """A folder that the owner of `keys` has signed."""
    sign(folder, keys)
    verify_checkpoint(folder, keys.public)
    return folder


def refuse(folder: Path, keys: KeyPair, name: str, fault: str) -> None:
    """Asserts that a folder is refused for the fault of one file."""
    with pytest.raises(CheckpointError, match=exactly(f"{folder / name}: {fault}")) as caught:
        verify_checkpoint(folder, keys.public)
    assert caught.value.path == folder / name


def test_a_signed_folder_opens_and_may_be_replaced(signed: Path) -> None:
    assert open_checkpoint(signed).manifest.temperature == 1.5
    check_place(signed)


def test_the_folder_may_be_named_by_a_link_and_moved(
    signed: Path, keys: KeyPair, tmp_path: Path
) -> None:
    moved = signed.rename(tmp_path / "moved")
    (tmp_path / "current").symlink_to(moved)
    verify_checkpoint(tmp_path / "current", keys.public)


def test_a_file_may_be_a_link_as_in_the_cache_of_the_hub(signed: Path, keys: KeyPair) -> None:
    blob = (signed / "config.json").rename(signed.parent / "blob")
    (signed / "config.json").symlink_to(blob)
    verify_checkpoint(signed, keys.public)
    blob.write_text("{}", encoding="utf-8")
    refuse(signed, keys, "config.json", "was changed after model.sig was made")


def test_an_unsigned_folder(folder: Path, keys: KeyPair) -> None:
    refuse(
        folder,
        keys,
        SIGNATURE,
        "is missing, and a key is set: sign the folder (model_signing sign key "
        f"{folder} --private_key PRIVATE.pem --signature {folder / SIGNATURE})",
    )


def test_a_signature_by_another_key(
    signed: Path, keys: KeyPair, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sign(signed, elliptic_pair(tmp_path, "other"))
    fault = f"was not signed by the key {keys.public}, or was changed afterwards"
    refuse(signed, keys, SIGNATURE, fault)
    bundle = json.loads((signed / SIGNATURE).read_bytes())
    del bundle["verificationMaterial"]["publicKey"]["hint"]
    (signed / SIGNATURE).write_text(json.dumps(bundle), encoding="utf-8")
    refuse(signed, keys, SIGNATURE, fault)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_changed_and_then_removed(name: str, signed: Path, keys: KeyPair) -> None:
    content = bytearray((signed / name).read_bytes())
    content[len(content) // 2] ^= 1
    (signed / name).write_bytes(content)
    refuse(signed, keys, name, "was changed after model.sig was made")
    (signed / name).unlink()
    refuse(signed, keys, name, "is missing, though model.sig covers it")


@pytest.mark.parametrize("name", ["special_tokens_map.json", "more/notes.txt"])
def test_an_added_file(name: str, signed: Path, keys: KeyPair) -> None:
    (signed / name).parent.mkdir(exist_ok=True)
    (signed / name).write_text("{}", encoding="utf-8")
    refuse(signed, keys, name, "is not covered by model.sig: remove it, or sign again")


def test_a_file_that_the_signer_left_out(folder: Path, keys: KeyPair) -> None:
    """Model-signing can leave files out; they could be anything."""
    (folder / "vocab.txt").write_text("[PAD]", encoding="utf-8")
    form = hashing.Config().set_ignored_paths(paths=["vocab.txt", SIGNATURE])
    sign(folder, keys, form)
    refuse(folder, keys, "vocab.txt", "is not covered by model.sig: remove it, or sign again")


def test_files_of_git_may_be_added(signed: Path, keys: KeyPair) -> None:
    """Model-signing leaves them out, and nothing here reads them."""
    (signed / ".gitattributes").write_text("* text", encoding="utf-8")
    verify_checkpoint(signed, keys.public)


@pytest.mark.parametrize("method", ["blake3 of files", "sha256 of shards"])
def test_a_signature_over_other_digests(method: str, folder: Path, keys: KeyPair) -> None:
    config = hashing.Config().use_shard_serialization()
    if method == "blake3 of files":
        config = hashing.Config().use_file_serialization(hashing_algorithm="blake3")
    sign(folder, keys, config)
    refuse(folder, keys, SIGNATURE, f"has {method}, must have sha256 of files: sign again")


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_what_is_no_regular_file(kind: str, signed: Path, keys: KeyPair) -> None:
    path = signed / "more"
    if kind == "link":
        path.symlink_to(signed.parent, target_is_directory=True)
    else:
        os.mkfifo(path)
    refuse(signed, keys, "more", "is a device, a pipe or a linked folder: put a regular file there")


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory, keys: KeyPair) -> Path:
    """A signed folder that each case damages and mends."""
    folder = tiny_checkpoint(tmp_path_factory.mktemp("signed") / "tiny")
    sign(folder, keys)
    return folder


@given(place=st.floats(0.0, 1.0, exclude_max=True), bit=st.integers(0, 7))
def test_a_flipped_bit_of_the_signature(kept: Path, keys: KeyPair, place: float, bit: int) -> None:
    """It is noticed, unless what was signed can still be read from it and is the same."""
    path = kept / SIGNATURE
    sound = path.read_bytes()
    damaged = bytearray(sound)
    damaged[int(place * len(damaged))] ^= 1 << bit
    path.write_bytes(damaged)
    refused = None
    try:
        verify_checkpoint(kept, keys.public)
    except CheckpointError as error:
        refused = error
    finally:
        path.write_bytes(sound)
    if refused is None:
        assert _payload(bytes(damaged)) == _payload(sound)
    else:
        assert refused.path == path
        assert "\n" not in str(refused)


def _payload(bundle: bytes) -> bytes:
    return base64.b64decode(json.loads(bundle)["dsseEnvelope"]["payload"])


@given(
    content=st.one_of(st.binary(max_size=200), st.sampled_from([b"", b"[]", b"{}", b"[" * 9999]))
)
def test_garbage_in_place_of_the_signature(kept: Path, keys: KeyPair, content: bytes) -> None:
    sound = (kept / SIGNATURE).read_bytes()
    (kept / SIGNATURE).write_bytes(content)
    try:
        refuse(kept, keys, SIGNATURE, "is damaged, or is no OpenSSF model signature")
    finally:
        (kept / SIGNATURE).write_bytes(sound)


def test_keys_that_cannot_be_used(signed: Path, tmp_path: Path, keys: KeyPair) -> None:
    text = tmp_path / "text.pem"
    text.write_text("no key", encoding="utf-8")
    koblitz = elliptic_pair(tmp_path, "koblitz", curve=ec.SECP256K1())
    curves = "give an elliptic-curve key (P-256, P-384 or P-521) in PEM form"
    for key in (text, keys.private, rsa_pair(tmp_path).public, koblitz.public):
        fault = f"{key}: is not a public key that can verify: {curves}"
        with pytest.raises(SigningKeyError, match=exactly(fault)):
            verify_checkpoint(signed, key)
    missing = tmp_path / "missing.pem"
    fault = f"{missing}: cannot be read: No such file or directory"
    with pytest.raises(SigningKeyError, match=exactly(fault)):
        verify_checkpoint(signed, missing)


def test_a_folder_that_is_not_there(tmp_path: Path, keys: KeyPair) -> None:
    fault = f"{tmp_path / 'none'}: does not exist: give the path of a checkpoint folder"
    with pytest.raises(CheckpointError, match=exactly(fault)):
        verify_checkpoint(tmp_path / "none", keys.public)
