"""The folder: what is written, read and loaded."""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from safetensors import safe_open

from model.checkpoint.manifest import seal
from model.checkpoint.opening import open_checkpoint
from model.errors import CheckpointError
from model.files import CONFIG, MANIFEST, WEIGHTS
from tests.builders import (
    MAX_LENGTH,
    tiny_checkpoint,
    tiny_config,
    tiny_manifest,
    tiny_network,
    tiny_tokenizer,
)
from tests.matching import exactly
from tests.model.folders import FILES, read


def test_what_is_written(folder: Path) -> None:
    digests = {
        name: hashlib.sha256((folder / name).read_bytes()).hexdigest()
        for name in FILES
        if name != MANIFEST
    }
    manifest = read(folder / MANIFEST)

    assert sorted(file.name for file in folder.iterdir()) == sorted(FILES)
    assert manifest == {
        **tiny_manifest().to_json(),
        "files": digests,
        "sha256": seal(manifest),
    }
    assert read(folder / CONFIG) == {
        **tiny_config().to_json(),
        "headlight_format_version": 1,
    }
    assert read(folder / "tokenizer_config.json") == {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": MAX_LENGTH,
        "pad_token": "[PAD]",
        "unk_token": "[UNK]",
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
        "mask_token": "[MASK]",
    }
    with safe_open(folder / WEIGHTS, framework="pt") as weights:
        assert weights.metadata() == {"format": "pt"}


def test_what_is_read(folder: Path) -> None:
    checkpoint = open_checkpoint(folder)

    assert checkpoint.path == folder
    assert checkpoint.name == "tiny"
    assert checkpoint.version == hashlib.sha256((folder / WEIGHTS).read_bytes()).hexdigest()[:12]
    assert checkpoint.config == tiny_config()
    assert checkpoint.manifest.temperature == 1.5
    assert checkpoint.manifest.metrics == tiny_manifest().metrics
    assert checkpoint.tokenizer.to_json() == tiny_tokenizer().to_json()
    assert checkpoint.tokenizer.max_length == MAX_LENGTH


def test_the_network_is_that_which_was_saved(folder: Path) -> None:
    network = open_checkpoint(folder).load_network()

    expected = tiny_network().state_dict()
    assert network.state_dict().keys() == expected.keys()
    for name, parameter in network.named_parameters():
        assert parameter.equal(expected[name])
        assert parameter.device.type == "cpu"
        assert not parameter.requires_grad
    assert not any(module.training for module in network.modules())


def test_the_name_is_that_of_the_folder_behind_a_link(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "current").symlink_to(folder)

    assert open_checkpoint(tmp_path / "current").name == "tiny"


def test_no_folder(tmp_path: Path) -> None:
    message = f"{tmp_path / 'absent'}: does not exist: give the path of a checkpoint folder"
    with pytest.raises(CheckpointError, match=exactly(message)):
        open_checkpoint(tmp_path / "absent")

    (tmp_path / "file").touch()
    message = f"{tmp_path / 'file'}: is not a folder: give the path of a checkpoint folder"
    with pytest.raises(CheckpointError, match=exactly(message)):
        open_checkpoint(tmp_path / "file")


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(b"")])
def test_weights_that_go_between_check_and_load(
    damage: Callable[[Path], object], folder: Path
) -> None:
    checkpoint = open_checkpoint(folder)
    damage(folder / WEIGHTS)

    with pytest.raises(CheckpointError) as caught:
        checkpoint.load_network()
    assert caught.value.path == folder / WEIGHTS


def test_a_folder_that_is_replaced_between_check_and_load(tmp_path: Path) -> None:
    folder = tiny_checkpoint(tmp_path / "tiny", seed=0)
    checkpoint = open_checkpoint(folder)
    tiny_checkpoint(folder, seed=1)
    other = open_checkpoint(folder).version
    message = (
        f"{folder / WEIGHTS}: is version {other} now, and was {checkpoint.version} when it was "
        "checked: start again"
    )

    with pytest.raises(CheckpointError, match=exactly(message)):
        checkpoint.load_network()
    tiny_checkpoint(folder, seed=0)  # the same weights again
    assert checkpoint.load_network().num_heads == checkpoint.config.num_heads


def test_more_than_the_version_must_fit(folder: Path) -> None:
    """Who may choose the bytes can find others with the same 12 digits."""
    checkpoint = open_checkpoint(folder)
    alike = replace(checkpoint, weights_sha256=checkpoint.version.ljust(64, "0"))

    assert alike.version == checkpoint.version
    with pytest.raises(CheckpointError, match="was checked: start again"):
        alike.load_network()
