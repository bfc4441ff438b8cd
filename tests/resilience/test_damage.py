"""Damaged checkpoint folders are refused by the name of the file, or are what they were."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from model import Checkpoint, open_checkpoint
from model.errors import CheckpointError
from tests.builders import tiny_tokenizer
from tests.resilience import damage
from tests.resilience.damage import fuzz_folders

FILES = (
    "config.json",
    "headlight.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
)


def test_a_damaged_folder_is_refused_by_the_name_of_the_file(tmp_path: Path) -> None:
    outcomes, faults = fuzz_folders(tmp_path, 500, seed=0)

    assert faults == []
    # One only adds white space to the manifest.
    assert outcomes == {
        **dict.fromkeys(FILES, 100),
        "headlight.json": 99,
        "headlight.json: without effect": 1,
    }


@pytest.mark.parametrize(
    "change",
    [
        lambda sound: dataclasses.replace(sound, weights_sha256="0" * 64),
        lambda sound: dataclasses.replace(
            sound, config=sound.config.model_copy(update={"hidden_size": 16})
        ),
        lambda sound: dataclasses.replace(
            sound, manifest=sound.manifest.model_copy(update={"temperature": 2.0})
        ),
        lambda sound: dataclasses.replace(sound, tokenizer=tiny_tokenizer(max_length=4)),
    ],
    ids=["weights", "config", "manifest", "tokenizer"],
)
def test_a_change_that_goes_unnoticed_is_a_fault(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[Checkpoint], Checkpoint],
) -> None:
    opened: list[Checkpoint] = []

    def open_unnoticing(path: Path) -> Checkpoint:
        if not opened:
            opened.append(open_checkpoint(path))
            return opened[0]
        return change(opened[0])

    monkeypatch.setattr(damage, "open_checkpoint", open_unnoticing)

    outcomes, faults = fuzz_folders(tmp_path, 1, seed=0)

    assert faults == ["damage 0 of config.json goes unnoticed"]
    assert outcomes == {"config.json: without effect": 1}


def test_a_folder_that_is_refused_for_another_file_is_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    opened: list[Path] = []

    def refuse(path: Path) -> Checkpoint:
        opened.append(path)
        if len(opened) > 1:
            raise CheckpointError(other, "is damaged")
        return open_checkpoint(path)

    monkeypatch.setattr(damage, "open_checkpoint", refuse)

    _, faults = fuzz_folders(tmp_path, 1, seed=0)

    assert faults == [f"damage 0 of config.json is blamed on {other}"]
