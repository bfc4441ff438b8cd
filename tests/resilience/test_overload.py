"""A short run of each case of `make overload`."""

from pathlib import Path

import pytest

from tests.end_to_end.servers import ROOT, service
from tests.resilience.overload import ATTACKS, fairness, flood, readers

pytestmark = pytest.mark.alone

# Each pass sleeps, so that the limit of the service does not depend on the load of this machine.
PASS_SECONDS = "0.05"
LIMITS = ("--max-batch-tokens", "16", "--request-timeout", "1")


def test_a_flood_is_answered_at_full_speed_or_refused(
    checkpoint_folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "pass").write_text(PASS_SECONDS, encoding="ascii")
    program = ("-W", "error", "-m", "tests.end_to_end.misbehaving", str(tmp_path))
    sentences = ["good film", "good plot", "bad film", "bad plot"]

    with service(checkpoint_folder, tmp_path, *LIMITS, program=program) as running:
        assert flood(running, seconds=4.0, sentences=sentences, clients=40) == []


def test_no_polite_request_is_refused_beside_an_unfair_client(tmp_path: Path) -> None:
    attacks = [["256 long texts"], list(ATTACKS)]

    with service(ROOT / "checkpoints" / "default", tmp_path, "--dtype", "auto") as running:
        # The waits depend on the machine: `make overload` judges them.
        assert fairness(running, seconds=1.5, attacks=attacks, most_times=float("inf")) == []
        assert readers(running, seconds=1.5, count=8) == []
