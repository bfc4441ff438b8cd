"""`headlight.json`: what it must hold, and the digest of its own content."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from model.manifest import Manifest, seal
from tests.builders import tiny_manifest

SMALLEST: dict[str, Any] = {"labels": ["negative", "positive"], "max_length": 32}
DIGEST = "0123456789abcdef" * 4
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
