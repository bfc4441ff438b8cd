"""Checks every file of a checkpoint folder, then loads it; `saving` writes the folder.

config.json, model.safetensors    sizes and weights, by the names of transformers
tokenizer.json                    the tokenizer, with other files that transformers reads
headlight.json                    temperature, labels, figures, digests; others have none
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from model.checkpoint.hub import name_of
from model.checkpoint.manifest import MARK, Manifest, seal
from model.checkpoint.records import Baseline, Precision, Thresholds
from model.checkpoint.weights import (
    VERSION_LENGTH,
    MappedWeights,
    check_weights,
    digest_weights,
    read_weights,
)
from model.errors import CheckpointError, describe_faults
from model.files import CONFIG, MANIFEST, WEIGHTS, check_folder, digest, read_object
from model.network.config import NetworkConfig, read_config
from model.tokenization.reader import load_tokenizer
from model.tokenization.sandbox import try_tokenizer
from model.tokenization.tokenizer import Tokenizer
from model.validation import folder_path

if TYPE_CHECKING:  # it imports torch
    from model.network.architecture import Network

Parsed = TypeVar("Parsed")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A folder that passed all checks; its weights are not loaded yet."""

    path: Path
    name: str
    weights_sha256: str
    config: NetworkConfig
    manifest: Manifest
    tokenizer: Tokenizer

    @property
    def version(self) -> str:
        """The first 12 hex digits of the SHA-256 of the weights file."""
        return self.weights_sha256[:VERSION_LENGTH]

    @property
    def parameters(self) -> int:
        """How many numbers the network learned."""
        return sum(map(math.prod, self.config.parameter_shapes().values()))

    def load_weights(self) -> MappedWeights:
        """Maps the weights into memory, by our names.

        Raises:
            CheckpointError: a weight is not finite, or the file has changed since it was checked.
        """
        return read_weights(self.path / WEIGHTS, self.config, self.weights_sha256)

    def load_network(self) -> "Network":
        """Loads the network on the CPU for inference, in float32; raises as `load_weights`."""
        from model.network.architecture import load

        return load(self.config, self.load_weights())


def open_checkpoint(path: str | Path, *, trial: bool = False) -> Checkpoint:
    """Checks every file, size and digest of a folder, and that they fit together.

    Args:
        trial: whether a child process with limits tries the tokenizer first, so that a hostile one
            cannot harm this process. It takes about half a second.

    Raises:
        CheckpointError: the message names the file and the error.
        TypeError: `path` is no path.
    """
    path = folder_path(path, by="open_checkpoint")
    check_folder(path)
    content = read_object(path / CONFIG)
    config = _parsed(read_config, content, path / CONFIG)
    manifest = _read_manifest(path, config, content)
    digests = _check_digests(path, manifest)
    if manifest.labels != config.labels:
        ours, theirs = ", ".join(manifest.labels), ", ".join(config.labels)
        raise CheckpointError(path / MANIFEST, f"labels are {ours}, {CONFIG} has {theirs}")
    if manifest.max_length > (limit := config.length_limit):
        fault = f"max_length is {manifest.max_length}, {CONFIG} has {limit} positions"
        raise CheckpointError(path / MANIFEST, fault)
    check_weights(path / WEIGHTS, config)
    if trial:
        try_tokenizer(path)
    tokenizer = load_tokenizer(
        path,
        max_length=manifest.max_length,
        padded_length=config.padded_length,
        embeddings=config.vocab_size,
    )
    weights_sha256 = digests.get(WEIGHTS) or digest_weights(path / WEIGHTS)
    _check_records(path / MANIFEST, manifest, weights_sha256)
    return Checkpoint(path, name_of(path), weights_sha256, config, manifest, tokenizer)


def _parsed(
    parse: Callable[[dict[str, Any]], Parsed], content: dict[str, Any], path: Path
) -> Parsed:
    try:
        return parse(content)
    except ValueError as error:
        raise CheckpointError(path, describe_faults(error)) from error


def _read_manifest(folder: Path, config: NetworkConfig, raw_config: dict[str, Any]) -> Manifest:
    path = folder / MANIFEST
    limit = config.length_limit
    if not path.is_file():
        # transformers keeps our mark when it loads and saves a folder, and adds its version.
        if MARK in raw_config and "transformers_version" not in raw_config:
            raise CheckpointError(
                path,
                f"is missing, though {CONFIG} was written with one: copy it too, or remove "
                f"{MARK} from {CONFIG} to do without temperature and digests",
            )
        options = folder / "tokenizer_config.json"
        stated = read_object(options).get("model_max_length") if options.is_file() else None
        if isinstance(stated, int | float) and stated >= 1:
            limit = int(min(limit, stated))  # transformers writes 1e30 for "no limit"
        return Manifest(labels=config.labels, max_length=limit)
    content = read_object(path)
    manifest = _parsed(Manifest.model_validate, content, path)
    if manifest.sha256 is not None and manifest.sha256 != seal(content):
        raise CheckpointError(
            path,
            "does not match its own SHA-256: it is damaged, or was changed after it was written "
            "(to change it by hand, take sha256 out)",
        )
    return manifest


def _check_digests(folder: Path, manifest: Manifest) -> dict[str, str]:
    digests = {file: digest(folder / file) for file in manifest.files}
    for file, expected in manifest.files.items():
        if digests[file] != expected:
            raise CheckpointError(
                folder / file,
                f"does not match its SHA-256 in {MANIFEST}: it is damaged, or was changed after "
                "it was written",
            )
    return digests


def _check_records(path: Path, manifest: Manifest, weights_sha256: str) -> None:
    """Refuses records of other weights: they say nothing of those of the folder."""
    records: list[tuple[str, Precision | Baseline | Thresholds | None, str]] = [
        ("baseline", manifest.baseline, "baseline"),
        ("thresholds", manifest.thresholds, "baseline"),
        *(
            (f"precision of {each.dtype}", each, f"dtype {each.dtype}")
            for each in manifest.precision
        ),
    ]
    for name, record, what in records:
        if record is None or record.weights_sha256 in (None, weights_sha256):
            continue
        raise CheckpointError(
            path,
            f"{name} was recorded of version {str(record.weights_sha256)[:VERSION_LENGTH]}, and "
            f"{WEIGHTS} is version {weights_sha256[:VERSION_LENGTH]}: take it and sha256 out, "
            f"then record again (headlight-train evaluate --record-{what})",
        )
