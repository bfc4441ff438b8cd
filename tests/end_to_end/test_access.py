"""API keys, names of the service, other pages, and the order in which a request is judged."""

import json
import re

import httpx
import pytest

from tests.end_to_end.conftest import Start
from tests.end_to_end.routes import assert_problem
from tests.end_to_end.servers import RunningService, shared, wait_until

# With keys from both settings, and a small limit of bodies.
guarded = shared(
    *("--max-body-bytes", "50"),
    files={"keys": "\n third-key \nbilling:fourth-key\nbilling:fifth-key\n"},
    HEADLIGHT_API_KEYS="first-key, second-key",
    HEADLIGHT_API_KEYS_FILE="{folder}/keys",
)


def test_keys_of_both_settings_let_in_and_nothing_else_does(guarded: RunningService) -> None:
    with guarded.client() as client:
        for key in ("first-key", "second-key", "third-key", "fourth-key", "fifth-key"):
            right = {"authorization": f"bearer {key}"}
            assert client.get("/model", headers=right).status_code == 200
        for values, challenge in (
            ([], "Bearer"),
            ([b"Bearer wrong"], 'Bearer error="invalid_token"'),
            ([b"Bearer first-key", b"Bearer first-key"], "Bearer"),
        ):
            headers = [(b"authorization", value) for value in values]
            for method, path in (("GET", "/model"), ("POST", "/predict")):
                refused = client.request(method, path, headers=headers)
                assert_problem(refused, 401, "unauthorized")
                assert refused.headers["www-authenticate"] == challenge
        for path in ("/health/live", "/health/ready", "/metrics", "/", "/docs", "/openapi.json"):
            assert client.get(path).status_code == 200


def test_what_needs_a_key_says_so_in_the_document(guarded: RunningService) -> None:
    with guarded.client() as client:
        paths = client.get("/openapi.json").json()["paths"]
        for path, methods in paths.items():
            place = path.format(model="tiny", version="1")
            for method, operation in methods.items():
                says = "401" in operation["responses"] and path != "/metrics"
                assert (client.request(method, place).status_code == 401) is says, (method, path)


def test_a_body_is_judged_in_the_documented_order(guarded: RunningService) -> None:
    """One request that is wrong in every way is mended one error at a time."""
    headers: dict[str, str] = {"accept": "image/png"}
    statuses = []
    with guarded.client() as client:
        for mended, body in (
            ({}, b"{" * 51),
            ({"authorization": "Bearer first-key"}, b"{" * 51),
            ({"accept": "*/*"}, b"{" * 51),
            ({}, b"{"),
            ({"content-type": "application/json"}, b"{"),
            ({}, b'{"sentences": [" "], "x": 1}'),
            ({}, b'{"sentences": [" "]}'),
            ({}, b'{"sentences": ["a"]}'),
        ):
            headers |= mended
            statuses.append(client.post("/predict", content=body, headers=headers).status_code)
    assert statuses == [401, 406, 413, 415, 400, 422, 422, 200]


def test_no_key_is_ever_shown(guarded: RunningService) -> None:
    with guarded.client(authorization="Bearer first-key") as client:
        shown = [client.get(path).text for path in ("/model", "/metrics", "/openapi.json", "/no")]
    log = guarded.log.read_text("utf-8")
    assert '"route":"/model"' in log
    for text in (log, *shown):
        assert "-key" not in text


def test_the_name_of_a_key_stands_in_log_lines_and_one_metric(guarded: RunningService) -> None:
    counted = 'headlight_client_requests_total{client="billing"}'
    before = guarded.metric(counted)
    sent = [
        ("fourth-key", "POST", "/predict", b'{"sentences": ["a"]}'),
        ("fifth-key", "GET", "/model", None),
        ("fourth-key", "POST", "/predict", b"{"),
        ("first-key", "GET", "/model", None),
        ("fourth-wrong", "GET", "/model", None),
    ]
    with guarded.client(**{"content-type": "application/json"}) as client:
        for number, (key, method, path, content) in enumerate(sent):
            headers = {"authorization": f"Bearer {key}", "x-request-id": f"named-{number}"}
            answer = client.request(method, path, content=content, headers=headers)
            assert "ratelimit" not in answer.headers  # no client is limited here
    wait_until(lambda: "named-4" in guarded.log.read_text("utf-8"))
    lines = [json.loads(line) for line in guarded.log.read_text("utf-8").splitlines()]
    named = {line["request_id"]: line.get("client") for line in lines if "request_id" in line}
    assert [named[f"named-{number}"] for number in range(5)] == ["billing"] * 3 + [None] * 2
    assert guarded.metric(counted) == before + 3
    assert guarded.metrics().count("headlight_client_requests_total{") == 1


