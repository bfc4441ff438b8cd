"""`headlight.json`: what it must hold, and the digest of its own content."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from model.checkpoint.manifest import Manifest, seal
from tests.builders import tiny_manifest

SMALLEST: dict[str, Any] = {"labels": ["negative", "positive"], "max_length": 32}
DIGEST = "0123456789abcdef" * 4
# Of 100 rows 80 are right in float32 and 79 in int8.
SET: dict[str, Any] = {
    "name": "dev",
    "rows": 100,
    "accuracy": 0.79,
    "log_loss": 0.46,
    "float32_accuracy": 0.8,
    "float32_log_loss": 0.45,
    "lost": 3,
    "gained": 2,
}
RECORD: dict[str, Any] = {
    "dtype": "int8",
    "weights_sha256": DIGEST,
    "processor": "one",
    "torch": "2.13.0",
    "sets": [SET],
}
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def faults(content: dict[str, Any]) -> list[tuple[str, str]]:
    with pytest.raises(ValidationError) as caught:
        Manifest.model_validate(content)
    return [
        (".".join(map(str, fault["loc"])), fault["msg"])
        for fault in caught.value.errors(include_url=False)
    ]


def test_the_smallest_that_is_written_by_hand() -> None:
    manifest = Manifest.model_validate(SMALLEST)

    assert manifest.model_dump() == {
        "format_version": 1,
        "labels": ("negative", "positive"),
        "temperature": 1.0,
        "max_length": 32,
        "training_data": (),
        "seed": None,
        "recipe": {},
        "metrics": (),
        "precision": (),
        "baseline": None,
        "thresholds": None,
        "files": {},
        "sha256": None,
    }


def test_written_and_read_is_the_same() -> None:
    manifest = tiny_manifest(
        training_data=[{"file": "train.tsv", "rows": 10, "sha256": DIGEST}],
        recipe={"batch_size": 64, "learning_rate": 1e-3, "schedule": ["warm-up", None]},
        files={"config.json": DIGEST},
        sha256=DIGEST,
    )

    content = json.loads(json.dumps(manifest.model_dump(mode="json")))
    assert Manifest.model_validate(content) == manifest


def test_without_a_record_older_versions_can_read_what_is_written() -> None:
    content = tiny_manifest().to_json()

    assert not {"precision", "baseline", "thresholds"} & content.keys()
    assert Manifest.model_validate(content) == tiny_manifest()


def test_a_record_is_written_and_read() -> None:
    manifest = tiny_manifest(precision=[RECORD])

    content = json.loads(json.dumps(manifest.to_json()))
    assert content["precision"] == [RECORD]
    assert Manifest.model_validate(content) == manifest
    assert manifest.precision[0].sets[0].change == -1


METRIC = tiny_manifest().model_dump(mode="json")["metrics"][0]


@pytest.mark.parametrize(
    ("changes", "place", "message"),
    [
        ({"format_version": 2}, "format_version", "Input should be 1"),
        ({"labels": ["one"]}, "labels", "Tuple should have at least 2 items"),
        ({"labels": "ab"}, "labels", "Input should be a valid tuple"),
        ({"temperature": 0.0}, "temperature", "Input should be greater than or equal to 0.001"),
        ({"temperature": -1.0}, "temperature", "Input should be greater than or equal to 0.001"),
        ({"temperature": 5e-324}, "temperature", "Input should be greater than or equal to 0.001"),
        ({"temperature": 1001.0}, "temperature", "Input should be less than or equal to 1000"),
        ({"temperature": float("nan")}, "temperature", "Input should be a finite number"),
        ({"temperature": float("inf")}, "temperature", "Input should be a finite number"),
        ({"max_length": 0}, "max_length", "Input should be greater than 0"),
        ({"max_length": None}, "max_length", "Input should be a valid integer"),
        ({"training_data": [{}]}, "training_data.0.file", "Field required"),
        ({"seed": "x"}, "seed", "Input should be a valid integer"),
        ({"recipe": []}, "recipe", "Input should be a valid dictionary"),
        (
            {"metrics": [{**METRIC, "accuracy": 1.01}]},
            "metrics.0.accuracy",
            "Input should be less than or equal to 1",
        ),
        (
            {"metrics": [{**METRIC, "log_loss": -0.1}]},
            "metrics.0.log_loss",
            "Input should be greater than or equal to 0",
        ),
        ({"files": {"config.json": "0" * 63}}, "files.config.json", "String should match pattern"),
        ({"sha256": "0" * 65}, "sha256", "String should match pattern"),
        ({"temprature": 1.0}, "temprature", "Extra inputs are not permitted"),
    ],
)
def test_a_wrong_value_is_refused(changes: dict[str, Any], place: str, message: str) -> None:
    found_place, found_message = faults({**SMALLEST, **changes})[0]

    assert found_place == place
    assert found_message.startswith(message)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rows": 0}, "Input should be greater than 0"),
        ({"rows": 10**400}, "Input should be less than or equal to 1000000000"),
        ({"name": ""}, "String should have at least 1 character"),
        ({"name": "a" * 201}, "String should have at most 200 characters"),
        ({"name": "a\nb"}, "Value error, must be printable"),
        ({"accuracy": 1.2}, "Input should be less than or equal to 1"),
        ({"float32_accuracy": float("nan")}, "Input should be less than or equal to 1"),
        ({"log_loss": float("inf")}, "Input should be a finite number"),
        ({"float32_log_loss": -1.0}, "Input should be greater than or equal to 0"),
        ({"lost": -1}, "Input should be greater than or equal to 0"),
        ({"note": "x"}, "Extra inputs are not permitted"),
        (
            {"accuracy": 0.7925},
            "Value error, accuracy is 0.7925 of 100 rows, which is no whole number of rows: "
            "measure again",
        ),
        (
            {"lost": 2},
            "Value error, 79 of 100 rows are right, 80 in float32, but gained minus lost is 0: "
            "must be -1",
        ),
        (
            {"lost": 22, "gained": 21},
            "Value error, lost is 22 and gained is 21: at most the 80 rows that are right in "
            "float32 can be lost, and the other 20 gained",
        ),
    ],
)
def test_a_damaged_or_absurd_record_of_a_set_is_refused(
    changes: dict[str, Any], message: str
) -> None:
    record = {**RECORD, "sets": [{**SET, **changes}]}

    place, found = faults({**SMALLEST, "precision": [record]})[0]

    assert place.startswith("precision.0.sets.0")
    assert found.startswith(message)


@pytest.mark.parametrize(
    ("records", "fault"),
    [
        (5, ("precision", "Input should be a valid tuple")),
        ([{**RECORD, "dtype": "int4"}], ("precision.0.dtype", "Input should be 'bfloat16' or")),
        ([{**RECORD, "weights_sha256": "0"}], ("precision.0.weights_sha256", "String should")),
        ([{**RECORD, "sets": []}], ("precision.0.sets", "Tuple should have at least 1 item")),
        (
            [{**RECORD, "sets": [SET, SET]}],
            ("precision.0", "Value error, the set dev is there more than once: keep one"),
        ),
        (
            [RECORD, RECORD],
            ("", "Value error, the type int8 is there more than once: keep one"),
        ),
    ],
)
def test_a_damaged_or_absurd_record_is_refused(records: object, fault: tuple[str, str]) -> None:
    place, message = faults({**SMALLEST, "precision": records})[0]

    assert (place, message.startswith(fault[1])) == (fault[0], True)


@pytest.mark.parametrize("name", SMALLEST)
def test_a_missing_value_is_refused(name: str) -> None:
    content = {key: value for key, value in SMALLEST.items() if key != name}

    assert faults(content) == [(name, "Field required")]


@given(st.dictionaries(st.text(), json_values))
def test_the_seal_survives_writing_in_any_form(content: dict[str, Any]) -> None:
    sealed = {**content, "sha256": seal(content)}

    for text in (
        json.dumps(sealed),
        json.dumps(sealed, indent=2, ensure_ascii=False),
        json.dumps(sealed, sort_keys=True, separators=(",", ":")),
    ):
        read = json.loads(text)
        assert read["sha256"] == seal(read)


@given(content=st.dictionaries(st.text(), json_values, min_size=1), data=st.data())
def test_the_seal_breaks_when_a_value_changes(content: dict[str, Any], data: st.DataObject) -> None:
    key = data.draw(st.sampled_from(sorted(content)))
    value = data.draw(json_values)
    changed = {**content, key: value}

    if json.dumps(changed, sort_keys=True) == json.dumps(content, sort_keys=True):
        return
    assert (seal(changed) == seal(content)) is (key == "sha256")


def test_the_seal_is_of_a_form_that_others_can_make() -> None:
    # printf '{"labels":["negative","positive"],"max_length":32}' | sha256sum
    assert seal(SMALLEST) == "b945da5cde6c30904da997db9f99de3d342973087ddcb339676c2d5065da60f5"
