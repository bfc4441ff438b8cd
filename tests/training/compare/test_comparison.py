"""What a comparison found: means, spreads, JSON, and the page."""

import dataclasses

from model.checkpoint.records import DataSource
from training.compare.report import to_markdown
from training.compare.run import Comparison, Outcome, VariantRun
from training.measure.history import LossAndAccuracy, Measurement


def point(epoch: int, validation_loss: float) -> Measurement:
    return Measurement(10 * epoch, epoch, 0.3, 0.9, validation_loss, 0.8, 1e-3, 2.0 * epoch)


def run(seed: int, training: float, validation: float) -> VariantRun:
    return VariantRun(
        seed=seed,
        seconds=4.0 + seed,
        training=LossAndAccuracy(0.25, training),
        validation=LossAndAccuracy(0.5, validation),
        history=(point(1, 0.6), point(2, 0.4 + seed), point(3, 0.5)),
    )


FIRST = Outcome("four", "four heads", 12_345, (run(0, 0.99, 0.80), run(1, 0.97, 0.82)))
SECOND = Outcome("one", "one head", 345, (run(0, 0.95, 0.79), run(1, 0.94, 0.83)))
SINGLE_PROCESS = Outcome(
    "tf-idf",
    "TF-IDF",
    99,
    (VariantRun(0, 1.5, LossAndAccuracy(0.1, 1.0), LossAndAccuracy(0.4, 0.84), ()),),
)
COMPARISON = Comparison(
    command="headlight-train compare uci/amazon.tsv",
    machine="a processor, 2 threads",
    sources=(DataSource(file="uci/amazon.tsv", rows=1000, sha256="ab" * 32),),
    hold_out="last",
    training_rows=800,
    validation_rows=200,
    epochs=3,
    outcomes=(FIRST, SECOND, SINGLE_PROCESS),
)


def test_the_page_holds_the_figures() -> None:
    page = to_markdown(COMPARISON)
    lines = [" ".join(line.split()) for line in page.splitlines()]
    assert "    headlight-train compare uci/amazon.tsv\n" in page
    assert "| `uci/amazon.tsv` | 1,000 | `abababababab` |" in lines
    assert (
        "| four heads | 12,345 | 98.0 ± 1.4 | 81.0 ± 1.4 | 17.0 ± 2.8 | 0.250 ± 0.000 "
        "| 0.500 ± 0.000 | 4.5 ± 0.7 |"
    ) in lines
    assert "| TF-IDF | 99 | 100.0 | 84.0 | 16.0 | 0.100 | 0.400 | 1.5 |" in lines
    # Seed by seed: 79 - 80 and 83 - 82.
    assert "| one head | +0.0 ± 1.4 | -3.5 ± 0.7 |" in lines
    assert "interval of 75.0 to 85.8 %" in page
    assert "the last rows of the files, taken off before anything was shuffled" in page


def test_one_variant_is_set_against_nothing() -> None:
    page = to_markdown(dataclasses.replace(COMPARISON, outcomes=(FIRST,)))
    assert "## Against" not in page
