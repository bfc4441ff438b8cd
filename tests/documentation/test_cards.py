"""The reports that the cards are written from are of the checkpoints that ship."""

import json
from pathlib import Path

import pytest

from model import open_checkpoint
from model.checkpoint.records import judge
from tests.documentation.markdown import ROOT
from tools.tables import CHECKPOINTS, FIGURES, read_report

CARD = ROOT / "docs" / "model-card.md"
TWO = CHECKPOINTS / "two-classes" / "README.md"
REPORTS = [(CARD, "default", ""), (TWO, "two-classes", ""), (CARD, "default", "pair")]
SETS = {
    "two-classes": {"sst/dev", "uci/amazon", "uci/imdb", "uci/yelp", "imdb/test"},
    "default": {f"three/{name}_dev" for name in ("tweets", "reddit", "sst", "news", "hotel")},
}


@pytest.mark.parametrize(("page", "name", "report"), REPORTS)
def test_a_report_is_of_the_weights_that_ship(page: Path, name: str, report: str) -> None:
    checkpoint = open_checkpoint(CHECKPOINTS / name)
    found = read_report(page, report)
    assert found["checkpoint"]["version"] == checkpoint.version
    assert found["temperature"] == checkpoint.manifest.temperature
    assert [x["file"] for x in found["files"] if Path(x["file"]).is_absolute()] == []


@pytest.mark.parametrize(("page", "name", "report"), REPORTS[:2])
def test_a_report_agrees_with_its_checkpoint(page: Path, name: str, report: str) -> None:
    measured = {
        "/".join(Path(file["file"]).parts[-2:]).partition(".")[0]: file
        for file in read_report(page, report)["files"]
    }
    assert measured.keys() == SETS[name]
    for metric in open_checkpoint(CHECKPOINTS / name).manifest.metrics:
        if metric.name == "validation":
            continue
        assert measured[metric.name]["rows"] == metric.rows
        # Batches of other sizes add up in another order.
        assert measured[metric.name]["accuracy"] == pytest.approx(metric.accuracy, abs=0.002)


def test_the_counts_by_kind_are_of_the_default_weights() -> None:
    found = json.loads((FIGURES / "kinds.json").read_text(encoding="utf-8"))
    assert found["weights_sha256"] == open_checkpoint(CHECKPOINTS / "default").weights_sha256


def test_the_readme_quotes_the_card() -> None:
    first, *others = read_report(CARD, "pair")["files"]
    mean = sum(file["accuracy"] for file in others[:3]) / 3
    said = f"right on {100 * first['accuracy']:.1f} % of {first['rows']} film sentences and "
    said += f"{100 * mean:.0f} % of 3,000 others"
    assert said in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_record_of_int8_is_of_the_default_weights_and_allows_it() -> None:
    checkpoint = open_checkpoint(CHECKPOINTS / "default")
    (record,) = checkpoint.manifest.precision
    recorded = {metric.name: metric for metric in checkpoint.manifest.metrics}
    assert (record.dtype, record.weights_sha256) == ("int8", checkpoint.weights_sha256)
    assert [(one.name, one.rows) for one in record.sets] == [
        (name, metric.rows) for name, metric in recorded.items()
    ]
    verdict = judge("int8", [record])
    assert verdict.allowed
    rows = sum(one.rows for one in record.sets)
    lost = sum(one.lost - one.gained for one in record.sets)
    way = "lower" if lost >= 0 else "higher"
    said = f"In int8 the accuracy is {100 * abs(lost) / rows:.2f} points {way} over {rows:,} rows."
    assert said in CARD.read_text(encoding="utf-8")


def test_the_versions_that_pages_show_are_those_that_ship() -> None:
    version = open_checkpoint(CHECKPOINTS / "default").version
    pages = ("README.md", "docs/tutorial.md", "docs/reference/http.md")
    assert [x for x in pages if version not in (ROOT / x).read_text(encoding="utf-8")] == []
