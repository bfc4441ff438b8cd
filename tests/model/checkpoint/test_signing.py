"""Signatures of checkpoint folders: what is accepted, and how each fault is told."""

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
from model_signing import hashing, signing, verifying

from model.checkpoint.opening import open_checkpoint
from model.checkpoint.saving import check_place
from model.checkpoint.signing import SIGNATURE, sign_checkpoint, verify_checkpoint
from model.errors import CheckpointError, SigningKeyError
from tests.builders import tiny_checkpoint
from tests.matching import exactly
from tests.model.folders import FILES
from tests.model.keys import KeyPair, elliptic_pair, rsa_pair


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """A signature is made and verified without a look-up or a connection."""

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
    assert sign_checkpoint(folder, keys.private) == folder / SIGNATURE
    verify_checkpoint(folder, keys.public)
    return folder


def refuse(folder: Path, keys: KeyPair, name: str, fault: str) -> None:
    """Asserts that a folder is refused for the fault of one file."""
    with pytest.raises(CheckpointError, match=exactly(f"{folder / name}: {fault}")) as caught:
        verify_checkpoint(folder, keys.public)
    assert caught.value.path == folder / name


def test_the_signature_is_a_sigstore_bundle_over_every_file(signed: Path) -> None:
    bundle = json.loads((signed / SIGNATURE).read_bytes())
    assert bundle["mediaType"] == "application/vnd.dev.sigstore.bundle.v0.3+json"
    statement = json.loads(base64.b64decode(bundle["dsseEnvelope"]["payload"]))
    predicate = statement["predicate"]
    assert [file["name"] for file in predicate["resources"]] == sorted(FILES)
    assert predicate["serialization"]["ignore_paths"] == [SIGNATURE]
    # It opens, and may be replaced.
    assert open_checkpoint(signed).manifest.temperature == 1.5
    check_place(signed)


@pytest.mark.parametrize("curve", [ec.SECP384R1(), ec.SECP521R1()], ids=["P-384", "P-521"])
def test_longer_curves_sign_too(folder: Path, tmp_path: Path, curve: ec.EllipticCurve) -> None:
    pair = elliptic_pair(tmp_path, curve=curve)
    sign_checkpoint(folder, pair.private)
    verify_checkpoint(folder, pair.public)


def test_a_second_signature_replaces_the_first(signed: Path, tmp_path: Path) -> None:
    other = elliptic_pair(tmp_path, "other")
    sign_checkpoint(signed, other.private)
    verify_checkpoint(signed, other.public)
    assert sorted(path.name for path in signed.iterdir()) == sorted([*FILES, SIGNATURE])


def test_the_folder_may_be_named_by_a_link_and_moved(
    signed: Path, keys: KeyPair, tmp_path: Path
) -> None:
    moved = signed.rename(tmp_path / "moved")
    (tmp_path / "current").symlink_to(moved)
    verify_checkpoint(tmp_path / "current", keys.public)


def test_an_unsigned_folder(folder: Path, keys: KeyPair) -> None:
    refuse(
        folder,
        keys,
        SIGNATURE,
        "is missing, and a key is set: sign the folder (headlight-train sign "
        f"{folder} --key PRIVATE.pem)",
    )


