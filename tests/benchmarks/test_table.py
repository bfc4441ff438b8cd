"""The table: medians of the repetitions, and their ratios."""

from benchmarks.comparison import Comparison, Run
from benchmarks.load import Load, Measurement
from benchmarks.table import table

LOADS = (Load(connections=1, sentences=1), Load(connections=4, sentences=32))


def run(start: float, memory: int | None, *rates: float) -> Run:
    """Latencies follow from the rate."""
    return Run(start, memory, tuple(Measurement(rate, 1 / rate, 2 / rate) for rate in rates))


def test_medians_and_ratios() -> None:
    comparison = Comparison(
        LOADS,
        ours=(
            run(2.0, 300_000_000, 100.0, 1000.0),
            run(9.0, 310_000_000, 50.0, 2000.0),
            run(3.0, 320_000_000, 200.0, 500.0),
        ),
        peers=(
            run(6.0, 620_000_000, 80.0, 400.0),
            run(6.0, 620_000_000, 40.0, 250.0),
            run(6.0, 620_000_000, 10.0, 200.0),
        ),
    )

    assert table(comparison, ours="ours", peer="peer").splitlines() == [
        "                                     sentences/s            range  p50 ms  p99 ms  ratio",
        "1 sentence at 1 connection     ours        100.0    50.0 to 200.0    10.0    20.0   2.50",
        "                               peer         40.0     10.0 to 80.0    25.0    50.0",
        "32 sentences at 4 connections  ours       1000.0  500.0 to 2000.0     1.0     2.0   4.00",
        "                               peer        250.0   200.0 to 400.0     4.0     8.0",
        "",
        "start-up, s                    ours          3.0                                    0.50",
        "                               peer          6.0",
        "memory, MB                     ours        310.0                                    0.50",
        "                               peer        620.0",
    ]


def test_memory_that_is_unknown_is_called_so() -> None:
    comparison = Comparison((), ours=(run(2.0, None),), peers=(run(4.0, None),))

    assert table(comparison, ours="ours", peer="peer").splitlines()[-2:] == [
        "memory, MB   ours      unknown",
        "             peer      unknown",
    ]
