"""No text of an evaluation set is in a file that a shipped checkpoint was trained on."""

from functools import cache
from pathlib import Path

import pytest

from model.tables.rows import read_texts
from tests.shared_data import shared_file
from training.data.validation_split import text_key
from training.plan.plan import load_plan

_RECIPES = Path(__file__).parents[2] / "training" / "plan" / "recipes"
_FEWEST_WORDS = 5  # shorter texts are common property
_TWO = ("sst/dev", "uci/amazon", "uci/imdb", "uci/yelp", "imdb/test")
_THREE = ("tweets_dev", "reddit_dev", "sst_dev", "news_dev", "hotel_dev")
EVALUATION = {
    "two-classes": _TWO,
    "default": (*_TWO, *(f"three/{name}" for name in _THREE)),
}


@cache
def keys(file: str) -> set[str]:
    """Letters and digits of every longer text of a file."""
    # A label, if there is one, is behind the only tab.
    texts = [line.partition("\t")[0] for line in read_texts(shared_file(file))]
    return {text_key(text) for text in texts if len(text.split()) >= _FEWEST_WORDS}


@pytest.mark.parametrize("recipe", EVALUATION)
def test_nothing_that_is_measured_on_was_trained_on(recipe: str) -> None:
    plan = load_plan(_RECIPES / f"{recipe}.toml")
    files = {f"{name}.tsv.gz" for name in EVALUATION[recipe]}
    sources = [plan.sources[name].file for name in plan.used_sources]
    # The texts of files that a plan keeps out are dropped when it reads its sources.
    others = files - set(plan.keep_out)

    assert not {source.file for source in plan.sources.values()} & files
    assert not any(keys(file) & keys(other) for other in others for file in sources)
