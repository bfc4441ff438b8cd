"""The folder: what is written, read, loaded and replaced."""

import hashlib
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from safetensors import safe_open

import model.atomic
import model.checkpoint.saving
from model.checkpoint.manifest import seal
from model.checkpoint.opening import open_checkpoint
from model.checkpoint.saving import check_place
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
from tests.hub_stand_in import files_of
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
    assert manifest == {**tiny_manifest().to_json(), "files": digests, "sha256": seal(manifest)}
    assert read(folder / CONFIG) == {**tiny_config().to_json(), "headlight_format_version": 1}
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
    network = checkpoint.load_network()
    expected = tiny_network().state_dict()
    assert network.state_dict().keys() == expected.keys()
    for name, parameter in network.named_parameters():
        assert parameter.equal(expected[name])
        assert parameter.device.type == "cpu"
        assert not parameter.requires_grad
    assert not any(module.training for module in network.modules())


def test_no_folder(tmp_path: Path) -> None:
    message = f"{tmp_path / 'absent'}: does not exist: give the path of a checkpoint folder"
    with pytest.raises(CheckpointError, match=exactly(message)):
        open_checkpoint(tmp_path / "absent")

    inside = tmp_path / "models--a--b" / "snapshots" / "0123"
    inside.mkdir(parents=True)
    (inside / CONFIG).touch()
    for path in (tmp_path, tmp_path / "models--a--b", inside.parent):
        message = f"{path}: has no {CONFIG}, but folders in it have one: give the path of {inside}"
        with pytest.raises(CheckpointError, match=exactly(message)):
            open_checkpoint(path)

    (tmp_path / "adapter_config.json").touch()
    message = f"{tmp_path}: holds only an adapter: load it on its base model with peft, join them "
    with pytest.raises(CheckpointError, match=f"^{re.escape(message)}"):
        open_checkpoint(tmp_path)

    (tmp_path / "file").touch()
    message = f"{tmp_path / 'file'}: is not a folder: give the path of a checkpoint folder"
    with pytest.raises(CheckpointError, match=exactly(message)):
        open_checkpoint(tmp_path / "file")


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
    # Who may choose the bytes can find others with the same 12 digits.
    alike = replace(checkpoint, weights_sha256=other.ljust(64, "0"))
    with pytest.raises(CheckpointError, match="was checked: start again"):
        alike.load_network()
    (folder / WEIGHTS).unlink()
    with pytest.raises(CheckpointError, match=exactly(f"{folder / WEIGHTS}: is missing")):
        checkpoint.load_network()


class DiskFullError(OSError):
    """What a full disk does."""


@pytest.mark.parametrize("existing", [False, True])
@pytest.mark.parametrize(
    "step", ["checkpoint.saving.save_weights", "checkpoint.saving.digest", "atomic.sync"]
)
def test_a_failure_on_the_way_changes_nothing(
    step: str, existing: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "tiny"
    if existing:
        tiny_checkpoint(path)
    before = files_of(tmp_path)

    def fail(*_arguments: object, **_options: object) -> None:
        raise DiskFullError(step)

    monkeypatch.setattr(f"model.{step}", fail)
    with pytest.raises(DiskFullError, match=step):
        tiny_checkpoint(path, seed=1)
    assert files_of(tmp_path) == before
    assert sorted(entry.name for entry in tmp_path.iterdir()) == (["tiny"] if existing else [])


@pytest.mark.parametrize("failing", [1, 2])
def test_a_rename_that_fails_brings_the_old_folder_back(
    failing: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tiny_checkpoint(tmp_path / "tiny")
    before = files_of(tmp_path)
    rename, calls = Path.rename, []

    def fail_once(self: Path, target: Path) -> Path:
        calls.append((self, target))
        if len(calls) == failing:
            raise DiskFullError("rename")
        return rename(self, target)

    # As where the system cannot exchange folders.
    monkeypatch.setattr(model.atomic, "_exchange", lambda *_: False)
    monkeypatch.setattr(Path, "rename", fail_once)
    with pytest.raises(DiskFullError, match="rename"):
        tiny_checkpoint(path, seed=1)

    assert files_of(tmp_path) == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["tiny"]


@pytest.mark.skipif(sys.platform != "linux", reason="folders are exchanged on Linux only")
def test_a_checkpoint_that_is_replaced_is_never_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tiny_checkpoint(tmp_path / "tiny")
    before = open_checkpoint(path).version

    def fail(self: Path, target: Path) -> Path:
        raise AssertionError(f"{self} is renamed to {target}")

    monkeypatch.setattr(Path, "rename", fail)
    tiny_checkpoint(path, seed=1)
    assert open_checkpoint(path).version != before
    assert [entry.name for entry in tmp_path.iterdir()] == ["tiny"]


def test_a_folder_is_made_with_those_above_it_for_all_to_read(tmp_path: Path) -> None:
    path = tiny_checkpoint(tmp_path / "a" / "b" / "tiny")
    (tmp_path / "plain").mkdir()
    assert path.stat().st_mode == (tmp_path / "plain").stat().st_mode
    # The name is that of the folder behind a link.
    (tmp_path / "current").symlink_to(path)
    assert open_checkpoint(tmp_path / "current").name == "tiny"


def test_what_a_link_points_to_is_replaced_whole(tmp_path: Path) -> None:
    old = tiny_checkpoint(tmp_path / "version-1")
    (old / "vocab.txt").write_text("of the old one", encoding="utf-8")
    link = tmp_path / "current"
    link.symlink_to(old)
    tiny_checkpoint(link, seed=1)
    assert link.is_symlink()
    assert files_of(old) == files_of(tiny_checkpoint(tmp_path / "expected", seed=1))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["current", "expected", "version-1"]


def test_a_file_is_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("precious", encoding="utf-8")
    message = f"{path}: is a file: give the path of a folder"
    with pytest.raises(CheckpointError, match=exactly(message)):
        tiny_checkpoint(path)
    assert path.read_text(encoding="utf-8") == "precious"


@pytest.mark.parametrize(
    "files",
    [
        {},
        {CONFIG: '{"model_type": "bert"}'},
        {CONFIG: '{"model_type": ["bert"]}', WEIGHTS: ""},
        {CONFIG: "{", WEIGHTS: ""},
        {WEIGHTS: ""},
    ],
)
def test_a_folder_of_something_else_is_never_replaced(
    files: dict[str, str], tmp_path: Path
) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    for name, text in {**files, "thesis.tex": "precious"}.items():
        (folder / name).write_text(text, encoding="utf-8")
    before = files_of(folder)
    message = (
        f"{folder}: holds other files than a checkpoint's (no headlight.json, nor "
        "model.safetensors with the config.json of a network that is known here): only an empty "
        "folder or a checkpoint is replaced"
    )
    with pytest.raises(CheckpointError, match=exactly(message)):
        tiny_checkpoint(folder)
    assert files_of(folder) == before


def test_places_that_may_be_written(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    check_place(tmp_path / "absent")
    check_place(tmp_path / "empty")
    ours = tiny_checkpoint(tmp_path / "tiny")
    check_place(ours)
    (ours / "headlight.json").unlink()
    check_place(ours)  # as transformers saves one
    (ours / "config.json").unlink()
    (ours / "headlight.json").write_text("{", encoding="utf-8")
    check_place(ours)  # damaged, but ours
    assert sorted(files_of(tiny_checkpoint(tmp_path / "empty"))) == sorted(FILES)
