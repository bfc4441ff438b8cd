"""The requests that the arguments of a method become."""

import json
from typing import Any

import numpy as np
import pytest

from headlight_client import calls
from headlight_client.calls import Call
from tests.matching import exactly

ATTENTION = {"layers": None, "heads": None, "reduce": "none", "level": "token"}
ATTRIBUTIONS = {"label": None, "method": "gradient_x_input", "steps": None, "level": "token"}


def asked(call: Call[Any]) -> Any:  # noqa: ANN401
    """What a service reads, which takes no NaN for a number."""

    def refuse(constant: str) -> None:
        pytest.fail(f"{constant} is not JSON")

    assert call.body is not None
    return json.loads(call.body, parse_constant=refuse)


@pytest.mark.parametrize("missing", [float("nan"), None, 5, b"bytes", np.float64("nan"), object()])
def test_what_is_no_string_is_sent_as_null(missing: Any) -> None:  # noqa: ANN401
    several = ["good", missing, np.str_("bad")]
    predicted = calls.predict(several, truncation="right", on_error="item")
    attended = calls.attentions(several, **ATTENTION, truncation="right")  # type: ignore[arg-type]
    assert asked(predicted)["sentences"] == ["good", None, "bad"]
    assert asked(attended)["sentences"] == ["good", None, "bad"]

    one: list[Call[Any]] = [
        calls.attention(missing, **ATTENTION, truncation="right"),  # type: ignore[arg-type]
        calls.attributions(missing, **ATTRIBUTIONS, truncation="right"),  # type: ignore[arg-type]
        calls.importance(missing, label=None, truncation="right"),
        calls.attention_steps(missing, layer=0, head=0, query=0, truncation="right"),
        calls.thumbnails(missing, size=9, special=True, **ATTENTION, truncation="right"),  # type: ignore[arg-type]
    ]
    assert [asked(call)["sentence"] for call in one] == [None] * 5


def test_what_is_no_json_is_never_sent() -> None:
    wrong: Any = float("nan")
    with pytest.raises(ValueError, match="not JSON compliant"):
        calls.importance("good", label=wrong, truncation="right")


@pytest.mark.parametrize(
    "numbers", [[0, 2], (0, 2), range(0, 3, 2), np.array([0, 2]), [np.uint8(0), np.int64(2)]]
)
def test_whole_numbers_of_any_type(numbers: Any) -> None:  # noqa: ANN401
    chosen: Any = ATTENTION | {"layers": numbers, "heads": numbers}
    content = asked(calls.attention("good", **chosen, truncation="right"))
    assert (content["layer"], content["head"]) == ([0, 2], [0, 2])

    several = asked(calls.attentions(["good"], **chosen, truncation="right"))
    assert (several["layer"], several["head"]) == ([0, 2], [0, 2])


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ([0.9, 1.9], "takes whole numbers, got 0.9: give an int"),
        (np.array([0.0]), "takes whole numbers, got np.float64(0.0): give an int"),
        ("12", "takes whole numbers, got '1': give an int"),
        ([None], "takes whole numbers, got None: give an int"),
        (1, "takes a list of whole numbers, got 1"),
        (1.5, "takes a list of whole numbers, got 1.5"),
    ],
)
@pytest.mark.parametrize("name", ["layers", "heads"])
def test_what_is_no_whole_number(name: str, numbers: Any, message: str) -> None:  # noqa: ANN401
    chosen: Any = ATTENTION | {name: numbers}
    with pytest.raises(TypeError, match=exactly(f"{name} {message}")):
        calls.attention("good", **chosen, truncation="right")


@pytest.mark.parametrize("steps", [4, np.int64(4), np.array(4)])
def test_steps(steps: Any) -> None:  # noqa: ANN401
    chosen: Any = ATTRIBUTIONS | {"steps": steps}
    assert asked(calls.attributions("good", **chosen, truncation="right"))["steps"] == 4


@pytest.mark.parametrize("steps", [4.0, "4", np.float32(4)])
def test_steps_that_are_no_whole_number(steps: Any) -> None:  # noqa: ANN401
    chosen: Any = ATTRIBUTIONS | {"steps": steps}
    message = exactly(f"steps takes whole numbers, got {steps!r}: give an int")
    with pytest.raises(TypeError, match=message):
        calls.attributions("good", **chosen, truncation="right")


@pytest.mark.parametrize("name", ["layer", "head", "query", "window"])
def test_the_place_of_steps_is_whole_numbers(name: str) -> None:
    place: dict[str, Any] = {"layer": 0, "head": 1, "query": 2, "window": 3}
    content = asked(calls.attention_steps("good", **place, truncation="window"))
    assert content == {"sentence": "good", "truncation": "window", **place}
    with pytest.raises(
        TypeError, match=exactly(f"{name} takes whole numbers, got 1.0: give an int")
    ):
        calls.attention_steps("good", **(place | {name: 1.0}), truncation="window")


@pytest.mark.parametrize("several", [["good"], np.array(["good"])])
def test_steps_are_of_one_sentence(several: Any) -> None:  # noqa: ANN401
    kind = type(several).__name__
    message = f"attention_steps takes one sentence, got a {kind}: call it once for each"
    with pytest.raises(TypeError, match=exactly(message)):
        calls.attention_steps(several, layer=0, head=0, query=0, truncation="right")


def test_the_size_of_thumbnails_is_a_whole_number() -> None:
    chosen: Any = ATTENTION | {"special": False}
    content = asked(calls.thumbnails("good", size=np.int64(9), **chosen, truncation="right"))
    assert (content["thumbnail"], content["special"]) == (9, False)
    message = exactly("size takes whole numbers, got 9.0: give an int")
    wrong: Any = 9.0
    with pytest.raises(TypeError, match=message):
        calls.thumbnails("good", size=wrong, **chosen, truncation="right")
