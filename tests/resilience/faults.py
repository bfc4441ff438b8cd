"""Scores files and trains while processes are killed and files go bad.

    python -m tests.resilience.faults --scoring 12 --training 6

The status is 0 if every output was that of an undisturbed run.
"""

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

from tests.resilience.scoring_faults import ScoringRound
from tests.resilience.training_faults import training_round


def score(folder: Path, rounds: int, *, size: int, faults: int, seed: int) -> int:
    """Runs rounds of scoring, prints each, and returns how much was wrong."""
    wrong = 0
    for number in range(rounds):
        place = folder / f"scoring{number}"
        place.mkdir()
        began = time.monotonic()
        round_ = ScoringRound(place, size=size, seed=seed + number)
        round_.run(most=faults)
        wrong += len(round_.faults)
        done = ", ".join(f"{kind} {count}" for kind, count in sorted(round_.done.items()))
        print(
            f"scoring: {time.monotonic() - began:.0f} s, {round_.runs} runs, {done}: "
            f"{'; '.join(round_.faults) or 'the same bytes'}",
            flush=True,
        )
    return wrong


def train(folder: Path, rounds: int, *, kills: int, epochs: int, seed: int) -> int:
    """Runs rounds of training, prints each, and returns how many were wrong."""
    wrong = 0
    for number in range(rounds):
        began = time.monotonic()
        outcome = training_round(
            folder / f"training{number}",
            kills=kills,
            interruptions=2 * (number % 2),
            epochs=epochs,
            chance=random.Random(seed + number),
        )
        wrong += outcome.fault is not None
        good = "within 1e-5 of one process" if number % 2 else "the same bytes"
        print(
            f"training: {time.monotonic() - began:.0f} s, killed {outcome.killed}, interrupted "
            f"{outcome.interrupted}: {outcome.fault or good}",
            flush=True,
        )
    return wrong


def main() -> int:
    """Runs all rounds."""
    parser = argparse.ArgumentParser(description="Scores and trains while everything goes wrong.")
    parser.add_argument("--scoring", type=int, default=6, help="rounds of scoring")
    parser.add_argument("--size", type=int, default=10_000_000, help="bytes of a round of scoring")
    parser.add_argument("--faults", type=int, default=28, help="faults of a round of scoring")
    parser.add_argument("--training", type=int, default=4, help="rounds of training")
    parser.add_argument("--kills", type=int, default=6, help="kills of a round of training")
    parser.add_argument("--epochs", type=int, default=12, help="epochs of a round of training")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    seed = options.seed
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wrong = score(folder, options.scoring, size=options.size, faults=options.faults, seed=seed)
        wrong += train(
            *(folder, options.training),
            kills=options.kills,
            epochs=options.epochs,
            seed=seed,
        )
    print(f"{wrong} faults of ours")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
