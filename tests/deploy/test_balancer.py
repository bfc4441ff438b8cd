"""deploy/haproxy.cfg in a real HAProxy, before two replicas that answer as they are told."""

import os
import re
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

CONFIGURATION = Path(__file__).parents[2] / "deploy" / "haproxy.cfg"
PATIENCE = 60
pytestmark = pytest.mark.skipif(
    shutil.which("haproxy") is None and "CI" not in os.environ, reason="haproxy is not installed"
)


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


@pytest.fixture
def client(replicas: list[Replica], tmp_path: Path) -> Iterator[httpx.Client]:
    """Asks HAProxy, which has found both replicas."""
    with ExitStack() as held:
        ports = [_free_port(held) for _ in range(2)]
    configuration = CONFIGURATION.read_text(encoding="utf-8")
    for pattern, instead in {
        r"bind :8080": f"bind 127.0.0.1:{ports[0]}",
        r"bind :8405": f"bind 127.0.0.1:{ports[1]}",
        r"resolvers docker\n(?:    .*\n)+": "",
        r"    server-template .*": "\n".join(
            f"    server api{number} 127.0.0.1:{replica.server_port}"
            for number, replica in enumerate(replicas)
        ),
    }.items():
        configuration, count = re.subn(pattern, instead, configuration)
        assert count == 1, pattern
    path = tmp_path / "haproxy.cfg"
    path.write_text(configuration, encoding="utf-8")
    with (
        subprocess.Popen(["haproxy", "-f", str(path)], stdout=subprocess.DEVNULL) as balancer,
        httpx.Client(base_url=f"http://127.0.0.1:{ports[0]}", timeout=PATIENCE) as asking,
    ):
        until = time.monotonic() + PATIENCE
        while not _reaches_both(asking, replicas):
            assert time.monotonic() < until
            time.sleep(0.1)
        time.sleep(2)  # what failed meanwhile is forgotten after a second
        for replica in replicas:
            replica.asked = 0
        yield asking
        balancer.terminate()


def _free_port(held: ExitStack) -> int:
    listening = held.enter_context(socket.create_server(("127.0.0.1", 0)))
    port: int = listening.getsockname()[1]
    return port


def _reaches_both(client: httpx.Client, replicas: list[Replica]) -> bool:
    try:
        return client.post("/predict").status_code == 200 and all(one.asked for one in replicas)
    except httpx.ConnectError:
        return False


def test_what_one_replica_refuses_is_asked_of_the_other(
    client: httpx.Client, replicas: list[Replica]
) -> None:
    replicas[0].status = 503
    assert [client.post("/predict").status_code for _ in range(8)] == [200] * 8
    assert replicas[1].asked == 8
    assert replicas[0].asked > 0


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
    for replica in replicas:
        replica.status = 503
    assert client.post("/predict").status_code == 503
    assert sum(replica.asked for replica in replicas) == 4
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
