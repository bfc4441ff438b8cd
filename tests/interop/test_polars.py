"""Series of polars are texts and classes, and the files that it writes are read."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from headlight_client import Client
from model import load
from scoring.__main__ import main as score
from tests.end_to_end.servers import local_service
from tests.training.tiny_runs import PRESET, write_preset, write_sentences
from training import TextClassifier

pytestmark = pytest.mark.filterwarnings("ignore::training.FitWarning")
TEXTS = ["A good film.", "Dull and bad.", "caf\u00e9 \U0001f600"]


@pytest.fixture(scope="module")
def preset(tmp_path_factory: pytest.TempPathFactory) -> str:
    text = PRESET.replace("epochs = 3", "epochs = 1")
    return str(write_preset(tmp_path_factory.mktemp("preset") / "tiny.toml", text))


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> pl.DataFrame:
    path = write_sentences(tmp_path_factory.mktemp("rows") / "rows.tsv", rows=60)
    return pl.read_csv(path, separator="\t")


def test_a_series_is_predicted_here_and_by_a_service(
    checkpoint_folder: Path, tmp_path: Path
) -> None:
    texts: Any = pl.Series("text", TEXTS)
    own = load(checkpoint_folder, "cpu", "float32").predict(texts)
    with (
        local_service(checkpoint_folder, tmp_path) as running,
        Client(running.url, timeout=60) as client,
    ):
        served = client.predict(texts)
    assert list(own) == list(load(checkpoint_folder, "cpu", "float32").predict(TEXTS))
    assert [each.label for each in served] == [each.label for each in own]
    assert own.to_dataframe()["label"].to_list() == served.to_dataframe()["label"].to_list()


def test_what_is_no_text_is_refused(checkpoint_folder: Path) -> None:
    loaded = load(checkpoint_folder, "cpu", "float32")
    with pytest.raises(TypeError, match=r"texts\[1\]: the text is missing: leave it out"):
        loaded.predict(pl.Series(["good", None]))
    with pytest.raises(TypeError, match="got a DataFrame: give a list, or one column of a table"):
        loaded.predict(pl.DataFrame({"text": TEXTS}))  # type: ignore[arg-type]


def test_an_estimator_learns_from_series(rows: pl.DataFrame, preset: str) -> None:
    def fitted(texts: object, labels: object) -> TextClassifier:
        made = TextClassifier(None, preset=preset, threads=1, device="cpu", dtype="float32")
        return made.fit(texts, labels)  # type: ignore[arg-type]

    own = fitted(rows["sentence"], rows["label"].cast(pl.Categorical))

    assert list(own.classes_) == ["negative", "positive"]
    other = fitted(rows["sentence"].to_list(), rows["label"].to_list())
    found = own.predict_proba(pl.Series(TEXTS))
    np.testing.assert_array_equal(found, other.predict_proba(TEXTS))
    with pytest.raises(ValueError, match=r"^y\[1\] is missing: leave the row out, or give it a "):
        fitted(rows["sentence"][:2], pl.Series(["negative", None]))


def test_a_file_that_it_writes_is_scored(
    rows: pl.DataFrame, checkpoint_folder: Path, tmp_path: Path
) -> None:
    path, output = tmp_path / "rows.parquet", tmp_path / "scored.parquet"
    more = pl.DataFrame({"sentence": [None, "fine"], "label": ["negative", None]})
    table = pl.concat([rows, more]).with_columns(pl.col("label").cast(pl.Categorical))
    table.write_parquet(path)
    assert score([str(path), "--checkpoint", str(checkpoint_folder), "--output", str(output)]) == 0
    scored = pl.read_parquet(output)
    assert scored["sentence"].fill_null("").to_list() == table["sentence"].fill_null("").to_list()
    assert scored["input_label"].to_list() == table["label"].to_list()
    assert [number for number, each in enumerate(scored["label"]) if each is None] == [60]
