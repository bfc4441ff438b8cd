"""A few seconds of `make soak`, and how it judges memory."""

import os
import shutil
from pathlib import Path

import pytest

from tests.resilience.load import KINDS, Client, Tally
from tests.resilience.soak import Soak, running_fleet, window_medians


@pytest.mark.skipif(
    shutil.which("haproxy") is None and "CI" not in os.environ, reason="haproxy is not installed"
)
def test_a_replica_that_comes_and_goes_costs_no_answer(
    checkpoint_folder: Path, tmp_path: Path
) -> None:
    with running_fleet(checkpoint_folder, tmp_path) as (replicas, port):
        soak = Soak(*(replicas, port), minutes=0.05, clients=4, slow=2, pause=(1.0, 2.0), every=0.2)
        soak.run()
        assert soak.tally.faults == {}
        assert soak.done.total() > 0
        assert soak.samples
        # Every kind is answered as at first, one after the other too.
        client, tally = Client(port), Tally()
        for name in KINDS:
            while client.ask(name, 0, tally):
                pass
        assert tally.right == dict.fromkeys(KINDS, 1)


def test_memory_is_flat_by_the_medians_of_windows_after_warm_up() -> None:
    memory = [*range(20), *[100.0, 110.0, 90.0, 100.0, 100.0] * 5, 100.0]
    samples = [(float(second), each) for second, each in enumerate(memory)]

    assert window_medians(samples, warm_up=20) == [100.0] * 5
    assert window_medians(samples, warm_up=21.5) == []
    assert window_medians(samples, warm_up=50) == []
