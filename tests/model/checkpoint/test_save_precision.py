"""A record of precision gets into `headlight.json`, whole or not at all; nothing else changes."""

import os
from pathlib import Path

import pytest

from model.checkpoint.manifest import Precision
from model.checkpoint.opening import Checkpoint, open_checkpoint
from model.checkpoint.saving import save_precision
from model.errors import CheckpointError
from model.files import CONFIG, MANIFEST, SIGNATURE, WEIGHTS
from tests.builders import (
    precision,
    precision_set,
    tiny_checkpoint,
    tiny_conv_checkpoint,
)
from tests.matching import exactly
from tests.model.folders import edit, read


def record_of(checkpoint: Checkpoint, dtype: str = "int8", *, lost: int = 1) -> Precision:
    return precision(precision_set(lost=lost), dtype=dtype, weights=checkpoint.weights_sha256)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def checkpoint(folder: Path) -> Checkpoint:
    return open_checkpoint(folder)


def test_a_later_record_replaces_the_one_of_its_type(checkpoint: Checkpoint) -> None:
    for dtype, lost in (("int8", 1), ("bfloat16", 0), ("int8", 2)):
        now = open_checkpoint(checkpoint.path)
        save_precision(now, record_of(now, dtype, lost=lost))

    found = open_checkpoint(checkpoint.path).manifest.precision
    assert found == (
        record_of(checkpoint, "bfloat16", lost=0),
        record_of(checkpoint, "int8", lost=2),
    )


def test_a_folder_of_transformers_gets_a_manifest(foreign: Path) -> None:
    checkpoint = open_checkpoint(foreign)
    assert not (foreign / MANIFEST).exists()

    save_precision(checkpoint, record_of(checkpoint))

    again = open_checkpoint(foreign)
    assert again.manifest.precision == (record_of(checkpoint),)
    assert again.manifest.model_copy(update={"precision": (), "sha256": None}) == (
        checkpoint.manifest
    )


def test_a_signed_folder_is_refused(checkpoint: Checkpoint) -> None:
    (checkpoint.path / SIGNATURE).write_text("{}", encoding="utf-8")
    before = contents(checkpoint.path)
    message = (
        f"{checkpoint.path / SIGNATURE}: covers headlight.json, so a record there would make the "
        "signature wrong: remove model.sig, record, and sign again (headlight-train sign "
        f"{checkpoint.path} --key PRIVATE.pem)"
    )

    with pytest.raises(CheckpointError, match=exactly(message)):
        save_precision(checkpoint, record_of(checkpoint))
    assert contents(checkpoint.path) == before


def test_a_folder_that_cannot_be_written_is_refused(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    message = f"{checkpoint.path}: cannot be written: a record needs the right to write there"

    with pytest.raises(CheckpointError, match=exactly(message)):
        save_precision(checkpoint, record_of(checkpoint))


@pytest.mark.parametrize("what", ["weights", "temperature"])
def test_a_folder_that_changed_meanwhile_is_refused(checkpoint: Checkpoint, what: str) -> None:
    if what == "weights":
        tiny_checkpoint(checkpoint.path, seed=1)
    else:
        edit(checkpoint.path / MANIFEST, temperature=2.0, sha256=None)
    before = contents(checkpoint.path)
    message = (
        f"{checkpoint.path}: was changed while it was measured: nothing is recorded; measure again"
    )

    with pytest.raises(CheckpointError, match=exactly(message)):
        save_precision(checkpoint, record_of(checkpoint))
    assert contents(checkpoint.path) == before


def test_a_failed_write_leaves_what_was_there(checkpoint: Checkpoint) -> None:
    (checkpoint.path / f".{MANIFEST}.part").mkdir()
    before = (checkpoint.path / MANIFEST).read_bytes()
    message = f"{checkpoint.path / MANIFEST}: cannot be written: Is a directory"

    with pytest.raises(CheckpointError, match=exactly(message)):
        save_precision(checkpoint, record_of(checkpoint))
    assert (checkpoint.path / MANIFEST).read_bytes() == before


def test_a_record_of_other_weights_is_refused(checkpoint: Checkpoint) -> None:
    record = precision(weights="0123456789ab" + "0" * 52).model_dump(mode="json")
    edit(checkpoint.path / MANIFEST, precision=[record], sha256=None)
    message = (
        f"{checkpoint.path / MANIFEST}: its record of int8 belongs to version 0123456789ab, and "
        f"{WEIGHTS} is version {checkpoint.version}: take the record and sha256 out, then measure "
        "again (headlight-train evaluate --record-dtype int8)"
    )

    with pytest.raises(CheckpointError, match=exactly(message)):
        open_checkpoint(checkpoint.path)


def test_a_record_of_int8_is_for_encoders(tmp_path: Path) -> None:
    folder = tiny_conv_checkpoint(tmp_path / "course")
    weights = read(folder / MANIFEST)["files"][WEIGHTS]
    record = precision(weights=weights).model_dump(mode="json")
    edit(folder / MANIFEST, precision=[record], sha256=None)
    message = (
        f"{folder / MANIFEST}: it has a record of int8, which is for encoders, and this is a "
        f"{read(folder / CONFIG)['architectures'][0]}: take the record and sha256 out"
    )

    with pytest.raises(CheckpointError, match=exactly(message)):
        open_checkpoint(folder)
