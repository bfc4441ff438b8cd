"""The examples of training, on rows that a tiny network learns."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from examples.cross_validation import accuracies, read
from examples.grid_search import search
from model import open_checkpoint
from tests.training.tiny_runs import write_preset, write_sentences

pytestmark = pytest.mark.filterwarnings("ignore::training.FitWarning")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows in `rows.csv`, and the preset `tiny.toml`."""
    folder = tmp_path_factory.mktemp("examples")
    write_preset(folder / "tiny.toml")
    lines = write_sentences(folder / "rows.tsv", rows=240).read_text("utf-8").splitlines()
    with (folder / "rows.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([["text", "label"], *(line.split("\t") for line in lines[1:])])
    return folder


@pytest.fixture
def options(folder: Path) -> dict[str, Any]:
    return {"init_from": None, "preset": str(folder / "tiny.toml"), "threads": 1}


def test_cross_validation_measures_each_fold(folder: Path, options: dict[str, Any]) -> None:
    found = accuracies(*read(folder / "rows.csv"), folds=2, epochs=8, **options)
    assert found.shape == (2,)
    assert found.max() > 0.6  # guessing is right for half


def test_grid_search_keeps_the_best(folder: Path, options: dict[str, Any], tmp_path: Path) -> None:
    values = {"learning_rate": np.array([1e-9, 5e-3])}
    best = search(*read(folder / "rows.csv"), values, **options)
    assert best.best_params_ == {"learning_rate": 5e-3}
    best.best_estimator_.save(tmp_path / "best")
    assert open_checkpoint(tmp_path / "best").manifest.recipe["learning_rate"] == 5e-3
