"""One short round of each part of `make faults`."""

import random
from pathlib import Path

import pytest

from tests.resilience.scoring_faults import ScoringRound
from tests.resilience.small_disk import small_disk
from tests.resilience.training_faults import training_round

pytestmark = pytest.mark.slow


def test_a_disturbed_job_writes_the_same_bytes(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 256) as disk:
        job = ScoringRound(tmp_path, disk, "text", rows=3_000, seed=1)
        job.run(most=6)

    assert job.faults == []
    assert job.done.total() > 0


def test_a_run_that_is_killed_and_interrupted_ends_in_the_same_weights(tmp_path: Path) -> None:
    folder, chance = tmp_path / "round", random.Random(0)
    outcome = training_round(folder, kills=1, interruptions=1, epochs=2, chance=chance)

    assert outcome.fault is None
    assert (outcome.killed, outcome.interrupted) == (1, 1)
