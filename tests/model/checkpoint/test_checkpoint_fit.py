"""Files that are sound but do not fit together, and folders without a manifest."""

from pathlib import Path
from typing import Any

import pytest

from model.checkpoint.opening import open_checkpoint
from model.errors import CheckpointError, UnsupportedCheckpointError
from model.files import CONFIG, MANIFEST
from tests.builders import (
    MAX_LENGTH,
)
from tests.matching import exactly
from tests.model.folders import edit, write


def test_a_manifest_changed_by_hand(folder: Path) -> None:
    edit(folder / MANIFEST, temperature=2.0)
    message = (
        f"{folder / MANIFEST}: does not match its own SHA-256: it is damaged, or was changed after "
        "it was written (to change it by hand, take sha256 out)"
    )

    with pytest.raises(CheckpointError, match=exactly(message)):
        open_checkpoint(folder)
    edit(folder / MANIFEST, sha256=None)
    assert open_checkpoint(folder).manifest.temperature == 2.0


def test_a_manifest_written_by_hand(foreign: Path) -> None:
    write(foreign / MANIFEST, {"labels": ["negative", "positive"], "max_length": 16})

    checkpoint = open_checkpoint(foreign)
    assert checkpoint.tokenizer.max_length == 16
    assert checkpoint.manifest.temperature == 1.0
    assert len(checkpoint.version) == 12


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        (
            {"labels": ["positive", "negative"]},
            "labels are positive, negative, config.json has negative, positive",
        ),
        ({"max_length": 33}, "max_length is 33, config.json has 32 positions"),
        (
            {"temperature": 0, "seed": "x"},
            "temperature: must be at least 0.001 (got 0); seed: must be a whole number (got 'x')",
        ),
        ({"extra": 1}, "extra: is not known: leave it out"),
        (
            {"files": {CONFIG: "abc"}},
            "files.config.json: must match the pattern ^[0-9a-f]{64}$ (got 'abc')",
        ),
    ],
)
def test_a_manifest_that_does_not_fit(changes: dict[str, Any], fault: str, folder: Path) -> None:
    edit(folder / MANIFEST, sha256=None, **changes)

    with pytest.raises(CheckpointError, match=exactly(f"{folder / MANIFEST}: {fault}")):
        open_checkpoint(folder)


def test_another_kind_of_network_is_told_apart(foreign: Path) -> None:
    edit(foreign / CONFIG, model_type="albert")
    message = (
        f"{foreign / CONFIG}: model_type is 'albert', only 'bert', 'distilbert', 'roberta', "
        "'xlm-roberta' and 'conv_attention' can be loaded"
    )

    with pytest.raises(UnsupportedCheckpointError, match=exactly(message)):
        open_checkpoint(foreign)


@pytest.mark.parametrize(
    ("stated", "limit"),
    [
        (20, 20),
        (20.0, 20),
        (32, 32),
        (512, 32),
        (1e30, 32),  # what transformers writes for "no limit"
        (float("inf"), 32),
        (float("nan"), 32),
        (0, 32),
        (-1, 32),
        ("20", 32),
        (None, 32),
    ],
)
def test_the_limit_of_a_folder_of_others(stated: object, limit: int, foreign: Path) -> None:
    edit(foreign / "tokenizer_config.json", model_max_length=stated)

    checkpoint = open_checkpoint(foreign)
    assert checkpoint.manifest.max_length == limit
    assert checkpoint.tokenizer.max_length == limit


def test_a_folder_of_others_without_options_of_its_tokenizer(foreign: Path) -> None:
    (foreign / "tokenizer_config.json").unlink()

    assert open_checkpoint(foreign).manifest.max_length == MAX_LENGTH
