"""Requests with their text in a wrong place: the detail begins with the right form."""

import httpx
import pytest

from service.api.wording import TEXT_FIELDS
from tests.end_to_end.problems import assert_problem, error

LIST, ONE, QUERY = '{"sentences": ["…"]}', '{"sentence": "…"}', "?sentence=…"
PREDICT = "known are sentences, truncation, granularity, abstain_below, on_error, head_mask, omit"
VIEWS = (
    "layer, head, truncation, window, reduce, level, format, dtype, thumbnail, special, head_mask"
)
ATTENTION, ATTENTIONS = f"known are sentence, {VIEWS}, omit", f"known are sentences, {VIEWS}"
OF_QUERY = f"known are sentence, {VIEWS}"
ATTRIBUTIONS = "known are sentence, truncation, label, method, steps, level"
IMPORTANCE = "known are sentence, truncation, label"
STEPS = "known are sentence, layer, head, query, truncation, window, head_mask"
OBJECT = "must be an object, got"
MISSING = "is missing"

Error = dict[str, object]


def body(*names: str | int, msg: str) -> Error:
    return error("body", *names, msg=msg)


def unknown(name: str, known: str, *, part: str = "field") -> Error:
    place = "body" if part == "field" else "query"
    return error(place, name, msg=f"there is no such {part}; {known}")


def assert_refused(response: httpx.Response, detail: str, errors: list[Error]) -> None:
    title = "The request is not valid"
    assert_problem(response, 422, "invalid-request", title, detail, errors=errors)
    assert "Canary" not in response.text


WRONG: list[tuple[str, object, str, list[Error]]] = [
    ("/predict", [], f"Send {LIST}: the body must be an object, got a list.",
     [body(msg=f"{OBJECT} a list")]),
    ("/predict", ["Canary"], f"Send {LIST}: the body must be an object, got a list.",
     [body(msg=f"{OBJECT} a list")]),
    ("/predict", "Canary", f"Send {LIST}: the body must be an object, got a string.",
     [body(msg=f"{OBJECT} a string")]),
    ("/predict", 5, f"Send {LIST}: the body must be an object, got a number.",
     [body(msg=f"{OBJECT} a number")]),
    ("/predict", 0.5, f"Send {LIST}: the body must be an object, got a decimal number.",
     [body(msg=f"{OBJECT} a decimal number")]),
    ("/predict", None, f"Send {LIST}: the body must be an object, got null.",
     [body(msg=f"{OBJECT} null")]),
    ("/predict", True, f"Send {LIST}: the body must be an object, got true.",
     [body(msg=f"{OBJECT} true")]),
    ("/predict", {}, f'Send {LIST}: the field "sentences" is missing.',
     [body("sentences", msg=MISSING)]),
    ("/predict", {"sentences": "Canary"},
     f'Send {LIST}: the field "sentences" must be a list, got a string.',
     [body("sentences", msg="must be a list, got a string")]),
    ("/predict", {"sentences": {"text": "Canary"}},
     f'Send {LIST}: the field "sentences" must be a list, got an object.',
     [body("sentences", msg="must be a list, got an object")]),
    ("/predict", {"sentences": []},
     f'Send {LIST}: the field "sentences" must have at least 1 item, got 0.',
     [body("sentences", msg="must have at least 1 item, got 0")]),
    ("/predict", {"text": "Canary"}, f'Send {LIST}: there is no field "text" here.',
     [body("sentences", msg=MISSING), unknown("text", PREDICT)]),
    ("/predict", {"Canary": 1, "sentence": "Canary"},
     f'Send {LIST}: there is no field "sentence" here.',
     [body("sentences", msg=MISSING), unknown("sentence", PREDICT)]),
    ("/predict", {"sentences": ["Canary"], "text": "Canary"},
     f'Send {LIST}: leave out "text", because "sentences" is given too.',
     [unknown("text", PREDICT)]),
    ("/attention", {"text": "Canary"}, f'Send {ONE}: there is no field "text" here.',
     [body("sentence", msg=MISSING), unknown("text", ATTENTION)]),
    ("/attention", {"inputs": ["Canary"]}, f'Send {LIST}: there is no field "inputs" here.',
     [body("sentence", msg=MISSING), unknown("inputs", ATTENTION)]),
    ("/attention", {"sentences": "Canary"},
     f'Send {LIST}: the field "sentences" must be a list, got a string.',
     [body("sentences", msg="must be a list, got a string")]),
    ("/attention", {"sentences": []},
     f'Send {LIST}: the field "sentences" must have at least 1 item, got 0.',
     [body("sentences", msg="must have at least 1 item, got 0")]),
    ("/attention", {"sentence": ["Canary"]},
     f'Send {ONE}: the field "sentence" must be a string, got a list; of several texts send '
     f"{LIST}.",
     [body("sentence", msg="must be a string, got a list")]),
    ("/attention", {"sentence": "Canary", "sentences": ["Canary"]},
     f'Send {LIST}: leave out "sentence", because "sentences" is given too.',
     [unknown("sentence", ATTENTIONS)]),
    ("/attention", "Canary", f"Send {ONE}: the body must be an object, got a string.",
     [body(msg=f"{OBJECT} a string")]),
    ("/attention", {"layer": [0]}, f'Send {ONE}: the field "sentence" is missing.',
     [body("sentence", msg=MISSING)]),
    ("/attributions", {"text": "Canary"}, f'Send {ONE}: there is no field "text" here.',
     [body("sentence", msg=MISSING), unknown("text", ATTRIBUTIONS)]),
    ("/attributions", {"sentences": ["Canary"]},
     f'Send {ONE}: there is no field "sentences" here.',
     [body("sentence", msg=MISSING), unknown("sentences", ATTRIBUTIONS)]),
    ("/attributions", {"sentence": ["Canary"]},
     f'Send {ONE}: the field "sentence" must be a string, got a list; ask once for each text.',
     [body("sentence", msg="must be a string, got a list")]),
    ("/attributions", {"sentence": 3},
     f'Send {ONE}: the field "sentence" must be a string, got a number.',
     [body("sentence", msg="must be a string, got a number")]),
    ("/attention/steps", {"layer": 0, "head": 0, "query": 0, "sentences": ["Canary"]},
     f'Send {ONE}: there is no field "sentences" here.',
     [body("sentence", msg=MISSING), unknown("sentences", f"{STEPS}, omit")]),
    ("/importance", {"content": "Canary"}, f'Send {ONE}: there is no field "content" here.',
     [body("sentence", msg=MISSING), unknown("content", IMPORTANCE)]),
    ("/importance", {}, f'Send {ONE}: the field "sentence" is missing.',
     [body("sentence", msg=MISSING)]),
]  # fmt: skip


