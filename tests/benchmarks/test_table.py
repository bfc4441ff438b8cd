"""The tables: medians of the repetitions, and their ratios."""

from benchmarks.comparison import Comparison, Run
from benchmarks.loads import Closed, Mixed, Open
from benchmarks.measure import Measurement
from benchmarks.table import tables
from benchmarks.wrk import Figures

ONE, WEIGHTS = Closed("one", 1), Closed("weights", 8, route="attention")
HALF = Open("half", 0.5, "one")
BOTH = Mixed("both", ONE, Closed("long", 4, texts="reviews"))


def figures(rate: float) -> Figures:
    """Latencies follow from the rate."""
    return Figures(rate, 1 / rate, 2 / rate)


def run(start: float, memory: int | None, rate: float, weights: float | None = None) -> Run:
    """One run of a server that slows down to a third beside long texts, and in the open to half."""
    measurements = {
        "one": Measurement(figures(rate)),
        "half": Measurement(figures(rate / 4), asked=rate / 2),
        "both": Measurement(figures(rate / 3), undisturbed=figures(rate)),
    }
    if weights is not None:
        measurements["weights"] = Measurement(figures(weights))
    return Run(start, memory, measurements)


def test_on_a_gpu_the_table_has_its_busy_share() -> None:
    def run_of(*shares: float | None) -> list[Run]:
        found = [Measurement(figures(100.0), busy=share) for share in shares]
        return [Run(2.0, None, {"one": each}) for each in found]

    comparison = Comparison(
        (ONE,),
        {"ours": run_of(0.25, None, 0.75), "peer": run_of(None, None, None)},
        {"one": {"ours": [200.0, 200.0, 200.0]}},
    )

    assert tables(comparison, ours="ours").splitlines()[:4] == [
        "| load | server | asked/s | sentences/s |      range | p50 ms | p99 ms | times |"
        " of the limit | GPU busy |",
        "| ---- | ------ | ------: | ----------: | ---------: | -----: | -----: | ----: |"
        " -----------: | -------: |",
        "| one  | ours   |         |       100.0 | 100 to 100 |   10.0 |   20.0 |       |"
        "         0.50 |     0.50 |",
        "| one  | peer   |         |       100.0 | 100 to 100 |   10.0 |   20.0 |  1.00 |"
        "         0.50 |  unknown |",
    ]


def test_medians_and_ratios() -> None:
    comparison = Comparison(
        (ONE, WEIGHTS, HALF, BOTH),
        {
            "ours": [
                run(2.0, 300_000_000, 100.0, 80.0),
                run(9.0, 310_000_000, 50.0, 60.0),
                run(3.0, 320_000_000, 200.0, 70.0),
            ],
            "peer": [run(6.0, None, 40.0), run(6.0, None, 50.0), run(6.0, None, 20.0)],
        },
        {"one": {"ours": [200.0, 62.5, 400.0], "peer": [100.0, 50.0, 250.0]}},
    )

    assert tables(comparison, ours="ours").splitlines() == [
        "| load    | server | asked/s | sentences/s |     range | p50 ms | p99 ms | times |"
        " of the limit |",
        "| ------- | ------ | ------: | ----------: | --------: | -----: | -----: | ----: |"
        " -----------: |",
        "| one     | ours   |         |       100.0 | 50 to 200 |   10.0 |   20.0 |       |"
        "         0.50 |",
        "| one     | peer   |         |        40.0 |  20 to 50 |   25.0 |   50.0 |  2.50 |"
        "         0.20 |",
        "| weights | ours   |         |        70.0 |  60 to 80 |   14.3 |   28.6 |       |"
        "              |",
        "| half    | ours   |    50.0 |        25.0 |  12 to 50 |   40.0 |   80.0 |       |"
        "              |",
        "| half    | peer   |    20.0 |        10.0 |   5 to 12 |  100.0 |  200.0 |       |"
        "              |",
        "",
        "| short texts | server | p99 ms alone | p99 ms beside long ones | times |",
        "| ----------- | ------ | -----------: | ----------------------: | ----: |",
        "| both        | ours   |         20.0 |                    60.0 |  3.00 |",
        "| both        | peer   |         50.0 |                   150.0 |  3.00 |",
        "",
        "|             | ours  |    peer |",
        "| ----------- | ----- | ------: |",
        "| start-up, s | 3.0   |     6.0 |",
        "| memory, MB  | 310.0 | unknown |",
        "",
        "| the model alone, after | of   | texts/s |     range | times |",
        "| ---------------------- | ---- | ------: | --------: | ----: |",
        "| one                    | ours |     200 | 62 to 400 |       |",
        "| one                    | peer |     100 | 50 to 250 |  1.60 |",
    ]
