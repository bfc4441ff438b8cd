"""Every way for a request to be refused, with the whole answer."""

import gzip
import json
import socket

import httpx
import pytest

from tests.end_to_end.problems import assert_problem, error
from tests.end_to_end.servers import RunningService

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
        (b"[" * 9000, "The JSON is nested too deep."),
        (b'{"a":' * 3000, "The JSON is nested too deep."),
        (
            b'{"sentences": ["a\nb"]}',
            "The body is not JSON: Invalid control character at, at line 1, column 18.",
        ),
    ],
)
def test_malformed_json(client: httpx.Client, content: bytes, detail: str) -> None:
    assert_problem(post(client, content), 400, "malformed-json", NOT_JSON, detail)


FIELDS = "an unknown field is given; known are sentences, truncation, on_error"
BLANK = (
    "the text is blank: send at least one character that is not white space, a control or a "
    "format character"
)


@pytest.mark.parametrize(
    ("body", "loc", "message"),
    [
        ([], ["body"], "input should be an object"),
        ("text", ["body"], "input should be an object"),
        ({}, ["body", "sentences"], "field required"),
        ({"sentences": "good"}, ["body", "sentences"], "input should be a valid list"),
        (
            {"sentences": []},
            ["body", "sentences"],
            "list should have at least 1 item after validation, not 0",
        ),
        (
            {"sentences": ["a"] * 41},
            ["body", "sentences"],
            "at most 40 sentences are taken at once, got 41",
        ),
        ({"sentences": ["a"], "extra": 1}, ["body"], FIELDS),
        (
            {"sentences": ["a"], "truncation": "both"},
            ["body", "truncation"],
            "input should be 'right', 'left' or 'error'",
        ),
        (
            {"sentences": ["a"], "on_error": None},
            ["body", "on_error"],
            "input should be 'request' or 'item'",
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
    assert_problem(
        post(client, GOOD, headers),
        415,
        "unsupported-media-type",
        "The body must be plain JSON",
        "The body must be JSON in UTF-8: send it with Content-Type: application/json.",
    )


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


TOO_LARGE = "The body is too large"


def test_the_largest_body_passes_and_one_byte_more_does_not(client: httpx.Client) -> None:
    body = GOOD.ljust(20_000)
    assert post(client, body).status_code == 200
    response = post(client, body + b" ")
    assert_problem(
        response,
        413,
        "payload-too-large",
        TOO_LARGE,
        "The body has 20001 bytes; the limit is 20000 bytes: send fewer sentences at once.",
    )
    assert response.headers["connection"] == "close"


def test_a_declared_length_is_refused_before_the_body_is_sent(running: RunningService) -> None:
    head = (
        b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        b"Content-Length: 99999999999\r\nExpect: 100-continue\r\n\r\n"
    )
    answer = running.send(head)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"100 Continue" not in answer
    assert b'"/problems/payload-too-large"' in answer


def test_a_chunked_body_is_refused_as_soon_as_it_is_too_long(running: RunningService) -> None:
    with socket.create_connection(("127.0.0.1", running.port), timeout=30) as connection:
        connection.sendall(
            b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )
        connection.sendall(b"4e20\r\n" + b" " * 20_000 + b"\r\n")
        connection.sendall(b"1\r\nx\r\n")  # and never the last chunk
        answer = connection.recv(65536)
    assert answer.startswith(b"HTTP/1.1 413 ")


def test_not_found(client: httpx.Client) -> None:
    for path in (
        "/nothing", "/predict/", "/attention/", "/model/", "/health", "/health/live/",
        "/health/ready/", "/metrics/", "/docs/", "/openapi.json/", "/static/nothing.js",
    ):  # fmt: skip
        assert_problem(
            client.get(path),
            404,
            "not-found",
            "Nothing is here",
            "Nothing is at this path: GET /docs shows what there is.",
        )


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/predict", "POST"),
        ("HEAD", "/predict", "POST"),
        ("PUT", "/attention", "GET, POST"),
        ("POST", "/model", "GET"),
        ("POST", "/health/live", "GET, HEAD"),
        ("DELETE", "/health/ready", "GET, HEAD"),
        ("POST", "/metrics", "GET"),
        ("OPTIONS", "/docs", "GET"),
        ("PATCH", "/openapi.json", "GET"),
        ("POST", "/", "GET"),
        ("POST", "/static/page.js", "GET, HEAD"),
    ],
)
def test_method_not_allowed(client: httpx.Client, method: str, path: str, allowed: str) -> None:
    response = client.request(method, path)
    assert response.headers["allow"] == allowed
    if method == "HEAD":
        assert response.status_code == 405
        return
    assert_problem(
        response,
        405,
        "method-not-allowed",
        "The method is not allowed",
        f"This path answers {allowed}.",
    )


@pytest.mark.parametrize(
    ("path", "offered"),
    [
        ("/model", "application/json"),
        ("/attention?sentence=a", "application/json"),
        ("/metrics", "text/plain"),
        ("/", "text/html"),
        ("/docs", "text/html"),
        ("/openapi.json", "application/json"),
    ],
)
def test_not_acceptable(client: httpx.Client, path: str, offered: str) -> None:
    for accept in ("image/png", f"{offered};q=0, */*", "nonsense"):
        assert_problem(
            client.get(path, headers={"accept": accept}),
            406,
            "not-acceptable",
            "None of the forms asked for is offered",
            f"Accept names none of what is offered here: {offered}.",
        )
    for accept in (
        "*/*",
        offered,
        f"{offered.split('/')[0]}/*;q=0.1",
        f"image/png, {offered};q=0.2",
    ):
        assert client.get(path, headers={"accept": accept}).status_code == 200


def test_what_is_not_http_gets_a_bare_400(running: RunningService) -> None:
    answer = running.send(b"\x16\x03\x01 good morning\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert answer.endswith(b"Invalid HTTP request received.")