@pytest.mark.parametrize(("path", "sent", "detail", "errors"), WRONG)
def test_bodies(
    client: httpx.Client, path: str, sent: object, detail: str, errors: list[Error]
) -> None:
    # `json=None` would send no body at all.
    response = client.request("POST", path, json=sent) if sent is not None else client.post(
        path, content=b"null", headers={"content-type": "application/json"}
    )  # fmt: skip
    assert_refused(response, detail, errors)


# `inputs` may be answered in the form of another system.
@pytest.mark.parametrize("name", [name for name in TEXT_FIELDS[1:] if name != "inputs"])
def test_every_name_of_the_text_is_told_from_the_right_one(client: httpx.Client, name: str) -> None:
    assert_refused(
        client.post("/predict", json={name: ["Canary"]}),
        f'Send {LIST}: there is no field "{name}" here.',
        [body("sentences", msg=MISSING), unknown(name, PREDICT)],
    )


@pytest.mark.parametrize(
    ("path", "known"),
    [("/attention", OF_QUERY), ("/attributions", ATTRIBUTIONS), ("/importance", IMPORTANCE)],
)
def test_queries(client: httpx.Client, path: str, known: str) -> None:
    missing = error("query", "sentence", msg=MISSING)
    assert_refused(
        client.get(path), f'Send {QUERY}: the parameter "sentence" is missing.', [missing]
    )
    for name in ("text", "sentences"):
        assert_refused(
            client.get(f"{path}?{name}=Canary"),
            f'Send {QUERY}: there is no parameter "{name}" here.',
            [missing, unknown(name, known, part="parameter")],
        )


@pytest.mark.parametrize(
    ("path", "field", "near", "known"),
    [
        ("/predict", "trunctation", "truncation", PREDICT),
        ("/predict", "onError", "on_error", PREDICT),
        ("/attention", "layers", "layer", ATTENTION),
        ("/attention", "Heads", "head", ATTENTION),
        ("/attributions", "step", "steps", ATTRIBUTIONS),
        ("/importance", "lable", "label", IMPORTANCE),
    ],
)
def test_a_near_miss_is_told_the_known_name(
    client: httpx.Client, path: str, field: str, near: str, known: str
) -> None:
    text: dict[str, object] = (
        {"sentences": ["good"]} if path == "/predict" else {"sentence": "good"}
    )
    message = f"an unknown field is given; did you mean {near}? {known}"
    refused = client.post(path, json={**text, field: "Canary"})
    assert_refused(refused, f"body: {message}.", [body(msg=message)])
    assert field not in refused.text.replace(near, "")
