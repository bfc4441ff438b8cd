"""One short round of `make train-faults`."""

import random
from pathlib import Path

import pytest

from tests.resilience.ranks import run_round


@pytest.mark.slow
@pytest.mark.parametrize("interruptions", [0, 1])
def test_a_run_that_is_killed_and_interrupted_ends_in_the_same_weights(
    tmp_path: Path, interruptions: int
) -> None:
    outcome = run_round(
        tmp_path / "round",
        kills=1,
        interruptions=interruptions,
        epochs=3,
        chance=random.Random(0),
    )

    assert outcome.fault is None
    assert (outcome.killed, outcome.interrupted) == (1, interruptions)
