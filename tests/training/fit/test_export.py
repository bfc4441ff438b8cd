"""What a checkpoint records beside its figures: the temperature of the pair, the language."""

from pathlib import Path

import numpy as np
import pytest
from scipy.special import log_softmax

from model import open_checkpoint
from tests.builders import tiny_checkpoint, tiny_manifest
from training.data.dataset import Dataset
from training.fit.export import fit_pair, language_of
from training.fit.initial import init_from_pretrained
from training.fit.recipe import Recipe

THREE = ("negative", "neutral", "positive")
RECIPE = Recipe(max_length=16, dropout=0.1, attention_dropout=0.1, seed=1)


def rows() -> tuple[np.ndarray, np.ndarray]:
    """Logits of the pair that are ten times too large, and one row in five is wrong."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 300)
    logits = rng.normal(size=(300, 3))
    logits[:, 1] *= 0.1
    logits[np.arange(300), truth] += 10
    wrong = np.arange(0, 300, 5)
    logits[wrong] = logits[wrong][:, ::-1]
    return logits, truth


def test_the_pair_gets_the_temperature_that_lowers_its_log_loss() -> None:
    logits, truth = rows()
    found = fit_pair(logits, truth, THREE, 1.0)

    assert found is not None
    poles = truth != 1
    pair, right = logits[poles][:, [0, 2]], truth[poles] // 2

    def loss(temperature: float) -> float:
        shares = log_softmax(pair / temperature, axis=1)
        return float(-shares[np.arange(len(right)), right].mean())

    assert found > 2
    assert loss(found) < loss(1.0) - 0.1
    assert loss(found) <= min(loss(0.98 * found), loss(1.02 * found))
    # The order of the labels does not matter, but their names do.
    turned = fit_pair(
        logits[:, [1, 2, 0]], np.array([2, 0, 1])[truth], ("x", "positive", "negative"), 1.0
    )
    assert turned == pytest.approx(found, rel=1e-4)


def test_no_second_temperature_without_need() -> None:
    logits, truth = rows()
    found = fit_pair(logits, truth, THREE, 1.0)
    assert found is not None
    assert fit_pair(logits, truth, THREE, found) is None
    assert fit_pair(logits, truth, ("bad", "neutral", "positive"), 1.0) is None
    assert fit_pair(logits[:, :2], truth % 2, ("negative", "positive"), 1.0) is None
    assert fit_pair(logits[truth == 1], truth[truth == 1], THREE, 1.0) is None


@pytest.mark.parametrize(
    ("recorded", "foreign", "kept"), [("en", 1, "en"), ("en", 2, None), (None, 0, None)]
)
def test_the_language_stays_unless_the_rows_are_in_another(
    tmp_path: Path, recorded: str | None, foreign: int, kept: str | None
) -> None:
    folder = tiny_checkpoint(tmp_path / "tiny", manifest=tiny_manifest(language=recorded))
    assert open_checkpoint(folder).manifest.language == recorded
    start = init_from_pretrained(RECIPE, folder, ("negative", "positive"))
    german = "Das ist ein Film und der ist gut"
    texts = (*["this is a good film"] * (100 - foreign), *[german] * foreign)
    dataset = Dataset(texts, (0, 1) * 50, ("negative", "positive"), ())
    assert language_of(start, dataset) == kept
