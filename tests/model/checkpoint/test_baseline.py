"""The counts of texts in `headlight.json`: how they are made, checked, written and compared."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from model.checkpoint.baseline import LENGTH_BOUNDS, SCORE_BOUNDS, Baseline, count_baseline
from model.checkpoint.manifest import Manifest, seal
from model.checkpoint.opening import Checkpoint, open_checkpoint
from model.checkpoint.saving import save_baseline
from model.checkpoint.thresholds import Thresholds
from model.errors import CheckpointError
from model.files import MANIFEST
from model.tokenization.tokenizer import Encoding, count_unknown
from tests.builders import (
    tiny_baseline,
    tiny_checkpoint,
    tiny_manifest,
    tiny_thresholds,
    tiny_tokenizer,
)
from tests.matching import exactly
from tests.model.folders import edit

LABELS = ("negative", "neutral", "positive")
DEFAULT = Path(__file__).parents[3] / "checkpoints" / "default"


@pytest.fixture
def checkpoint(folder: Path) -> Checkpoint:
    return open_checkpoint(folder)


def test_texts_are_counted_by_hand() -> None:
    probabilities = np.array(
        [
            [0.05, 0.0, 0.95],  # a bound belongs to the range below it
            [0.04, 0.0, 0.96],
            [0.999, 0.001, 0.0],
            [0.35, 0.33, 0.32],
        ]
    )

    found = count_baseline(
        probabilities,
        np.array([8, 9, 512, 600]),
        labels=LABELS,
        sets=["dev"],
        truncated=1,
        unknown_tokens=7,
    )

    assert found == Baseline(
        sets=("dev",),
        rows=4,
        score_bounds=SCORE_BOUNDS,
        scores={
            "negative": (1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1),
            "neutral": (0,) * 11,
            "positive": (0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0),
        },
        length_bounds=LENGTH_BOUNDS,
        lengths=(1, 1, 0, 0, 0, 0, 1, 1),
        truncated=1,
        tokens=1129,
        unknown_tokens=7,
    )


def test_unknown_tokens_are_those_of_the_vocabulary() -> None:
    tokenizer = tiny_tokenizer()
    texts = ["a good film", "\u2603 good \u2603", "[UNK]"]
    encodings = [tokenizer.encode(text) for text in texts]

    assert tokenizer.unknown_id == tokenizer.token_id("[UNK]") == 1
    # A [UNK] that somebody types is read as text; the brackets are not in this vocabulary.
    assert [count_unknown([each], tokenizer.unknown_id) for each in encodings] == [0, 2, 2]
    assert count_unknown(encodings, tokenizer.unknown_id) == 4
    assert count_unknown([Encoding([1, 1], truncated=False)], None) == 0


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"rows": 999}, "scores count 1000 texts, and rows is 999"),
        ({"lengths": [700, 200, 99]}, "lengths count 999 texts, and rows is 1000"),
        ({"lengths": [800, 200]}, "lengths have 2 bins, must have 3, one per bound"),
        (
            {"scores": {"negative": [1000], "positive": [0]}},
            "scores of negative have 1 bins, must have 4, one per bound",
        ),
        ({"score_bounds": [0.6, 0.6, 0.9]}, "score_bounds must ascend"),
        ({"length_bounds": [16, 8]}, "length_bounds must ascend"),
        ({"truncated": 1001}, "truncated is 1001, must be at most 1000"),
        ({"unknown_tokens": 10_001}, "unknown_tokens is 10001, must be at most 10000"),
    ],
)
def test_what_cannot_be_true_is_refused(changes: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValidationError) as caught:
        tiny_baseline(**changes)
    (found,) = caught.value.errors(include_url=False)
    assert found["msg"].startswith(f"Value error, {fault}")


def test_only_the_records_change_when_they_are_recorded(checkpoint: Checkpoint) -> None:
    path = checkpoint.path / MANIFEST
    before = {file.name: file.read_bytes() for file in checkpoint.path.iterdir()}
    earlier = json.loads(before.pop(MANIFEST))

    for truncated in (50, 3):
        now = open_checkpoint(checkpoint.path)
        save_baseline(now, tiny_baseline(truncated=truncated), tiny_thresholds())

    content = json.loads(path.read_text(encoding="utf-8"))
    assert {file.name: file.read_bytes() for file in checkpoint.path.iterdir()} == {
        **before,
        MANIFEST: path.read_bytes(),
    }
    assert content.pop("sha256") == seal(content)
    kept = Baseline.model_validate(content.pop("baseline"))
    of_weights = {"weights_sha256": checkpoint.weights_sha256}
    assert kept == tiny_baseline(truncated=3, **of_weights)
    left = Thresholds.model_validate(content.pop("thresholds"))
    assert left == tiny_thresholds(**of_weights)
    assert {**content, "sha256": earlier["sha256"]} == earlier
    manifest = open_checkpoint(checkpoint.path).manifest
    assert (manifest.baseline, manifest.thresholds) == (kept, left)


RECORDS: dict[str, Baseline | Thresholds] = {
    "baseline": tiny_baseline(),
    "thresholds": tiny_thresholds(),
}


@pytest.mark.parametrize(
    ("name", "fault"),
    [("baseline", "baseline.scores are of"), ("thresholds", "thresholds.texts are of")],
)
def test_another_class_is_refused(name: str, fault: str) -> None:
    with pytest.raises(ValidationError) as caught:
        tiny_manifest(labels=["bad", "good"], **{name: RECORDS[name]})
    (found,) = caught.value.errors(include_url=False)
    assert found["msg"] == f"Value error, {fault} negative, positive, must be of bad, good"


def test_a_folder_is_written_with_the_digest_of_its_weights(tmp_path: Path) -> None:
    manifest = tiny_manifest(**RECORDS)
    checkpoint = open_checkpoint(tiny_checkpoint(tmp_path / "tiny", manifest=manifest))
    digest = {"weights_sha256": checkpoint.weights_sha256}
    assert checkpoint.manifest.baseline == tiny_baseline(**digest)
    assert checkpoint.manifest.thresholds == tiny_thresholds(**digest)


@pytest.mark.parametrize(("name", "verb"), [("baseline", "belongs"), ("thresholds", "belong")])
def test_a_record_of_other_weights_is_refused(name: str, verb: str, checkpoint: Checkpoint) -> None:
    path = checkpoint.path / MANIFEST
    other = RECORDS[name].model_copy(update={"weights_sha256": "0" * 64})
    edit(path, sha256=None, **{name: other.model_dump(mode="json")})
    message = (
        f"{path}: its {name} {verb} to version 000000000000, and model.safetensors is version "
        f"{checkpoint.version}: take {name} and sha256 out, then record again "
        "(headlight-train evaluate --record-baseline)"
    )
    with pytest.raises(CheckpointError, match=exactly(message)):
        open_checkpoint(checkpoint.path)


def test_the_model_that_ships_has_records_of_its_validation_rows() -> None:
    content = Manifest.model_validate_json((DEFAULT / MANIFEST).read_text(encoding="utf-8"))
    (validation,) = [metric for metric in content.metrics if metric.name == "validation"]
    for record in (content.baseline, content.thresholds):
        assert record is not None
        assert (record.sets, record.rows) == (("validation",), validation.rows)
        assert record.weights_sha256 == content.files["model.safetensors"]
    assert content.thresholds is not None
    first = content.thresholds.reports()[0]
    assert (first["threshold"], first["share"]) == (0.5, 1.0)
    assert first["accuracy"] == pytest.approx(validation.accuracy)
