"""The running containers: requests through the balancer, and a steady load of them."""

import http.client
import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from tests.containers.engine import CommandError, Engine

PROJECT = "headlight-under-test"
SENTENCE = "The plot drags, but the cast is superb."
_TIMEOUT_SECONDS = 20.0
_WAIT_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def replica(self) -> str | None:
        """The server's name that the balancer gave it."""
        return self.headers.get("x-served-by")

    def json(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(self.body)
        return content


@dataclass(slots=True)
class Outcomes:
    """What came back under load, counted by (status or fault, replica)."""

    counts: Counter[tuple[str, str | None]] = field(default_factory=Counter)

    @property
    def lost(self) -> dict[tuple[str, str | None], int]:
        """All that was not answered with 200."""
        return {key: count for key, count in self.counts.items() if key[0] != "200"}

    def wait_for(self, count: int) -> None:
        wanted, until = self.counts.total() + count, time.monotonic() + _WAIT_SECONDS
        while self.counts.total() < wanted:
            assert time.monotonic() < until
            time.sleep(0.02)

    @property
    def by_replica(self) -> Counter[str | None]:
        """How many answers of 200 each replica gave."""
        return Counter({key[1]: count for key, count in self.counts.items() if key[0] == "200"})


@contextmanager
def running_stack(engine: Engine, image: str) -> Iterator["Stack"]:
    """Everything in the compose file, up and healthy for as long as the block lasts.

    Raises:
        CommandError: it did not come up; the message holds what it logged.
    """
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    own = {"COMPOSE_PROJECT_NAME": PROJECT, "API_IMAGE": image, "LISTEN": f"127.0.0.1:{port}"}
    engine = replace(engine, environment={**own, **engine.environment})
    try:
        try:
            engine.compose("up", "--detach", "--no-build", "--wait", "--wait-timeout", "120")
        except CommandError as error:
            raise CommandError(f"{error}\n{engine.compose('logs', '--tail', '40')}") from error
        yield Stack(engine, port)
    finally:
        engine.compose("down", "--volumes")


class Stack:
    """The containers of the compose file."""

    def __init__(self, engine: Engine, port: int) -> None:
        self.engine = engine
        self.port = port

    def replicas(self) -> list[str]:
        """Names of the running containers that serve."""
        return sorted(self._names("api"))

    def balancer(self) -> str:
        [name] = self._names("balancer")
        return name

    def _names(self, service: str) -> list[str]:
        lines = self.engine.compose("ps", "--format", "{{.Name}}", service)
        return lines.split()

    def predict(self, *sentences: str) -> Answer:
        return ask(self.port, "/predict", {"sentences": sentences or [SENTENCE]})


def await_replicas(port: int, count: int) -> None:
    """Waits until a balancer spreads requests over so many servers."""
    deadline = time.monotonic() + _WAIT_SECONDS
    seen: set[str | None] = set()
    while len(seen) != count or None in seen:
        assert time.monotonic() < deadline, f"answers come from {seen}, not from {count}"
        with suppress(OSError):  # the balancer may not listen yet
            body = {"sentences": [SENTENCE]}
            seen = {ask(port, "/predict", body).replica for _ in range(4 * count)}


@contextmanager
def load(port: int, *, clients: int = 6, pause: float = 0.02) -> Iterator[Outcomes]:
    """Keeps clients of a balancer busy until the block ends; half of them keep connections."""
    outcomes = Outcomes()
    stop = threading.Event()
    lock = threading.Lock()

    def ask(*, keep_alive: bool) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT_SECONDS)
        while not stop.wait(pause):
            try:
                answer = _exchange(connection, "/predict", {"sentences": [SENTENCE]})
                outcome = (str(answer.status), answer.replica)
            except (OSError, http.client.HTTPException) as error:
                outcome = (repr(error), None)
                connection.close()
            with lock:
                outcomes.counts[outcome] += 1
            if not keep_alive:
                connection.close()
        connection.close()

    threads = [
        threading.Thread(target=ask, kwargs={"keep_alive": number % 2 == 0})
        for number in range(clients)
    ]
    for thread in threads:
        thread.start()
    try:
        yield outcomes
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def ask(port: int, path: str, content: object) -> Answer:
    """Posts JSON to a port of this machine, on a connection of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT_SECONDS)
    try:
        return _exchange(connection, path, content)
    finally:
        connection.close()


def _exchange(connection: http.client.HTTPConnection, path: str, content: object) -> Answer:
    kind = {"Content-Type": "application/json"}
    connection.request("POST", path, json.dumps(content), kind)
    response = connection.getresponse()
    received = {name.lower(): value for name, value in response.getheaders()}
    return Answer(response.status, received, response.read())
