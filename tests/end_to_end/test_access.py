"""API keys, and the order in which a request is judged."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.problems import assert_problem
from tests.end_to_end.servers import RunningService, service

KEYED = [("POST", "/predict"), ("GET", "/attention"), ("POST", "/attention"), ("GET", "/model")]


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


@pytest.mark.parametrize(
    "values",
    [
        [],
        [b""],
        [b"Bearer wrong"],
        [b"Bearer"],
        [b"Bearer first-key,second-key"],
        [b"Basic first-key"],
        [b"first-key"],
        [b"Bearer first-key", b"Bearer first-key"],
        [b"Bearer \xff\xfe"],
    ],
)
def test_nothing_else_does(guarded: RunningService, values: list[bytes]) -> None:
    headers = [(b"authorization", value) for value in values]
    with guarded.client() as client:
        for method, path in KEYED:
            refused = client.request(method, path, headers=headers)
            assert_problem(
                refused,
                401,
                "unauthorized",
                "An API key is needed",
                "This service needs an API key: send it as Authorization: Bearer KEY.",
            )
            assert refused.headers["www-authenticate"] == "Bearer"


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
