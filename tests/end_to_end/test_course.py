"""The course's classifier, trained as there and served like any other."""

from pathlib import Path

import numpy as np
import pytest

from tests.builders import tiny_conv_checkpoint
from tests.end_to_end.routes import post, predict
from tests.end_to_end.servers import local_service
from tests.end_to_end.test_explanations import assert_multiplied_out, row_of, steps_of
from tests.shared_data import shared_file
from training.__main__ import main

SENTENCE = "Saw the movie today and thought it was a good effort, good messages for kids."


def test_what_one_epoch_makes_of_the_three_public_files(tmp_path: Path) -> None:
    files = [shared_file(f"uci/{name}.tsv.gz") for name in ("amazon", "imdb", "yelp")]
    command = ["fit", *map(str, files), "--preset", "course", "--dtype", "float32"]
    # Not the ten of the preset: at a higher rate it learns what is asked here in one.
    quick = ("--epochs", "1", "--learning-rate", "5e-3")
    assert main([*command, *quick, "--output", str(tmp_path / "course")]) == 0

    with local_service(tmp_path / "course", tmp_path) as running, running.client() as client:
        good, bad = predict(client, SENTENCE, "A waste of money.")
        assert (good["label"], good["token_count"], good["truncated"]) == ("positive", 15, False)
        assert bad["label"] == "negative"

        answer = post(client, "/attention", sentence=SENTENCE)
        assert (answer["layers"], answer["heads"]) == ([0], [0, 1, 2, 3])
        weights = np.array(answer["attention"])
        assert weights.shape == (1, 4, 15, 15)
        assert np.abs(weights.sum(axis=-1) - 1).max() <= 1e-5
        tokens = answer["tokens"]
        spelled = [SENTENCE[token["start"] : token["end"]] for token in tokens]
        assert spelled == SENTENCE.replace(",", "").replace(".", "").split()
        assert [token["word"] for token in tokens] == list(range(15))
        assert not any(token["special"] for token in tokens)
        assert answer["prediction"]["score"] == pytest.approx(good["score"], abs=1e-4)

        model = client.get("/model").json()
        assert model["architecture"] == "ConvAttentionClassifier"
        assert model["parameters"] == 318_569
        assert (model["num_layers"], model["num_heads"], model["hidden_size"]) == (1, 4, 100)
        assert (model["max_length"], model["labels"]) == (32, ["negative", "positive"])
        (metric,) = model["metrics"]
        assert (metric["name"], metric["rows"]) == ("validation", 600)
        assert metric["accuracy"] > 0.7


@pytest.mark.parametrize("mask_padding", [True, False], ids=["masked", "unmasked"])
def test_it_has_attributions_importance_and_steps(tmp_path: Path, mask_padding: bool) -> None:
    checkpoint = tiny_conv_checkpoint(tmp_path / "conv", mask_padding=mask_padding)
    with local_service(checkpoint, tmp_path) as running, running.client() as client:
        # A rollout is the mean, because nothing passes attention by.
        mean, rollout = (
            post(client, "/attention", sentence="good film", reduce=reduce)["attention"]
            for reduce in ("mean", "rollout")
        )
        np.testing.assert_allclose(rollout, mean, atol=1e-6)
        for sentence in ("a good film", "!!!", "not " * 20):
            answer = post(client, "/attributions", sentence=sentence)
            for token, share in zip(answer["tokens"], answer["attributions"], strict=True):
                assert (share == 0) is token["special"]
            answer = post(client, "/importance", sentence=sentence)
            assert (answer["layers"], answer["heads"]) == ([0], [0, 1])
            assert np.array(answer["importance"]).shape == (1, 2)
            steps = steps_of(client, sentence=sentence, layer=0, query=0)
            assert_multiplied_out(steps, row_of(client, steps, sentence=sentence))
