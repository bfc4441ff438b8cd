"""The card of the default checkpoint tells what was measured, and of the weights that ship."""

from pathlib import Path

import pytest

from model import open_checkpoint
from model.precision import judge
from tests.documentation import model_card
from tests.documentation.markdown import README


@pytest.mark.parametrize("page", model_card.PAGES, ids=lambda page: page.parent.name)
def test_tables_are_what_was_measured(page: Path) -> None:
    found = model_card.tables_in(page)

    assert found == {name: model_card.table(name) for name in found}


def test_each_page_has_its_tables() -> None:
    card, folder, readme = (list(model_card.tables_in(page)) for page in model_card.PAGES)

    assert set(card) == set(model_card.TABLES) - {"recorded"}
    assert {"data", "figures", "calibration"} <= set(folder)
    assert readme == ["recorded"]
    assert model_card.PAGES[2] == README


def test_the_report_is_of_the_weights_that_ship() -> None:
    checkpoint = open_checkpoint(model_card.CHECKPOINT)
    report = model_card.report()

    assert report["checkpoint"]["version"] == checkpoint.version
    assert report["temperature"] == checkpoint.manifest.temperature


def test_the_report_names_its_files_on_no_machine() -> None:
    paths = [Path(file["file"]) for file in model_card.report()["files"]]

    assert [path for path in paths if path.is_absolute()] == []


def test_the_report_agrees_with_the_checkpoint() -> None:
    recorded = open_checkpoint(model_card.CHECKPOINT).manifest.metrics
    measured = {
        "/".join(Path(file["file"]).parts[-2:]).partition(".")[0]: file
        for file in model_card.report()["files"]
    }

    assert {"sst/dev", "uci/amazon", "uci/imdb", "uci/yelp", "imdb/test"} <= measured.keys()
    for metric in recorded:
        if metric.name == "validation":
            continue
        assert measured[metric.name]["rows"] == metric.rows
        # Batches of other sizes add up in another order.
        assert measured[metric.name]["accuracy"] == pytest.approx(metric.accuracy, abs=0.002)


def test_the_record_of_int8_agrees_with_the_checkpoint() -> None:
    checkpoint = open_checkpoint(model_card.CHECKPOINT)
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
