"""Two real replicas behind real balancers: what comes through, and a roll-out without loss."""

import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import httpx
import pytest

from tests.containers.stack import Outcomes, load
from tests.deploy import balancers
from tests.deploy.balancers import Balancer
from tests.end_to_end.servers import RunningService, service

PATIENCE = 60
KNOWN = "quokka"  # a word of a user, which no log may hold
LIMIT = 2_000_000  # HEADLIGHT_MAX_BODY_BYTES


class Replicas:
    """Two processes of the service on ports that stay theirs.

    Args:
        checkpoint: what they serve.
        folder: for their logs.
    """

    def __init__(self, checkpoint: Path, folder: Path) -> None:
        self._checkpoint = checkpoint
        self._folder = folder
        with ExitStack() as held:
            self.ports = [balancers.free_port(held) for _ in range(2)]
        self._stacks: list[ExitStack] = [ExitStack(), ExitStack()]
        self._running: list[RunningService | None] = [None, None]

    def start(self, number: int) -> None:
        """Starts one and waits until it is ready."""
        folder = self._folder / f"replica-{number}"
        folder.mkdir(exist_ok=True)
        stack = self._stacks[number] = ExitStack()
        options = ("--port", str(self.ports[number]), "--trusted-proxies", "127.0.0.1")
        self._running[number] = stack.enter_context(service(self._checkpoint, folder, *options))

    def end(self, number: int, how: signal.Signals = signal.SIGTERM) -> int:
        """Ends one by a signal; returns the status of its process."""
        running = self._running[number]
        assert running is not None
        running.process.send_signal(how)
        status = running.process.wait(PATIENCE)
        self._stacks[number].close()
        return status

    def saw(self, number: int, request_id: str) -> bool:
        """Whether one of them has logged a request since its start."""
        running = self._running[number]
        assert running is not None
        return f'"{request_id}"' in running.log.read_text(encoding="utf-8")

    def close(self) -> None:
        """Ends those that run."""
        for stack in self._stacks:
            stack.close()

    def answered(self) -> list[float]:
        """How many predictions each one has answered since its start."""
        series = 'headlight_requests_total{method="POST",route="/predict",status="200"}'
        return [running.metric(series) for running in self._running if running is not None]


def wait_until(condition: Callable[[], bool]) -> None:
    """Asks again and again until something holds."""
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.1)


@contextmanager
def in_front(name: str, replicas: Replicas, folder: Path) -> Iterator[Balancer]:
    """A balancer that answers."""
    with balancers.balancer(name, replicas.ports, folder) as balancer:

        def answers() -> bool:
            try:
                return httpx.get(f"http://127.0.0.1:{balancer.port}/model").status_code == 200
            except httpx.TransportError:
                return False

        wait_until(answers)
        yield balancer


@pytest.fixture(scope="module")
def replicas(
    checkpoint_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Replicas]:
    """Both of them, ready."""
    both = Replicas(checkpoint_folder, tmp_path_factory.mktemp("replicas"))
    try:
        for number in range(2):
            both.start(number)
        yield both
    finally:
        both.close()


@pytest.fixture(scope="module", params=balancers.each())
def balancer(
    request: pytest.FixtureRequest,
    replicas: Replicas,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Balancer]:
    with in_front(request.param, replicas, tmp_path_factory.mktemp("balancer")) as running:
        yield running


@pytest.fixture
def client(balancer: Balancer) -> Iterator[httpx.Client]:
    url = f"http://127.0.0.1:{balancer.port}"
    with httpx.Client(base_url=url, timeout=PATIENCE) as client:
        yield client


def test_spreads_requests(client: httpx.Client, replicas: Replicas) -> None:
    before = replicas.answered()
    for _ in range(40):
        assert client.post("/predict", json={"sentences": ["good"]}).status_code == 200
    gained = [after - first for after, first in zip(replicas.answered(), before, strict=True)]
    assert sum(gained) == 40
    assert min(gained) > 0


def test_passes_the_id_of_a_request_on(client: httpx.Client) -> None:
    own = client.get("/model", headers={"X-Request-ID": "mine-1"})
    assert own.headers.get_list("x-request-id") == ["mine-1"]
    assert len(client.get("/model").headers["x-request-id"]) >= 16


def test_takes_a_long_text_in_the_request_line(client: httpx.Client, replicas: Replicas) -> None:
    """As long as the service itself takes."""
    text = KNOWN + " film" * 6_000
    query = {"sentence": text, "layer": "0", "head": "0"}
    direct = httpx.get(
        f"http://127.0.0.1:{replicas.ports[0]}/attention", params=query, timeout=PATIENCE
    )
    assert direct.status_code == 200
    answer = client.get("/attention", params=query)
    assert answer.status_code == 200
    assert answer.json() == direct.json()


