"""HAProxy and nginx before replicas: answers come through whole, and a roll-out loses none."""

import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from service.http import server
from service.settings import Settings
from tests.containers.stack import Outcomes, load
from tests.deploy import balancers
from tests.deploy.balancers import DEPLOY, Balancer, Replicas, program
from tests.end_to_end.servers import wait_until

PATIENCE = 60
# How often one request is sent to a replica at most.
TRIES = {"haproxy": 4, "nginx": 2}
KNOWN = "quokka"  # a word of a user, which no log may hold
LIMIT = 2_000_000  # HEADLIGHT_MAX_BODY_BYTES


class StandIn(ThreadingHTTPServer):
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
    server: StandIn

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


@pytest.fixture(params=balancers.EACH)
def front(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[tuple[Balancer, list[StandIn], httpx.Client]]:
    """A balancer that has found two stand-ins, which have counted nothing yet."""
    stand_ins = [StandIn(), StandIn()]
    ports = [each.server_port for each in stand_ins]
    with (
        balancers.balancer(request.param, ports, tmp_path) as balancer,
        httpx.Client(base_url=balancer.url, timeout=PATIENCE) as client,
    ):

        def reaches_both() -> bool:
            with suppress(httpx.TransportError):
                client.post("/predict")
            return all(each.asked for each in stand_ins)

        wait_until(reaches_both)
        if balancer.name == "haproxy":
            time.sleep(2)  # it forgets after a second what failed before a stand-in was found
        for each in stand_ins:
            each.asked = 0
            each.forwarded.clear()
        yield balancer, stand_ins, client
    for each in stand_ins:
        each.end()


def test_what_replicas_refuse_and_what_they_learn(
    front: tuple[Balancer, list[StandIn], httpx.Client],
) -> None:
    balancer, stand_ins, client = front
    claims = [("x-forwarded-for", "192.0.2.1"), ("X-Forwarded-For", "192.0.2.2, 192.0.2.3")]
    assert client.post("/predict", headers=claims).status_code == 200
    assert stand_ins[0].forwarded + stand_ins[1].forwarded == ["127.0.0.1"]

    # What one refuses is asked of the other.
    stand_ins[0].status = 503
    assert [client.post("/predict").status_code for _ in range(8)] == [200] * 8
    assert stand_ins[0].asked > 0

    # A flood that both refuse is not multiplied.
    stand_ins[1].status = 503
    for each in stand_ins:
        each.asked = 0
    assert client.post("/predict").status_code == 503
    assert sum(each.asked for each in stand_ins) == TRIES[balancer.name]
    began = time.monotonic()
    assert {client.post("/predict").status_code for _ in range(200)} == {503}
    tried = sum(each.asked for each in stand_ins)
    if balancer.name == "nginx":
        assert tried == 201 * TRIES["nginx"]
    else:
        # Twenty failures within a second, those of the requests included, end the retries.
        assert tried <= 4 + 200 + 3 * 20 * (time.monotonic() - began + 1)

    # One that is gone loses no request even then; without any the balancer says so itself.
    for each in stand_ins:
        each.status = 200
    stand_ins[1].end()
    assert [client.post("/predict").status_code for _ in range(20)] == [200] * 20
    stand_ins[0].end()
    for each in stand_ins:
        each.hang_up()
    found: list[httpx.Response] = []

    def refuses() -> bool:
        with suppress(httpx.RemoteProtocolError):  # it had just asked one that hung up
            found.append(client.post("/predict", json={"sentences": ["good"]}))
        return bool(found)

    wait_until(refuses)
    assert found[0].status_code == 503
    assert found[0].headers["content-type"].startswith("application/problem+json")
    assert found[0].headers["retry-after"] == "1"
    assert found[0].json()["type"] == "/problems/not-ready"
    given = found[0].headers["x-request-id"]
    wait_until(lambda: given in balancer.log.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def replicas(
    checkpoint_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Replicas]:
    folder = tmp_path_factory.mktemp("replicas")
    options = ("--trusted-proxies", "127.0.0.1", "--drain-seconds", "3")
    with Replicas(checkpoint_folder, folder, *options) as both:
        yield both


@pytest.fixture(scope="module")
def fronts(
    replicas: Replicas, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Balancer]]:
    """The balancers that are installed, each of which answers."""
    with ExitStack() as running:
        fronts = {
            name: running.enter_context(
                balancers.balancer(name, replicas.ports, tmp_path_factory.mktemp(name))
            )
            for name in balancers.NAMES
            if program(name) is not None
        }
        for balancer in fronts.values():
            wait_until(partial(balancers.answers, f"{balancer.url}/model"))
        yield fronts


@pytest.mark.parametrize("name", balancers.EACH)
def test_everything_comes_through_whole(
    name: str, fronts: dict[str, Balancer], replicas: Replicas
) -> None:
    balancer = fronts[name]
    with httpx.Client(base_url=balancer.url, timeout=PATIENCE) as client:
        own = client.get("/model", headers={"X-Request-ID": "mine-1"})
        assert own.headers.get_list("x-request-id") == ["mine-1"]

        whole = client.post("/predict", json={"sentences": ["film " * (LIMIT // 10), "good"]})
        assert [item["truncated"] for item in whole.json()["predictions"]] == [True, False]

        # A line as long as the service itself takes, and a large answer.
        for request in (
            {"method": "GET", "params": {"sentence": "film" + " film" * 6_000, "layer": 0}},
            {"method": "POST", "json": {"sentence": "film " * 400}},
        ):
            asked: dict[str, Any] = request
            url = f"http://127.0.0.1:{replicas.ports[0]}/attention"
            direct = httpx.request(url=url, timeout=PATIENCE, **asked)
            answer = client.request(url="/attention", **asked)
            assert (answer.status_code, answer.content) == (200, direct.content)


@pytest.mark.parametrize("name", balancers.EACH)
def test_a_body_of_any_size_gets_413_and_takes_no_replica_away(
    name: str, fronts: dict[str, Balancer]
) -> None:
    url = f"{fronts[name].url}/predict"

    def is_refused() -> bool:
        try:
            large = httpx.post(url, json={"sentences": ["x" * 3 * LIMIT]}, timeout=PATIENCE)
        except httpx.TransportError:  # who closes before all is read can lose the answer
            return False
        assert large.status_code == 413
        return True

    for _ in range(3):
        wait_until(is_refused)
        assert httpx.post(url, json={"sentences": ["good"]}, timeout=PATIENCE).status_code == 200


@pytest.mark.parametrize("name", balancers.EACH)
def test_the_log_has_ids_and_no_text(name: str, fronts: dict[str, Balancer]) -> None:
    balancer = fronts[name]
    with httpx.Client(base_url=balancer.url, timeout=PATIENCE) as client:
        odd = {"X-Request-ID": f'a {KNOWN} "film"'}
        assert client.get("/attention", params={"sentence": KNOWN}, headers=odd).status_code == 200
        assert client.get(f"/{KNOWN}").status_code == 404
        assert client.request(KNOWN.upper(), "/predict").status_code == 400
        made = client.get("/model").headers["x-request-id"]
    for each in ('"path":"/attention"', f'"{made}"'):
        wait_until(lambda each=each: each in balancer.log.read_text("utf-8"))  # type: ignore[misc]
    log = balancer.log.read_text(encoding="utf-8")
    assert KNOWN not in log.lower()
    lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    assert all(line["status"] for line in lines)


@pytest.mark.slow
def test_a_rolling_restart_loses_no_request(
    replicas: Replicas, fronts: dict[str, Balancer]
) -> None:
    """The last test of these replicas: one load for each balancer while both are replaced."""
    with ExitStack() as loads:
        outcomes: dict[str, Outcomes] = {
            name: loads.enter_context(load(balancer.port, clients=2, pause=0.05))
            for name, balancer in fronts.items()
        }

        def answers_go_on() -> None:
            for each in outcomes.values():
                each.wait_for(5)

        def passes_on(name: str, number: int) -> bool:
            """Whether a replica has logged a request of a balancer since its start."""
            asked = f"{name}-{number}"
            url = f"{fronts[name].url}/model"
            assert httpx.get(url, headers={"X-Request-ID": asked}).status_code == 200
            return f'"{asked}"' in replicas.running[number].log.read_text(encoding="utf-8")

        answers_go_on()
        for number in range(2):
            assert replicas.end(number) == 0
            answers_go_on()
            replicas.start(number)
            for name in fronts:
                wait_until(partial(passes_on, name, number))
            answers_go_on()
    assert {name: each.lost for name, each in outcomes.items()} == {key: {} for key in fronts}


def test_times_and_limits_fit_those_of_the_service() -> None:
    fields = Settings.model_fields
    haproxy, nginx = (
        (DEPLOY / name).read_text(encoding="utf-8") for name in ("haproxy.cfg", "nginx.conf")
    )

    def seconds(text: str, before: str) -> int:
        found = re.findall(rf"{before} (\d+)s\b", text)
        return max(map(int, found))

    # The service gives up first, and never closes a connection that a balancer takes for open.
    for text, waits, idle, ends in (
        (haproxy, "timeout server", "pool-purge-delay", "hard-stop-after"),
        (nginx, "proxy_read_timeout", " {8}keepalive_timeout", "worker_shutdown_timeout"),
    ):
        assert seconds(text, waits) > fields["request_timeout"].default
        assert seconds(text, idle) < server._KEEP_ALIVE_SECONDS
        assert seconds(text, ends) > fields["request_timeout"].default
    [megabytes] = re.findall(r"client_max_body_size (\d+)m;", nginx)
    assert int(megabytes) * 1024**2 > fields["max_body_bytes"].default
    # The logs of both know the same paths.
    [known] = [line for line in haproxy.splitlines() if "set-var(txn.path)" in line]
    paths = known.partition("{ path ")[2].rstrip(" }").split()
    [mapped] = [line for line in nginx.splitlines() if "(?<p>" in line]
    assert mapped.split("(?<p>")[1].split(")$")[0].replace("\\", "").split("|") == paths
