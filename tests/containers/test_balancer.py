"""Requests through the balancer: spread over the replicas, and none lost when one goes away."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.containers.engine import ROOT
from tests.containers.stack import Stack


@pytest.fixture
def disturbed(stack: Stack) -> Iterator[Stack]:
    """The stack for a test that stops, adds or changes replicas; the two are back after it."""
    yield stack
    stack.engine.compose("up", "--detach", "--no-build", "--wait")
    stack.await_replicas(2)


def test_both_replicas_answer_alike(stack: Stack) -> None:
    answers = [stack.predict() for _ in range(20)]
    assert {answer.status for answer in answers} == {200}
    assert {answer.replica for answer in answers} == {"api1", "api2"}
    [content] = {answer.body for answer in answers}
    assert json.loads(content)["model"]["name"] == "default"


def test_no_text_is_logged(stack: Stack) -> None:
    stack.request("GET", "/attention?sentence=quokka")
    stack.request("GET", "/quokka")
    stack.request("QUOKKA", "/predict")
    stack.predict("quokka")
    logs = stack.engine.compose("logs", "--no-log-prefix")
    assert "quokka" not in logs.lower()
    balancer = stack.engine.docker("logs", stack.balancer()).splitlines()
    lines = [json.loads(line) for line in balancer if line.startswith("{")]
    assert [(line["method"], line["path"]) for line in lines[-4:]] == [
        ("GET", "/attention"),
        ("GET", "-"),
        ("-", "/predict"),
        ("POST", "/predict"),
    ]


def test_the_ids_in_the_logs_are_those_of_the_answers(stack: Stack) -> None:
    ids = {stack.predict().headers["x-request-id"] for _ in range(6)}
    ids.add(
        stack.request("GET", "/model", headers={"X-Request-ID": "mine-2"}).headers["x-request-id"]
    )
    logged = set()
    for replica in stack.replicas():
        for line in stack.engine.docker("logs", replica).splitlines():
            record = json.loads(line)  # every line is JSON
            if record["message"] == "request":
                logged.add(record["request_id"])
    assert "mine-2" in ids
    assert ids <= logged


@pytest.mark.parametrize("how", [("stop", "--time", "20"), ("kill",)], ids=" ".join)
def test_a_replica_that_ends_loses_no_request(disturbed: Stack, how: tuple[str, ...]) -> None:
    ending = disturbed.replicas()[0]
    with disturbed.load() as outcomes:
        outcomes.wait_for(100)
        disturbed.engine.docker(*how, ending)
        outcomes.wait_for(500)
    assert outcomes.lost == {}
    assert len(outcomes.by_replica) == 2
    if how[0] == "stop":
        state = disturbed.engine.inspect(ending)["State"]
        assert (state["ExitCode"], state["OOMKilled"]) == (0, False)


def test_more_replicas_are_found_and_not_asked_before_they_listen(disturbed: Stack) -> None:
    with disturbed.load() as outcomes:
        disturbed.engine.compose(
            "up", "--detach", "--no-build", "--no-recreate", "--wait", "--scale", "api=4"
        )
        disturbed.await_replicas(4)
    assert outcomes.lost == {}
    assert len(outcomes.by_replica) == 4


def test_a_new_checkpoint_is_rolled_out_without_losing_a_request(
    disturbed: Stack, tmp_path: Path
) -> None:
    tmp_path.chmod(0o755)
    shutil.copytree(ROOT / "checkpoints" / "default", tmp_path / "reviews-2")
    override = tmp_path / "override.yml"
    override.write_text(
        f"""
services:
  api:
    environment:
      HEADLIGHT_CHECKPOINT: /checkpoints/reviews-2
    volumes: ["{tmp_path}/reviews-2:/checkpoints/reviews-2:ro"]
""",
        encoding="utf-8",
    )
    files = ["--file", "docker-compose.yml", "--file", str(override)]
    up = [*files, "up", "--detach", "--no-build", "--no-recreate", "--wait", "--scale"]
    old = disturbed.replicas()
    with disturbed.load() as outcomes:
        disturbed.engine.compose(*up, "api=4")
        disturbed.await_replicas(4)
        disturbed.engine.docker("stop", "--time", "20", *old)
        disturbed.engine.docker("rm", *old)
        disturbed.engine.compose(*up, "api=2")
        disturbed.await_replicas(2)
    assert outcomes.lost == {}
    names = {disturbed.predict().json()["model"]["name"] for _ in range(10)}
    assert names == {"reviews-2"}