def test_a_body_that_the_service_takes_comes_through(client: httpx.Client) -> None:
    body = {"sentences": ["film " * (LIMIT // 10), "good"]}
    answer = client.post("/predict", json=body)
    assert answer.status_code == 200
    assert [item["truncated"] for item in answer.json()["predictions"]] == [True, False]


def test_the_service_itself_refuses_a_body_that_is_too_large(client: httpx.Client) -> None:
    answer = client.post("/predict", json={"sentences": ["x" * LIMIT]})
    assert answer.status_code == 413
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["type"] == "/problems/payload-too-large"
    assert len(answer.headers["x-request-id"]) >= 16


def test_a_body_of_any_size_gets_413(balancer: Balancer) -> None:
    """And takes no replica away from the others."""
    url = f"http://127.0.0.1:{balancer.port}/predict"

    def is_refused() -> bool:
        try:
            large = httpx.post(url, json={"sentences": ["x" * 3 * LIMIT]}, timeout=PATIENCE)
        except httpx.TransportError:  # who closes before all is read can lose the answer
            return False
        assert large.status_code == 413
        return True

    for _ in range(6):
        wait_until(is_refused)
        small = httpx.post(url, json={"sentences": ["good"]}, timeout=PATIENCE)
        assert small.status_code == 200


def test_a_large_answer_comes_through_whole(client: httpx.Client, replicas: Replicas) -> None:
    body = {"sentence": "film " * 400}
    direct = httpx.post(
        f"http://127.0.0.1:{replicas.ports[0]}/attention", json=body, timeout=PATIENCE
    )
    answer = client.post("/attention", json=body)
    assert direct.status_code == answer.status_code == 200
    assert answer.content == direct.content


def test_logs_no_text(client: httpx.Client, balancer: Balancer) -> None:
    assert client.get("/attention", params={"sentence": KNOWN}).status_code == 200
    assert client.get(f"/{KNOWN}").status_code == 404
    assert client.post("/predict", json={"sentences": [KNOWN]}).status_code == 200
    lines = balancer.log.read_text(encoding="utf-8")
    assert KNOWN not in lines.lower()


@pytest.mark.parametrize("name", balancers.each())
def test_without_a_replica_the_balancer_says_so(name: str, tmp_path: Path) -> None:
    with ExitStack() as held:
        ports = [balancers.free_port(held) for _ in range(2)]
    with balancers.balancer(name, ports, tmp_path) as balancer:
        answers: list[httpx.Response] = []

        def answers_at_all() -> bool:
            url = f"http://127.0.0.1:{balancer.port}/predict"
            try:
                answers.append(httpx.post(url, json={"sentences": ["good"]}, timeout=PATIENCE))
            except httpx.ConnectError:
                return False
            # Until it has read its routes and asked the replicas, Traefik says 404 and 502.
            return name != "traefik" or answers[-1].status_code == 503

        wait_until(answers_at_all)
    answer = answers[-1]
    assert answer.status_code == 503
    assert answer.headers["content-type"].startswith(
        "text/plain" if name == "traefik" else "application/problem+json"
    )
    if name != "traefik":  # has no words of its own to set
        assert answer.headers["retry-after"] == "1"
        assert answer.json()["type"] == "/problems/not-ready"


def passes_on(front: Balancer, replicas: Replicas, number: int, request_id: str) -> bool:
    """Asks a balancer once; returns whether a replica has seen a request of this ID."""
    url = f"http://127.0.0.1:{front.port}/model"
    assert httpx.get(url, headers={"X-Request-ID": request_id}).status_code == 200
    return replicas.saw(number, request_id)


@pytest.fixture(scope="module")
def rolled(
    replicas: Replicas, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, tuple[Outcomes, Balancer]]]:
    """What came back through each balancer while both replicas were replaced in turn."""
    names = [name for name in balancers.NAMES if balancers.program(name) is not None]
    with ExitStack() as running:
        fronts = {
            name: running.enter_context(in_front(name, replicas, tmp_path_factory.mktemp(name)))
            for name in names
        }
        with ExitStack() as loads:
            outcomes = {
                name: loads.enter_context(load(front.port, clients=2, pause=0.05))
                for name, front in fronts.items()
            }

            def answers_go_on() -> None:
                before = {name: sum(each.counts.values()) for name, each in outcomes.items()}
                wait_until(
                    lambda: all(
                        sum(each.counts.values()) >= before[name] + 10
                        for name, each in outcomes.items()
                    )
                )

            def all_use(number: int) -> None:
                """Waits until every balancer has found that a new replica is ready."""
                for name, front in fronts.items():
                    wait_until(partial(passes_on, front, replicas, number, f"{name}-{number}"))

            answers_go_on()
            for number in range(2):
                assert replicas.end(number) == 0
                answers_go_on()
                replicas.start(number)
                all_use(number)
                answers_go_on()
        yield {name: (outcomes[name], fronts[name]) for name in names}


@pytest.mark.slow
@pytest.mark.parametrize("name", balancers.each())
def test_a_rolling_restart_loses_no_request(
    name: str, rolled: dict[str, tuple[Outcomes, Balancer]], replicas: Replicas
) -> None:
    outcomes, front = rolled[name]
    assert outcomes.lost == {}
    assert sum(outcomes.counts.values()) >= 50

    def uses_both() -> bool:
        before = replicas.answered()
        url = f"http://127.0.0.1:{front.port}/predict"
        for _ in range(20):
            assert httpx.post(url, json={"sentences": ["good"]}).status_code == 200
        return all(after > first for after, first in zip(replicas.answered(), before, strict=True))

    wait_until(uses_both)


def test_no_configuration_names_a_path_of_a_balancer_that_differs() -> None:
    """The log of nginx knows the same paths as that of HAProxy."""
    nginx = (balancers.DEPLOY / "nginx.conf").read_text(encoding="utf-8")
    haproxy = (balancers.DEPLOY / "haproxy.cfg").read_text(encoding="utf-8")
    [known] = [line for line in haproxy.splitlines() if "set-var(txn.path)" in line]
    paths = known.partition("{ path ")[2].rstrip(" }").split()
    [mapped] = [line for line in nginx.splitlines() if "(?<p>" in line]
    assert mapped.split("(?<p>")[1].split(")$")[0].replace("\\", "").split("|") == paths


def test_the_programs_run_here() -> None:
    for name in ("envoy", "traefik", "caddy"):
        if (found := balancers.program(name)) is not None:
            options = ["--version"] if name == "envoy" else ["version"]
            subprocess.run([found, *options], check=True, capture_output=True, timeout=PATIENCE)
