"""Paths, methods and forms of the answer that are not offered."""

import httpx
import pytest

from tests.end_to_end.problems import assert_problem


def test_not_found(client: httpx.Client) -> None:
    for path in (
        "/nothing", "/predict/", "/attention/", "/model/", "/health/", "/health/live/",
        "/attention/steps/", "/attributions/", "/importance/", "/terms/",
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
        ("PUT", "/attention/steps", "GET, POST"),
        ("DELETE", "/attributions", "GET, POST"),
        ("PUT", "/importance", "GET, POST"),
        ("POST", "/model", "GET, HEAD"),
        ("POST", "/health/live", "GET, HEAD"),
        ("DELETE", "/health/ready", "GET, HEAD"),
        ("POST", "/metrics", "GET, HEAD"),
        ("OPTIONS", "/docs", "GET, HEAD"),
        ("POST", "/terms", "GET, HEAD"),
        ("PATCH", "/openapi.json", "GET, HEAD"),
        ("PUT", "/", "GET, HEAD, POST"),
        ("POST", "/static/page.js", "GET, HEAD"),
        ("POST", "/static/0123456789ab/page.js", "GET, HEAD"),
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
        ("/attention/steps?sentence=a&layer=0&head=0&query=0", "application/json"),
        ("/attributions?sentence=a", "application/json"),
        ("/importance?sentence=a", "application/json"),
        ("/", "text/html"),
        ("/docs", "text/html"),
        ("/terms", "text/html"),
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
