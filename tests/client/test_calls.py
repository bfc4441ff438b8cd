"""What a client can be made with, and the requests that the arguments of a method become."""

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest

from headlight_client import calls
from headlight_client.calls import Call
from headlight_client.config import ClientConfig
from tests.matching import exactly


def asked(call: Call[Any]) -> Any:  # noqa: ANN401
    """What a service reads, which takes no NaN for a number."""

    def refuse(constant: str) -> None:
        pytest.fail(f"{constant} is not JSON")

    assert call.body is not None
    return json.loads(call.body, parse_constant=refuse)


@pytest.mark.parametrize("missing", [float("nan"), None, 5, b"bytes", np.float64("nan"), object()])
def test_what_is_no_string_is_sent_as_null(missing: Any) -> None:  # noqa: ANN401
    several = ["good", missing, np.str_("bad")]
    for call in (calls.predict(several), calls.attentions(several)):
        assert asked(call)["sentences"] == ["good", None, "bad"]
    one: list[Call[Any]] = [
        calls.attention(missing),
        calls.attributions(missing),
        calls.importance(missing),
        calls.attention_steps(missing, layer=0, head=0, query=0),
        calls.thumbnails(missing),
    ]
    assert [asked(call)["sentence"] for call in one] == [None] * 5


def test_what_is_no_json_is_never_sent() -> None:
    wrong: Any = float("nan")
    with pytest.raises(ValueError, match="not JSON compliant"):
        calls.importance("good", label=wrong)


@pytest.mark.parametrize(
    "numbers", [[0, 2], (0, 2), range(0, 3, 2), np.array([0, 2]), [np.uint8(0), np.int64(2)]]
)
def test_whole_numbers_of_any_type(numbers: Any) -> None:  # noqa: ANN401
    one = asked(calls.attention("good", layers=numbers, heads=numbers))
    several = asked(calls.attentions(["good"], layers=numbers, heads=numbers))
    for content in (one, several):
        assert (content["layer"], content["head"]) == ([0, 2], [0, 2])


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ([0.9, 1.9], "takes whole numbers, got 0.9: give an int"),
        (np.array([0.0]), "takes whole numbers, got np.float64(0.0): give an int"),
        ("12", "takes whole numbers, got '1': give an int"),
        (1.5, "takes a list of whole numbers, got 1.5"),
    ],
)
@pytest.mark.parametrize("name", ["layers", "heads"])
def test_what_is_no_whole_number(name: str, numbers: Any, message: str) -> None:  # noqa: ANN401
    with pytest.raises(TypeError, match=exactly(f"{name} {message}")):
        calls.attention("good", **{name: numbers})


PLACE: dict[str, Any] = {"layer": 0, "head": np.int64(1), "query": 2, "window": 3}


@pytest.mark.parametrize(
    ("method", "named", "sent"),
    [
        ("attributions", {"steps": np.array(4)}, {"steps": 4}),
        ("thumbnails", {"size": np.int64(9)}, {"thumbnail": 9, "special": True}),
        ("attention_steps", PLACE, PLACE),
    ],
)
def test_a_single_number_is_whole(method: str, named: dict[str, Any], sent: dict[str, Any]) -> None:
    build = getattr(calls, method)
    assert sent.items() <= asked(build("good", **named)).items()
    for name in named:
        message = exactly(f"{name} takes whole numbers, got 1.0: give an int")
        with pytest.raises(TypeError, match=message):
            build("good", **(named | {name: 1.0}))


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


@pytest.mark.parametrize("method", ["predict", "attentions", "attention", "importance"])
def test_labels_are_a_list(method: str) -> None:
    given = ["good"] if method in ("predict", "attentions") else "good"
    build = getattr(calls, method)
    assert asked(build(given, labels=("negative", "positive")))["labels"] == [
        "negative",
        "positive",
    ]
    message = exactly("labels is one string: put two or more in a list")
    with pytest.raises(TypeError, match=message):
        build(given, labels="positive")


def test_an_older_service_is_sent_nothing_that_it_does_not_know() -> None:
    known = {"sentences": ["a"], "truncation": "right", "on_error": "request"}
    assert asked(calls.predict(["a"], granularity="text")) == known
    new = {"granularity": "sentence", "abstain_below": 0.0}
    assert asked(calls.predict(["a"], **new)) == known | new


@pytest.mark.parametrize("method", [calls.predict, calls.attentions])
def test_one_string_is_no_list_of_sentences(method: Any) -> None:  # noqa: ANN401
    with pytest.raises(TypeError, match=exactly("sentences is one string: put it in a list")):
        method("good")


@pytest.mark.parametrize("table", [{"text": ["good"]}, pd.DataFrame({"text": ["good"]})])
def test_a_table_is_no_list_of_sentences(table: Any) -> None:  # noqa: ANN401
    message = f"sentences is a {type(table).__name__}: give a list, or one column of a table"
    with pytest.raises(TypeError, match=exactly(message)):
        calls.predict(table)


URL = "base_url must be like http://127.0.0.1:8000, without query and fragment, got "
TIMEOUT = "timeout must be a number of seconds above 0 and below 1e9, got "
KEY = "api_key must be printable ASCII without spaces around it"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"base_url": "there:8000"}, f"{URL}'there:8000'"),
        ({"base_url": "http://"}, f"{URL}'http://'"),
        ({"base_url": "http://there/?a=1"}, f"{URL}'http://there/?a=1'"),
        ({"base_url": "http://there?"}, f"{URL}'http://there?'"),
        ({"base_url": "http://there/#"}, f"{URL}'http://there/#'"),
        ({"base_url": "http://a:b@there"},
         "base_url holds a user or a password: give the key as api_key instead"),
        ({"timeout": 0}, f"{TIMEOUT}0"),
        ({"timeout": float("nan")}, f"{TIMEOUT}nan"),
        ({"retries": -1}, "retries must be 0 or more, got -1"),
        ({"api_key": ""}, KEY),
        ({"api_key": "key\n"}, KEY),
        ({"api_key": "schlüssel"}, KEY),
    ],
)  # fmt: skip
def test_what_a_client_cannot_be_made_with(change: dict[str, Any], message: str) -> None:
    given = {"base_url": "http://there", "api_key": None, "timeout": 1.0, "retries": 0, **change}
    with pytest.raises(ValueError, match=exactly(message)):
        ClientConfig(**given)


def test_a_service_below_a_path() -> None:
    config = ClientConfig("https://there/headlight/", api_key="k", timeout=1.0, retries=0)
    assert config.address == "https://there/headlight"
    assert config.headers["Authorization"] == "Bearer k"


def test_retries_are_a_whole_number() -> None:
    given: Any = {"api_key": None, "timeout": 1.0}
    two: Any = np.int64(2)
    assert type(ClientConfig("http://there", retries=two, **given).retries) is int
    message = exactly("retries takes whole numbers, got 1.5: give an int")
    with pytest.raises(TypeError, match=message):
        ClientConfig("http://there", retries=1.5, **given)  # type: ignore[arg-type]
