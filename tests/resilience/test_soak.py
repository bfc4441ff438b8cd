"""A few seconds of `make soak` on processes, and a replica that ends though nobody killed it."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.resilience.fleet import PlainFleet, plain_fleet
from tests.resilience.load import KINDS
from tests.resilience.memory import Flatness
from tests.resilience.soak import Options, Soak, report

OPTIONS = Options(minutes=0.1, warm_up=0.0, clients=4, slow=2, pause=(1.0, 2.0), every=0.2)
FLAT = Flatness((500e6, 501e6, 500e6, 502e6, 500e6))
pytestmark = pytest.mark.skipif(
    shutil.which("haproxy") is None and "CI" not in os.environ, reason="haproxy is not installed"
)


@pytest.fixture(scope="module")
def fleet(checkpoint_folder: Path) -> Iterator[PlainFleet]:
    """Two replicas of the tiny model."""
    with plain_fleet(checkpoint_folder, "--dtype", "float32") as fleet:
        yield fleet


def test_a_replica_that_comes_and_goes_costs_no_answer(fleet: PlainFleet) -> None:
    soak = Soak(fleet, OPTIONS)
    soak.run()
    assert soak.tally.faults == {}
    assert soak.done.total() > 0
    assert soak.tally.right.keys() & KINDS.keys()
    assert len({sample.started for sample in soak.samples}) == 1
    # A busy machine may refuse some; these few samples say nothing of memory.
    assert report(soak, FLAT, most_refused=1.0) == 0
    assert report(soak, Flatness(()), most_refused=1.0) == 1
    soak.tally.count_refusal("one sentence")
    assert report(soak, FLAT, most_refused=0.0) == 1


def test_a_replica_that_ends_by_itself_is_a_fault(
    fleet: PlainFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    elder, _ = fleet.replicas()
    kill = fleet.kill
    for name in ("kill", "stop"):
        monkeypatch.setattr(fleet, name, lambda _: kill(elder))
    soak = Soak(fleet, replace(OPTIONS, clients=0, slow=0))
    soak.run()
    assert any("the replica that nobody killed" in fault for fault in soak.tally.faults)
    assert report(soak, FLAT, most_refused=1.0) == 1
