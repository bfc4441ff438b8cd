"""API keys, and the order in which a request is judged."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.problems import assert_problem
from tests.end_to_end.servers import RunningService, service

KEYED = [
    ("POST", "/predict"),
    *(
        (method, path)
        for path in ("/attention", "/attention/steps", "/attributions", "/importance")
        for method in ("GET", "POST")
    ),
    ("GET", "/model"),
]


@pytest.fixture(scope="module")
def guarded(
    checkpoint_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningService]:
    """A service with keys from both settings, and a small limit of bodies."""
    folder = tmp_path_factory.mktemp("guarded")
    keys = folder / "keys"
    keys.write_text("\n third-key \nfourth-key\n", encoding="utf-8")
    settings = {
        "HEADLIGHT_API_KEYS": "first-key, second-key",
        "HEADLIGHT_API_KEYS_FILE": str(keys),
    }
    with service(checkpoint_folder, folder, "--max-body-bytes", "50", settings=settings) as server:
        yield server


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
@pytest.mark.parametrize("key", ["first-key", "second-key", "third-key", "fourth-key"])
def test_each_key_lets_in(guarded: RunningService, key: str, scheme: str) -> None:
    with guarded.client(authorization=f"{scheme} {key}") as client:
        assert client.get("/model").status_code == 200


EXPECTED = "expected `Authorization: Bearer <key>`."
MISSING = "This service needs an API key: send `Authorization: Bearer <key>`."
OTHER = f"Authorization has another scheme or none: {EXPECTED}"
UNSENDABLE = (
    "The API key has a space, a comma or a character that is not ASCII, which no key has: "
    f"{EXPECTED}"
)
WRONG = "The API key is not valid here: check it, or ask the operator of the service for one."
INVALID = 'Bearer error="invalid_token"'


@pytest.mark.parametrize(
    ("values", "detail", "challenge"),
    [
        ([], MISSING, "Bearer"),
        ([b""], OTHER, "Bearer"),
        ([b"Bearer wrong"], WRONG, INVALID),
        (
            [b"Bearer"],
            f"Authorization has no key: {EXPECTED}",
            "Bearer",
        ),
        ([b"Bearer first-key,second-key"], UNSENDABLE, INVALID),
        (
            [b'Bearer "first-key"'],
            f"The API key is in quotation marks: {EXPECTED}",
            INVALID,
        ),
        ([b"Basic first-key"], OTHER, "Bearer"),
        ([b"first-key"], OTHER, "Bearer"),
        (
            [b"Bearer first-key", b"Bearer first-key"],
            "Authorization is given 2 times: expected one `Authorization: Bearer <key>`.",
            "Bearer",
        ),
        ([b"Bearer \xff\xfe"], UNSENDABLE, INVALID),
    ],
)
def test_nothing_else_does(
    guarded: RunningService, values: list[bytes], detail: str, challenge: str
) -> None:
    headers = [(b"authorization", value) for value in values]
    with guarded.client() as client:
        for method, path in KEYED:
            refused = client.request(method, path, headers=headers)
            assert_problem(refused, 401, "unauthorized", "An API key is needed", detail)
            assert refused.headers["www-authenticate"] == challenge


def test_a_key_in_another_header_is_told(guarded: RunningService) -> None:
    with guarded.client(**{"x-api-key": "first-key"}) as client:
        refused = client.get("/model")
    detail = f"{MISSING.removesuffix('.')}, not in X-API-Key."
    assert_problem(refused, 401, "unauthorized", "An API key is needed", detail)


@pytest.mark.parametrize(
    "path", ["/health/live", "/health/ready", "/metrics", "/", "/docs", "/openapi.json"]
)
def test_what_needs_no_key(guarded: RunningService, path: str) -> None:
    with guarded.client() as client:
        assert client.get(path).status_code == 200


def test_a_body_is_judged_in_the_documented_order(guarded: RunningService) -> None:
    """One request that is wrong in every way is mended one fault at a time."""
    headers: dict[str, str] = {"accept": "image/png"}
    body = b"{" * 51
    statuses = []
    with guarded.client() as client:
        for mend in ("key", "form", "size", "media type", "JSON", "schema", "blank", "nothing"):
            statuses.append(client.post("/predict", content=body, headers=headers).status_code)
            if mend == "key":
                headers["authorization"] = "Bearer first-key"
            if mend == "form":
                headers["accept"] = "*/*"
            if mend == "size":
                body = b"{"
            if mend == "media type":
                headers["content-type"] = "application/json"
            if mend == "JSON":
                body = b'{"sentences": [" "], "x": 1}'
            if mend == "schema":
                body = b'{"sentences": [" "]}'
            if mend == "blank":
                body = b'{"sentences": ["a"]}'
    assert statuses == [401, 406, 413, 415, 400, 422, 422, 200]


def test_no_key_is_ever_shown(guarded: RunningService) -> None:
    with guarded.client(authorization="Bearer first-key") as client:
        shown = [client.get(path).text for path in ("/model", "/metrics", "/openapi.json", "/no")]
    log = guarded.log.read_text("utf-8")
    assert '"route":"/model"' in log
    for text in (log, *shown):
        assert "-key" not in text


CLOSED = {"/metrics": "--metrics", "/docs": "--docs", "/openapi.json": "--docs", "/": "--page"}


@pytest.fixture(scope="module", params=["off", "key"])
def closed(
    request: pytest.FixtureRequest,
    checkpoint_folder: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[RunningService, str]]:
    """A service that shows nothing to everybody, and how."""
    how: str = request.param
    options = [part for option in sorted(set(CLOSED.values())) for part in (option, how)]
    settings = {"HEADLIGHT_API_KEYS": "right"}
    folder = tmp_path_factory.mktemp(how)
    with service(checkpoint_folder, folder, *options, settings=settings) as running:
        yield running, how


@pytest.mark.parametrize("path", [*CLOSED, "/static/page.css", "/static/0123456789ab/page.css"])
def test_what_is_switched_off_or_behind_the_key(
    closed: tuple[RunningService, str], path: str
) -> None:
    running, how = closed
    with running.client() as client:
        alone = client.get(path)
        with_key = client.get(path, headers={"Authorization": "Bearer right"})
    assert (alone.status_code, with_key.status_code) == {"off": (404, 404), "key": (401, 200)}[how]
    if how == "off":
        assert alone.json()["type"] == "/problems/not-found"


def test_health_needs_no_key_whatever_is_closed(closed: tuple[RunningService, str]) -> None:
    running, _ = closed
    with running.client() as client:
        assert client.get("/health/live").status_code == 200
        assert client.get("/health/ready").status_code == 200


def test_assets_are_open_as_long_as_one_page_is(checkpoint_folder: Path, tmp_path: Path) -> None:
    closed = service(checkpoint_folder, tmp_path, "--page", "off")
    with closed as running, running.client() as client:
        assert client.get("/").status_code == 404
        assert client.get("/docs").status_code == 200
        assert client.get("/static/page.css").status_code == 200


@pytest.fixture(scope="module")
def named(
    checkpoint_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningService]:
    """A service that answers under some names, and some pages."""
    options = (
        "--allowed-hosts",
        "Example.org, *.example.com, [::1]",
        "--allowed-origins",
        "https://pages.example.org",
    )
    with service(checkpoint_folder, tmp_path_factory.mktemp("named"), *options) as running:
        yield running


@pytest.mark.parametrize(
    "host", ["example.org", "EXAMPLE.ORG:8000", "a.example.com", "a.b.example.com:1", "[::1]:80"]
)
def test_its_own_names_are_answered(named: RunningService, host: str) -> None:
    with named.client() as client:
        assert client.get("/model", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "example.org.evil.net", "evilexample.com", "example.com", "notexample.org", ""],
)
def test_other_names_are_not(named: RunningService, host: str) -> None:
    with named.client() as client:
        for path in ("/model", "/", "/metrics", "/nowhere"):
            assert_problem(
                client.get(path, headers={"Host": host}),
                421,
                "misdirected",
                "The service has another name",
                "This service does not answer under the name in the header Host: ask it by one of "
                "its own names.",
            )
        assert client.get("/health/ready", headers={"Host": host}).status_code == 200


def test_pages_of_allowed_origins_may_ask(named: RunningService) -> None:
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


def test_pages_may_read_errors_too(named: RunningService) -> None:
    headers = {"Origin": "https://pages.example.org", "X-Request-Timeout": "none"}
    with named.client(host="example.org") as client:
        for path in ("/model", "/nowhere"):
            refused = client.get(path, headers=headers)
            assert refused.status_code == 422
            allowed = refused.headers.get_list("access-control-allow-origin")
            assert allowed == ["https://pages.example.org"]
        missing = client.get("/nowhere", headers={"Origin": "https://pages.example.org"})
        assert missing.status_code == 404
        allowed = missing.headers.get_list("access-control-allow-origin")
        assert allowed == ["https://pages.example.org"]


def test_without_the_setting_no_other_page_may_ask(guarded: RunningService) -> None:
    with guarded.client() as client:
        asked = client.get("/health/live", headers={"Origin": "https://pages.example.org"})
        assert not any(name.startswith("access-control") for name in asked.headers)


@pytest.mark.parametrize("trusted", [True, False])
def test_the_address_that_a_proxy_tells_counts_only_if_the_proxy_is_trusted(
    checkpoint_folder: Path, tmp_path: Path, *, trusted: bool
) -> None:
    telling = (
        "import sys; from service.http.middleware import RequestMiddleware as Middleware; "
        "record = Middleware._record; Middleware._record = lambda self, scope, *rest: "
        "(print('asked by', *scope['client'], flush=True), record(self, scope, *rest)); "
        "from service.__main__ import main; sys.exit(main())"
    )
    settings = {"FORWARDED_ALLOW_IPS": "*"}  # uvicorn's own variable, which is not read
    if trusted:
        settings["HEADLIGHT_TRUSTED_PROXIES"] = "127.0.0.1"
    with (
        service(checkpoint_folder, tmp_path, program=("-c", telling), settings=settings) as asked,
        asked.client(**{"X-Forwarded-For": "192.0.2.1"}) as client,
    ):
        assert client.get("/model").status_code == 200
    # A request is logged after its answer: all are by the end of the service.
    told = asked.log.read_text("utf-8")
    assert "asked by " in told
    assert ("asked by 192.0.2.1 0\n" in told) is trusted
