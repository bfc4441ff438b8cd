"""The configurations of real balancers, before two replicas that answer with a chosen status."""

import re
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from tests.deploy import balancers

PATIENCE = 60
# How often one request is sent to a replica at most; Caddy sends what got an answer no second time.
TRIES = {"haproxy": 4, "envoy": 2, "traefik": 4, "caddy": 1, "nginx": 2}
# So many that one of two replicas is surely drawn. HAProxy takes turns, and asks no second time
# once more than 20 requests have failed within a second.
REQUESTS = {"haproxy": 8, "envoy": 200, "traefik": 40, "caddy": 40, "nginx": 40}


class Replica(ThreadingHTTPServer):
    """Ready at all times; answers requests with a status, and counts them."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status = 200
        self.asked = 0
        self.forwarded: list[str] = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request: object, client_address: object) -> None:
        """The balancer drops connections when it ends; that is no fault of a replica."""

    def end(self) -> None:
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Replica

    def do_GET(self) -> None:
        self._answer(200)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.server.asked += 1
        self.server.forwarded += self.headers.get_all("x-forwarded-for", [])
        self._answer(self.server.status)

    def _answer(self, status: int) -> None:
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def replicas() -> Iterator[list[Replica]]:
    both = [Replica(), Replica()]
    yield both
    for replica in both:
        replica.end()


@pytest.fixture(params=balancers.each())
def client(
    request: pytest.FixtureRequest, replicas: list[Replica], tmp_path: Path
) -> Iterator[httpx.Client]:
    """Asks a balancer, which has found both replicas."""
    ports = [replica.server_port for replica in replicas]
    with (
        balancers.balancer(request.param, ports, tmp_path) as balancer,
        httpx.Client(
            base_url=f"http://127.0.0.1:{balancer.port}",
            timeout=PATIENCE,
            headers={"x-balancer": balancer.name},
        ) as asking,
    ):
        until = time.monotonic() + PATIENCE
        while not _reaches_both(asking, replicas):
            assert time.monotonic() < until
            time.sleep(0.1)
        if balancer.name == "haproxy":
            time.sleep(2)  # it forgets after a second what failed meanwhile
        for replica in replicas:
            replica.asked = 0
        yield asking


def _reaches_both(client: httpx.Client, replicas: list[Replica]) -> bool:
    try:
        return client.post("/predict").status_code == 200 and all(one.asked for one in replicas)
    except httpx.TransportError:
        return False


def test_what_one_replica_refuses_is_asked_of_the_other(
    client: httpx.Client, replicas: list[Replica]
) -> None:
    name = client.headers["x-balancer"]
    count = REQUESTS[name]
    replicas[0].status = 503
    statuses = [client.post("/predict").status_code for _ in range(count)]
    assert replicas[0].asked > 0
    if TRIES[name] == 1:
        assert set(statuses) == {200, 503}
        assert replicas[0].asked + replicas[1].asked == count
        return
    if name == "traefik":  # draws again, and may draw the same
        assert replicas[1].asked == statuses.count(200) > 0
        assert replicas[0].asked >= TRIES[name] * statuses.count(503)
        return
    assert statuses == [200] * count
    assert replicas[1].asked == count


def test_replicas_learn_the_address_of_a_client_and_not_what_it_claims(
    client: httpx.Client, replicas: list[Replica]
) -> None:
    for replica in replicas:
        replica.forwarded.clear()
    claims = [("x-forwarded-for", "192.0.2.1"), ("X-Forwarded-For", "192.0.2.2, 192.0.2.3")]
    assert client.post("/predict", headers=claims).status_code == 200
    assert replicas[0].forwarded + replicas[1].forwarded == ["127.0.0.1"]


def test_a_flood_that_all_refuse_is_not_multiplied(
    client: httpx.Client, replicas: list[Replica]
) -> None:
    tries = TRIES[client.headers["x-balancer"]]
    for replica in replicas:
        replica.status = 503
    assert client.post("/predict").status_code == 503
    assert sum(replica.asked for replica in replicas) == tries
    if client.headers["x-balancer"] != "haproxy":
        assert {client.post("/predict").status_code for _ in range(20)} == {503}
        assert sum(replica.asked for replica in replicas) == 21 * tries
        return
    began = time.monotonic()
    assert {client.post("/predict").status_code for _ in range(400)} == {503}
    # Twenty failures within a second, those of the requests themselves included, end the retries.
    seconds = time.monotonic() - began
    assert sum(replica.asked for replica in replicas) <= 4 + 400 + 3 * 20 * (seconds + 1)


def test_a_replica_that_is_gone_loses_none_even_then(
    client: httpx.Client, replicas: list[Replica]
) -> None:
    for replica in replicas:
        replica.status = 503
    for _ in range(100):
        client.post("/predict")
    for replica in replicas:
        replica.status = 200
    replicas[1].end()
    assert [client.post("/predict").status_code for _ in range(20)] == [200] * 20


def test_envoy_draws_until_it_finds_the_other() -> None:
    """After the draws that are allowed it asks the last one again, although that has refused."""
    text = (balancers.DEPLOY / "envoy.yaml").read_text(encoding="utf-8")
    [draws] = re.findall(r"host_selection_retry_max_attempts: (\d+)$", text, re.MULTILINE)
    assert 0.5 ** int(draws) < 1e-9
