"""docs/guides/moving-over.md shows what the other tools really answer, and what Headlight does."""

import csv
import gzip
import importlib
import json
import os
import re
import tomllib
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import httpx
import pytest

from model import open_checkpoint
from tests.documentation.markdown import ROOT, code, rows
from tests.shared_data import shared_file

PAGE = ROOT / "docs" / "guides" / "moving-over.md"
CHECKPOINT = ROOT / "checkpoints" / "default"
_TOLERANCE = 0.02

TABLE = rows(PAGE, "text", "TextBlob", "VADER", "pipeline", "Headlight")
TEXTS = [cells[0] for cells in TABLE]


def _column(index: int) -> list[float]:
    return [float(cells[index]) for cells in TABLE]


def _other(name: str) -> Any:  # noqa: ANN401 -- these tools have no types
    """The module of another tool, which the extra `interop` installs."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        reason = f"{name.partition('.')[0]} is not installed: install the extra interop"
        (pytest.fail if "CI" in os.environ else pytest.skip)(reason)


@pytest.fixture
def polarity() -> Callable[[str], float]:
    """What TextBlob says."""
    textblob = _other("textblob")
    return lambda text: float(textblob.TextBlob(text).sentiment.polarity)


@pytest.fixture
def compound() -> Callable[[str], float]:
    """What VADER says."""
    analyzer = _other("vaderSentiment.vaderSentiment").SentimentIntensityAnalyzer()
    return lambda text: float(analyzer.polarity_scores(text)["compound"])


def test_the_polarities_are_those_of_textblob(polarity: Callable[[str], float]) -> None:
    assert [round(polarity(text), 2) for text in TEXTS] == _column(1)


def test_the_compounds_are_those_of_vader(compound: Callable[[str], float]) -> None:
    assert [round(compound(text), 2) for text in TEXTS] == _column(2)


def test_the_probabilities_of_the_pipeline_are_its_own() -> None:
    classify = _other("transformers").pipeline(
        "text-classification", model=str(CHECKPOINT), top_k=None, device="cpu"
    )

    found = [{each["label"]: each["score"] for each in scores} for scores in classify(TEXTS)]
    assert [scores["positive"] for scores in found] == pytest.approx(_column(3), abs=0.001)


def test_the_probabilities_of_headlight_are_those_of_the_service(url: str) -> None:
    answer = httpx.post(f"{url}/predict", json={"sentences": TEXTS}).raise_for_status().json()

    found = [prediction["probabilities"]["positive"] for prediction in answer["predictions"]]
    assert found == pytest.approx(_column(4), abs=_TOLERANCE)


@pytest.mark.parametrize("cells", rows(PAGE, "set", "texts"), ids=lambda cells: cells[0])
def test_the_figures_of_a_set_are_right(
    cells: tuple[str, ...], polarity: Callable[[str], float], compound: Callable[[str], float]
) -> None:
    name = cells[0].strip("`")
    with gzip.open(shared_file(f"{name}.tsv.gz"), "rt", encoding="utf-8") as file:
        given = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    signs = [1 if row["label"] in {"1", "positive"} else -1 for row in given]

    assert cells[1] == f"{len(given):,}"
    for score, cell in ((polarity, cells[2]), (compound, cells[3])):
        scores = [score(row["sentence"]) for row in given]
        right = sum(sign * each > 0 for sign, each in zip(signs, scores, strict=True))
        assert int(cell) == right
    (metric,) = [x for x in open_checkpoint(CHECKPOINT).manifest.metrics if x.name == name]
    assert int(cells[4]) == round(metric.accuracy * metric.rows)


def test_the_versions_are_those_of_the_tools() -> None:
    for name in ("textblob", "vaderSentiment"):
        _other(name)
    names = f"TextBlob {version('textblob')}, vaderSentiment {version('vadersentiment')}"
    text = PAGE.read_text(encoding="utf-8")
    assert f"The versions are {names} and transformers {version('transformers')}." in text


def test_every_client_that_was_tried_is_pinned_in_that_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    pins = [pin for extra in project["optional-dependencies"].values() for pin in extra]
    package = ROOT / "tests" / "interop" / "javascript" / "package.json"
    scripts = json.loads(package.read_text("utf-8"))["dependencies"]
    installed = {tuple(re.sub(r"\[\w+\]", "", pin).split("==")) for pin in pins} | set(
        scripts.items()
    )

    clients = rows(PAGE, "paths", "system", "client tried", "version")
    tried = {(code(client), version) for *_, client, version in clients if version}
    assert len(tried) == 4
    assert tried <= installed
