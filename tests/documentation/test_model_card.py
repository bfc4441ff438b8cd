"""The cards of the checkpoints tell what was measured, and of the weights that ship."""

from pathlib import Path

import pytest

from model import open_checkpoint
from model.checkpoint.precision import judge
from tests.documentation import model_card
from tests.documentation.markdown import README
from tests.documentation.model_card import DEFAULT, NEUTRAL, Card

PAGES = [(card, page) for card in model_card.CARDS for page in card.pages]
REPORTS = [
    (card, path)
    for card in model_card.CARDS
    for path in (card.report, card.two_classes)
    if path is not None
]


@pytest.mark.parametrize(("card", "page"), PAGES, ids=lambda value: getattr(value, "name", ""))
def test_tables_are_what_was_measured(card: Card, page: Path) -> None:
    found = model_card.tables_in(page)

    assert found == {name: model_card.table(card, name) for name in found}


def test_each_page_has_its_tables() -> None:
    card, folder, readme = (list(model_card.tables_in(page)) for page in DEFAULT.pages)
    (neutral,) = (list(model_card.tables_in(page)) for page in NEUTRAL.pages)

    of_three = {"classes", "two-classes"}
    assert set(card) == set(model_card.TABLES) - {"recorded"} - of_three
    assert {"data", "figures", "calibration"} <= set(folder)
    assert readme == ["recorded"]
    assert DEFAULT.pages[2] == README
    assert set(neutral) == set(model_card.TABLES) - {"recorded", "lengths", "groups"}


@pytest.mark.parametrize(("card", "path"), REPORTS, ids=lambda value: getattr(value, "name", ""))
def test_the_report_is_of_the_weights_that_ship(card: Card, path: Path) -> None:
    checkpoint = open_checkpoint(card.folder)
    report = model_card.read_report(path)

    assert report["checkpoint"]["version"] == checkpoint.version
    assert report["temperature"] == checkpoint.manifest.temperature


@pytest.mark.parametrize(("card", "path"), REPORTS, ids=lambda value: getattr(value, "name", ""))
def test_the_report_names_its_files_on_no_machine(card: Card, path: Path) -> None:
    del card
    paths = [Path(file["file"]) for file in model_card.read_report(path)["files"]]

    assert [path for path in paths if path.is_absolute()] == []


@pytest.mark.parametrize(
    ("card", "sets"),
    [
        (DEFAULT, {"sst/dev", "uci/amazon", "uci/imdb", "uci/yelp", "imdb/test"}),
        (NEUTRAL, {f"three/{name}_dev" for name in ("tweets", "reddit", "sst", "news", "hotel")}),
    ],
    ids=["default", "neutral"],
)
def test_the_report_agrees_with_the_checkpoint(card: Card, sets: set[str]) -> None:
    recorded = open_checkpoint(card.folder).manifest.metrics
    measured = {
        "/".join(Path(file["file"]).parts[-2:]).partition(".")[0]: file
        for file in model_card.read_report(card.report)["files"]
    }

    assert measured.keys() == sets
    for metric in recorded:
        if metric.name == "validation":
            continue
        assert measured[metric.name]["rows"] == metric.rows
        # Batches of other sizes add up in another order.
        assert measured[metric.name]["accuracy"] == pytest.approx(metric.accuracy, abs=0.002)


def test_the_record_of_int8_agrees_with_the_checkpoint() -> None:
    checkpoint = open_checkpoint(DEFAULT.folder)
    (record,) = checkpoint.manifest.precision
    recorded = {metric.name: metric for metric in checkpoint.manifest.metrics}
    del recorded["validation"]

    assert (record.dtype, record.weights_sha256) == ("int8", checkpoint.weights_sha256)
    assert [one.name for one in record.sets] == list(recorded)
    for one in record.sets:
        assert one.rows == recorded[one.name].rows
        # Another processor rounds in another way: at most a row or two.
        assert one.float32_accuracy == pytest.approx(recorded[one.name].accuracy, abs=0.002)
        assert one.float32_log_loss == pytest.approx(recorded[one.name].log_loss, abs=0.0005)
    verdict = judge("int8", [record])
    assert verdict.allowed
    assert (
        verdict.reason == "int8 was measured within 0.2 points of float32 (-0.05 over 3,872 rows)"
    )
