"""The configurations of real balancers, before two replicas that answer with a chosen status."""

import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.deploy import balancers
from tests.end_to_end.servers import wait_until

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
        self._connections: list[socket.socket] = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request: object, client_address: object) -> None:
        """The balancer drops connections when it ends; that is no fault of a replica."""

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        self._connections.append(connection)
        return connection, address

    def end(self) -> None:
        """Takes no more connections; those that are open stay."""
        self.shutdown()
        self.server_close()

    def hang_up(self) -> None:
        for connection in self._connections:
            with suppress(OSError):  # the other side was first
                connection.shutdown(socket.SHUT_RDWR)


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


@dataclass(frozen=True, slots=True)
class Front:
    """A balancer before two replicas."""

    name: str
    url: str
    replicas: list[Replica]
    log: Path

    def reaches_both(self) -> bool:
        try:
            answer = httpx.post(f"{self.url}/predict", timeout=PATIENCE)
        except httpx.TransportError:
            return False
        return answer.status_code == 200 and all(one.asked for one in self.replicas)


@pytest.fixture(scope="module", params=balancers.each())
def started(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Front]:
    """A balancer for all tests of its kind; the last one ends its replicas."""
    replicas = [Replica(), Replica()]
    ports = [replica.server_port for replica in replicas]
    folder = tmp_path_factory.mktemp(request.param)
    with balancers.balancer(request.param, ports, folder) as balancer:
        yield Front(balancer.name, f"http://127.0.0.1:{balancer.port}", replicas, balancer.log)
    for replica in replicas:
        replica.end()


@pytest.fixture
def front(started: Front) -> Front:
    """It has found both replicas, which answer with 200 and have counted nothing."""
    for replica in started.replicas:
        replica.status, replica.asked = 200, 0
    wait_until(started.reaches_both)
    for replica in started.replicas:
        replica.asked = 0
        replica.forwarded.clear()
    return started


def forget_failures(front: Front) -> None:
    """HAProxy forgets after a second what failed meanwhile."""
    if front.name == "haproxy":
        time.sleep(2)
    for replica in front.replicas:
        replica.asked = 0


@pytest.fixture
def client(front: Front) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=front.url, timeout=PATIENCE) as client:
        yield client


def test_what_one_replica_refuses_is_asked_of_the_other(client: httpx.Client, front: Front) -> None:
    forget_failures(front)
    name, replicas = front.name, front.replicas
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
    client: httpx.Client, front: Front
) -> None:
    claims = [("x-forwarded-for", "192.0.2.1"), ("X-Forwarded-For", "192.0.2.2, 192.0.2.3")]
    assert client.post("/predict", headers=claims).status_code == 200
    assert front.replicas[0].forwarded + front.replicas[1].forwarded == ["127.0.0.1"]


def test_a_flood_that_all_refuse_is_not_multiplied(client: httpx.Client, front: Front) -> None:
    forget_failures(front)
    tries, replicas = TRIES[front.name], front.replicas
    for replica in replicas:
        replica.status = 503
    assert client.post("/predict").status_code == 503
    assert sum(replica.asked for replica in replicas) == tries
    if front.name != "haproxy":
        assert {client.post("/predict").status_code for _ in range(20)} == {503}
        assert sum(replica.asked for replica in replicas) == 21 * tries
        return
    began = time.monotonic()
    assert {client.post("/predict").status_code for _ in range(400)} == {503}
    # Twenty failures within a second, those of the requests themselves included, end the retries.
    seconds = time.monotonic() - began
    assert sum(replica.asked for replica in replicas) <= 4 + 400 + 3 * 20 * (seconds + 1)


def test_a_replica_that_is_gone_loses_none_even_then(client: httpx.Client, front: Front) -> None:
    """The last test of each balancer: without any replica it says so."""
    for replica in front.replicas:
        replica.status = 503
    for _ in range(100):
        client.post("/predict")
    for replica in front.replicas:
        replica.status = 200
    front.replicas[1].end()
    assert [client.post("/predict").status_code for _ in range(20)] == [200] * 20

    front.replicas[0].end()
    for replica in front.replicas:
        replica.hang_up()
    answers: list[httpx.Response] = []

    def refuses() -> bool:
        try:
            answers.append(client.post("/predict", json={"sentences": ["good"]}))
        except httpx.RemoteProtocolError:  # it had just sent a request to one that hung up
            return False
        # Until it has asked the replicas, Traefik says 502.
        return front.name != "traefik" or answers[-1].status_code == 503

    wait_until(refuses)
    answer = answers[-1]
    assert answer.status_code == 503
    if front.name == "traefik":  # has no words of its own to set
        assert answer.headers["content-type"].startswith("text/plain")
        return
    assert answer.headers["content-type"].startswith("application/problem+json")
    assert answer.headers["retry-after"] == "1"
    assert answer.json()["type"] == "/problems/not-ready"
    if front.name in {"haproxy", "nginx"}:  # name their own errors too
        # The line is written once the answer is out.
        wait_until(lambda: answer.headers["x-request-id"] in front.log.read_text(encoding="utf-8"))


def test_envoy_draws_until_it_finds_the_other() -> None:
    """After the draws that are allowed it asks the last one again, although that has refused."""
    text = (balancers.DEPLOY / "envoy.yaml").read_text(encoding="utf-8")
    [draws] = re.findall(r"host_selection_retry_max_attempts: (\d+)$", text, re.MULTILINE)
    assert 0.5 ** int(draws) < 1e-9
