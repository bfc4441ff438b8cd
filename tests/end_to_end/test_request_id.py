"""`X-Request-ID` and the other headers of every response."""

import json
import re

import httpx
import pytest

from tests.end_to_end.servers import RunningService, wait_until

OWN_ID = "My.own_ID-42".ljust(128, "x")  # the longest that is kept
KEPT = ("/", "/docs", "/openapi.json", "/static/page.js")  # and asked for again each time
EVERYWHERE = [
    *(("GET", path) for path in (*KEPT, "/metrics", "/model", "/nothing")),
    *(("GET", "/health/ready"), ("HEAD", "/health/live"), ("GET", "/attention?sentence=a")),
    *(("GET", "/attention"), ("POST", "/attributions"), ("POST", "/predict"), ("PUT", "/predict")),
]


def test_every_response_has_an_id_and_the_headers_of_safety(client: httpx.Client) -> None:
    for method, path in EVERYWHERE:
        first, second = client.request(method, path), client.request(method, path)
        assert len(first.headers["x-request-id"]) == 32
        assert first.headers["x-request-id"] != second.headers["x-request-id"]
        given = client.request(method, path, headers={"x-request-id": OWN_ID})
        headers = given.headers
        assert headers.get_list("x-request-id") == [OWN_ID]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        policy = headers["content-security-policy"].split("; ")
        assert {"default-src 'self'", "frame-ancestors 'none'"} <= set(policy)
        assert headers["cache-control"] == ("no-cache" if path in KEPT else "no-store")


@pytest.mark.parametrize("path", ["/", "/openapi.json", "/model", "/metrics", "/health/ready"])
def test_a_head_has_the_headers_of_the_whole(running: RunningService, path: str) -> None:
    whole, head = (
        running.send(
            b"%b %b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" % (method, path.encode())
        )
        for method in (b"GET", b"HEAD")
    )
    (headers, body), (headers_alone, nothing) = (
        answer.split(b"\r\n\r\n", maxsplit=1) for answer in (whole, head)
    )
    assert headers.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"\r\ncontent-length: %d\r\n" % len(body) in headers
    assert body != b""
    assert nothing == b""
    differs = rb"\r\n(date|x-request-id): [^\r]+"
    if path == "/metrics":
        differs = rb"\r\n(date|x-request-id|content-length): [^\r]+"
        assert re.search(rb"\r\ncontent-length: [1-9]\d+", headers_alone)
    assert re.sub(differs, b"", headers_alone) == re.sub(differs, b"", headers)


def test_an_id_that_cannot_be_logged_is_replaced(client: httpx.Client) -> None:
    for sent in ([b""], [b"a b"], [b"x" * 129], [b"a/b"], ["\u00e9".encode()], [b"one", b"two"]):
        response = client.get("/health/live", headers=[(b"x-request-id", each) for each in sent])
        assert len(response.headers["x-request-id"]) == 32


@pytest.mark.parametrize(
    ("name", "query", "shown"),
    [
        ("answered", "sentence=good", {"status": 200}),
        (
            "refused",
            "sentence=secret&layer=99",
            {"status": 422, "type": "invalid-request", "loc": "query.layer"},
        ),
        ("late", "sentence=good", {"status": 504, "type": "timeout"}),
    ],
)
def test_the_log_names_the_id_of_the_response_and_why_it_is_a_refusal(
    running: RunningService, name: str, query: str, shown: dict[str, object]
) -> None:
    headers = {"x-request-id": f"{name}-here"}
    if name == "late":
        headers["x-request-timeout"] = "0.000000001"
    with running.client() as client:
        client.get(f"/attention?{query}", headers=headers)
    # the line is written once the answer is out
    wait_until(lambda: f'"{name}-here"' in running.log.read_text("utf-8"))
    log = running.log.read_text("utf-8")
    assert "secret" not in log
    lines = [json.loads(line) for line in log.splitlines()]
    (line,) = [line for line in lines if line.get("request_id") == f"{name}-here"]
    assert isinstance(line.pop("time"), str)
    assert isinstance(line.pop("milliseconds"), float)
    assert line == {
        "level": "info",
        "logger": "headlight.request",
        "message": "request",
        "request_id": f"{name}-here",
        "method": "GET",
        "route": "/attention",
        **shown,
    }
