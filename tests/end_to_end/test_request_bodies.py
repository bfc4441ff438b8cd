"""Every way for a body to be refused before its texts are read, with the whole answer."""

import gzip
import json

import httpx
import pytest

from tests.end_to_end.problems import assert_problem, error

JSON = {"content-type": "application/json"}
GOOD = b'{"sentences": ["good"]}'
NOT_JSON = "The body is not JSON"


def post(
    client: httpx.Client, content: bytes, headers: dict[str, str] | None = None
) -> httpx.Response:
    """Posts bytes to `/predict`, as JSON unless told otherwise."""
    return client.post("/predict", content=content, headers=JSON if headers is None else headers)


@pytest.mark.parametrize(
    ("content", "detail"),
    [
        (b"", "The body is empty: send a JSON object."),
        (b" \r\n\t", "The body is empty: send a JSON object."),
        (
            b'{"sentences": ["a"',
            "The body is not JSON: Expecting ',' delimiter, at line 1, column 19.",
        ),
        (GOOD + b" x", "The body is not JSON: Extra data, at line 1, column 25."),
        (GOOD + GOOD, "The body is not JSON: Extra data, at line 1, column 24."),
        (
            b"\xef\xbb\xbf" + GOOD,
            "The body is not JSON: Unexpected UTF-8 BOM (decode using utf-8-sig), at line 1, "
            "column 1.",
        ),
        (GOOD.decode().encode("utf-16"), "The body is not UTF-8: byte 0 does not belong there."),
        (b'{"sentences": ["\xff"]}', "The body is not UTF-8: byte 16 does not belong there."),
        (b'{"sentences": [NaN]}', "The body is not JSON: NaN is not a JSON number."),
        (b"[" * 100_000, "The JSON is nested too deep."),
        (b'{"a":' * 50_000, "The JSON is nested too deep."),
        (
            b'{"sentences": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
            "The JSON is nested too deep.",
        ),
        (b'{"sentences": [-Infinity]}', "The body is not JSON: -Infinity is not a JSON number."),
        (b"\x00", "The body is not JSON: Expecting value, at line 1, column 1."),
        (
            b'{"sentences": ["a\nb"]}',
            "The body is not JSON: Invalid control character at, at line 1, column 18.",
        ),
    ],
)
def test_malformed_json(client: httpx.Client, content: bytes, detail: str) -> None:
    assert_problem(post(client, content), 400, "malformed-json", NOT_JSON, detail)


KNOWN = "sentences, truncation, granularity, abstain_below, on_error, head_mask, omit"
FIELDS = f"an unknown field is given; known are {KNOWN}"
BLANK = (
    "the text is blank: send at least one character that is not white space, a control or a "
    "format character"
)


@pytest.mark.parametrize(
    ("body", "loc", "message"),
    [
        (
            {"sentences": ["a"] * 41},
            ["body", "sentences"],
            "at most 40 sentences are taken at once, got 41",
        ),
        ({"sentences": ["a"], "Canary": 1}, ["body"], FIELDS),
        ({"sentences": ["a"], **dict.fromkeys(map(str, range(9999)))}, ["body"], FIELDS),
        (
            {"sentences": ["a"], "truncation": "both"},
            ["body", "truncation"],
            "must be 'right', 'left', 'error' or 'window'",
        ),
        (
            {"sentences": ["a"], "on_error": None},
            ["body", "on_error"],
            "must be 'request' or 'item', got null",
        ),
    ],
)
def test_bodies_that_do_not_fit(
    client: httpx.Client, body: object, loc: list[str | int], message: str
) -> None:
    response = post(client, json.dumps(body).encode())
    where = ".".join(map(str, loc))
    assert_problem(
        response,
        422,
        "invalid-request",
        "The request is not valid",
        f"{where}: {message}.",
        errors=[error(*loc, msg=message)],
    )


def test_bad_items_refuse_the_whole_request_and_are_all_named(client: httpx.Client) -> None:
    response = post(client, json.dumps({"sentences": ["good", "", 1, "fine"]}).encode())
    assert_problem(
        response,
        422,
        "invalid-request",
        "The request is not valid",
        f"sentences[1]: {BLANK}, and 1 more are wrong too.",
        errors=[
            error("body", "sentences", 1, msg=BLANK),
            error("body", "sentences", 2, msg="the item is not a string: send text"),
        ],
    )


def test_a_text_too_long_refuses_the_request(client: httpx.Client) -> None:
    body = {"sentences": ["good", "bad " * 40], "truncation": "error"}
    message = (
        "the text has 42 tokens and the model reads at most 32: shorten it, or set truncation "
        "to right or left"
    )
    assert_problem(
        post(client, json.dumps(body).encode()),
        422,
        "text-too-long",
        "The text is too long",
        f"sentences[1]: {message}.",
        errors=[error("body", "sentences", 1, msg=message)],
    )


def test_a_field_given_twice(client: httpx.Client) -> None:
    assert_problem(
        post(client, b'{"sentences": ["a"], "sentences": ["b"]}'),
        422,
        "invalid-request",
        "The request is not valid",
        "An object of the body gives the same field twice: give each once.",
        errors=[error("body", msg="a field is given more than once")],
    )


def test_numbers_of_thousands_of_digits_are_only_wrong(client: httpx.Client) -> None:
    response = post(client, b'{"sentences": [' + b"9" * 6000 + b"]}")
    assert response.status_code == 422
    assert response.json()["errors"][0]["loc"] == ["body", "sentences", 0]


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"content-type": "text/plain"},
        {"content-type": "application/x-www-form-urlencoded"},
        {"content-type": "application/json; charset=latin-1"},
        {"content-type": "json"},
    ],
)
def test_other_media_types(client: httpx.Client, headers: dict[str, str]) -> None:
    response = post(client, GOOD, headers)
    assert_problem(
        response,
        415,
        "unsupported-media-type",
        "The body must be plain JSON",
        "The body must be JSON in UTF-8: send it with Content-Type: application/json.",
    )
    assert response.headers["accept"] == "application/json"


def test_two_media_types_are_none(client: httpx.Client) -> None:
    headers = [("content-type", "application/json")] * 2
    assert client.post("/predict", content=GOOD, headers=headers).status_code == 415


def test_an_encoded_body(client: httpx.Client) -> None:
    response = post(client, gzip.compress(GOOD), {**JSON, "content-encoding": "gzip"})
    assert_problem(
        response,
        415,
        "unsupported-media-type",
        "The body must be plain JSON",
        "The body is encoded (Content-Encoding): send it as it is.",
    )
    assert response.headers["accept-encoding"] == "identity"


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json",
        "application/json; charset=UTF-8",
        "Application/JSON",
        "application/vnd.x+json",
    ],
)
def test_json_media_types(client: httpx.Client, content_type: str) -> None:
    assert post(client, GOOD, {"content-type": content_type}).status_code == 200
