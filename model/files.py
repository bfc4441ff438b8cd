"""Reads, digests and writes the files of a checkpoint folder; every error names the file."""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from model.errors import CheckpointError

WEIGHTS = "model.safetensors"
INDEX = f"{WEIGHTS}.index.json"  # names the parts of weights that are divided
CONFIG = "config.json"
MANIFEST = "headlight.json"
# What stands in the folder of an adapter instead of a network's configuration.
ADAPTER = "adapter_config.json"
JOIN_ADAPTER = (
    "holds only an adapter: load it on its base model with peft, join them (merge_and_unload), "
    "and save the whole model"
)
SIGNATURE = "model.sig"  # What `model.checkpoint.signing` writes. It covers all of the files above.
# Far above any vocabulary. What is read whole must fit into the memory several times over.
MOST_BYTES = 64_000_000
#: the files that decide which tokens a text becomes
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "added_tokens.json", "vocab.txt")
#: all that may be in a folder beside its weights
FILES_BESIDE_WEIGHTS = (CONFIG, ADAPTER, INDEX, MANIFEST, SIGNATURE, *TOKENIZER_FILES)
_LONGEST_NAME = 255
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(?:/[A-Za-z0-9][\w.-]*)?", re.ASCII)


def is_file_name(name: object) -> bool:
    """Whether a value of a foreign file is the plain name of a file; a path could name any file."""
    return (
        isinstance(name, str)
        and name not in ("", ".", "..")
        and len(name) <= _LONGEST_NAME
        and name.isprintable()
        and not {"/", "\\"} & set(name)
    )


def sign_command(folder: Path) -> str:
    """Returns the command that signs a folder."""
    signature = folder / SIGNATURE
    return f"model_signing sign key {folder} --private_key PRIVATE.pem --signature {signature}"


def check_folder(path: Path) -> None:
    """Raises CheckpointError for a path where no checkpoint folder is, or none that is readable."""
    with name_file_in_errors(path):
        if not path.is_dir():
            fault = "is not a folder" if path.exists() else "does not exist"
            is_name = _HUB_NAME.fullmatch(str(path)) and not Path(path.parts[0]).exists()
            hint = f", or hf:{path} if it is a name on the hub" if is_name else ""
            raise CheckpointError(path, f"{fault}: give the path of a checkpoint folder{hint}")
        if (path / CONFIG).exists():
            return
        if (path / ADAPTER).is_file():
            raise CheckpointError(path, JOIN_ADAPTER)
        for pattern in ("snapshots/*", "models--*/snapshots/*", "*"):
            for inside in sorted(path.glob(pattern)):
                if (inside / CONFIG).is_file():
                    raise CheckpointError(
                        path,
                        f"has no {CONFIG}, but folders in it have one: give the path of {inside}",
                    )


def read_object(path: Path) -> dict[str, Any]:
    """Reads a file that holds one JSON object; CheckpointError if it is missing or holds none."""
    try:
        content = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise CheckpointError(path, f"is not JSON: {error}") from error
    if not isinstance(content, dict):
        raise CheckpointError(path, f"must hold a JSON object, holds {type(content).__name__}")
    return content


def read_text(path: Path) -> str:
    """Reads a text in UTF-8; raises CheckpointError as `read_object`."""
    with name_file_in_errors(path):
        if (size := path.stat().st_size) > MOST_BYTES:
            raise CheckpointError(path, f"has {size} bytes, at most {MOST_BYTES} are read")
        try:
            # Editors on Windows put a mark before the text, which means nothing.
            return path.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            raise CheckpointError(
                path, f"is not UTF-8 ({error.reason}): save it as UTF-8"
            ) from error


@contextmanager
def name_file_in_errors(path: Path) -> Iterator[None]:
    """Turns an error of a file into a CheckpointError that names the file."""
    try:
        # Reading a device or a pipe may never end.
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise CheckpointError(path, "is a device or a pipe: put a regular file there")
        yield
    except FileNotFoundError as error:
        raise CheckpointError(path, "is missing") from error
    except OSError as error:
        raise CheckpointError(path, f"cannot be read: {error.strerror}") from error


def to_bytes(content: Mapping[str, Any]) -> bytes:
    """Returns one JSON object as it is written, in UTF-8 and indented."""
    return (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode()


def digest(*paths: Path) -> str:
    """Computes the SHA-256 of a file, or of several one after another, or CheckpointError."""
    hasher = hashlib.sha256()
    for path in paths:
        with name_file_in_errors(path), path.open("rb") as file:
            hashlib.file_digest(file, lambda: hasher)
    return hasher.hexdigest()
