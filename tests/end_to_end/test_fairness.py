"""No client's requests harm another's: shares, rates and quotas."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.end_to_end.conftest import Start
from tests.end_to_end.routes import assert_problem
from tests.end_to_end.servers import RunningService, shared, wait_until

LENGTH = 28  # tokens of each of these
MANY = ["a b c d e f g h i j k l m n o p q r s t u v w x y z"] * 200


@contextmanager
def held(
    folder: Path, running: RunningService, pool: ThreadPoolExecutor, **headers: str
) -> Iterator[None]:
    """Lets one client ask for more than both workers compute, and the workers not end it."""
    (folder / "pass").write_text("hold 2", encoding="ascii")
    with running.client(**headers) as client:
        asking = pool.submit(client.post, "/predict", json={"sentences": MANY})
        wait_until(lambda: running.metric("headlight_queue_tokens") > 0)
        try:
            yield
        finally:
            (folder / "pass").unlink()
            assert asking.result().status_code == 200


@pytest.mark.parametrize("apart", ["keys", "addresses"])
def test_the_backlog_of_one_client_does_not_count_against_another(
    start: Start, tmp_path: Path, pool: ThreadPoolExecutor, apart: str
) -> None:
    if apart == "keys":
        (tmp_path / "keys").write_text("mine\nother\n", encoding="ascii")
        header, mine, other = "Authorization", "Bearer mine", "Bearer other"
        options = ["--api-keys-file", str(tmp_path / "keys")]
    else:
        header, mine, other = "X-Forwarded-For", "192.0.2.1", "192.0.2.2"
        options = ["--trusted-proxies", "127.0.0.1"]
    # The queue holds the work of one client, and no more.
    options += ["--max-sentences", "200", "--max-queue-tokens", str(200 * 32)]
    with (
        start("--threads", "2", "--request-timeout", "60", *options) as running,
        held(tmp_path, running, pool, **{header: mine}),
    ):
        with running.client(**{header: mine}) as client:
            response = client.post("/predict", json={"sentences": MANY})
            assert response.status_code == 503
            assert response.json()["type"] == "/problems/overloaded"
        with running.client(**{header: other}) as client:
            for _ in range(3):
                assert client.post("/predict", json={"sentences": ["good"]}).status_code == 200


limited = shared(
    *("--rate-limit", "3/hour", "--token-quota", "60/day"),
    *("--allowed-origins", "https://a.example"),
    HEADLIGHT_API_KEYS="first,second,third,fourth",
)
POLICY = '"requests";q=3;w=3600, "tokens";q=60;w=86400;qu="tokens"'


def left(response: httpx.Response) -> tuple[str, str]:
    """How many requests and tokens are left by the headers of an answer."""
    assert response.headers["ratelimit-policy"] == POLICY
    found = re.fullmatch(
        r'"requests";r=(\d+);t=(\d+), "tokens";r=(\d+);t=\d+', response.headers["ratelimit"]
    )
    assert found is not None
    assert 1 <= int(found[2]) <= 1200
    return found[1], found[3]


def test_a_key_has_so_many_requests(limited: RunningService) -> None:
    with limited.client(Authorization="Bearer first") as client:
        for number in range(3):
            answer = client.post("/predict", json={"sentences": ["good"]})
            assert answer.status_code == 200
            assert left(answer) == (str(2 - number), str(57 - 3 * number))
        response = client.post("/predict", json={"sentences": ["good"]})
        assert_problem(response, 429, "rate-limited")
        assert 1100 < int(response.headers["retry-after"]) <= 1200
        assert left(response) == ("0", "51")
        limits = client.get("/model").json()["limits"]  # costs nothing
        assert (limits["rate_limit"], limits["token_quota"]) == ("3/hour", "60/day")
    assert limited.refused()["rate_limit"] == 1
    with limited.client(Authorization="Bearer second") as client:
        assert client.post("/predict", json={"sentences": ["good"]}).status_code == 200


def test_a_key_has_so_many_tokens(limited: RunningService) -> None:
    with limited.client(Authorization="Bearer third") as client:
        answered = client.post("/predict", json={"sentences": MANY[:2]}).json()
        assert [each["token_count"] for each in answered["predictions"]] == [LENGTH] * 2
        response = client.post("/predict", json={"sentences": MANY[:1]})
        assert response.status_code == 429
        assert left(response) == ("1", "4")
        assert response.json()["detail"].startswith(
            "28 tokens are wanted and 4 are left; the limit is 60/day"
        )
    assert limited.refused()["quota"] == 1


def test_what_is_left_goes_with_every_answer_of_a_limited_client(limited: RunningService) -> None:
    with limited.client(Origin="https://a.example") as client:
        unknown = client.post("/predict", json={"sentences": ["good"]})
        assert "ratelimit" not in unknown.headers
        client.headers["Authorization"] = "Bearer fourth"
        assert left(client.get("/model")) == ("3", "60")  # costs nothing
        refused = client.post("/hf", json={"inputs": " "})
    assert_problem(refused, 422, "invalid-request", ("body", "inputs"), foreign=True)
    assert left(refused) == ("2", "59")
    exposed = refused.headers["access-control-expose-headers"]
    assert {"RateLimit-Policy", "RateLimit"} <= set(exposed.split(", "))
