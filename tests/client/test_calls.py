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


def test_steps_are_a_whole_number() -> None:
    chosen: Any = ATTRIBUTIONS | {"steps": np.array(4)}
    assert asked(calls.attributions("good", **chosen, truncation="right"))["steps"] == 4
    with pytest.raises(TypeError, match=exactly("steps takes whole numbers, got 4.0: give an int")):
        calls.attributions("good", **(chosen | {"steps": 4.0}), truncation="right")


@pytest.mark.parametrize("name", ["layer", "head", "query", "window"])
def test_the_place_of_steps_is_whole_numbers(name: str) -> None:
    place: dict[str, Any] = {"layer": 0, "head": 1, "query": 2, "window": 3}
    content = asked(calls.attention_steps("good", **place, truncation="window"))
    assert content == {"sentence": "good", "truncation": "window", **place}
    with pytest.raises(
        TypeError, match=exactly(f"{name} takes whole numbers, got 1.0: give an int")
    ):
        calls.attention_steps("good", **(place | {name: 1.0}), truncation="window")


ONE = {
    "attention": "use attentions for several",
    "thumbnails": "call it once for each",
    "attributions": "call it once for each",
    "importance": "call it once for each",
    "attention_steps": "call it once for each",
}


@pytest.mark.parametrize("several", [["good"], ("good",), {"good"}, np.array(["good"])])
@pytest.mark.parametrize("method", ONE)
def test_several_are_no_sentence(method: str, several: Any) -> None:  # noqa: ANN401
    place = {"layer": 0, "head": 0, "query": 0} if method == "attention_steps" else {}
    message = f"{method} takes one sentence, got a {type(several).__name__}: {ONE[method]}"
    with pytest.raises(TypeError, match=exactly(message)):
        getattr(calls, method)(several, **place)


@pytest.mark.parametrize("method", [calls.predict, calls.attentions])
def test_one_string_is_no_list_of_sentences(method: Any) -> None:  # noqa: ANN401
    with pytest.raises(TypeError, match=exactly("sentences is one string: put it in a list")):
        method("good")


def test_the_size_of_thumbnails_is_a_whole_number() -> None:
    chosen: Any = ATTENTION | {"special": False}
    content = asked(calls.thumbnails("good", size=np.int64(9), **chosen, truncation="right"))
    assert (content["thumbnail"], content["special"]) == (9, False)
    message = exactly("size takes whole numbers, got 9.0: give an int")
    wrong: Any = 9.0
    with pytest.raises(TypeError, match=message):
        calls.thumbnails("good", size=wrong, **chosen, truncation="right")
