"""The running stack: what a replica may do, and that no request is lost when one goes away."""

import errno
import json
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from model.checkpoint.opening import open_checkpoint
from tests.builders import tiny_checkpoint
from tests.containers.engine import ROOT, Engine
from tests.containers.stack import PROJECT, Stack, await_replicas, load, running_stack
from tests.documentation.markdown import blocks, code, rows

CHECKS = rows(ROOT / "docs" / "guides" / "deploy.md", "what", "check", "prints")
_CONNECT = """
import socket
try:
    socket.create_connection(("{address}", 8080), timeout=2).close()
except OSError:
    print(False)
else:
    print(True)
"""


@pytest.fixture(scope="module")
def replica(stack: Stack) -> str:
    """The name of one of two containers, which the compose file makes alike."""
    return stack.replicas()[0]


@pytest.mark.parametrize(
    ("check", "prints"), [(code(check), code(prints)) for _, check, prints in CHECKS]
)
def test_a_check_of_the_guide_prints_what_it_says(
    stack: Stack, replica: str, check: str, prints: str
) -> None:
    asked = check.replace("$REPLICA", replica).replace("headlight_replicas", f"{PROJECT}_replicas")
    program, *arguments = shlex.split(asked)
    assert program == "docker"
    assert stack.engine.docker(*arguments) == prints


def test_writes_nowhere_but_to_its_temporary_folder(stack: Stack, replica: str) -> None:
    paths = ["/app/x", "/opt/headlight/x", "/opt/bytecode/x", "/opt/venv/x", "/x", "/tmp/x"]  # noqa: S108
    script = f"""
for path in {paths!r}:
    try:
        with open(path, "w") as file:
            print(file.write("12345"))
    except OSError as error:
        print(-error.errno)
"""
    assert [int(line) for line in stack.engine.python(replica, script).split()] == [
        *[-errno.EROFS] * 5,
        5,
    ]


def test_has_no_way_out(stack: Stack, replica: str) -> None:
    networks = stack.engine.inspect(stack.balancer())["NetworkSettings"]["Networks"]
    addresses = {name.rpartition("_")[2]: item["IPAddress"] for name, item in networks.items()}
    reached = {
        name: stack.engine.python(replica, _CONNECT.format(address=address))
        for name, address in addresses.items()
    }
    assert reached == {"replicas": "True", "public": "False"}


def test_takes_its_threads_from_the_limit(stack: Stack, replica: str) -> None:
    lines = [json.loads(line) for line in stack.engine.docker("logs", replica).splitlines()]
    assert {line["threads"] for line in lines if line["message"] == "model ready"} == {1}


def test_the_balancer_has_limits_too(stack: Stack) -> None:
    config = stack.engine.inspect(stack.balancer())["HostConfig"]
    assert config["NanoCpus"] == 1_000_000_000
    assert config["Memory"] == 1024**3 // 4
    assert config["ReadonlyRootfs"] is True
    assert config["CapDrop"] == ["ALL"]
    assert stack.engine.inspect(stack.balancer())["Config"]["User"] not in ("", "root", "0")


@pytest.fixture
def disturbed(stack: Stack) -> Iterator[Stack]:
    """The stack for a test that stops, adds or changes replicas; the two are back after it."""
    yield stack
    stack.engine.compose("up", "--detach", "--no-build", "--wait")
    await_replicas(stack.port, 2)


def test_both_replicas_answer_alike(stack: Stack) -> None:
    answers = [stack.predict() for _ in range(20)]
    assert {answer.status for answer in answers} == {200}
    assert {answer.replica for answer in answers} == {"api1", "api2"}
    [content] = {answer.body for answer in answers}
    assert json.loads(content)["model"]["name"] == "default"


def test_a_replica_that_is_killed_loses_no_request(disturbed: Stack) -> None:
    with load(disturbed.port) as outcomes:
        outcomes.wait_for(100)
        disturbed.engine.docker("kill", disturbed.replicas()[0])
        outcomes.wait_for(500)
    assert outcomes.lost == {}
    assert len(outcomes.by_replica) == 2


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
    with load(disturbed.port) as outcomes:
        disturbed.engine.compose(*up, "api=4")
        await_replicas(disturbed.port, 4)
        disturbed.engine.docker("stop", "--time", "20", *old)
        ends = [disturbed.engine.inspect(each)["State"] for each in old]
        disturbed.engine.docker("rm", *old)
        disturbed.engine.compose(*up, "api=2")
        await_replicas(disturbed.port, 2)
    assert outcomes.lost == {}
    assert {(end["ExitCode"], end["OOMKilled"]) for end in ends} == {(0, False)}
    names = {disturbed.predict().json()["model"]["name"] for _ in range(10)}
    assert names == {"reviews-2"}


def test_the_override_serves_the_model(engine: Engine, image: str, tmp_path: Path) -> None:
    folder = tiny_checkpoint(tmp_path / "messages")
    for path in (folder, *folder.iterdir()):
        path.chmod(0o755 if path.is_dir() else 0o644)
    (override,) = blocks(ROOT / "docs" / "tutorial.md", "yaml")
    mounted = "./checkpoints/messages:"
    assert mounted in override.content
    file = tmp_path / "docker-compose.override.yml"
    file.write_text(override.content.replace(mounted, f"{folder}:"), encoding="utf-8")
    variables = {
        **engine.environment,
        "COMPOSE_FILE": f"{ROOT / 'docker-compose.yml'}:{file}",
        "COMPOSE_PROJECT_NAME": "headlight-tutorial",
    }

    with running_stack(replace(engine, environment=variables), image) as stack:
        await_replicas(stack.port, 2)
        answer = stack.predict("Do you deliver to Iceland?")

    assert answer.status == 200
    version = open_checkpoint(folder).version
    assert answer.json()["model"] == {"name": "messages", "version": version}
