"""A text that a foreign tokenizer makes many times as long is refused, whatever asks for it."""

from collections.abc import Iterator

import httpx
import pytest

from model.files import CONFIG, MANIFEST
from tests.builders import tiny_checkpoint
from tests.end_to_end.problems import assert_members, assert_problem
from tests.end_to_end.servers import local_service
from tests.model.folders import edit, read

# NFKC makes six letters of it, all of one word.
KILOMETRE = "\N{SQUARE KIROMEETORU}"
TEXT = KILOMETRE * 170_000
MESSAGE = "170000 characters of the text become more than 1000000"


@pytest.fixture(scope="module")
def compatible(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A service with a foreign folder whose tokenizer begins with NFKC."""
    folder = tmp_path_factory.mktemp("foreign")
    checkpoint = tiny_checkpoint(folder / "tiny")
    (checkpoint / MANIFEST).unlink()
    edit(checkpoint / CONFIG, transformers_version="5.0.0")
    path = checkpoint / "tokenizer.json"
    normalizers = [{"type": "NFKC"}, read(path)["normalizer"]]
    edit(path, normalizer={"type": "Sequence", "normalizers": normalizers})
    with (
        local_service(checkpoint, folder, "--request-timeout", "600") as running,
        running.client() as client,
    ):
        yield client


def test_a_prediction_is_refused(compatible: httpx.Client) -> None:
    fields = {"on_error": "item"}
    answer = compatible.post("/predict", json={"sentences": ["good", TEXT], **fields})

    good, refused = answer.json()["predictions"]
    assert good["label"] in ("negative", "positive")
    assert_members(refused["error"], 422, "text-too-long", ("body", "sentences", 1), says=MESSAGE)


def test_what_a_text_may_become_is_in_the_limits(compatible: httpx.Client) -> None:
    most = compatible.get("/model").json()["limits"]["max_normalized_characters"]
    # Each becomes six.
    for count, status in ((most // 6, 200), (most // 6 + 1, 422)):
        answer = compatible.post("/predict", json={"sentences": [KILOMETRE * count]})
        assert answer.status_code == status


def test_an_explanation_is_refused(compatible: httpx.Client) -> None:
    answer = compatible.post("/attributions", json={"sentence": TEXT})

    assert_problem(answer, 422, "text-too-long", ("body", "sentence"), says=MESSAGE)
