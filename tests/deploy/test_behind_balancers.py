"""Two real replicas behind real balancers: what comes through, and a roll-out without loss."""

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.containers.stack import Outcomes, load
from tests.deploy import balancers
from tests.deploy.balancers import Balancer
from tests.deploy.replicas import Replicas
from tests.end_to_end.servers import wait_until

PATIENCE = 60
KNOWN = "quokka"  # a word of a user, which no log may hold
LIMIT = 2_000_000  # HEADLIGHT_MAX_BODY_BYTES


@pytest.fixture(scope="module")
def replicas(
    checkpoint_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Replicas]:
    """Both of them, ready."""
    folder = tmp_path_factory.mktemp("replicas")
    with Replicas(checkpoint_folder, folder, "--trusted-proxies", "127.0.0.1") as both:
        yield both


@pytest.fixture(scope="module")
def fronts(
    replicas: Replicas, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Balancer]]:
    """All balancers that are installed, each of which answers."""
    with ExitStack() as running:
        fronts = {
            name: running.enter_context(
                balancers.balancer(name, replicas.ports, tmp_path_factory.mktemp(name))
            )
            for name in balancers.NAMES
            if balancers.program(name) is not None
        }
        for front in fronts.values():
            wait_until(partial(balancers.answers, f"http://127.0.0.1:{front.port}/model"))
        yield fronts


@pytest.fixture(params=balancers.each())
def balancer(request: pytest.FixtureRequest, fronts: dict[str, Balancer]) -> Balancer:
    return fronts[request.param]


@pytest.fixture
def client(balancer: Balancer) -> Iterator[httpx.Client]:
    url = f"http://127.0.0.1:{balancer.port}"
    with httpx.Client(base_url=url, timeout=PATIENCE) as client:
        yield client


def test_spreads_requests(client: httpx.Client, replicas: Replicas) -> None:
    before = replicas.answered()
    for _ in range(20):
        assert client.post("/predict", json={"sentences": ["good"]}).status_code == 200
    gained = [after - first for after, first in zip(replicas.answered(), before, strict=True)]
    assert sum(gained) == 20
    assert min(gained) > 0


def test_passes_the_id_of_a_request_on(client: httpx.Client) -> None:
    own = client.get("/model", headers={"X-Request-ID": "mine-1"})
    assert own.headers.get_list("x-request-id") == ["mine-1"]
    assert len(client.get("/model").headers["x-request-id"]) >= 16


def test_a_body_that_the_service_takes_comes_through(client: httpx.Client) -> None:
    body = {"sentences": ["film " * (LIMIT // 10), "good"]}
    answer = client.post("/predict", json=body)
    assert answer.status_code == 200
    assert [item["truncated"] for item in answer.json()["predictions"]] == [True, False]


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

    for _ in range(3):
        wait_until(is_refused)
        small = httpx.post(url, json={"sentences": ["good"]}, timeout=PATIENCE)
        assert small.status_code == 200


@pytest.mark.parametrize(
    "request_",
    [
        # As long as the service itself takes.
        {"method": "GET", "params": {"sentence": "film" + " film" * 6_000, "layer": 0, "head": 0}},
        {"method": "POST", "json": {"sentence": "film " * 400}},
    ],
    ids=["long request line", "large answer"],
)
def test_comes_through_whole(
    client: httpx.Client, replicas: Replicas, request_: dict[str, Any]
) -> None:
    url = f"http://127.0.0.1:{replicas.ports[0]}/attention"
    direct = httpx.request(url=url, timeout=PATIENCE, **request_)
    answer = client.request(url="/attention", **request_)
    assert direct.status_code == answer.status_code == 200
    assert answer.content == direct.content


def test_logs_ids_and_no_text(client: httpx.Client, balancer: Balancer) -> None:
    odd = {"X-Request-ID": f'a {KNOWN} "film"'}
    assert client.get("/attention", params={"sentence": KNOWN}, headers=odd).status_code == 200
    assert client.get(f"/{KNOWN}").status_code == 404
    assert client.post("/predict", json={"sentences": [KNOWN]}).status_code == 200
    given = {"X-Request-ID": f"id-{'0' * 125}"}
    ids = [client.get("/model", headers=each).headers["x-request-id"] for each in ({}, given)]
    assert ids[1] == given["X-Request-ID"]
    if balancer.name != "caddy":  # has no log of requests
        for each in ids:
            wait_until(lambda each=each: f'"{each}"' in balancer.log.read_text("utf-8"))  # type: ignore[misc]
    assert KNOWN not in balancer.log.read_text(encoding="utf-8").lower()


def passes_on(front: Balancer, replicas: Replicas, number: int, request_id: str) -> bool:
    """Asks a balancer once; returns whether a replica has logged the request since its start."""
    url = f"http://127.0.0.1:{front.port}/model"
    assert httpx.get(url, headers={"X-Request-ID": request_id}).status_code == 200
    return f'"{request_id}"' in replicas.running[number].log.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def rolled(replicas: Replicas, fronts: dict[str, Balancer]) -> dict[str, Outcomes]:
    """What came back through each balancer while both replicas were replaced in turn."""
    with ExitStack() as loads:
        outcomes = {
            name: loads.enter_context(load(front.port, clients=2, pause=0.05))
            for name, front in fronts.items()
        }

        def answers_go_on() -> None:
            wanted = {name: each.counts.total() + 5 for name, each in outcomes.items()}
            for name, each in outcomes.items():
                wait_until(lambda each=each, name=name: each.counts.total() >= wanted[name])  # type: ignore[misc]

        answers_go_on()
        for number in range(2):
            assert replicas.end(number) == 0
            answers_go_on()
            replicas.start(number)
            # Every balancer finds that the new replica is ready.
            for name, front in fronts.items():
                wait_until(partial(passes_on, front, replicas, number, f"{name}-{number}"))
            answers_go_on()
    return outcomes


@pytest.mark.slow
@pytest.mark.parametrize("name", balancers.each())
def test_a_rolling_restart_loses_no_request(name: str, rolled: dict[str, Outcomes]) -> None:
    assert rolled[name].lost == {}
    assert rolled[name].counts.total() >= 25


def test_no_configuration_names_a_path_of_a_balancer_that_differs() -> None:
    """The log of nginx knows the same paths as that of HAProxy."""
    nginx = (balancers.DEPLOY / "nginx.conf").read_text(encoding="utf-8")
    haproxy = (balancers.DEPLOY / "haproxy.cfg").read_text(encoding="utf-8")
    [known] = [line for line in haproxy.splitlines() if "set-var(txn.path)" in line]
    paths = known.partition("{ path ")[2].rstrip(" }").split()
    [mapped] = [line for line in nginx.splitlines() if "(?<p>" in line]
    assert mapped.split("(?<p>")[1].split(")$")[0].replace("\\", "").split("|") == paths
