"""A real Ray cluster of two nodes on this machine, of which one is killed."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import scoring.__main__ as command
from tests.hub_stand_in import files_of
from tests.scoring.conftest import PARTS, Run, end, start, told_of, wait_for_parts

pytestmark = pytest.mark.slow
WORKERS = ("--engine", "ray", "--workers", "2")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head without processors for actors, and room for nodes."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    from ray.cluster_utils import Cluster

    running = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False}
    )
    try:
        yield running
    finally:
        running.shutdown()


def actors() -> list[int]:
    found = subprocess.run(
        ["pgrep", "-f", "ray::PartActor"], capture_output=True, text=True, check=False
    )
    return [int(line) for line in found.stdout.split()]


def test_an_interruption_and_lost_actors_and_nodes_change_nothing(
    cluster: Any,  # noqa: ANN401
    run: Run,
    checkpoint_folder: Path,
    table: Path,
    tmp_path: Path,
) -> None:
    assert run(table, "--output", tmp_path / "whole", *PARTS) == 0
    whole = files_of(tmp_path / "whole")
    output = tmp_path / "out"
    options = (*WORKERS, "--ray-address", cluster.address)
    lost, _ = cluster.add_node(num_cpus=1), cluster.add_node(num_cpus=1)

    driver = start(checkpoint_folder, table, output, *options)
    wait_for_parts(output, 1, driver)
    driver.send_signal(signal.SIGTERM)
    code, said = end(driver)
    assert code == 128 + signal.SIGTERM
    (interrupted,) = told_of(said)
    assert interrupted.startswith("headlight-score: interrupted: ")
    assert interrupted.endswith(" parts are written; run the same command to go on")
    assert "SUCCESS.json" not in files_of(output)
    before = len(list(output.glob("part-*")))

    driver = start(checkpoint_folder, table, output, *options)
    wait_for_parts(output, before + 1, driver)
    for actor in actors():
        os.kill(actor, signal.SIGKILL)
    killed = len(list(output.glob("part-*")))
    wait_for_parts(output, killed + 1, driver)
    cluster.remove_node(lost, allow_graceful=False)
    code, said = end(driver)

    assert (code, told_of(said)) == (0, [])
    assert files_of(output) == whole
    assert "good" not in said


def test_an_address_at_which_nothing_answers_is_told(
    checkpoint_folder: Path, table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = ("--output", str(tmp_path / "out"), "--checkpoint", str(checkpoint_folder))
    assert command.main([str(table), *output, *WORKERS, "--ray-address", "127.0.0.1:1"]) == 1
    assert told_of(capsys.readouterr().err) == [
        "headlight-score: --ray-address 127.0.0.1:1: nothing answers there (Connection refused): "
        "give the address that `ray start --head` has printed"
    ]


def test_without_ray_the_extra_is_named(
    checkpoint_folder: Path,
    table: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    output = ("--output", str(tmp_path / "out"), "--checkpoint", str(checkpoint_folder))
    assert command.main([str(table), *output, *WORKERS]) == 1
    assert told_of(capsys.readouterr().err) == [
        "headlight-score: ray is not installed, which scoring files needs and serving does not: "
        "pip install 'headlight[score,ray]'"
    ]
