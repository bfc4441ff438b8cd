"""`headlight.json`: what it must hold, its seal, and the records of counts and precision in it."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from model.atomic import beside
from model.checkpoint.manifest import Manifest, seal
from model.checkpoint.opening import Checkpoint, open_checkpoint
from model.checkpoint.records import Baseline, Precision, PrecisionSet, Thresholds, judge
from model.checkpoint.saving import save_baseline, save_precision
from model.errors import CheckpointError
from model.files import MANIFEST, SIGNATURE, WEIGHTS, sign_command
from model.tokenization.tokenizer import count_unknown
from model.types import Encoding
from tests.builders import (
    precision,
    precision_set,
    tiny_baseline,
    tiny_checkpoint,
    tiny_manifest,
    tiny_thresholds,
    tiny_tokenizer,
)
from tests.hub_stand_in import files_of
from tests.matching import exactly
from tests.model.folders import edit, faults

SMALLEST: dict[str, Any] = {"labels": ["negative", "positive"], "max_length": 32}
DIGEST = "0123456789abcdef" * 4
RECORD: dict[str, Any] = precision(precision_set(lost=3, gained=2)).model_dump(mode="json")
(SET,) = RECORD["sets"]


def test_written_and_read_is_the_same() -> None:
    manifest = tiny_manifest(
        training_data=[{"file": "train.tsv", "rows": 10, "sha256": DIGEST}],
        recipe={"batch_size": 64, "learning_rate": 1e-3, "schedule": ["warm-up", None]},
        files={"config.json": DIGEST},
        sha256=DIGEST,
        precision=[RECORD],
    )
    content = json.loads(json.dumps(manifest.to_json()))
    assert Manifest.model_validate(content) == manifest
    assert manifest.precision[0].sets[0].change == -1
    # Older versions can read what is written without a record.
    assert not {"precision", "baseline", "thresholds"} & tiny_manifest().to_json().keys()


@pytest.mark.parametrize(
    ("changes", "place", "message"),
    [
        ({"temperature": 0.0009}, "temperature", "Input should be greater than or equal to 0.001"),
        ({"temperature": 1001.0}, "temperature", "Input should be less than or equal to 1000"),
        ({"temprature": 1.0}, "temprature", "Extra inputs are not permitted"),
        (
            {"precision": [RECORD, RECORD]},
            "",
            "Value error, precision has int8 and int8: keep one record of each type",
        ),
        # Both of which would break what reads them: an answer in JSON, and a line of the log.
        (
            {"precision": [{**RECORD, "sets": [{**SET, "log_loss": float("inf")}]}]},
            "precision.0.sets.0.log_loss",
            "Input should be a finite number",
        ),
        (
            {"precision": [{**RECORD, "sets": [{**SET, "name": "a\nb"}]}]},
            "precision.0.sets.0.name",
            "Value error, must be printable",
        ),
    ],
)
def test_a_wrong_value_is_refused(changes: dict[str, Any], place: str, message: str) -> None:
    found_place, found_message = faults(Manifest.model_validate, {**SMALLEST, **changes})[0]
    assert found_place == place
    assert found_message.startswith(message)


def test_the_seal_is_of_a_form_that_others_can_make() -> None:
    # printf '{"labels":["negative","positive"],"max_length":32}' | sha256sum
    expected = "b945da5cde6c30904da997db9f99de3d342973087ddcb339676c2d5065da60f5"
    other_order = dict(reversed(SMALLEST.items()))
    assert seal({**other_order, "sha256": "any"}) == seal(SMALLEST) == expected


LABELS = ("negative", "neutral", "positive")
DEFAULT = Path(__file__).parents[3] / "checkpoints" / "default"


@pytest.fixture
def checkpoint(folder: Path) -> Checkpoint:
    return open_checkpoint(folder)


def test_unknown_tokens_are_those_of_the_vocabulary() -> None:
    tokenizer = tiny_tokenizer()
    texts = ["a good film", "\u2603 good \u2603", "[UNK]"]
    encodings = [tokenizer.encode(text) for text in texts]
    assert tokenizer.unknown_id == tokenizer.token_id("[UNK]") == 1
    # A [UNK] that somebody types is read as text; the brackets are not in this vocabulary.
    assert [count_unknown([each], tokenizer.unknown_id) for each in encodings] == [0, 2, 2]
    assert count_unknown(encodings, tokenizer.unknown_id) == 4
    assert count_unknown([Encoding([1, 1], truncated=False)], None) == 0


def test_only_the_records_change_when_they_are_recorded(checkpoint: Checkpoint) -> None:
    path = checkpoint.path / MANIFEST
    before = files_of(checkpoint.path)
    earlier = json.loads(before.pop(MANIFEST))

    for truncated in (50, 3):
        now = open_checkpoint(checkpoint.path)
        save_baseline(now, tiny_baseline(truncated=truncated), tiny_thresholds())

    content = json.loads(path.read_text(encoding="utf-8"))
    assert files_of(checkpoint.path) == {**before, MANIFEST: path.read_bytes()}
    assert content.pop("sha256") == seal(content)
    kept = Baseline.model_validate(content.pop("baseline"))
    of_weights = {"weights_sha256": checkpoint.weights_sha256}
    assert kept == tiny_baseline(truncated=3, **of_weights)
    left = Thresholds.model_validate(content.pop("thresholds"))
    assert left == tiny_thresholds(**of_weights)
    assert {**content, "sha256": earlier["sha256"]} == earlier
    manifest = open_checkpoint(checkpoint.path).manifest
    assert (manifest.baseline, manifest.thresholds) == (kept, left)


RECORDS: dict[str, BaseModel] = {"baseline": tiny_baseline(), "thresholds": tiny_thresholds()}


@pytest.mark.parametrize(
    ("name", "fault"),
    [("baseline", "baseline.scores are of"), ("thresholds", "thresholds.texts are of")],
)
def test_another_class_is_refused(name: str, fault: str) -> None:
    ((_, found),) = faults(tiny_manifest, labels=["bad", "good"], **{name: RECORDS[name]})
    assert found == f"Value error, {fault} negative, positive, must be of bad, good"


@pytest.mark.parametrize(
    ("name", "record", "whose", "option"),
    [
        ("baseline", RECORDS["baseline"], "baseline", "baseline"),
        ("thresholds", RECORDS["thresholds"], "thresholds", "baseline"),
        ("precision", precision(), "precision of int8", "dtype int8"),
    ],
)
def test_a_record_of_other_weights_is_refused(
    name: str, record: BaseModel, whose: str, option: str, checkpoint: Checkpoint
) -> None:
    path = checkpoint.path / MANIFEST
    content = record.model_copy(update={"weights_sha256": "0" * 64}).model_dump(mode="json")
    edit(path, sha256=None, **{name: [content] if name == "precision" else content})
    message = (
        f"{path}: {whose} was recorded of version 000000000000, and {WEIGHTS} is version "
        f"{checkpoint.version}: take it and sha256 out, then record again "
        f"(headlight-train evaluate --record-{option})"
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
    assert (first["threshold"], first["share"]) == (0.0, 1.0)
    assert first["accuracy"] == pytest.approx(validation.accuracy)


@pytest.mark.parametrize(
    ("make", "changes", "fault"),
    [
        (tiny_baseline, {"lengths": [800, 200]}, "lengths have 2 bins, must have 3, one per bound"),
        (
            tiny_baseline,
            {"scores": {"negative": [1000], "positive": [0]}},
            "scores of negative have 1 bins, must have 4, one per bound",
        ),
        (tiny_baseline, {"length_bounds": [16, 8]}, "the bounds of lengths must ascend"),
        (
            tiny_thresholds,
            {"by_threshold": [{"threshold": 0.5, "answers": {"negative": 1}, "right": {}}]},
            "answers at 0.5 are of negative, must be of negative, positive",
        ),
    ],
)
def test_counts_that_do_not_fit_together_are_refused(
    make: Callable[..., object], changes: dict[str, Any], fault: str
) -> None:
    ((_, found),) = faults(make, **changes)
    assert found == f"Value error, {fault}"


@pytest.mark.parametrize("labels", [("negative", "positive"), ("bad", "neutral", "good")])
def test_a_temperature_of_the_pair_needs_the_pair_and_another_label(
    labels: tuple[str, ...],
) -> None:
    ((_, found),) = faults(tiny_manifest, labels=labels, pair_temperature=0.5)
    assert found == (
        "Value error, pair_temperature is for negative and positive beside other labels, and the "
        f"labels are {', '.join(labels)}: take it out"
    )


WITHIN = "int8 was measured within 0.2 points of float32 ({} rows)"
OUTSIDE = "int8 was not within 0.2 points of float32 ({} rows)"
ROW = "int8 was {} within 1 row and 0.01 nats of float32 (-{} over 499 rows)"


@pytest.mark.parametrize(
    ("measured", "allowed", "reason"),
    [
        # Two rows of a thousand are exactly 0.2 points, whatever a float makes of it.
        ([precision_set(lost=2)], True, WITHIN.format("-0.20 over 1,000")),
        ([precision_set(gained=2)], True, WITHIN.format("+0.20 over 1,000")),
        ([precision_set(lost=3)], False, OUTSIDE.format("-0.30 over 1,000")),
        # So many answers turned that the gain is luck: the network is another one.
        ([precision_set(gained=3)], False, OUTSIDE.format("+0.30 over 1,000")),
        ([precision_set(rows=500, lost=1, right=9)], True, WITHIN.format("-0.20 over 500")),
        ([precision_set(rows=499, lost=1, right=9)], True, ROW.format("measured", "0.20")),
        ([precision_set(rows=499, lost=2, right=9)], False, ROW.format("not", "0.40")),
        ([precision_set(rows=49, right=9)], False, "int8 was measured on only 49 rows, of at "),
        # The others cannot make up for a set that got worse by more than chance.
        (
            [precision_set("a", lost=4), precision_set("b", rows=9000, gained=4)],
            False,
            "int8 lost 4 rows of a and gained 0, which is more than chance",
        ),
        ([precision_set("a", lost=3), precision_set("b")], True, WITHIN.format("-0.15 over 2,000")),
        (
            [precision_set("a", lost=20, gained=13), precision_set("b", rows=9000, gained=7)],
            True,
            WITHIN.format("+0.00 over 10,000"),
        ),
    ],
)
def test_the_bounds(measured: list[PrecisionSet], *, allowed: bool, reason: str) -> None:
    verdict = judge("int8", [precision(*measured)])
    assert (verdict.allowed, verdict.reason[: len(reason)]) == (allowed, reason)


@pytest.mark.parametrize(
    ("records", "reason"),
    [
        ([], "the checkpoint has no record of int8"),
        ([precision(dtype="bfloat16")], "the checkpoint has no record of int8"),
        (
            [precision(scheme=1)],
            "the checkpoint's record of int8 comes from an older way to quantize: record it again",
        ),
    ],
)
def test_another_record_says_nothing(records: list[Precision], reason: str) -> None:
    verdict = judge("int8", records)
    assert (verdict.allowed, verdict.reason) == (False, reason)
    assert judge("bfloat16", [*records, precision(dtype="bfloat16")]).allowed


def record_of(checkpoint: Checkpoint, dtype: str = "int8", *, lost: int = 1) -> Precision:
    return precision(precision_set(lost=lost), dtype=dtype, weights=checkpoint.weights_sha256)


def test_a_later_record_replaces_the_one_of_its_type(checkpoint: Checkpoint) -> None:
    for dtype, lost in (("int8", 1), ("bfloat16", 0), ("int8", 2)):
        now = open_checkpoint(checkpoint.path)
        save_precision(now, record_of(now, dtype, lost=lost))
    found = open_checkpoint(checkpoint.path).manifest.precision
    kept = (("bfloat16", 0), ("int8", 2))
    assert found == tuple(record_of(checkpoint, dtype, lost=lost) for dtype, lost in kept)


def test_a_folder_of_transformers_gets_a_manifest(foreign: Path) -> None:
    checkpoint = open_checkpoint(foreign)
    assert not (foreign / MANIFEST).exists()
    save_precision(checkpoint, record_of(checkpoint))
    again = open_checkpoint(foreign)
    assert again.manifest.precision == (record_of(checkpoint),)
    expected = checkpoint.manifest
    assert again.manifest.model_copy(update={"precision": (), "sha256": None}) == expected


SIGNED = (
    "{0}/model.sig: covers headlight.json, so a record there would make the signature wrong: "
    "remove model.sig, record, and sign again ({1})"
)
DENIED = "{0}: cannot be written: a record needs the right to write there"
FAILED = "{0}/headlight.json: cannot be written: Is a directory"


@pytest.mark.parametrize("fault", [SIGNED, DENIED, FAILED])
def test_a_folder_that_takes_no_record_stays_as_it_is(
    fault: str, checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    if fault == SIGNED:
        (checkpoint.path / SIGNATURE).write_text("{}", encoding="utf-8")
    elif fault == DENIED:
        monkeypatch.setattr(os, "access", lambda *_: False)
    else:
        beside(checkpoint.path / MANIFEST, "part").mkdir()
    before = (checkpoint.path / MANIFEST).read_bytes()
    message = fault.format(checkpoint.path, sign_command(checkpoint.path))
    with pytest.raises(CheckpointError, match=exactly(message)):
        save_precision(checkpoint, record_of(checkpoint))
    assert (checkpoint.path / MANIFEST).read_bytes() == before


@pytest.mark.parametrize("what", ["weights", "temperature"])
def test_a_folder_that_changed_meanwhile_is_refused(checkpoint: Checkpoint, what: str) -> None:
    if what == "weights":
        tiny_checkpoint(checkpoint.path, seed=1)
    else:
        edit(checkpoint.path / MANIFEST, temperature=2.0, sha256=None)
    before = files_of(checkpoint.path)
    message = (
        f"{checkpoint.path}: was changed while it was measured: nothing is recorded; measure again"
    )
    with pytest.raises(CheckpointError, match=exactly(message)):
        save_precision(checkpoint, record_of(checkpoint))
    assert files_of(checkpoint.path) == before
