"""docs/guides/moving-over.md shows what the other tools really answer, and what Headlight does."""

import importlib
import json
import re
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.commands import give_up
from tests.documentation.markdown import GUIDES, ROOT, code, rows
from tools.tables import read_report

PAGE = GUIDES / "moving-over.md"
CHECKPOINT = ROOT / "checkpoints" / "default"
TABLE = rows(PAGE, "text", "TextBlob", "VADER", "pipeline", "Headlight")
TEXTS = [cells[0] for cells in TABLE]


def _column(index: int) -> list[float]:
    return [float(cells[index]) for cells in TABLE]


def _other(name: str) -> Any:  # noqa: ANN401 -- these tools have no types
    """The module of another tool, which the extra `interop` installs."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        give_up(f"{name.partition('.')[0]} is not installed: install the extra interop")


def test_the_polarities_are_those_of_textblob_and_vader() -> None:
    blob = _other("textblob").TextBlob
    analyzer = _other("vaderSentiment.vaderSentiment").SentimentIntensityAnalyzer()
    assert [round(blob(text).sentiment.polarity, 2) for text in TEXTS] == _column(1)
    compounds = [analyzer.polarity_scores(text)["compound"] for text in TEXTS]
    assert [round(compound, 2) for compound in compounds] == _column(2)


def test_the_probabilities_are_those_of_the_pipeline_and_the_service(url: str) -> None:
    classify = _other("transformers").pipeline(
        "text-classification", model=str(CHECKPOINT), top_k=None, device="cpu"
    )
    answer = httpx.post(f"{url}/predict", json={"sentences": TEXTS}).raise_for_status().json()
    found = [{each["label"]: each["score"] for each in scores} for scores in classify(TEXTS)]
    assert [scores["positive"] for scores in found] == pytest.approx(_column(3), abs=0.001)
    ours = [prediction["probabilities"]["positive"] for prediction in answer["predictions"]]
    assert ours == pytest.approx(_column(4), abs=0.02)


def test_the_right_answers_are_those_of_the_checkpoint() -> None:
    pair = {Path(x["file"]).name: x for x in read_report(PAGE, "pair")["files"]}
    for name, texts, _, _, right in rows(PAGE, "set", "texts"):
        measured = pair[f"{code(name).partition('/')[2]}.tsv.gz"]
        assert texts == f"{measured['rows']:,}"
        assert int(right) == round(measured["accuracy"] * measured["rows"])


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
    installed = {tuple(re.sub(r"\[\w+\]", "", pin).split("==")) for pin in pins}
    clients = rows(PAGE, "paths", "system", "client tried", "version")
    tried = {(code(client), pinned) for *_, client, pinned in clients if pinned}
    assert len(tried) == 4
    assert tried <= installed | set(scripts.items())
