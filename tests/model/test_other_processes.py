"""Loaded models in other processes: the answers of one process, and the parent unharmed."""

import copy
import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
from joblib import Parallel, delayed

from model import TextModel, load
from model.errors import CheckpointError
from model.files import WEIGHTS
from scoring.scorer import Scorer
from tests.builders import tiny_checkpoint

TEXTS = ["a good film", "bad", "the plot is slow, but the cast is superb"]


@pytest.fixture(scope="module")
def text_model(tmp_path_factory: pytest.TempPathFactory) -> TextModel:
    return load(tiny_checkpoint(tmp_path_factory.mktemp("other") / "tiny"), device="cpu")


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize("method", ["fork", "spawn", "loky", "threading"])
def test_answers_are_those_of_one_process(text_model: TextModel, method: str) -> None:
    expected = text_model.predict(TEXTS)
    if method in ("fork", "spawn"):
        context = multiprocessing.get_context(method)
        with ProcessPoolExecutor(2, mp_context=context) as pool:
            found = list(pool.map(text_model.predict, [TEXTS] * 3))
    else:
        found = Parallel(2, backend=method)([delayed(text_model.predict)(TEXTS)] * 3)
    assert found == [expected] * 3
    assert text_model.predict(TEXTS) == expected
    assert found[0].to_dataframe().equals(expected.to_dataframe())


def test_copies_answer_alike(text_model: TextModel) -> None:
    scorer = Scorer(text_model.predictor._reopen.args[0], truncation="window", device="cpu")
    for one in (copy.deepcopy(text_model), pickle.loads(pickle.dumps(text_model))):  # noqa: S301
        assert one.info == text_model.info
        assert one.predict(TEXTS) == text_model.predict(TEXTS)
    again = pickle.loads(pickle.dumps(scorer))  # noqa: S301
    assert again.model == scorer.model
    assert again.score(TEXTS).probabilities.tolist() == scorer.score(TEXTS).probabilities.tolist()


def test_a_folder_that_has_changed_is_refused(tmp_path: Path) -> None:
    folder = tiny_checkpoint(tmp_path / "tiny")
    sent = pickle.dumps(load(folder, device="cpu"))
    tiny_checkpoint(folder, seed=1)
    with pytest.raises(CheckpointError, match="holds other weights now than when the model was"):
        pickle.loads(sent)  # noqa: S301
    (folder / WEIGHTS).unlink()
    with pytest.raises(CheckpointError, match="is missing"):
        pickle.loads(sent)  # noqa: S301
