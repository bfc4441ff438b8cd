"""The course's classifier, trained as there and served like any other."""

from collections.abc import Iterator

import httpx
import numpy as np
import pytest

from tests.builders import tiny_conv_checkpoint
from tests.end_to_end.servers import local_service
from tests.end_to_end.test_explanations import assert_multiplied_out, row_of, steps_of
from tests.shared_data import shared_file
from training.__main__ import main

SENTENCE = "Saw the movie today and thought it was a good effort, good messages for kids."


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A service with what one epoch of `--preset course` makes of the three public files."""
    files = [shared_file(f"uci/{name}.tsv.gz") for name in ("amazon", "imdb", "yelp")]
    folder = tmp_path_factory.mktemp("course")
    command = ["fit", *map(str, files), "--preset", "course", "--dtype", "float32"]
    # Not the ten of the preset: at a higher rate it learns what is asked here in one.
    quick = ("--epochs", "1", "--learning-rate", "5e-3")
    assert main([*command, *quick, "--output", str(folder / "course")]) == 0
    with local_service(folder / "course", folder) as running, running.client() as client:
        yield client


def test_the_sentence_of_the_course_is_positive(course: httpx.Client) -> None:
    response = course.post("/predict", json={"sentences": [SENTENCE, "A waste of money."]})

    assert response.status_code == 200
    good, bad = response.json()["predictions"]
    assert (good["label"], good["token_count"], good["truncated"]) == ("positive", 15, False)
    assert bad["label"] == "negative"


def test_attention_is_one_layer_of_four_heads_over_the_users_words(course: httpx.Client) -> None:
    response = course.get("/attention", params={"sentence": SENTENCE})

    assert response.status_code == 200
    answer = response.json()
    assert (answer["layers"], answer["heads"]) == ([0], [0, 1, 2, 3])
    weights = np.array(answer["attention"])
    assert weights.shape == (1, 4, 15, 15)
    assert np.abs(weights.sum(axis=-1) - 1).max() <= 1e-5
    tokens = answer["tokens"]
    spelled = [SENTENCE[token["start"] : token["end"]] for token in tokens]
    assert spelled == SENTENCE.replace(",", "").replace(".", "").split()
    assert [token["word"] for token in tokens] == list(range(15))
    assert not any(token["special"] for token in tokens)
    predicted = course.post("/predict", json={"sentences": [SENTENCE]}).json()
    assert answer["prediction"]["score"] == pytest.approx(
        predicted["predictions"][0]["score"], abs=1e-4
    )


def test_the_model_says_what_it_is(course: httpx.Client) -> None:
    model = course.get("/model").json()

    assert model["architecture"] == "ConvAttentionClassifier"
    assert model["parameters"] == 318_569
    assert (model["num_layers"], model["num_heads"], model["hidden_size"]) == (1, 4, 100)
    assert (model["max_length"], model["labels"]) == (32, ["negative", "positive"])
    (metric,) = model["metrics"]
    assert (metric["name"], metric["rows"]) == ("validation", 600)
    assert metric["accuracy"] > 0.7


@pytest.fixture(scope="module", params=[True, False], ids=["masked", "unmasked"])
def tiny(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[httpx.Client]:
    """A service with a tiny network of that kind, in both its forms."""
    folder = tmp_path_factory.mktemp("conv")
    checkpoint = tiny_conv_checkpoint(folder / "conv", mask_padding=request.param)
    with local_service(checkpoint, folder) as running, running.client() as client:
        yield client


def test_a_rollout_is_the_mean_because_nothing_passes_attention_by(tiny: httpx.Client) -> None:
    asked = {"sentence": "good film"}
    mean = tiny.get("/attention", params={**asked, "reduce": "mean"}).json()
    rollout = tiny.get("/attention", params={**asked, "reduce": "rollout"}).json()

    np.testing.assert_allclose(rollout["attention"], mean["attention"], atol=1e-6)


@pytest.mark.parametrize("sentence", ["a good film", "!!!", "not " * 20])
def test_it_has_attributions_importance_and_steps(tiny: httpx.Client, sentence: str) -> None:
    answer = tiny.post("/attributions", json={"sentence": sentence}).json()
    for token, share in zip(answer["tokens"], answer["attributions"], strict=True):
        assert (share == 0) is token["special"]
    answer = tiny.post("/importance", json={"sentence": sentence}).json()
    assert (answer["layers"], answer["heads"]) == ([0], [0, 1])
    assert np.array(answer["importance"]).shape == (1, 2)
    steps = steps_of(tiny, sentence=sentence, layer=0, query=0)
    assert_multiplied_out(steps, row_of(tiny, steps, sentence=sentence))
