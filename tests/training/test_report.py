"""What people and programs read of the figures of one file."""

from model.manifest import DataSource
from training.metrics import Figures
from training.report import to_json, to_text

FIGURES = Figures(
    rows=12_345,
    accuracy=0.81234,
    interval=(0.80531, 0.81915),
    macro_f1=0.7654321,
    f1=(0.81, None, 0.72),
    log_loss=0.45678,
    ece=0.01234,
    confusion=((10_000, 0, 45), (0, 0, 0), (2_272, 0, 28)),
)
SOURCE = DataSource(file="reviews.csv", rows=12_345, sha256="ab" * 32)
LABELS = ("negative", "mixed", "positive")


def test_json_names_every_figure() -> None:
    report = to_json("data/reviews.csv", SOURCE, FIGURES, labels=LABELS, truncated=1_067)

    assert report == {
        "file": "data/reviews.csv",
        "sha256": "ab" * 32,
        "rows": 12_345,
        "truncated": 1_067,
        "accuracy": 0.81234,
        "accuracy_interval": [0.80531, 0.81915],
        "macro_f1": 0.7654321,
        "f1": {"negative": 0.81, "mixed": None, "positive": 0.72},
        "log_loss": 0.45678,
        "ece": 0.01234,
        "confusion": [[10_000, 0, 45], [0, 0, 0], [2_272, 0, 28]],
    }


def test_people_read_a_table() -> None:
    report = to_json("data/reviews.csv", SOURCE, FIGURES, labels=LABELS, truncated=1_067)

    assert to_text(report) == (
        "data/reviews.csv\n"
        "  rows       12,345 (1,067 truncated)\n"
        "  accuracy   81.23% (95 % interval 80.53% to 81.92%)\n"
        "  macro F1   0.7654 (negative 0.8100, mixed none, positive 0.7200)\n"
        "  log-loss   0.4568\n"
        "  ECE        0.0123\n"
        "  true \\ predicted  negative  mixed  positive\n"
        "  negative            10,000      0        45\n"
        "  mixed                    0      0         0\n"
        "  positive             2,272      0        28\n"
    )
