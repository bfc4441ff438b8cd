"""The clients ask for a choice among labels, and read warnings."""

from collections.abc import Iterator
from typing import Any

import pytest

from headlight_client import calls
from tests.builders import tiny_checkpoint, tiny_config, tiny_manifest
from tests.client.conftest import Ask
from tests.end_to_end.servers import RunningService, local_service
from tests.matching import exactly

THREE = ("negative", "neutral", "positive")
PAIR = ["negative", "positive"]
GERMAN = "Das ist ein Film und der ist gut"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """A service of three classes that reads English."""
    folder = tmp_path_factory.mktemp("three")
    manifest = tiny_manifest(labels=THREE, language="en")
    tiny_checkpoint(folder / "three", config=tiny_config(labels=THREE), manifest=manifest)
    with local_service(folder / "three", folder, "--max-sentences", "2") as running:
        yield running


def test_predictions_in_several_requests(ask: Ask, running: RunningService) -> None:
    texts = ["a good film", "a bad film", GERMAN]
    found = ask(running.url, "predict", texts, labels=tuple(PAIR), granularity="sentence")
    assert [list(each.probabilities) for each in found] == [PAIR] * 3
    assert [list(each.sentences[0].probabilities) for each in found] == [PAIR] * 3
    assert [each.warnings for each in found] == [(), (), ("not-english",)]
    assert [column for column in found.to_dataframe() if "probability" in column] == [
        "probability_negative",
        "probability_positive",
    ]


@pytest.mark.parametrize("method", ["attention", "thumbnails", "attributions", "importance"])
def test_explanations(ask: Ask, running: RunningService, method: str) -> None:
    for text, warnings in (("a good film", ()), (GERMAN, ("not-english",))):
        prediction = ask(running.url, method, text, labels=PAIR).prediction
        assert list(prediction.probabilities) == PAIR
        assert prediction.warnings == warnings


def test_several_sentences_and_the_model(ask: Ask, running: RunningService) -> None:
    found = ask(running.url, "attentions", ["a good film", GERMAN], labels=PAIR)
    assert [list(each.prediction.probabilities) for each in found] == [PAIR] * 2
    assert [each.prediction.warnings for each in found] == [(), ("not-english",)]
    assert ask(running.url, "model").language == "en"


@pytest.mark.parametrize("build", [calls.predict, calls.attention, calls.importance])
def test_one_string_is_no_list_of_labels(build: Any) -> None:  # noqa: ANN401
    text = ["a"] if build is calls.predict else "a"
    fault = "labels is one string: put two or more in a list"
    with pytest.raises(TypeError, match=exactly(fault)):
        build(text, labels="positive")