@pytest.mark.parametrize(("how", "statuses"), [("off", (404, 404)), ("key", (401, 200))])
def test_what_is_switched_off_or_behind_the_key(
    start: Start, how: str, statuses: tuple[int, int]
) -> None:
    options = [part for name in ("metrics", "docs", "page") for part in (f"--{name}", how)]
    right = {"authorization": "Bearer right"}
    settings = {"HEADLIGHT_API_KEYS": "right"}
    with start(*options, settings=settings) as running, running.client() as client:
        for path in (
            *("/metrics", "/docs", "/openapi.json", "/", "/problems"),
            *("/problems/timeout", "/static/page.css", "/static/0123456789ab/page.css"),
        ):
            keyless, keyed = client.get(path), client.get(path, headers=right)
            assert (keyless.status_code, keyed.status_code) == statuses, path
            if how == "off":
                assert_problem(keyless, 404, "not-found")
        for path in ("/health/live", "/health/ready"):
            assert client.get(path).status_code == 200
        # No shared cache keeps what needs a key.
        found = re.search(r"static/[0-9a-f]{12}/page.js", client.get("/", headers=right).text)
        assert (found is None) is (how == "off")
        if found is not None:
            answer = client.get(f"/{found[0]}", headers=right)
            assert answer.headers["cache-control"] == "private, max-age=31536000, immutable"
            known = {"if-none-match": answer.headers["etag"]}
            assert client.get(f"/{found[0]}", headers=known).status_code == 401


# Answers under some names, some pages of others, and has no page of its own.
named = shared(
    *("--allowed-hosts", "Example.org, *.example.com, [::1]"),
    *("--allowed-origins", "https://pages.example.org", "--page", "off"),
)
OWN_NAMES = ["example.org", "EXAMPLE.ORG:8000", "a.example.com", "a.b.example.com:1", "[::1]:80"]
OTHER_NAMES = [
    *("127.0.0.1", "example.org.evil.net", "evilexample.com", "example.com", ""),
    *("notexample.org", "evil/.example.com", "evil?.example.com", "user@a.example.com"),
    *("..example.com", ".example.com"),
]


def test_only_its_own_names_are_answered(named: RunningService) -> None:
    with named.client() as client:
        for host in OWN_NAMES:
            assert client.get("/model", headers={"Host": host}).status_code == 200, host
        for host in OTHER_NAMES:
            for path in ("/model", "/", "/metrics", "/nowhere"):
                assert_problem(client.get(path, headers={"Host": host}), 421, "misdirected")
            assert client.get("/health/ready", headers={"Host": host}).status_code == 200


def test_assets_are_open_as_long_as_one_page_is(named: RunningService) -> None:
    with named.client(host="example.org") as client:
        statuses = [client.get(path).status_code for path in ("/", "/docs", "/static/page.css")]
    assert statuses == [404, 200, 200]


@pytest.mark.parametrize(
    ("site", "origin", "status"),
    [
        ("cross-site", None, 403),
        ("same-site", None, 403),
        ("cross-site", "https://b.example", 403),
        ("cross-site", "https://pages.example.org", 200),
        ("same-origin", None, 200),
        ("none", None, 200),
    ],
)
def test_a_foreign_page_cannot_make_a_browser_ask_for_costly_work(
    named: RunningService, site: str, origin: str | None, status: int
) -> None:
    headers = {"Sec-Fetch-Site": site} | ({} if origin is None else {"Origin": origin})
    with named.client(host="example.org", **headers) as client:
        response = client.get("/attention?sentence=good")
        assert response.status_code == status
        if status == 403:
            assert_problem(response, 403, "cross-site")
        assert client.get("/health/live").status_code == 200


def test_pages_of_allowed_origins_may_ask(named: RunningService, guarded: RunningService) -> None:
    with named.client(host="example.org") as client:
        for origin, allowed in (
            ("https://pages.example.org", "https://pages.example.org"),
            ("https://other.example.org", None),
        ):
            asked = client.post(
                "/predict", json={"sentences": ["good"]}, headers={"Origin": origin}
            )
            assert asked.status_code == 200
            assert asked.headers.get("access-control-allow-origin") == allowed
            assert "access-control-allow-credentials" not in asked.headers
            preflight = client.options(
                "/predict",
                headers={
                    "Origin": origin,
                    "Access-Control-Request-Method": "POST",
                    "Access-Control-Request-Headers": "authorization, content-type",
                },
            )
            assert preflight.status_code == (200 if allowed else 400)
            assert preflight.headers.get("access-control-allow-origin") == allowed
            assert len(preflight.headers["x-request-id"]) == 32
    # Without the setting no other page may ask.
    elsewhere = {"Origin": "https://pages.example.org"}
    asked = httpx.get(f"{guarded.url}/health/live", headers=elsewhere)
    assert not any(name.startswith("access-control") for name in asked.headers)


def test_the_address_from_a_proxy_that_is_not_trusted_does_not_count(start: Start) -> None:
    settings = {"FORWARDED_ALLOW_IPS": "*"}  # uvicorn's own variable, which is not read
    statuses = []
    with start("--rate-limit", "1/hour", settings=settings) as running:
        for number in (1, 2):  # on a connection of its own each
            with running.client(**{"X-Forwarded-For": f"192.0.2.{number}"}) as client:
                answer = client.post("/predict", json={"sentences": ["a"]})
                statuses.append(answer.status_code)
    assert statuses == [200, 429]