def test_a_signature_by_another_key(
    signed: Path, keys: KeyPair, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sign_checkpoint(signed, elliptic_pair(tmp_path, "other").private)
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


@pytest.mark.parametrize("name", ["special_tokens_map.json", ".gitignore", "more/notes.txt"])
def test_an_added_file(name: str, signed: Path, keys: KeyPair) -> None:
    (signed / name).parent.mkdir(exist_ok=True)
    (signed / name).write_text("{}", encoding="utf-8")
    refuse(signed, keys, name, "is not covered by model.sig: remove it, or sign again")


def _sign_elsewhere(folder: Path, keys: KeyPair, form: hashing.Config) -> None:
    """Signs a folder as model-signing does by itself."""
    signer = signing.Config().set_hashing_config(form)
    signer.use_elliptic_key_signer(private_key=keys.private).sign(folder, folder / SIGNATURE)


def test_a_file_that_the_signer_left_out(folder: Path, keys: KeyPair) -> None:
    """Model-signing can leave files out; they could be anything."""
    (folder / "vocab.txt").write_text("[PAD]", encoding="utf-8")
    form = hashing.Config().set_ignored_paths(paths=["vocab.txt", SIGNATURE])
    _sign_elsewhere(folder, keys, form)
    refuse(folder, keys, "vocab.txt", "is not covered by model.sig: remove it, or sign again")


def test_model_signing_reads_and_makes_the_same(folder: Path, keys: KeyPair) -> None:
    form = hashing.Config().set_ignored_paths(paths=[SIGNATURE], ignore_git_paths=True)
    _sign_elsewhere(folder, keys, form)
    verify_checkpoint(folder, keys.public)
    (folder / ".gitattributes").write_text("* text", encoding="utf-8")  # it leaves this out
    verify_checkpoint(folder, keys.public)

    (folder / ".gitattributes").unlink()
    sign_checkpoint(folder, keys.private)
    verifier = verifying.Config().use_elliptic_key_verifier(public_key=keys.public)
    verifier.set_hashing_config(form).verify(folder, folder / SIGNATURE)


@pytest.mark.parametrize("method", ["blake3 of files", "sha256 of shards"])
def test_a_signature_over_other_digests(method: str, folder: Path, keys: KeyPair) -> None:
    config = hashing.Config().use_shard_serialization()
    if method == "blake3 of files":
        config = hashing.Config().use_file_serialization(hashing_algorithm="blake3")
    _sign_elsewhere(folder, keys, config)
    refuse(folder, keys, SIGNATURE, f"has {method}, must have sha256 of files: sign again")


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_what_is_no_regular_file(kind: str, signed: Path, keys: KeyPair) -> None:
    path = signed / "config.json"
    content = path.read_bytes()
    path.unlink()
    if kind == "link":
        (signed.parent / "elsewhere").write_bytes(content)
        path.symlink_to(signed.parent / "elsewhere")
        fault = "is a link, which a signature cannot cover: put the file itself there"
    else:
        os.mkfifo(path)
        fault = "is a device or a pipe: put a regular file there"
    refuse(signed, keys, "config.json", fault)
    with pytest.raises(CheckpointError, match=exactly(f"{path}: {fault}")):
        sign_checkpoint(signed, keys.private)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory, keys: KeyPair) -> Path:
    """A signed folder that each case damages and mends."""
    folder = tiny_checkpoint(tmp_path_factory.mktemp("signed") / "tiny")
    sign_checkpoint(folder, keys.private)
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


def test_keys_that_cannot_be_used(folder: Path, tmp_path: Path, keys: KeyPair) -> None:
    curves = "give an elliptic-curve key (P-256, P-384 or P-521) in PEM form"
    text = tmp_path / "text.pem"
    text.write_text("no key", encoding="utf-8")
    locked = elliptic_pair(tmp_path, "locked", password="secret")
    other = rsa_pair(tmp_path)
    koblitz = elliptic_pair(tmp_path, "koblitz", curve=ec.SECP256K1())
    for key in (text, keys.public, locked.private, other.private, koblitz.private):
        fault = f"{key}: is not a private key that can sign: {curves}, without a password"
        with pytest.raises(SigningKeyError, match=exactly(fault)):
            sign_checkpoint(folder, key)
    sign_checkpoint(folder, keys.private)
    for key in (text, keys.private, other.public, koblitz.public):
        fault = f"{key}: is not a public key that can verify: {curves}"
        with pytest.raises(SigningKeyError, match=exactly(fault)):
            verify_checkpoint(folder, key)
    missing = tmp_path / "missing.pem"
    fault = f"{missing}: cannot be read: No such file or directory"
    with pytest.raises(SigningKeyError, match=exactly(fault)):
        sign_checkpoint(folder, missing)
    with pytest.raises(SigningKeyError, match=exactly(fault)):
        verify_checkpoint(folder, missing)


def test_a_folder_that_is_not_there(tmp_path: Path, keys: KeyPair) -> None:
    fault = f"{tmp_path / 'none'}: does not exist: give the path of a checkpoint folder"
    with pytest.raises(CheckpointError, match=exactly(fault)):
        verify_checkpoint(tmp_path / "none", keys.public)
    with pytest.raises(CheckpointError, match=exactly(fault)):
        sign_checkpoint(tmp_path / "none", keys.private)
