"""A seeded part of the load of `make soak`, and whether its judges notice what is wrong."""

import random
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders import tiny_checkpoint
from tests.end_to_end.servers import RunningService, service
from tests.resilience.load import KINDS, LARGE, Client, Tally
from tests.resilience.slow import ENDS, SlowReader

_COUNT = 30
# Their answers depend on the weights.
_COMPARED = sorted(set(KINDS) - {"bad requests"})


@pytest.fixture(scope="module")
def running(
    checkpoint_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningService]:
    """The service that is asked."""
    with service(checkpoint_folder, tmp_path_factory.mktemp("soaked")) as running:
        yield running
    assert running.errors() == []


@pytest.fixture(scope="module")
def client(running: RunningService) -> Client:
    """Knows the answers of the service."""
    return Client(running.port, Tally())


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """A service with other weights."""
    folder = tmp_path_factory.mktemp("other")
    with service(tiny_checkpoint(folder / "tiny", seed=1), folder) as running:
        yield running


def test_each_kind_is_answered_as_before(running: RunningService, client: Client) -> None:
    tally = client.tally = Tally()
    stop = threading.Event()
    # They ask all the while, and are through with some answers at the end.
    reader = SlowReader(running.port, LARGE, repeats=50, pause=0.01, reads=40)
    readers = [threading.Thread(target=reader.run, args=(tally, stop)) for _ in range(4)]
    for each in readers:
        each.start()
    for kind in KINDS:
        chance = random.Random(0)
        for _ in range(_COUNT):
            client.ask(kind, chance)
    stop.set()
    for each in readers:
        each.join()
    assert tally.faults == {}
    # A busy machine may refuse some of it, and says so.
    for kind in KINDS:
        assert tally.right[kind] + tally.refused[kind] == _COUNT
        assert tally.right[kind] > 0
    assert sum(tally.right[end] for end in ENDS) + tally.refused["a slow reader"] >= len(readers)


@pytest.mark.parametrize("kind", _COMPARED)
def test_answers_of_other_weights_are_noticed(
    kind: str, running: RunningService, other: RunningService, client: Client
) -> None:
    tally = client.tally = Tally()
    client.port = other.port
    while client.ask(kind, random.Random(0)):
        pass
    client.port = running.port
    assert tally.right == {}
    assert tally.faults.total() == 1
