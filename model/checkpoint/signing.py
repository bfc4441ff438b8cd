"""Verifies the signature of a checkpoint folder with a public key; never uses a network.

`model.sig` is an OpenSSF model signature (https://github.com/ossf/model-signing-spec) over every
other file, as the command `model_signing sign key` makes it. Importing this module needs the extra
`signing`.
"""

import base64
import contextlib
import io
import json
from collections.abc import Iterator
from pathlib import Path

from model_signing import hashing, verifying

from model.errors import CheckpointError, ConfigurationError
from model.files import SIGNATURE, check_folder, read_object, sign_command

_KEYS = "an elliptic-curve key (P-256, P-384 or P-521) in PEM form"
# Other signers leave these out by default, and nothing here reads them.
_LEFT_OUT = frozenset({".git", ".gitattributes", ".github", ".gitignore"})


def verify_checkpoint(folder: Path, key: Path) -> None:
    """Checks that a folder holds exactly what the owner of a public key has signed.

    Raises:
        CheckpointError: the signature is missing, damaged or from another key, or a file was
            changed, added or removed after it; the message names the file.
        ConfigurationError: the key cannot verify.
    """
    try:
        verifier = verifying.Config().use_elliptic_key_verifier(public_key=key)
    except OSError as error:
        raise ConfigurationError(f"{key}: cannot be read: {error.strerror}") from error
    except Exception as error:  # the library raises whatever its reader of keys raises
        raise ConfigurationError(
            f"{key}: is not a public key that can verify: give {_KEYS}"
        ) from error
    check_folder(folder)
    signature = folder / SIGNATURE
    if not signature.is_file():
        raise CheckpointError(
            signature, f"is missing, and a key is set: sign the folder ({sign_command(folder)})"
        )
    present = {path.relative_to(folder).as_posix() for path in _files(folder)}
    every_file = hashing.Config().use_file_serialization(hashing_algorithm="sha256")
    every_file.set_ignored_paths(paths=[SIGNATURE], ignore_git_paths=False)
    every_file.set_allow_symlinks(True)  # of which the cache of the hub is made
    try:
        # Of an old signature the library says so on standard output.
        with contextlib.redirect_stdout(io.StringIO()):
            verifier.set_hashing_config(every_file).verify(folder.resolve(), signature)
    except Exception as error:  # the library raises whatever a damaged bundle makes it raise
        reason = " ".join(str(error).split()) or type(error).__name__
        raise CheckpointError(
            signature, f"is no signature of these files by the key {key}: {reason}"
        ) from error
    # The signer may have left out files, which then could be anything.
    statement = json.loads(base64.b64decode(read_object(signature)["dsseEnvelope"]["payload"]))
    signed = {file["name"] for file in statement["predicate"]["resources"]}
    for name in sorted(present - signed):
        if name.partition("/")[0] not in _LEFT_OUT:
            raise CheckpointError(
                folder / name, f"is not covered by {SIGNATURE}: remove it, or sign again"
            )


def _files(folder: Path) -> Iterator[Path]:
    """Every file of a folder and the folders in it, but the signature; in order."""
    for path in sorted(folder.rglob("*")):
        if path.is_dir() and not path.is_symlink():
            continue
        if not path.is_file():
            raise CheckpointError(
                path, "is a device, a pipe or a linked folder: put a regular file there"
            )
        if path != folder / SIGNATURE:
            yield path
